"""What operators say to nodes about themselves and the cluster, and what people ask of an operator.

About a shard they speak in :mod:`motet.core.shardlog.messages`. Here are heartbeats, by which an operator
knows who lives; the shard map, which nodes get from the operator and hand on to clients; and requests of
clients that create streams or move replicas. A request that comes to an operator that is not the active one
is refused with ``NOT_ACTIVE``.

Nodes and clients see of a shard what the metadata store has of it. Only operators write that, each write a
compare-and-set. An invariant of it, as checkers print it:

LegalLeaderAndEnsemble  the leader is in the ensemble, and the replication factor is the ensemble's size, also
                        while it is being changed: both change only when that is complete.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Message
from motet.core.metadata.definitions import StreamDefinition, shard_of
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import ReconfigurationOp, ShardReport
from motet.ids import Epoch, NodeId, RequestId, ShardId, ShardName, StreamId, StreamName


class TurnClock(msgspec.Struct, frozen=True, array_like=True, tag="clock"):
    """Whether what is committed from here on has a clock for its readers: the setting ``clock.enabled``."""

    is_on: bool
    #: of the setting; it rises
    version: int


class OperatorMessage(Message, frozen=True, tag=lambda name: f"operator.{name}"):
    """Above all messages of this file."""


# Operator and node


class Heartbeat(OperatorMessage, frozen=True):
    """Operator to data node: are you there, and how are your shards?"""

    round: int
    clock: Clock
    #: shards that are about to be deleted: their leaders take no more transactions
    seal: tuple[ShardName, ...] = ()
    #: the setting of clock visibility, for leaders; None: it was never set
    clock_visibility: TurnClock | None = None
    #: the highest clock that a node has found on its disk, if that is too far ahead of the time; else zero
    found: Clock = ZERO


class SealedShard(msgspec.Struct, frozen=True, array_like=True):
    """What the leader of a shard says that takes no more transactions."""

    shard: ShardName
    epoch: Epoch
    #: transactions that are prepared here and not decided, or decided here and not logged everywhere
    unsettled: int


class HeartbeatAnswer(OperatorMessage, frozen=True):
    """Data node to operator. ``incarnation`` changes with every start of its process."""

    round: int
    clock: Clock
    incarnation: int
    shards: tuple[ShardReport, ...]
    #: of the newest shard map that it has; 0: none
    map_version: int = 0
    #: the highest clock of any entry that it knows of
    logged: Clock = ZERO
    sealed: tuple[SealedShard, ...] = ()
    #: shards that transactions wait for, and that are not in its map
    missing: tuple[ShardName, ...] = ()
    #: of the shards that it leads: which version of clock visibility's setting their logs have
    turned: tuple[tuple[ShardName, int], ...] = ()
    #: how far its wall is ahead of the time that the nodes agree on; None: they do not, or it is alone
    drift_ms: int | None = None
    #: the highest clock that it has found on its disk, if that is too far ahead of the time; else zero
    found: Clock = ZERO


class ShardsGone(OperatorMessage, frozen=True):
    """Operator to data node: these shards, which it misses, have been deleted, and never come back."""

    shards: tuple[ShardName, ...]


class ShardPlace(msgspec.Struct, frozen=True, array_like=True):
    """Who serves a shard."""

    shard: ShardName
    epoch: Epoch
    leader: NodeId | None
    ensemble: tuple[NodeId, ...]
    #: nodes that have lost their data, if they are too many for the shard ever to have a leader
    wiped: tuple[NodeId, ...] = ()


class StreamPlace(msgspec.Struct, frozen=True, array_like=True):
    """A stream and who serves it; ``places[i]`` is shard i."""

    definition: StreamDefinition
    places: tuple[ShardPlace, ...]

    def shard_of(self, key: bytes) -> ShardId:
        """The shard that a key belongs to."""
        return shard_of(key, len(self.places), self.definition.key_hash)


class NodePlace(msgspec.Struct, frozen=True, array_like=True):
    """Where a node is."""

    id: NodeId
    native: str
    http: str
    roles: tuple[str, ...]


versions_per_term = 1 << 32
"""Of the maps of one operator: a version is its term and a count."""


class ShardMap(msgspec.Struct, frozen=True):
    """Where everything is, as one operator saw it."""

    #: of two maps the one with the higher version is newer
    version: int
    operator: NodeId
    nodes: tuple[NodePlace, ...]
    streams: tuple[StreamPlace, ...]
    #: which cluster this is, for ever: a cursor of another one is refused
    cluster: int = 0
    #: the setting ``clock.enabled``
    clock_enabled: bool = True
    #: what a request to create a stream has to name
    fence: int = 0

    def label(self, shard: ShardName) -> str:
        """A shard as people know it, ``orders/0``; its own name if the map does not have it."""
        for stream in self.streams:
            for number, place in enumerate(stream.places):
                if place.shard == shard:
                    return f"{stream.definition.name}/{number}"
        return shard


class ShardMapPushed(OperatorMessage, frozen=True):
    """Operator to node: hand this on to clients."""

    map: ShardMap


# Clients and the operator


class OperatorRequest(OperatorMessage, frozen=True):
    """Above all that is asked of an operator."""

    request: RequestId


class CreateStream(OperatorRequest, frozen=True):
    """Create a stream; the same again is fine, another one of that name is not.

    The answer comes when every shard of it has a leader. A stream that is not there is created if nothing has
    been deleted since the map with this fence (G1).
    """

    definition: StreamDefinition
    fence: int


class DeleteStream(OperatorRequest, frozen=True):
    """Delete this very stream and its data; another one of its name is left alone."""

    name: StreamName
    id: StreamId


class DescribeShards(OperatorRequest, frozen=True):
    """How the shards of a stream stand; None for all streams."""

    stream: StreamName | None


class ElectLeader(OperatorRequest, frozen=True):
    """Elect a leader anew; a preferred node wins among those with the same head."""

    stream: StreamName
    shard: ShardId
    preferred: NodeId | None = None


class SwapNode(OperatorRequest, frozen=True):
    """Replace a node of an ensemble by another; None: the operator chooses."""

    stream: StreamName
    shard: ShardId
    old_node: NodeId
    new_node: NodeId | None


class ExpandShard(OperatorRequest, frozen=True):
    """Add a node to an ensemble; None: the operator chooses."""

    stream: StreamName
    shard: ShardId
    new_node: NodeId | None


class ContractShard(OperatorRequest, frozen=True):
    """Take a node out of an ensemble; None: the operator chooses."""

    stream: StreamName
    shard: ShardId
    old_node: NodeId | None


class DrainNode(OperatorRequest, frozen=True):
    """Empty a node; ``is_drained`` False takes that back. Answered when no shard is left on it."""

    node: NodeId
    is_drained: bool = True


class EnableClock(OperatorRequest, frozen=True):
    """Show clocks to users from now on, or not. Answered when all shards have obeyed."""

    is_enabled: bool


class StreamCreated(OperatorMessage, frozen=True):
    """The stream is there, and its shards can be written to."""

    request: RequestId
    created: bool
    place: StreamPlace


class ShardsDescribed(OperatorMessage, frozen=True):
    """The shards, with the newest reports of their nodes."""

    request: RequestId
    streams: tuple[StreamDefinition, ...]
    shards: tuple[ShardMetadata, ...]
    #: nodes that answer heartbeats, each with its shards
    reports: tuple[tuple[NodeId, tuple[ShardReport, ...]], ...]


class OperatorDone(OperatorMessage, frozen=True):
    """It is done."""

    request: RequestId
    what: str = ""


class OperatorRefused(OperatorMessage, frozen=True):
    """It was not done; ``code`` is that of an error in ``motet.errors``."""

    request: RequestId
    code: str
    what: str
    advice: str
    #: what to name to be heard, if it was an older one
    fence: int | None = None


REFERENCE: tuple[tuple[type[OperatorMessage], str, str], ...] = (
    (Heartbeat, "operator", "data node"),
    (HeartbeatAnswer, "data node", "operator"),
    (ShardsGone, "operator", "data node"),
    (ShardMapPushed, "operator", "node"),
    (CreateStream, "client", "operator"),
    (StreamCreated, "operator", "client"),
    (DeleteStream, "client", "operator"),
    (DescribeShards, "client", "operator"),
    (ShardsDescribed, "operator", "client"),
    (ElectLeader, "client", "operator"),
    (SwapNode, "client", "operator"),
    (ExpandShard, "client", "operator"),
    (ContractShard, "client", "operator"),
    (DrainNode, "client", "operator"),
    (EnableClock, "client", "operator"),
    (OperatorDone, "operator", "client"),
    (OperatorRefused, "operator", "client"),
)
"""Who says what to whom."""

OperatorCall = (
    HeartbeatAnswer
    | CreateStream
    | DeleteStream
    | DescribeShards
    | ElectLeader
    | SwapNode
    | ExpandShard
    | ContractShard
    | DrainNode
    | EnableClock
)
"""What a node with the role operator takes in, besides answers about shards."""

OperatorAnswer = StreamCreated | ShardsDescribed | OperatorDone | OperatorRefused
"""What a client of an operator takes in."""


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
