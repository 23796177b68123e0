"""The streams of one node as a machine: requests in, one log on disk, answers out.

Every change goes through one log, one record per transaction, in the order of their clocks; so does what
is published to tables. A request gets
its clock when it is put into the log and its answer when its record, and every record before it, is
durable. So the log *is* the feed, and a page of it is a stretch of the file.

Rules:

S1  What was confirmed is read back, for ever: by key, by shard, and in the feed.
S2  Clocks rise along the log. The visible clock is below every record that is not durable yet, and it
    never falls: no change at or below it appears later.
S3  The entries of a shard have offsets without a gap.
S4  A transaction is applied whole or not at all, and only if what it read is still so when its turn comes.
S5  A token is applied once; the newest of each producer is remembered, an older one is refused.
S6  Nothing is answered from a log that has not been read, or that is damaged.

The rules of tables, T1 to T5, are in :mod:`motet.core.tables.plan`.

A write that fails (a full disk) takes everything behind it with it: all of it is refused, and the log goes on
from there when the disk has been cleaned up.
"""

from __future__ import annotations

from typing import Self

from motet.core.clock.hlc import ZERO
from motet.core.clock.reservation import Reservation
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Note,
    Preallocate,
    ReadBack,
    ReadFailed,
    Received,
    Replace,
    Send,
    Started,
    Violation,
    WriteFailed,
    Written,
)
from motet.core.streams import reading, writing
from motet.core.streams.checks import check
from motet.core.streams.conversation import StreamsRequest
from motet.core.streams.log import LogEnd, segment_file
from motet.core.streams.messages import (
    Describe,
    Described,
    GetLatest,
    ReadEntries,
    ReadFeed,
    ReadVisible,
    SplitFeed,
)
from motet.core.streams.plan import LogWrite
from motet.core.streams.recovery import (
    BOUND_FILE,
    IDENTITY_FILE,
    Recovery,
    decode_clock_bound,
    decode_identity,
    encode_identity,
    take_segment,
)
from motet.core.streams.splitting import split
from motet.core.streams.state import (
    RETRY_TIMER,
    Phase,
    State,
    VisibleWaiter,
    refusal,
)
from motet.core.tables.reading import TableReading, answer_table
from motet.errors import BadInput, BadRecord, DiskReadFailed, MotetError, NodeError, NoSuchStream
from motet.ids import Address, StreamName
from motet.limits import readings_max, segment_bytes


class StreamsMachine:
    """The machine. ``segment_bytes`` is smaller in simulations, where files are copied often."""

    def __init__(self, segment_bytes: int = segment_bytes) -> None:
        self.state = State(LogEnd(0, segment_bytes))

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            return self._on_received(event)
        if isinstance(event, Written):
            return writing.on_written(self.state, event)
        if isinstance(event, ReadBack):
            return self._on_read_back(event)
        if isinstance(event, WriteFailed):
            return writing.on_write_failed(self.state, event)
        if isinstance(event, Started):
            self.state.nonce = event.nonce
            return [self.state.read_to_start(IDENTITY_FILE)]
        if isinstance(event, ReadFailed):
            return self._on_read_failed(event)
        if isinstance(event, Fired) and event.timer == RETRY_TIMER:
            return [self.state.read_to_start(self.state.start_file)]
        return []

    # Requests

    def _on_received(self, event: Received) -> list[Effect]:
        client, message = event.sender, event.message
        if not isinstance(message, StreamsRequest):
            return [Note("streams_foreign_message", type(message).__name__)]
        try:
            self._check_serving()
            check(message)
            if isinstance(message, LogWrite):
                return writing.take(self.state, client, message, event.now.wall_ms)
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
        state = self.state
        if isinstance(message, Describe):
            streams = tuple(stream.info() for stream in state.index.streams.values())
            visible, last = state.tell_visible(), state.clock.last
            described = Described(message.request, state.end.salt, last, visible, streams)
            return [Send(client, described)]
        if isinstance(message, TableReading):
            return [Send(client, answer_table(state.index.catalog, message, state.tell_visible()))]
        if isinstance(message, SplitFeed):
            self._need_streams(message.streams)
            return [Send(client, split(state.index, message, state.end.salt, state.tell_visible()))]
        if len(state.readings) + len(state.visible_waiters) >= readings_max:
            raise NodeError("too many readers wait", hint="try again in a moment")
        if isinstance(message, ReadVisible):
            self._need_streams(message.streams)
            target = state.clock.last if message.wait else ZERO
            state.visible_waiters.append(VisibleWaiter(client, message, target))
            return state.serve_visible()
        if not isinstance(message, ReadFeed | ReadEntries | GetLatest):
            raise BadInput(f"{type(message).__name__} is no request of this version")
        self._need_streams(message.streams if isinstance(message, ReadFeed) else (message.stream,))
        if isinstance(message, ReadEntries):
            shards = state.index.streams[message.stream].shards
            if not 0 <= message.shard < shards:
                raise BadInput(f"{message.stream} has no shard {message.shard}, it has {shards}")
        return self._go_on_reading(
            reading.begin(state.index, state.tell_visible(), client, message)
        )

    def _need_streams(self, names: tuple[StreamName, ...]) -> None:
        for name in names:
            if name not in self.state.index.streams:
                raise NoSuchStream(f"there is no stream {name!r}")

    def _go_on_reading(self, begun: reading.Reading) -> list[Effect]:
        state = self.state
        if not begun.wants_more():
            return [Send(begun.client, reading.answer(begun, state.index))]
        read = state.read_id()
        state.readings[read] = begun
        return [reading.next_read(begun, state.index, state.end, read)]

    # What was read back

    def _on_read_back(self, event: ReadBack) -> list[Effect]:
        if event.read == self.state.start_read:
            try:
                return self._take_start(event)
            except MotetError as error:
                return self.state.break_down(error)
        begun = self.state.readings.pop(event.read)
        try:
            reading.take(begun, event.data, self.state.end.salt)
        except MotetError as error:
            note = Note("streams_rotten_read", error.what)
            return [note, refusal(begun.client, begun.message.request, error)]
        return self._go_on_reading(begun)

    def _on_read_failed(self, event: ReadFailed) -> list[Effect]:
        if event.read == self.state.start_read:
            # What cannot be read is not gone: ask again, and serve nothing until it is there.
            retry = self.state.retry_start(self.state.start_file)
            return [Note("streams_unreadable", event.why), retry]
        begun = self.state.readings.pop(event.read)
        error = DiskReadFailed(event.why)
        return [refusal(begun.client, begun.message.request, error)]

    # Starting

    def _take_start(self, event: ReadBack) -> list[Effect]:
        file, self.state.start_read = self.state.start_file, None
        if file == IDENTITY_FILE:
            return self._identify(event)
        if file == BOUND_FILE:
            return self._take_bound(event)
        return self._take_segment(event)

    def _identify(self, event: ReadBack) -> list[Effect]:
        state = self.state
        if event.data:
            state.phase = Phase.READING
            state.end.salt = decode_identity(event.data)
        else:
            state.phase = Phase.FOUNDING
        return [state.read_to_start(BOUND_FILE)]

    def _take_bound(self, event: ReadBack) -> list[Effect]:
        state = self.state
        if state.phase is Phase.FOUNDING:
            return self._found(event)
        state.recovery = Recovery(decode_clock_bound(event.data))
        return [state.read_to_start(segment_file(1))]

    def _found(self, event: ReadBack) -> list[Effect]:
        state = self.state
        if event.data:
            # A bound is written after the identity: this is a database that has lost its name.
            raise BadRecord(f"there is a {BOUND_FILE} and no {IDENTITY_FILE}")
        state.clock = Reservation.recover(None, event.now.wall_ms)
        state.end.salt = state.nonce
        return [
            Note("streams_founded", f"{state.end.salt:x}"),
            Preallocate(state.cleaning_id(), segment_file(1), state.end.segment_bytes),
            Replace(state.cleaning_id(), IDENTITY_FILE, encode_identity(state.end.salt)),
        ]

    def _take_segment(self, event: ReadBack) -> list[Effect]:
        state, recovery = self.state, self.state.recovery
        assert recovery is not None
        if event.data:
            take_segment(recovery, state.index, state.end, event.data)
            return [state.read_to_start(segment_file(recovery.segment))]
        return self._recovered(recovery, event.now.wall_ms)

    def _recovered(self, recovery: Recovery, wall_ms: int) -> list[Effect]:
        state = self.state
        state.recovery = None
        newest, bound = state.index.newest, recovery.bound
        if state.index.clocks and (bound is None or bound < newest):
            raise BadRecord(f"{BOUND_FILE} is behind the log: {bound}, the log is at {newest}")
        state.clock = Reservation.recover(bound, wall_ms)
        effects: list[Effect] = []
        if state.index.positions:
            effects.append(Note("streams_recovered", f"{len(state.index.positions)} records"))
        last_segment = recovery.segment - 1
        if not recovery.is_torn and last_segment <= state.end.segment:
            state.phase = Phase.SERVING
            return effects
        state.phase = Phase.CUTTING
        note = Note("streams_tail_cut", f"behind record {state.end.sequence}")
        return [*effects, note, *writing.cut(state, last_segment)]

    # What a driver and a checker need

    def clone(self) -> Self:
        twin = type(self)(self.state.end.segment_bytes)
        twin.state = clone_plain(self.state)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint(self.state)

    def invariants(self) -> list[Violation]:
        state = self.state
        found = []
        if state.phase is Phase.SERVING and state.visible() < state.told_visible:
            found.append(Violation("S2", f"visible {state.visible()} after {state.told_visible}"))
        if state.phase is not Phase.SERVING and state.pending:
            found.append(Violation("S6", f"writes while {state.phase.value}"))
        return found + state.clock.invariants()
