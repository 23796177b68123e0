"""Golden scripts about the streams of one node, ``n1``.

Requests are numbered. An answer is printed as ``#3 …`` when it comes, ``#3 waits`` when it has not come by
the end of the command. A clock is ``(logical,counter)``, a place ``stream/shard@offset``. A transaction is
begun, reads and changes keys under its name, and is committed::

    begin t1
    read t1 stock s-9
    change t1 stock s-9 update 7
    commit t1

The part also checks what no single line can show: the visible clock never falls, over all incarnations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, cast

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Message
from motet.core.onelog.context import DATABASE
from motet.core.onelog.conversation import StreamsRequest
from motet.core.onelog.machine import StreamsMachine
from motet.core.onelog.messages import (
    Append,
    Appended,
    ClockEnabled,
    ClockFixed,
    ClockReleased,
    Commit,
    CommitDone,
    CommitFixed,
    CreateStream,
    Describe,
    Described,
    EnableClock,
    Entries,
    FeedObeyed,
    FeedPage,
    FeedSplit,
    FixClock,
    GetLatest,
    GetTransaction,
    KeyRead,
    Latest,
    OrderFeed,
    ReadEntries,
    ReadFeed,
    ReadVisible,
    ReleaseClock,
    SplitFeed,
    StreamReady,
    StreamsRefused,
    TransactionIs,
    VisibleIs,
    Wanted,
)
from motet.core.shardlog.entry import Entry, EntryId, encode_entry
from motet.core.shardlog.meta import segment_file
from motet.core.streams.change import FeedChange, Op, Token
from motet.core.streams.orders import Prune
from motet.errors import BadScenario
from motet.ids import FileName, Offset, RequestId, ShardId, StreamName, TransactionId
from motet.testing.bench_network import Which
from motet.testing.bench_part import BenchPart
from motet.testing.part import Converter, verb
from motet.testing.script import Command

NODE = "n1"
CLIENT = "client"
SEGMENT_BYTES = 4096


def _token(text: str) -> Token:
    producer, separator, number = text.rpartition(":")
    if not separator or not number.isdecimal():
        raise ValueError(f"{text!r} is no token PRODUCER:NUMBER")
    return Token(producer, int(number))


class Draft(msgspec.Struct):
    """A transaction that a script is putting together."""

    reads: dict[tuple[StreamName, bytes], FeedChange | None] = msgspec.field(default_factory=dict)
    changes: list[Wanted] = msgspec.field(default_factory=list)

    def seen(self) -> tuple[KeyRead, ...]:
        """What it has read, as it is sent."""
        return tuple(
            KeyRead(stream, key, None if seen is None else seen.clock)
            for (stream, key), seen in self.reads.items()
        )


class StreamsStorm(BenchPart):
    """Commands for streams."""

    name = "streams"
    converters: ClassVar[Mapping[type, Converter]] = {
        Clock: Clock.parse,
        Token: _token,
    }

    def __init__(self) -> None:
        super().__init__()
        self.bench.show = ("note",)
        self.segment_bytes = SEGMENT_BYTES
        self.bench.add(NODE, lambda: StreamsMachine(self.segment_bytes, 0), wall_ms=1_000)
        self.requests = 0
        self.drafts: dict[str, Draft] = {}
        #: request → the key a transaction reads by it
        self.draft_reads: dict[RequestId, tuple[Draft, StreamName, bytes]] = {}
        #: the highest clock that was told to be visible, over all incarnations
        self.told_visible = ZERO

    def run(self, command: Command) -> list[str]:
        return super().run(command) + self._answers()

    # Writing

    @verb
    def segments(self, size_bytes: int) -> list[str]:
        """Have log files of this size; before the first start."""
        self.segment_bytes = size_bytes
        return []

    @verb
    def create(self, name: str, *, shards: int = 1, schema: str | None = None) -> list[str]:
        """Create a stream."""
        arrow = None if schema is None else schema.encode()
        return self._ask(CreateStream(self._request(), StreamName(name), shards, arrow))

    @verb
    def append(self, stream: str, key: str, value: str, *, token: Token | None = None) -> list[str]:
        """Append a raw entry, under a token PRODUCER:NUMBER if one is given."""
        name = StreamName(stream)
        return self._ask(Append(self._request(), name, key.encode(), value.encode(), token))

    @verb
    def begin(self, transaction: str) -> list[str]:
        """Begin a transaction; the node does not know of it before it is committed."""
        self.drafts[transaction] = Draft()
        return []

    @verb
    def read(self, transaction: str, stream: str, key: str) -> list[str]:
        """Read a key in a transaction."""
        request, name = self._request(), StreamName(stream)
        self.draft_reads[request] = (self._draft(transaction), name, key.encode())
        return self._ask(GetLatest(request, name, key.encode()))

    @verb
    def change(
        self,
        transaction: str,
        stream: str,
        key: str,
        op: Literal["insert", "update", "delete"],
        row: str | None = None,
    ) -> list[str]:
        """Change a key in a transaction; the row before it is the one that was read."""
        draft, place = self._draft(transaction), (StreamName(stream), key.encode())
        seen = draft.reads.get(place)
        after = None if row is None else row.encode()
        before = None if seen is None else seen.row
        draft.changes.append(Wanted(*place, cast("Op", op), after, before))
        return []

    @verb
    def commit(self, transaction: str) -> list[str]:
        """Commit a transaction."""
        name, draft = TransactionId(transaction), self._draft(transaction)
        return self._ask(Commit(self._request(), name, draft.seen(), tuple(draft.changes)))

    @verb
    def fix(self, transaction: str) -> list[str]:
        """Fix the clock of a transaction."""
        name, draft = TransactionId(transaction), self._draft(transaction)
        return self._ask(FixClock(self._request(), name, draft.seen(), tuple(draft.changes)))

    @verb
    def commit_fixed(self, transaction: str) -> list[str]:
        """Commit a transaction at the clock that was fixed."""
        return self._ask(CommitFixed(self._request(), TransactionId(transaction)))

    @verb
    def release(self, transaction: str) -> list[str]:
        """Give a transaction up whose clock was fixed."""
        return self._ask(ReleaseClock(self._request(), TransactionId(transaction)))

    @verb
    def status(self, transaction: str) -> list[str]:
        """What became of a transaction."""
        return self._ask(GetTransaction(self._request(), TransactionId(transaction)))

    @verb
    def clock(self, enabled: bool) -> list[str]:
        """Have clocks shown, or not."""
        return self._ask(EnableClock(self._request(), enabled))

    @verb
    def prune(self, up_to: Clock, *streams: str) -> list[str]:
        """Prune streams up to a clock."""
        names = tuple(StreamName(name) for name in streams)
        return self._ask(OrderFeed(self._request(), names, Prune(up_to, is_forced=False)))

    # Reading

    @verb
    def get(self, stream: str, key: str) -> list[str]:
        """The latest change of a key."""
        return self._ask(GetLatest(self._request(), StreamName(stream), key.encode()))

    @verb
    def feed(
        self,
        *streams: str,
        after: Clock | None = None,
        limit: int = 100,
        up_to: Clock | None = None,
    ) -> list[str]:
        """One page of the feed."""
        names = tuple(StreamName(name) for name in streams)
        return self._ask(ReadFeed(self._request(), names, after, limit, up_to))

    @verb
    def split(
        self,
        *streams: str,
        after: Clock | None = None,
        up_to: Clock | None = None,
        changes_max: int | None = None,
        splits: int = 1,
    ) -> list[str]:
        """Where to cut the feed."""
        names = tuple(StreamName(name) for name in streams)
        message = SplitFeed(self._request(), names, after, up_to, changes_max, splits)
        return self._ask(message)

    @verb
    def entries(
        self, stream: str, *, shard: int = 0, after: int = -1, limit: int = 100
    ) -> list[str]:
        """Entries of a shard after an offset."""
        place = (StreamName(stream), ShardId(shard), Offset(after))
        return self._ask(ReadEntries(self._request(), *place, limit))

    @verb
    def visible(self, wait: Literal["wait"] | None = None) -> list[str]:
        """The visible clock; or wait for one that covers everything before."""
        return self._ask(ReadVisible(self._request(), (), wait is not None))

    @verb
    def describe(self) -> list[str]:
        """The streams, and how many entries each shard has."""
        return self._ask(Describe(self._request()))

    # Damage

    @verb
    def damage(self, file: str, byte: int) -> list[str]:
        """Flip a bit of a durable file."""
        durable = self.bench.node(NODE).disk.durable
        data = durable.get(FileName(file))
        if data is None or byte >= len(data):
            raise BadScenario(f"{file} has no durable byte {byte}", hint="`files` lists them")
        durable[FileName(file)] = data[:byte] + bytes([data[byte] ^ 1]) + data[byte + 1 :]
        return []

    @verb
    def lose(self, file: str) -> list[str]:
        """Take a durable file away."""
        if self.bench.node(NODE).disk.durable.pop(FileName(file), None) is None:
            raise BadScenario(f"there is no file {file}", hint="`files` lists them")
        return []

    @verb
    def write_kind(self, kind: int) -> list[str]:
        """Put a record of another kind at the end of the log, as another version might."""
        node = self.bench.node(NODE)
        machine = node.running()
        assert isinstance(machine, StreamsMachine)
        log = machine.core.log
        last = log.core.state.log.segments[-1]
        entry = Entry(EntryId(log.epoch, Offset(log.head.offset + 1)), kind, log.last_clock, b"new")
        file, end = segment_file(DATABASE, last.number), last.size_bytes
        data = encode_entry(last.salt, entry, entry.id.offset)
        before = node.disk.durable[file]
        node.disk.durable[file] = before[:end] + data + before[end + len(data) :]
        return []

    # How

    def _request(self) -> RequestId:
        self.requests += 1
        return RequestId(self.requests)

    def _draft(self, transaction: str) -> Draft:
        draft = self.drafts.get(transaction)
        if draft is None:
            raise BadScenario(f"there is no transaction {transaction!r}", hint="begin it first")
        return draft

    def _ask(self, message: StreamsRequest) -> list[str]:
        lines = self.bench.receive(NODE, CLIENT, message)
        answers = self._answers()
        answered = any(line.startswith(f"#{message.request} ") for line in answers)
        return [*lines, *answers, *([] if answered else [f"#{message.request} waits"])]

    def _answers(self) -> list[str]:
        """What the node has answered since we last looked."""
        taken = [each.send.message for each in self.bench.network.take(Which())]
        return [line for message in taken for line in self._told(message)]

    def _told(self, answer: Message) -> list[str]:
        match answer:
            case StreamsRefused(request=request, code=code, what=what):
                return [f"#{request} refused {code}: {what}"]
            case StreamReady(request=request, created=created, info=info):
                is_new = "created" if created else "was there"
                return [f"#{request} {info.name} {is_new}, {info.shards} shards, at {info.created}"]
            case Appended(request=request, shard=shard, offset=offset, clock=clock):
                again = ", again" if answer.duplicate else ""
                return [f"#{request} appended @{offset} of shard {shard} at {clock}{again}"]
            case CommitDone(request=request, transaction=transaction, clock=clock):
                return [f"#{request} committed {transaction} at {clock}{_off(answer.has_clock)}"]
            case VisibleIs(request=request, clock=clock):
                self._check_visible(clock)
                return [f"#{request} visible {clock}"]
            case ClockFixed(request=request, transaction=transaction, clock=clock):
                return [f"#{request} {transaction} would be at {clock}{_off(answer.has_clock)}"]
            case ClockEnabled(request=request, is_enabled=is_enabled):
                return [f"#{request} the clock is {'on' if is_enabled else 'off'}"]
            case FeedObeyed(request=request):
                return [f"#{request} pruned"]
            case ClockReleased(request=request):
                return [f"#{request} released"]
            case TransactionIs(request=request, standing=standing):
                at = "" if answer.clock is None else f" at {answer.clock}{_off(answer.has_clock)}"
                return [f"#{request} {standing}{at}"]
            case _:
                return self._told_reading(answer)

    def _told_reading(self, answer: Message) -> list[str]:
        match answer:
            case Latest(request=request, change=change):
                if request in self.draft_reads:
                    draft, stream, key = self.draft_reads.pop(request)
                    draft.reads[stream, key] = change
                return [f"#{request} none" if change is None else f"#{request} {_shown(change)}"]
            case Entries(request=request, entries=entries):
                return [f"#{request} {len(entries)} entries", *_listed(entries)]
            case FeedPage(request=request, changes=changes, through=through, visible=visible):
                self._check_visible(visible)
                more = ", more" if answer.more else ""
                head = f"#{request} {len(changes)} changes, through {through}, visible {visible}"
                return [head + more, *_listed(changes)]
            case FeedSplit(request=request, bounds=bounds, changes=changes):
                ends = " ".join(map(str, bounds))
                return [f"#{request} {changes} changes up to {ends}, {answer.changes_after} behind"]
            case Described(request=request, streams=streams, clock=clock, visible=visible):
                self._check_visible(visible)
                head = f"#{request} {len(streams)} streams, clock {clock}, visible {visible}"
                return [head, *(f"  {each.name} {list(each.entries)}" for each in streams)]
        raise AssertionError(f"{answer} is no answer")

    def _check_visible(self, visible: Clock) -> None:
        assert visible >= self.told_visible, f"S2: visible {visible} after {self.told_visible}"
        self.told_visible = visible


def _listed(changes: tuple[FeedChange, ...]) -> list[str]:
    return [f"  {_shown(change)}" for change in changes]


def _shown(change: FeedChange) -> str:
    place = f"{change.stream}/{change.shard}@{change.offset}"
    row = "" if change.row is None else f" {_text(change.row)}"
    before = "" if change.before is None else f" before {_text(change.before)}"
    part = "" if change.op == "append" else f" {change.transaction}[{change.index}/{change.count}]"
    at = f"{change.clock}{_off(change.has_clock)}"
    return f"{at}{part} {place} {change.op} {_text(change.key)}{row}{before}"


def _off(has_clock: bool) -> str:
    """Whether users get to see the clock before it."""
    return "" if has_clock else " hidden"


def _text(value: bytes) -> str:
    text = value.decode()
    return text if len(text) <= 20 else f"{text[:8]}…{len(text)}"
