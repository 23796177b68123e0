"""The streams of one node as a machine: requests in, one log on disk, answers out.

Every change goes through one log, one record per transaction, in the order of their clocks. A request gets
its clock when it is put into the log and its answer when its record, and every record before it, is
durable. So the log *is* the feed, and a page of it is a range of the file.

Rules:

S1  What was confirmed is read back, for ever: by key, by shard, and in the feed.
S2  Clocks rise along the log. The visible clock is below every record that is not durable yet, and it
    never falls: no change at or below it appears later.
S3  The entries of a shard have offsets without a gap.
S4  A transaction is applied whole or not at all, and only if what it read is still so when its turn comes.
S5  A token is applied once; the newest of each producer is remembered, an older one is refused.
S6  Nothing is answered from a log that has not been read, or that is damaged.
S7  Where the latest change of a key is, and whatever a feed shows, is in the log.

The log is a shard of :mod:`motet.core.shardlog`, an ensemble of one whose operator this machine is; the
index is its state machine. How to read it: ``starting`` is the way to serving, ``writing`` from a request
to a record, and what is held before its commit, ``reading`` from a request to a page, ``clearing`` from a
pruned feed to a smaller log; ``plan`` and ``overlay`` judge a request.

A write that fails (a full disk) takes everything after it with it: all of it is refused, and the log goes
on from there when there is room.
"""

from __future__ import annotations

from typing import Self

from motet.core.clock.hlc import ZERO
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Note,
    Now,
    ReadBack,
    ReadFailed,
    Received,
    Send,
    Started,
    Violation,
    WriteFailed,
    Written,
)
from motet.core.onelog import clearing, reading, starting, writing
from motet.core.onelog.checks import check
from motet.core.onelog.context import (
    HOLD_TIMER,
    RETRY_TIMER,
    Core,
    Phase,
    State,
    VisibleWaiter,
    log_config,
    refusal,
)
from motet.core.onelog.conversation import StreamsRequest
from motet.core.onelog.index import Index
from motet.core.onelog.messages import (
    CommitFixed,
    Describe,
    Described,
    DescribeFeed,
    GetLatest,
    GetTransaction,
    ReadEntries,
    ReadFeed,
    ReadVisible,
    ReleaseClock,
    SplitFeed,
)
from motet.core.onelog.plan import LogRequest
from motet.core.onelog.reading import describe, split
from motet.core.onelog.starting import IDENTITY_FILE
from motet.core.shardlog.shards import BEAT
from motet.core.shardlog.state import FinishedRead
from motet.errors import (
    BadInput,
    DiskReadFailed,
    MotetError,
    NodeError,
    NoSuchShard,
    NoSuchStream,
    error_of,
)
from motet.errors.shards import EntriesGone
from motet.ids import Address, StreamName
from motet.limits import readings_max, segment_bytes, shard_tail_bytes_max


class StreamsMachine:
    """The machine. Simulations have smaller files, which are copied often, and less of the log in memory."""

    def __init__(
        self, segment_bytes: int = segment_bytes, tail_bytes_max: int = shard_tail_bytes_max
    ) -> None:
        self.core = Core(log_config(segment_bytes, tail_bytes_max))

    @property
    def state(self) -> State:
        return self.core.state

    @property
    def index(self) -> Index:
        """What the log says, as far as it is durable."""
        return self.core.index

    def step(self, event: Event) -> list[Effect]:
        if self.state.phase is Phase.BROKEN and not isinstance(event, Received):
            return []
        if isinstance(event, Received):
            effects = self._on_received(event)
        elif isinstance(event, Written):
            effects = self._on_written(event)
        elif isinstance(event, ReadBack):
            effects = self._on_read_back(event)
        elif isinstance(event, WriteFailed):
            effects = self._on_write_failed(event)
        elif isinstance(event, ReadFailed):
            effects = self._on_read_failed(event)
        elif isinstance(event, Started):
            self.state.nonce = event.nonce
            effects = [self.core.read_to_start(IDENTITY_FILE)]
        elif isinstance(event, Fired) and event.timer == RETRY_TIMER:
            effects = self._on_retry(event)
        elif isinstance(event, Fired) and event.timer == HOLD_TIMER:
            effects = writing.expire(self.core, event.now)
        else:
            return []
        effects += self._follow_up(event.now)
        state = self.state
        if (state.clearing is not None or state.is_clearing_due) and state.phase is Phase.SERVING:
            return clearing.go_on(self.core, effects, event.now)
        return effects

    def _follow_up(self, now: Now) -> list[Effect]:
        """What a step of the log means for the start, for readers, and for those who wait."""
        core, phase = self.core, self.state.phase
        if phase is Phase.SERVING:
            state = self.state
            is_read = state.readings or state.clearing is not None
            effects = self._take_finished() if is_read else []
            return effects + writing.settle(core, now)
        if phase is Phase.READING or phase is Phase.FOUNDING:
            return starting.go_on(core, now)
        return []

    # Requests

    def _on_received(self, event: Received) -> list[Effect]:
        client, message = event.sender, event.message
        if not isinstance(message, StreamsRequest):
            return [Note("streams_foreign_message", type(message).__name__)]
        try:
            self._check_serving()
            check(message)
            if isinstance(message, LogRequest):
                return writing.take(self.core, client, message, event.now)
            if isinstance(message, CommitFixed):
                return writing.commit(self.core, client, message, event.now)
            if isinstance(message, ReleaseClock):
                return writing.release(self.core, client, message)
            return self._take_reading(client, message)
        except MotetError as error:
            return [refusal(client, message.request, error)]

    def _check_serving(self) -> None:
        if self.state.broken is not None:
            code, what, advice = self.state.broken
            raise NodeError(f"the streams are out of order: {code} {what}", hint=advice)
        if self.state.phase is not Phase.SERVING:
            raise NodeError(f"the node is {self.state.phase.value}", hint="try again in a moment")

    def _take_reading(self, client: Address, message: StreamsRequest) -> list[Effect]:
        core, state, index = self.core, self.state, self.core.index
        if isinstance(message, Describe):
            streams = tuple(stream.info() for stream in index.streams.values())
            visible, last = core.tell_visible(), state.clock.last
            is_on = state.overlay.has_clock(index)
            described = Described(message.request, state.database, last, visible, streams, is_on)
            return [Send(client, described)]
        if isinstance(message, GetTransaction):
            return [Send(client, writing.standing(core, message))]
        if isinstance(message, SplitFeed):
            self._need_streams(message.streams)
            return [Send(client, split(index, message, state.database, core.tell_visible()))]
        if isinstance(message, DescribeFeed):
            self._need_streams(message.streams)
            return [Send(client, describe(index, message))]
        if len(state.readings) + len(state.visible_waiters) >= readings_max:
            raise NodeError("too many readers wait", hint="try again in a moment")
        if isinstance(message, ReadVisible):
            self._need_streams(message.streams)
            target = state.clock.last if message.wait else ZERO
            state.visible_waiters.append(VisibleWaiter(client, message, target))
            return core.serve_visible()
        if not isinstance(message, ReadFeed | ReadEntries | GetLatest):
            raise BadInput(f"{type(message).__name__} is no request of this version")
        self._need_streams(message.streams if isinstance(message, ReadFeed) else (message.stream,))
        if isinstance(message, ReadEntries):
            shards = index.streams[message.stream].shards
            if not 0 <= message.shard < shards:
                raise NoSuchShard(f"{message.stream} has no shard {message.shard}, it has {shards}")
        return self._read_on(reading.begin(index, core.tell_visible(), client, message))

    def _need_streams(self, names: tuple[StreamName, ...]) -> None:
        for name in names:
            if name not in self.index.streams:
                raise NoSuchStream(f"there is no stream {name!r}")

    # Reading

    def _read_on(self, begun: reading.PageReading) -> list[Effect]:
        """Answer, or have the log read the next range; what is in memory is there at once."""
        if begun.next < self.core.log.first_offset - 1:
            # Given back while it was read: from where it begins now, or the error that says so.
            visible = self.core.tell_visible()
            begun = reading.begin(self.index, visible, begun.client, begun.message)
        if not begun.wants_more():
            return [Send(begun.client, reading.answer(begun, self.index))]
        number, effects = self.core.log.read(begun.after, begun.bytes_max)
        self.state.readings[number] = begun
        return effects

    def _take_finished(self) -> list[Effect]:
        effects: list[Effect] = []
        while finished := self.core.log.take_finished():
            for done in finished:
                effects += self._take_one(done)
        return effects

    def _take_one(self, done: FinishedRead) -> list[Effect]:
        own = self.state.clearing
        if own is not None and done.number == own.reading:
            clearing.take(self.core, own, done)
            return []
        begun = self.state.readings.pop(done.number)
        try:
            if done.error is not None and done.error[0] != EntriesGone.code:
                raise error_of(*done.error, DiskReadFailed.hint)
            reading.take(begun, done.entries, self.index)
            return self._read_on(begun)
        except MotetError as error:
            return [refusal(begun.client, begun.message.request, error)]

    # The disk and time

    def _on_written(self, event: Written) -> list[Effect]:
        core, write, now = self.core, event.write, event.now
        if writing.bound_written(core, write, now.wall_ms):
            return []
        if effects := starting.identity_written(core, write, now):
            return effects
        return self._of_log(core.shards.on_written(write, now))

    def _on_write_failed(self, event: WriteFailed) -> list[Effect]:
        core, write, why = self.core, event.write, event.why
        effects = writing.bound_failed(core, write, why) or starting.identity_failed(
            core, write, why
        )
        return effects or self._of_log(core.shards.on_write_failed(write, why, event.now))

    def _on_read_back(self, event: ReadBack) -> list[Effect]:
        core = self.core
        if event.read != self.state.start_read:
            return self._of_log(core.shards.on_read_back(event.read, event.data, event.now))
        try:
            return starting.take(core, event)
        except MotetError as error:
            return core.break_down(error)

    def _on_read_failed(self, event: ReadFailed) -> list[Effect]:
        core, state = self.core, self.state
        if state.phase is Phase.SERVING:
            return core.shards.on_read_failed(event.read, event.why, event.now)
        # What cannot be read is not gone: ask again, and serve nothing until it is there.
        effects: list[Effect] = [Note("streams_unreadable", event.why)]
        if event.read == state.start_read:
            state.start_read = None
        else:
            effects += core.shards.on_read_failed(event.read, event.why, event.now)
        return effects + core.retry()

    def _on_retry(self, event: Fired) -> list[Effect]:
        core, state = self.core, self.state
        state.is_retry_set = state.has_elected = False
        if not core.shards.incarnation:  # it has not been started
            return [core.read_to_start(state.start_file)]
        return self._of_log(core.shards.on_fired(BEAT, event.now))

    def _of_log(self, effects: list[Effect]) -> list[Effect]:
        """What the log wants done; what it says to its operator is for nobody once it leads."""
        if self.state.phase is Phase.SERVING:
            return effects
        return starting.without_answers(effects)

    # What a driver and a checker need

    def clone(self) -> Self:
        config = self.core.shards.config
        twin = type(self)(config.segment_bytes, config.tail_bytes_max)
        twin.core.state = clone_plain(self.state)
        twin.core.shards = self.core.shards.clone()
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint((self.state, self.core.shards.fingerprint()))

    def invariants(self) -> list[Violation]:
        core, state = self.core, self.state
        found = core.shards.invariants()
        if state.phase is Phase.SERVING and core.visible() < state.told_visible:
            found.append(Violation("S2", f"visible {core.visible()} after {state.told_visible}"))
        if state.phase is not Phase.SERVING and state.pending:
            found.append(Violation("S6", f"writes while {state.phase.value}"))
        if state.phase is Phase.SERVING:
            found += self._lost()
        return found + state.clock.invariants()

    def _lost(self) -> list[Violation]:
        """S7, of what can be seen at once: the oldest place of each stream."""
        kept, found = self.core.log.first_offset - 1, []
        for name, stream in self.index.streams.items():
            oldest = next(iter(stream.latest.values()), None)
            if oldest is not None and oldest.sequence < kept:
                found.append(Violation("S7", f"a key of {name} is at {oldest.sequence} of {kept}"))
        return found
