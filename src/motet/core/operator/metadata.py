"""What the metadata store knows of a shard. Only operators read and write it, each write a compare-and-set.

Invariants, as checkers print them:

LegalLeaderAndEnsemble  the leader is in the ensemble, and the replication factor is the ensemble's size, also
                        while it is being changed: both change only when that is complete.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import ReconfigurationOp
from motet.ids import Epoch, NodeId, ShardName


class ShardStatus(StrEnum):
    """What goes on with a shard."""

    ELECTION = "election"
    STEADY_STATE = "steady_state"
    RECONFIGURATION = "reconfiguration"
    DELETING = "deleting"


class ReconfigurationPhase(StrEnum):
    """How far a change of the ensemble has come."""

    PREPARE = "prepare"
    COMMIT = "commit"


class Reconfiguration(msgspec.Struct, frozen=True):
    """A change of the ensemble that is under way."""

    op: ReconfigurationOp
    phase: ReconfigurationPhase
    old_node: NodeId | None
    new_node: NodeId | None
    #: the replication factor when it is done
    replication_factor: int
    #: where the new node's log ended after its snapshot; known from the commit phase on
    new_node_head_index: EntryId | None = None


class ShardMetadata(msgspec.Struct, frozen=True):
    """All there is to know about a shard, besides its data."""

    shard: ShardName
    epoch: Epoch
    status: ShardStatus
    leader: NodeId | None
    ensemble: tuple[NodeId, ...]
    replication_factor: int
    reconfiguration: Reconfiguration | None = None
    #: left the ensemble, and may still hold data of the shard that has to be deleted
    removed_nodes: tuple[NodeId, ...] = ()
    #: no node has been told to lead yet, so nothing can have been written: fences found the shard
    is_new: bool = False
    #: the epoch in which the ensemble was last expanded: up to it, entries were committed by fewer nodes
    expanded_epoch: Epoch = Epoch(0)


encode_metadata = msgspec.json.Encoder(order="deterministic").encode
decode_metadata = msgspec.json.Decoder(ShardMetadata).decode
