"""From a request to a durable record: clocks, the log's end, and what to do when a write fails.

Requests are taken in order. Each gets its clock, is judged against what all before it will have changed, and
goes into the log without waiting for the disk. Answers leave in the order of the log, each when its
record and all before it are durable.

The files of the log have no gap, whatever a crash leaves of what is under way: recovery reads on until
there is no next file, and would never find one behind a gap. So a new file's first record is durable
before anything follows it, and files are removed one after the other, the last one first.
"""

from __future__ import annotations

from motet.core.clock.bound_file import encode_bound
from motet.core.clock.hlc import Clock
from motet.core.machine import (
    Effect,
    Note,
    Preallocate,
    Remove,
    Replace,
    Send,
    Truncate,
    Write,
    WriteFailed,
    Written,
)
from motet.core.streams.log import segment_file
from motet.core.streams.plan import LogWrite, plan
from motet.core.streams.planned import Answered, Planned
from motet.core.streams.recovery import BOUND_FILE, IDENTITY_FILE
from motet.core.streams.state import Answer, Pending, Phase, State, Waiting, refusal
from motet.errors import ClockExhausted, DiskFull, MotetError, NodeError
from motet.ids import Address
from motet.limits import commits_waiting_max


def take(state: State, client: Address, message: LogWrite, wall_ms: int) -> list[Effect]:
    """Take a request that wants to write."""
    if len(state.waiting) + len(state.pending) >= commits_waiting_max:
        raise NodeError("too many requests wait for the disk", hint="try again in a moment")
    state.waiting.append(Waiting(client, message, wall_ms))
    return drain(state, wall_ms)


def drain(state: State, wall_ms: int) -> list[Effect]:
    """Put into the log what waits, in order, as far as the clock allows."""
    effects: list[Effect] = []
    while state.waiting and not state.is_held():
        waiting = state.waiting[0]
        try:
            clock = state.clock.tick(waiting.wall_ms)
        except ClockExhausted as error:
            del state.waiting[0]
            effects.append(refusal(waiting.client, waiting.message.request, error))
            continue
        if clock is None:
            break
        del state.waiting[0]
        effects += _log(state, waiting, clock)
    return effects + _reserve(state, wall_ms)


def _log(state: State, waiting: Waiting, clock: Clock) -> list[Effect]:
    client, message = waiting.client, waiting.message
    try:
        planned = plan(state.index, state.overlay, message, clock, waiting.wall_ms)
    except MotetError as error:
        return [refusal(client, message.request, error)]
    answer = Answer(message.request, Send(client, planned.answer))
    if isinstance(planned, Planned):
        return _append(state, planned, answer)
    return _when_durable(state, planned, answer)


def _when_durable(state: State, planned: Answered, answer: Answer) -> list[Effect]:
    """Answer at once, or together with the record that the answer is about."""
    for pending in state.pending:
        if pending.record.clock == planned.clock:
            pending.answers.append(answer)
            return []
    return [answer.send]


def _append(state: State, planned: Planned, answer: Answer) -> list[Effect]:
    end = state.end
    effects: list[Effect] = []
    durable_below = state.pending[0].sequence if state.pending else end.sequence
    data = end.encode(planned.record, durable_below)
    if end.needs_segment(len(data)):
        file = end.begin_segment()
        effects.append(Note("streams_segment", file))
        effects.append(Preallocate(state.write_id(), file, end.segment_bytes))
    write, (file, offset) = state.write_id(), end.place(end.position)
    if offset == 0:
        state.segment_write = write
    state.pending.append(
        Pending(write, planned.record, end.position, len(data), end.sequence, [answer])
    )
    state.overlay.add(planned.record)
    end.advance(len(data))
    return [*effects, Write(write, file, offset, data)]


def _reserve(state: State, wall_ms: int) -> list[Effect]:
    if not state.clock.wants_bound or state.bound_write is not None:
        return []
    bound = state.clock.next_bound(wall_ms)
    if bound is None:
        return []
    state.bound_write = state.write_id()
    return [Replace(state.bound_write, BOUND_FILE, encode_bound(bound))]


# What became of it


def on_written(state: State, event: Written) -> list[Effect]:
    """A change to the disk is durable."""
    wall_ms = event.now.wall_ms
    if event.write == state.bound_write:
        state.bound_write = None
        state.clock.bound_written()
        return drain(state, wall_ms)
    if event.write in state.cleaning:
        state.cleaning.remove(event.write)
        if state.cutting > state.end.segment:
            return cut(state, state.cutting - 1)
        return [] if state.cleaning else _cleaned(state, wall_ms)
    return _ended(state, event, is_durable=True)


def on_write_failed(state: State, event: WriteFailed) -> list[Effect]:
    """There was no room for a change to the disk."""
    full = DiskFull(event.why)
    if event.write == state.bound_write:
        state.bound_write = None
        state.clock.bound_failed()
        waiting, state.waiting = state.waiting, []
        refusals = [refusal(each.client, each.message.request, full) for each in waiting]
        return [Note("streams_bound_failed", event.why), *refusals]
    if event.write in state.cleaning and state.phase is Phase.FOUNDING:
        state.cleaning = []
        return [Note("streams_no_room", event.why), state.retry_start(IDENTITY_FILE)]
    if event.write in state.cleaning:
        return state.break_down(full)
    return _ended(state, event, is_durable=False)


def _ended(state: State, event: Written | WriteFailed, *, is_durable: bool) -> list[Effect]:
    for pending in state.pending:
        if pending.write == event.write:
            pending.is_durable = is_durable
            if not is_durable:
                state.has_failed = True
            elif event.write == state.segment_write:
                state.segment_write = None
            return _settle(state, event.now.wall_ms)
    return []  # a file was made large, or was not: writing to it will do that, or fail by itself


def _settle(state: State, wall_ms: int) -> list[Effect]:
    """Confirm what is durable, in order; once all writes have ended, clear away what failed."""
    effects: list[Effect] = []
    while state.pending and state.pending[0].is_durable:
        done = state.pending.pop(0)
        state.index.add(done.record, done.position, done.size_bytes)
        state.overlay.remove(done.record)
        effects += [answer.send for answer in done.answers]
    if state.pending and all(each.is_durable is not None for each in state.pending):
        effects += _clear_away(state)
    return effects + state.serve_visible() + drain(state, wall_ms)


def _clear_away(state: State) -> list[Effect]:
    """The oldest record failed: it and all behind it are refused, and their bytes removed."""
    failed, state.pending = state.pending, []
    state.has_failed, state.segment_write = False, None
    state.overlay.clear()
    full = DiskFull("there was no room for it")
    effects: list[Effect] = [Note("streams_write_failed", f"{len(failed)} records")]
    for each in failed:
        effects += [refusal(answer.send.to, answer.request, full) for answer in each.answers]
    last_segment = state.end.segment
    state.end.go_back(failed[0].position, failed[0].sequence)
    return effects + cut(state, last_segment)


def cut(state: State, last_segment: int) -> list[Effect]:
    """Remove what stands behind the end of the log, a step at a time, and wait before going on."""
    end = state.end
    state.cutting = last_segment
    if last_segment > end.segment:
        return [Remove(state.cleaning_id(), segment_file(last_segment))]
    file = segment_file(end.segment)
    return [
        Truncate(state.cleaning_id(), file, end.offset),
        Preallocate(state.write_id(), file, end.segment_bytes),
    ]


def _cleaned(state: State, wall_ms: int) -> list[Effect]:
    if state.phase in (Phase.FOUNDING, Phase.CUTTING):
        state.phase = Phase.SERVING
    return drain(state, wall_ms)
