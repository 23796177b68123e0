"""A driver for one streams machine, worked by hand: each write ends, fails or is lost when a test says so."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.machine import (
    NS_PER_MS,
    DiskChange,
    Effect,
    Event,
    Fired,
    Message,
    Note,
    Now,
    Preallocate,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Remove,
    Replace,
    Send,
    SetTimer,
    Started,
    Truncate,
    Write,
    WriteFailed,
    Written,
)
from motet.core.onelog.context import State
from motet.core.onelog.conversation import StreamsRequest
from motet.core.onelog.index import Index
from motet.core.onelog.machine import StreamsMachine
from motet.core.onelog.messages import (
    Append,
    Appended,
    Commit,
    CommitDone,
    CreateStream,
    Entries,
    FeedPage,
    GetLatest,
    KeyRead,
    Latest,
    ReadEntries,
    ReadFeed,
    ReadVisible,
    StreamReady,
    StreamsRefused,
    VisibleIs,
    Wanted,
)
from motet.core.streams.change import FeedChange, Token
from motet.ids import (
    Address,
    FileName,
    Offset,
    ReadId,
    RequestId,
    ShardId,
    StreamName,
    TimerName,
    TransactionId,
    WriteId,
)

CLIENT = Address("client")
SEGMENT_BYTES = 512
TAIL_BYTES = 0
"""Nothing durable stays in memory: whoever reads, reads from the disk."""
STOCK = StreamName("stock")


class Bench:
    """A machine over files in memory. Nothing ends by itself; what is read sees all that was written."""

    def __init__(self, *, segment_bytes: int = SEGMENT_BYTES, wall_ms: int = 1_000) -> None:
        self.segment_bytes = segment_bytes
        self.wall_ms = wall_ms
        self.files: dict[FileName, bytes] = {}
        #: asked for and not ended, oldest first
        self.pending: list[DiskChange] = []
        self.reads: list[Read] = []
        self.answers: dict[RequestId, Message] = {}
        self.notes: list[str] = []
        self.timers: list[TimerName] = []
        self.requests = 0
        self.incarnations = 0
        self.machine = StreamsMachine(segment_bytes, TAIL_BYTES)

    @property
    def state(self) -> State:
        return self.machine.state

    @property
    def index(self) -> Index:
        return self.machine.index

    @property
    def now(self) -> Now:
        return Now(0, self.wall_ms * NS_PER_MS)

    # Life

    def start(self) -> None:
        """A new incarnation, up to the first thing that it waits for."""
        self.incarnations += 1
        self.machine = StreamsMachine(self.segment_bytes, TAIL_BYTES)
        self.pending, self.reads, self.timers = [], [], []
        self.used_writes: set[WriteId] = set()
        self.used_reads: set[ReadId] = set()
        self.step(Started(self.now, nonce=self.incarnations))

    def serve(self) -> None:
        """Start, and let everything come to its end."""
        self.start()
        self.finish()

    def crash(
        self, keep: Sequence[DiskChange] = (), torn: tuple[DiskChange, int] | None = None
    ) -> None:
        """Stop dead; of what is under way these survive, one of them in part."""
        for change in self.pending:
            if torn is not None and change == torn[0]:
                assert isinstance(change, Write)
                apply(self.files, msgspec.structs.replace(change, data=change.data[: torn[1]]))
            elif change in keep:
                apply(self.files, change)
        self.pending, self.reads = [], []

    def step(self, event: Event) -> list[Effect]:
        twin = self.machine.clone()
        effects = self.machine.step(event)
        assert twin.step(event) == effects
        assert twin.fingerprint() == self.machine.fingerprint()
        assert self.machine.invariants() == []
        for effect in effects:
            self._perform(effect)
        return effects

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Write() | Replace() | Truncate() | Preallocate() | Remove():
                assert effect.id not in self.used_writes, "a write's number is used twice"
                self.used_writes.add(effect.id)
                self.pending.append(effect)
            case Read():
                assert effect.id not in self.used_reads, "a read's number is used twice"
                self.used_reads.add(effect.id)
                self.reads.append(effect)
            case Send(message=message, after=None):
                request = getattr(message, "request", None)
                assert isinstance(request, int)
                assert request not in self.answers, f"request {request} is answered twice"
                self.answers[RequestId(request)] = message
            case Note(what=what):
                self.notes.append(what)
            case SetTimer(timer=timer):
                self.timers.append(timer)
            case _:
                raise AssertionError(f"{effect} is not expected of streams")

    # The disk

    def done(self, change: DiskChange) -> None:
        """This one is durable."""
        self.pending.remove(change)
        apply(self.files, change)
        self.step(Written(self.now, change.id))

    def fail(self, change: DiskChange) -> None:
        """There is no room for this one."""
        self.pending.remove(change)
        self.step(WriteFailed(self.now, change.id, "disk full"))

    def read_back(self, read: Read | None = None) -> None:
        """This read ends, by default the oldest."""
        read = self.reads[0] if read is None else read
        self.reads.remove(read)
        seen = dict(self.files)
        for change in self.pending:
            apply(seen, change)
        end = None if read.size_bytes is None else read.offset + read.size_bytes
        self.step(ReadBack(self.now, read.id, seen.get(read.file, b"")[read.offset : end]))

    def read_failed(self) -> None:
        self.step(ReadFailed(self.now, self.reads.pop(0).id, "bad sector"))

    def fire(self) -> None:
        self.step(Fired(self.now, self.timers.pop(0)))

    def finish(self) -> None:
        """All that is under way ends well, and what follows from it too."""
        while self.reads or self.pending:
            if self.reads:
                self.read_back()
            else:
                self.done(self.pending[0])

    def writes(self, file: str = "database-log") -> list[Write]:
        """The writes under way to files whose name begins so."""
        return [
            each for each in self.pending if isinstance(each, Write) and each.file.startswith(file)
        ]

    # Asking

    def request(self) -> RequestId:
        self.requests += 1
        return RequestId(self.requests)

    def send(self, message: StreamsRequest) -> RequestId:
        self.step(Received(self.now, CLIENT, message))
        return message.request

    def ask(self, message: StreamsRequest) -> Message:
        """Send, let everything end well, and return the answer."""
        request = self.send(message)
        self.finish()
        return self.answers[request]

    def refused(self, message: StreamsRequest) -> str:
        """Send what must be refused; the code of the refusal."""
        answer = self.ask(message)
        assert isinstance(answer, StreamsRefused), answer
        return answer.code

    def code(self, request: RequestId) -> str:
        answer = self.answers[request]
        assert isinstance(answer, StreamsRefused), answer
        return answer.code

    def create(self, name: str = STOCK, shards: int = 1) -> StreamReady:
        answer = self.ask(CreateStream(self.request(), StreamName(name), shards))
        assert isinstance(answer, StreamReady), answer
        return answer

    def send_append(
        self, key: str, value: str | bytes = "v", token: Token | None = None, stream: str = STOCK
    ) -> RequestId:
        value = value.encode() if isinstance(value, str) else value
        return self.send(Append(self.request(), StreamName(stream), key.encode(), value, token))

    def append(
        self, key: str, value: str | bytes = "v", token: Token | None = None, stream: str = STOCK
    ) -> Appended:
        request = self.send_append(key, value, token, stream)
        self.finish()
        answer = self.answers[request]
        assert isinstance(answer, Appended), answer
        return answer

    def send_commit(self, name: str, *changes: Wanted, reads: Sequence[KeyRead] = ()) -> RequestId:
        return self.send(Commit(self.request(), TransactionId(name), tuple(reads), changes))

    def commit(self, name: str, *changes: Wanted, reads: Sequence[KeyRead] = ()) -> Clock:
        request = self.send_commit(name, *changes, reads=reads)
        self.finish()
        answer = self.answers[request]
        assert isinstance(answer, CommitDone), answer
        return answer.clock

    def latest(self, key: str, stream: str = STOCK) -> FeedChange | None:
        answer = self.ask(GetLatest(self.request(), StreamName(stream), key.encode()))
        assert isinstance(answer, Latest), answer
        return answer.change

    def page(
        self,
        *streams: str,
        after: Clock | None = None,
        limit: int = 10_000,
        up_to: Clock | None = None,
    ) -> FeedPage:
        names = tuple(StreamName(name) for name in streams or (STOCK,))
        answer = self.ask(ReadFeed(self.request(), names, after, limit, up_to))
        assert isinstance(answer, FeedPage), answer
        return answer

    def feed(self, *streams: str, limit: int = 10_000) -> list[FeedChange]:
        """All of the feed, in pages of this size."""
        found: list[FeedChange] = []
        after = None
        while True:
            page = self.page(*streams, after=after, limit=limit)
            found += page.changes
            if not page.more:
                return found
            assert after is None or page.through > after, "a page leads nowhere"
            after = page.through

    def entries(
        self, shard: int = 0, after: int = -1, limit: int = 10_000, stream: str = STOCK
    ) -> tuple[FeedChange, ...]:
        answer = self.ask(
            ReadEntries(self.request(), StreamName(stream), ShardId(shard), Offset(after), limit)
        )
        assert isinstance(answer, Entries), answer
        return answer.entries

    def visible(self) -> Clock:
        request = self.send(ReadVisible(self.request(), (), False))
        answer = self.answers[request]
        assert isinstance(answer, VisibleIs), answer
        return answer.clock


def apply(files: dict[FileName, bytes], change: DiskChange) -> None:
    """What a change makes of the files."""
    content = files.get(change.file, b"")
    match change:
        case Write(offset=offset, data=data):
            padded = content.ljust(offset, b"\0")
            files[change.file] = padded[:offset] + data + padded[offset + len(data) :]
        case Replace(data=data):
            files[change.file] = data
        case Truncate(size_bytes=size_bytes):
            if change.file in files:
                files[change.file] = content[:size_bytes]
        case Preallocate(size_bytes=size_bytes):
            files[change.file] = content.ljust(size_bytes, b"\0")
        case Remove():
            files.pop(change.file, None)


def serving(*, segment_bytes: int = SEGMENT_BYTES, shards: int = 1) -> Bench:
    """A node that serves, with the stream ``stock``."""
    bench = Bench(segment_bytes=segment_bytes)
    bench.serve()
    bench.create(STOCK, shards)
    return bench


def put(key: str, row: str, stream: str = STOCK) -> Wanted:
    """A change of one key."""
    return Wanted(StreamName(stream), key.encode(), "update", row.encode(), None)


def saw(key: str, clock: Clock | None, stream: str = STOCK) -> KeyRead:
    """A key that was read, and the clock that was seen."""
    return KeyRead(StreamName(stream), key.encode(), clock)


def values(bench: Bench) -> list[bytes | None]:
    """The rows of the feed."""
    return [change.row for change in bench.feed()]


def fill(bench: Bench) -> None:
    """There is no room for anything that is under way, or follows from its failing."""
    while bench.pending:
        bench.fail(bench.pending[0])
