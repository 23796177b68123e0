"""What a data node says when it does not do what a client wants."""

from __future__ import annotations

from motet.core.machine import Send
from motet.core.streams.messages import DataRefused
from motet.errors import MotetError, OutcomeUnknown
from motet.errors.shards import NotLeader
from motet.ids import Address, NodeId, RequestId, ShardName


def refusal(
    client: Address, request: RequestId, error: MotetError, leader: NodeId | None = None
) -> Send:
    """The answer to a request that was not carried out."""
    return Send(client, DataRefused(request, error.code, error.what, error.advice, leader))


def not_leader(shard: ShardName) -> NotLeader:
    """The node was asked for what only the leader of the shard can do."""
    return NotLeader(f"this node does not lead shard {shard}")


def unknown_outcome(shard: ShardName) -> OutcomeUnknown:
    """The node led the shard, has put it into its log, and does not lead any more."""
    return OutcomeUnknown(f"the leader of shard {shard} changed before the append was committed")
