"""What clients ask of the streams of a node, and the answers.

A request carries an id of the client's choice, and its answer the same. Each request gets one answer, or
a ``StreamsRefused`` that says why and what to do; a refused request has changed nothing.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.metadata.definitions import KeyHash
from motet.core.onelog.conversation import StreamsMessage, StreamsRequest
from motet.core.streams.change import FeedChange, Op, Run, Standing, Token, changes_in
from motet.core.streams.orders import Order
from motet.ids import Epoch, Offset, RequestId, ShardId, StreamName, TransactionId

# Requests


class Describe(StreamsRequest, frozen=True):
    """Which database is this, which streams does it have, and how do its clocks stand?"""


class CreateStream(StreamsRequest, frozen=True):
    """Create a stream; the same again is fine, another one of that name is not."""

    name: StreamName
    shards: int
    schema: bytes | None = None
    key_hash: KeyHash = KeyHash.CRC32C


class EnableClock(StreamsRequest, frozen=True):
    """Show clocks to users from now on, or not; all else goes on by them. The same again is fine."""

    is_enabled: bool


class Append(StreamsRequest, frozen=True):
    """Append a raw entry."""

    stream: StreamName
    key: bytes
    value: bytes
    token: Token | None = None


class ReadEntries(StreamsRequest, frozen=True):
    """Committed entries of one shard after an offset."""

    stream: StreamName
    shard: ShardId
    #: -1 for the beginning
    after: Offset
    limit: int


class GetLatest(StreamsRequest, frozen=True):
    """The latest committed change of a key."""

    stream: StreamName
    key: bytes


class KeyRead(msgspec.Struct, frozen=True, array_like=True):
    """A key that a transaction has read, and what it saw: the clock of its latest change, None for none."""

    stream: StreamName
    key: bytes
    seen: Clock | None


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """A change that a transaction wants to make."""

    stream: StreamName
    key: bytes
    op: Op
    row: bytes | None
    before: bytes | None


class Commit(StreamsRequest, frozen=True):
    """Make these changes, all of them or none, if what was read is still so."""

    transaction: TransactionId
    reads: tuple[KeyRead, ...]
    changes: tuple[Wanted, ...]


class FixClock(StreamsRequest, frozen=True):
    """Judge a transaction as if it were committed, and say which clock it will have.

    It is decided by ``CommitFixed`` or ``ReleaseClock``; until then nobody else writes, up to a bound.
    """

    transaction: TransactionId
    reads: tuple[KeyRead, ...]
    changes: tuple[Wanted, ...]


class CommitFixed(StreamsRequest, frozen=True):
    """Commit a transaction at the clock that was fixed for it."""

    transaction: TransactionId


class ReleaseClock(StreamsRequest, frozen=True):
    """Give a transaction up whose clock was fixed."""

    transaction: TransactionId


class GetTransaction(StreamsRequest, frozen=True):
    """What became of a transaction?"""

    transaction: TransactionId


class ReadFeed(StreamsRequest, frozen=True):
    """Changes of some streams in the order of their clocks, after a cursor and up to the visible clock."""

    streams: tuple[StreamName, ...]
    #: the transaction after which the page begins; None for the beginning
    after: Clock | None
    #: at most so many, but never less than a whole transaction
    limit: int
    #: nothing above this clock; None for all that is visible
    up_to: Clock | None = None
    #: changes of this key alone, and not whole transactions; None for all
    key: bytes | None = None


class ReadVisible(StreamsRequest, frozen=True):
    """The visible clock; with ``wait`` one at or above every clock handed out before."""

    streams: tuple[StreamName, ...]
    wait: bool


class SplitFeed(StreamsRequest, frozen=True):
    """Where to cut the feed after a clock, so that readers can work side by side, or a little at a time.

    Costs nothing: it looks at where records are, not at what they say. Changes of other streams are
    counted too, so a slice may hold fewer changes of these streams than ``changes_max``, never more,
    unless its only transaction has.
    """

    streams: tuple[StreamName, ...]
    #: None for the beginning
    after: Clock | None
    #: nothing above this clock; None for all that is visible
    up_to: Clock | None
    #: the slice ends before more changes than this; None for no bound
    changes_max: int | None
    #: into how many splits of about the same size the slice is cut at most
    splits: int


class OrderFeed(StreamsRequest, frozen=True):
    """Obey an order about the feed of some streams, all of them or none; the same again changes nothing."""

    streams: tuple[StreamName, ...]
    order: Order


class DescribeFeed(StreamsRequest, frozen=True):
    """What is kept of the feed of these streams, of all if none is named, and for whom?"""

    streams: tuple[StreamName, ...]


# Answers


class StreamInfo(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a stream; of each shard, how many entries it has had, and the first that is kept."""

    name: StreamName
    shards: int
    schema: bytes | None
    created: Clock
    entries: tuple[int, ...]
    firsts: tuple[int, ...] = ()


class Described(StreamsMessage, frozen=True):
    """The database and its streams."""

    request: RequestId
    database: int
    clock: Clock
    visible: Clock
    streams: tuple[StreamInfo, ...]
    #: the setting ``clock.enabled``
    clock_enabled: bool = True


class ClockEnabled(StreamsMessage, frozen=True):
    """Clocks are shown from here on, or not."""

    request: RequestId
    is_enabled: bool


class StreamReady(StreamsMessage, frozen=True):
    """The stream is there."""

    request: RequestId
    created: bool
    info: StreamInfo


class Appended(StreamsMessage, frozen=True):
    """The entry is durable, here."""

    request: RequestId
    shard: ShardId
    #: in which the log took it
    epoch: Epoch
    offset: Offset
    clock: Clock
    #: it was there already: this token has been used before
    duplicate: bool


class Entries(StreamsMessage, frozen=True):
    """Entries of a shard, in order."""

    request: RequestId
    entries: tuple[FeedChange, ...]
    #: epochs[i] is the epoch in which the log took entries[i]
    epochs: tuple[Epoch, ...]


class Latest(StreamsMessage, frozen=True):
    """The latest committed change of a key, None if it never had one."""

    request: RequestId
    change: FeedChange | None


class CommitDone(StreamsMessage, frozen=True):
    """The transaction is durable and has this clock."""

    request: RequestId
    transaction: TransactionId
    clock: Clock
    #: whether its user gets to see it
    has_clock: bool = True


class ClockFixed(StreamsMessage, frozen=True):
    """If the transaction is committed, it has this clock."""

    request: RequestId
    transaction: TransactionId
    clock: Clock
    #: whether its user gets to see it
    has_clock: bool = True


class ClockReleased(StreamsMessage, frozen=True):
    """The transaction is given up, if it was not over already."""

    request: RequestId


class TransactionIs(StreamsMessage, frozen=True):
    """What is known of a transaction."""

    request: RequestId
    standing: Standing
    clock: Clock | None
    #: whether users get to see it
    has_clock: bool = True


class FeedPage(StreamsMessage, frozen=True):
    """Whole transactions, in order."""

    request: RequestId
    runs: tuple[Run, ...]
    #: everything up to here has been looked at: the cursor for the next page
    through: Clock
    visible: Clock
    #: more follows this page right now
    more: bool

    @property
    def changes(self) -> tuple[FeedChange, ...]:
        """One by one."""
        return changes_in(self.runs)


class VisibleIs(StreamsMessage, frozen=True):
    """No change at or below this clock will appear any more."""

    request: RequestId
    clock: Clock


class FeedSplit(StreamsMessage, frozen=True):
    """A slice of the feed: above ``after`` and through the last of the bounds, which rise.

    A reader of split i reads after ``bounds[i - 1]`` and up to ``bounds[i]``. There is always one, the
    end of the slice; it is not below ``after``, and equal to it when nothing is there to read.
    """

    request: RequestId
    database: int
    visible: Clock
    bounds: tuple[Clock, ...]
    #: changes of all streams in the slice
    changes: int
    #: and after the slice, up to the visible clock
    changes_after: int


class FeedObeyed(StreamsMessage, frozen=True):
    """The order is durable, or had been obeyed before."""

    request: RequestId


class KeptFeed(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of the feed of a stream."""

    stream: StreamName
    #: named cursors of it, and how far they are
    cursors: tuple[tuple[str, Clock], ...]
    #: everything up to here is pruned; zero: nothing
    low_watermark: Clock


class FeedDescribed(StreamsMessage, frozen=True):
    """What is kept, stream by stream."""

    request: RequestId
    streams: tuple[KeptFeed, ...]


class StreamsRefused(StreamsMessage, frozen=True):
    """It was not done, and nothing was changed."""

    request: RequestId
    #: the code of an error in ``motet.errors``
    code: str
    what: str
    #: what to do about it
    advice: str


StreamsCall = (
    Describe
    | CreateStream
    | EnableClock
    | Append
    | ReadEntries
    | GetLatest
    | Commit
    | FixClock
    | CommitFixed
    | ReleaseClock
    | GetTransaction
    | ReadFeed
    | ReadVisible
    | SplitFeed
    | OrderFeed
    | DescribeFeed
)
"""All requests: what a node decodes."""

StreamsAnswer = (
    Described
    | StreamReady
    | ClockEnabled
    | Appended
    | Entries
    | Latest
    | CommitDone
    | ClockFixed
    | ClockReleased
    | TransactionIs
    | FeedPage
    | VisibleIs
    | FeedSplit
    | FeedObeyed
    | FeedDescribed
    | StreamsRefused
)
"""All answers: what a client decodes."""
