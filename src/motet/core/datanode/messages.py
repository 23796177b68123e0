"""What clients ask of a data node about the shards it holds, and the answers.

Each request gets one answer or a ``DataRefused`` that says why and what to do. A refusal has changed
nothing, with one exception that says so itself: the code ``OUTCOME_UNKNOWN``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.messages import AskTime, TimeIs
from motet.core.datanode.conversation import DataMessage, DataRequest
from motet.core.datanode.records import Chunk
from motet.core.operator.messages import Heartbeat, ShardMap, ShardMapPushed, ShardsGone
from motet.core.shardlog import messages as shardlog
from motet.core.shardlog.entry import EntryKind
from motet.core.transaction.messages import (
    BetweenLeaders,
    CloseShard,
    DescribeFeed,
    FeedDescribed,
    ListPrepared,
    PreparedAre,
    ReadShardFeed,
    ShardClosed,
    ShardFeed,
    TransactionAnswer,
    TransactionRequests,
)
from motet.ids import Epoch, NodeId, Offset, RequestId, ShardName

Source = Literal["leader", "replica"]
"""Who may answer a read: the leader, after a majority has confirmed that it is; or whoever is asked."""


class AppendRecords(DataRequest, frozen=True):
    """Append chunks to a shard, each whole or not at all, in this order."""

    shard: ShardName
    chunks: tuple[Chunk, ...]


class ReadRecords(DataRequest, frozen=True):
    """Committed records of a shard behind an offset, in order."""

    shard: ShardName
    #: -1 for the beginning
    after: Offset
    #: enough when so many are found
    limit: int
    bytes_max: int
    source: Source = "leader"
    #: what the answer before this one said: where to go on
    resume: Offset | None = None


class DescribeShard(DataRequest, frozen=True):
    """How many records a shard has, by its leader."""

    shard: ShardName


class GetShardMap(DataRequest, frozen=True):
    """Where is everything? Any node answers."""


class AskMany(DataRequest, frozen=True):
    """Several questions about shards of one node, each with its place among them as its request number."""

    requests: tuple[CloseShard | ReadShardFeed | DescribeFeed | ListPrepared, ...]


class ChunkPlace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a chunk is."""

    epoch: Epoch
    first_offset: Offset
    clock: Clock
    #: it was there already: this token has been used before
    duplicate: bool


class RecordsAppended(DataMessage, frozen=True):
    """All chunks are durable at a majority; ``places[i]`` is chunk i."""

    request: RequestId
    places: tuple[ChunkPlace, ...]


class FoundRecords(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The records of one entry; the first ones may be before what was asked for."""

    epoch: Epoch
    clock: Clock
    #: the body of the entry, as it was logged: see :class:`motet.core.datanode.records.Records`, and for
    #: transactions :class:`motet.core.transaction.entries.Committed`
    body: bytes
    kind: int = EntryKind.RECORDS


class RecordsRead(DataMessage, frozen=True):
    """Entries with records, in order; none: that was the end."""

    request: RequestId
    entries: tuple[FoundRecords, ...]
    #: where to go on, for the next request
    resume: Offset
    #: the shard has this many records; up to here is committed, as far as the node knows
    next_offset: Offset
    clock: Clock
    #: no commit at or below it will follow
    closed: Clock = ZERO


class ShardDescribed(DataMessage, frozen=True):
    """The leader's view of a shard."""

    request: RequestId
    shard: ShardName
    epoch: Epoch
    next_offset: Offset
    #: the first record that is still kept
    first_offset: Offset
    clock: Clock
    #: of its first entry
    born: Clock


class ShardMapIs(DataMessage, frozen=True):
    """The newest map this node has got from an operator; None before the first."""

    request: RequestId
    map: ShardMap | None


class DataRefused(DataMessage, frozen=True):
    """It was not done, or with ``OUTCOME_UNKNOWN`` that cannot be said."""

    request: RequestId
    #: the code of an error in ``motet.errors``
    code: str
    what: str
    advice: str
    #: who leads the shard, as far as this node knows
    leader: NodeId | None = None


class ManyAnswered(DataMessage, frozen=True):
    """``answers[i]`` is to ``requests[i]``, or refuses it; of what is too much for one message only some."""

    request: RequestId
    answers: tuple[ShardClosed | ShardFeed | FeedDescribed | PreparedAre | DataRefused, ...]


DataRequests = (
    AppendRecords | ReadRecords | DescribeShard | GetShardMap | AskMany | TransactionRequests
)

DataCall = (
    DataRequests
    | BetweenLeaders
    | Heartbeat
    | AskTime
    | TimeIs
    | ShardMapPushed
    | ShardsGone
    | shardlog.FenceRequest
    | shardlog.BecomeLeaderRequest
    | shardlog.AddFollowerRequest
    | shardlog.TruncateRequest
    | shardlog.TruncateResponse
    | shardlog.AddEntryRequest
    | shardlog.AddEntryResponse
    | shardlog.SnapshotRequest
    | shardlog.SnapshotResponse
    | shardlog.PieceRequest
    | shardlog.PieceResponse
    | shardlog.PrepareReconfigurationRequest
    | shardlog.CommitReconfigurationRequest
    | shardlog.AbortReconfigurationRequest
    | shardlog.DeleteShardRequest
    | shardlog.Refused
)
"""Everything a data node takes in."""

DataAnswer = (
    RecordsAppended
    | RecordsRead
    | ShardDescribed
    | ShardMapIs
    | ManyAnswered
    | DataRefused
    | TransactionAnswer
)
"""What a client takes in."""
