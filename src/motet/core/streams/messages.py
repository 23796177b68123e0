"""What clients ask of the leaders of shards, and what leaders tell each other.

Each request gets one answer or a ``DataRefused`` that says why and what to do. A refusal has changed
nothing, with one exception that says so itself: the code ``OUTCOME_UNKNOWN``. Requests are about records of a
stream's shard, then about transactions, clocks and the feed. What leaders tell each other is never answered
with an error, only repeated.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from motet.core.clock.cluster_time import AskTime, TimeIs
from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Effect, Message, Send
from motet.core.shardlog import messages as shardlog
from motet.core.shardlog.entry import EntryKind
from motet.core.streams.change import Branch, Standing
from motet.core.streams.cluster_messages import Heartbeat, ShardMap, ShardMapPushed, ShardsGone
from motet.core.streams.entries import Chunk
from motet.core.streams.orders import Order
from motet.core.streams.votes import Vote
from motet.errors import MotetError, OutcomeUnknown
from motet.errors.shards import NotLeader
from motet.ids import Address, Epoch, NodeId, Offset, RequestId, ShardName, TransactionId


class DataMessage(Message, frozen=True, tag=lambda name: f"data.{name}"):
    """Above all of them."""


class DataRequest(DataMessage, frozen=True):
    """Above all that is asked; ``clock`` is the highest clock that the client has seen."""

    request: RequestId
    clock: Clock


class SeenKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A key that a transaction has read: the clock of its latest change, None for none."""

    key: bytes
    seen: Clock | None


class FoundEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry with records or changes, as it was logged."""

    epoch: Epoch
    #: of its transaction
    clock: Clock
    #: ``EntryKind.RECORDS`` or ``EntryKind.BRANCH_COMMITTED``
    kind: int
    body: bytes


# Requests of clients


class GetLatestChange(DataRequest, frozen=True):
    """The latest committed change of a key; waits while somebody has locked it."""

    shard: ShardName
    key: bytes


class PrepareTransaction(DataRequest, frozen=True):
    """Promise to do this part when the home shard says so.

    The home shard itself prepares when the clock is to be fixed before it is asked to commit.
    """

    shard: ShardName
    branch: Branch
    reads: tuple[SeenKey, ...]
    home: ShardName
    participants: tuple[ShardName, ...]


class CommitTransaction(DataRequest, frozen=True):
    """Commit; asked of the home shard when all participants have voted. A repeat gets the same answer."""

    shard: ShardName
    branch: Branch
    reads: tuple[SeenKey, ...]
    #: those that have prepared
    participants: tuple[ShardName, ...]
    #: votes[i] is that of participants[i]
    votes: tuple[Vote, ...] = ()
    #: the clock is to be this one: all shards have prepared, the home shard too, and none above it
    fixed: Clock | None = None

    @property
    def floor(self) -> Clock:
        """The highest clock of the votes; zero when there are none."""
        return max([vote.clock for vote in self.votes]) if self.votes else ZERO


class AbortTransaction(DataRequest, frozen=True):
    """Do not commit; asked of the home shard. Too late is an answer too."""

    shard: ShardName
    transaction: TransactionId
    asked: Clock
    participants: tuple[ShardName, ...]


class GetTransaction(DataRequest, frozen=True):
    """What does this shard know of a transaction?"""

    shard: ShardName
    transaction: TransactionId


class ListPrepared(DataRequest, frozen=True):
    """Which transactions are prepared in this shard, and not ended?"""

    shard: ShardName


class CloseShard(DataRequest, frozen=True):
    """How far is the shard closed? One that has been idle closes now.

    With a clock, the answer waits until it is closed that far, up to a bound.
    """

    shard: ShardName
    at_least: Clock | None = None


class OrderShard(DataRequest, frozen=True):
    """An order about the feed of a shard; the same again is fine."""

    shard: ShardName
    order: Order


class DescribeFeed(DataRequest, frozen=True):
    """What is kept of the feed of a shard, and for whom."""

    shard: ShardName


class ReadShardFeed(DataRequest, frozen=True):
    """Committed changes of a shard by their clocks, as far as it is closed; any replica answers."""

    shard: ShardName
    #: None for the beginning
    after: Clock | None
    #: nothing above this clock; None for all that is closed
    up_to: Clock | None
    #: enough when so many are found
    limit: int
    bytes_max: int


# Answers to clients


class LatestChangeIs(DataMessage, frozen=True):
    """Where the latest change is, and the entry that holds it; None if the key was never changed."""

    request: RequestId
    found: FoundEntry | None
    #: which record or change of the entry
    place: int
    clock: Clock


class TransactionPrepared(DataMessage, frozen=True):
    """A vote: the prepare is committed."""

    request: RequestId
    #: of the prepare
    clock: Clock
    #: by which the home shard knows that the vote is genuine
    seal: bytes
    #: of the home shard: whether somebody may be told the clock that the transaction will have
    has_clock: bool = True


class TransactionEnded(DataMessage, frozen=True):
    """The decision is committed."""

    request: RequestId
    #: None: it was aborted
    clock: Clock | None
    #: all participants have logged it; else some keys are still locked
    is_settled: bool = True
    #: whether users get to see its clock
    has_clock: bool = True


class TransactionIs(DataMessage, frozen=True):
    """What a shard knows of a transaction."""

    request: RequestId
    standing: Standing
    clock: Clock | None
    #: where it is decided, if it is only prepared here
    home: ShardName | None
    #: whether users get to see its clock
    has_clock: bool = True


class PreparedTransaction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A prepare whose outcome is not logged."""

    transaction: TransactionId
    home: ShardName
    #: of the prepare
    clock: Clock


class PreparedAre(DataMessage, frozen=True):
    """The open prepares of a shard, the oldest first."""

    request: RequestId
    prepared: tuple[PreparedTransaction, ...]


class ShardClosed(DataMessage, frozen=True):
    """No commit at or below ``closed`` will follow; no entry of the shard is above ``clock``."""

    request: RequestId
    closed: Clock
    clock: Clock
    #: the oldest open transaction, if one holds it back, and its home
    held_by: tuple[TransactionId, ShardName] | None = None
    #: whether what is committed now has a clock for its readers
    has_clock: bool = True
    #: after this clock the feed can be read; zero: all of it
    begins: Clock = ZERO
    #: nothing that is closed is above this clock; None: not known
    changed: Clock | None = None


class ShardOrdered(DataMessage, frozen=True):
    """The order is obeyed."""

    request: RequestId
    clock: Clock


class FeedDescribed(DataMessage, frozen=True):
    """What is kept of the feed of a shard, and for whom."""

    request: RequestId
    cursors: tuple[tuple[str, Clock], ...]
    #: everything up to here is pruned; zero: nothing
    low_watermark: Clock
    #: after this clock the feed can be read: not below the low watermark; zero: all of it
    begins: Clock = ZERO


class ShardFeed(DataMessage, frozen=True):
    """All changes above ``after`` and up to ``through``, by their clocks."""

    request: RequestId
    entries: tuple[FoundEntry, ...]
    through: Clock
    #: how far the shard is closed, as this replica knows
    closed: Clock
    #: after this clock the feed can be read, as this replica knows; zero: all of it
    begins: Clock = ZERO


# Between leaders


class AskOutcome(DataMessage, frozen=True):
    """A participant in doubt asks the home shard, which decides now if it has not yet."""

    shard: ShardName
    transaction: TransactionId
    asked: Clock
    participant: ShardName
    participants: tuple[ShardName, ...]
    #: of its prepare
    clock: Clock


class ResolveTransaction(DataMessage, frozen=True):
    """The home shard tells a participant what was decided."""

    shard: ShardName
    transaction: TransactionId
    asked: Clock
    home: ShardName
    #: None: it was aborted
    clock: Clock | None
    at_ms: int
    #: for readers
    has_clock: bool = True


class TransactionResolved(DataMessage, frozen=True):
    """A participant has logged the outcome, or had nothing to log."""

    shard: ShardName
    transaction: TransactionId
    participant: ShardName
    clock: Clock


class Forward(msgspec.Struct, frozen=True):
    """A message that is to reach whoever leads a shard, or whoever asked."""

    shard: ShardName
    message: AskOutcome | ResolveTransaction | TransactionResolved
    to: Address | None = None


Outgoing = list[Effect | Forward]
"""What comes of a request."""

TransactionRequests = (
    GetLatestChange
    | PrepareTransaction
    | CommitTransaction
    | AbortTransaction
    | GetTransaction
    | ListPrepared
    | OrderShard
    | DescribeFeed
    | CloseShard
    | ReadShardFeed
)

TransactionAnswer = (
    LatestChangeIs
    | TransactionPrepared
    | TransactionEnded
    | TransactionIs
    | PreparedAre
    | ShardClosed
    | ShardOrdered
    | FeedDescribed
    | ShardFeed
)

BetweenLeaders = AskOutcome | ResolveTransaction | TransactionResolved


Source = Literal["leader", "replica"]
"""Who may answer a read: the leader, after a majority has confirmed that it is; or whoever is asked."""


class AppendRecords(DataRequest, frozen=True):
    """Append chunks to a shard, each whole or not at all, in this order."""

    shard: ShardName
    chunks: tuple[Chunk, ...]


class ReadRecords(DataRequest, frozen=True):
    """Committed records of a shard after an offset, in order."""

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
    #: the body of the entry, as it was logged: see :class:`motet.core.streams.entries.Records`, and for
    #: transactions :class:`motet.core.streams.entries.Committed`
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
    created: Clock


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


# What a data node says when it does not do what a client wants


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
