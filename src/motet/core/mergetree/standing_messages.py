"""What people ask about replicas and logs of tables, and what nodes answer."""

from __future__ import annotations

import msgspec

from motet.core.mergetree.messages import NodeAnswer, NodeRequest
from motet.ids import NodeId, PartId, TableId, Zxid


class DescribeReplicas(NodeRequest, frozen=True):
    """How it stands with the replicas of this very node."""


class QueuedEntry(msgspec.Struct, frozen=True, array_like=True):
    """A part that a replica does not have yet, and why."""

    number: int
    part: PartId
    reason: str
    tries: int


class ReplicaStanding(msgspec.Struct, frozen=True, array_like=True):
    """How it stands with one replica."""

    table: TableId
    shard: int
    phase: str
    #: why it is not active, in words
    why: str
    log_pointer: int
    #: the last entry that it knows the log to have
    head: int
    parts: int
    size_bytes: int
    queue: tuple[QueuedEntry, ...]


class ReplicasDescribed(NodeAnswer, frozen=True):
    """All replicas of the node that was asked."""

    node: NodeId
    replicas: tuple[ReplicaStanding, ...]


class ReadShardLog(NodeRequest, frozen=True):
    """The log of a shard from an entry on, a page of it, and on the first page the quorums that are open."""

    table: TableId
    shard: int
    first: int = 0


class LoggedEntry(msgspec.Struct, frozen=True, array_like=True):
    """An entry, as people read it."""

    number: int
    #: as in the log; "bad" for what is no entry
    kind: str
    parts: tuple[PartId, ...]
    #: what else it says
    detail: str
    version: Zxid
    created_ms: int


class OpenQuorum(msgspec.Struct, frozen=True, array_like=True):
    """A block that waits for its quorum."""

    part: PartId
    wanted: int
    members: tuple[NodeId, ...]
    since_ms: int


class ShardLogIs(NodeAnswer, frozen=True):
    """The page; if there is ``more``, it begins with the next number."""

    entries: tuple[LoggedEntry, ...]
    quorums: tuple[OpenQuorum, ...]
    next_number: int
    more: bool
