"""From a request to a durable record: clocks, the log, and what to do when there is no room.

Requests are taken in order. Each gets its clock, is judged against what all before it will have changed, and
goes into the log as an entry without waiting for the disk. Answers leave in the order of the log, each when
its entry, and all before it, are durable and applied to the index.

What could not be written the log takes back, with all after it: they are refused. A request that finds the
log without room has it tried once more, and is refused if there still is none.

A transaction whose clock is fixed before the commit is judged, and then held. Clocks rise along the log. So
between the clock that somebody was told and the record that has it nothing else is put into the log:
whoever writes waits, and the visible clock stays below. That is for a short time only. A transaction that
is not decided by then is given up; its clock is used by nobody (S2).

A transaction that is held was judged with what was being written. If that is taken back, so is this.
"""

from __future__ import annotations

from motet.core.clock.hlc import Clock
from motet.core.clock.reservation import encode_bound
from motet.core.machine import NS_PER_MS, Effect, Note, Now, Replace, Send, SetTimer
from motet.core.onelog import starting
from motet.core.onelog.context import (
    HOLD_TIMER,
    Core,
    DueAnswer,
    Held,
    PendingRecord,
    WaitingRequest,
    refusal,
)
from motet.core.onelog.messages import (
    ClockReleased,
    Commit,
    CommitDone,
    CommitFixed,
    FixClock,
    GetTransaction,
    OrderFeed,
    ReleaseClock,
    TransactionIs,
)
from motet.core.onelog.plan import LogRequest, LogWrite, plan
from motet.core.onelog.record import (
    KINDS,
    Answered,
    CommittedRecord,
    FeedOrdered,
    LogRecord,
    Planned,
    encode_body,
)
from motet.core.onelog.starting import BOUND_FILE
from motet.core.streams.orders import Prune
from motet.errors import Conflict, DiskFull, MotetError, NodeError
from motet.ids import Address, WriteId
from motet.limits import clock_held_ms_max, commits_waiting_max


def take(core: Core, client: Address, message: LogRequest, now: Now) -> list[Effect]:
    """Take a request that wants to write."""
    state = core.state
    if len(state.waiting) + len(state.pending) >= commits_waiting_max:
        raise NodeError("too many requests wait for the disk", hint="try again in a moment")
    state.waiting.append(WaitingRequest(client, message, now.wall_ms))
    return drain(core, now)


def drain(core: Core, now: Now) -> list[Effect]:
    """Judge what waits, in order, and put it into the log, as far as the clock and the log allow."""
    state, log = core.state, core.log
    effects: list[Effect] = []
    while state.waiting and state.held is None:
        waiting = state.waiting[0]
        try:
            clock = state.clock.tick(waiting.wall_ms)
            if clock is not None and clock <= log.last_clock:
                # It has come to lead only now, and has begun its epoch with an entry of its own.
                if state.clock.adopt(log.last_clock, now.wall_ms) is not None:
                    continue
                clock = None
            if clock is None:
                break
            planned = plan(
                core.index, state.overlay, waiting.message, clock, log.epoch, waiting.wall_ms
            )
            if isinstance(planned, Planned) and not _has_room(core, effects, now):
                break
            del state.waiting[0]
            if isinstance(waiting.message, FixClock):
                effects += _hold(core, waiting, planned, clock, now)
            else:
                effects += _take_on(core, waiting, planned, now)
        except MotetError as error:
            state.waiting = [each for each in state.waiting if each is not waiting]
            effects.append(refusal(waiting.client, waiting.message.request, error))
    if not state.waiting:
        state.is_room_sought = False
    if state.clock.wants_bound:
        effects += _reserve(core, now.wall_ms)
    return effects


def _take_on(
    core: Core, waiting: WaitingRequest, planned: Planned | Answered, now: Now
) -> list[Effect]:
    answer = DueAnswer(waiting.message.request, Send(waiting.client, planned.answer))
    if isinstance(planned, Answered):
        return _when_durable(core, waiting.message, planned, answer)
    return put(core, planned.record, answer, now)


def put(core: Core, record: LogRecord, answer: DueAnswer, now: Now) -> list[Effect]:
    """Put a record into the log, and answer when it is durable."""
    state, log = core.state, core.log
    entry, effects = log.append(KINDS[type(record)], record.clock, encode_body(record), now)
    state.pending.append(PendingRecord(entry.offset, record, [answer]))
    state.overlay.add(record, entry.epoch)
    if log.segments != state.segments:
        state.segments = log.segments
        effects.append(Note("streams_segment", f"{log.segments} files"))
    return effects


def _hold(
    core: Core, waiting: WaitingRequest, planned: Planned | Answered, clock: Clock, now: Now
) -> list[Effect]:
    """The transaction could be committed now, and has this clock: hold it."""
    message = waiting.message
    assert isinstance(message, FixClock)
    record = planned.record if isinstance(planned, Planned) else None
    until_ns = now.monotonic_ns + clock_held_ms_max * NS_PER_MS
    core.state.held = Held(message.transaction, clock, record, until_ns)
    return [SetTimer(HOLD_TIMER, clock_held_ms_max), Send(waiting.client, planned.answer)]


def _when_durable(
    core: Core, message: LogWrite, planned: Answered, answer: DueAnswer
) -> list[Effect]:
    """Answer at once, or together with the record that the answer is about."""
    for pending in core.state.pending:
        if pending.record.clock == planned.clock:
            pending.answers.append(answer)
            return []
    if isinstance(message, OrderFeed) and isinstance(message.order, Prune):
        _clear_for(core, [answer])  # perhaps the disk had no room the last time
        return []
    return [answer.send]


def _clear_for(core: Core, answers: list[DueAnswer]) -> None:
    """Who has pruned is told when the disk that is free by that is given back (``clearing``)."""
    core.state.is_clearing_due = True
    core.state.cleared_for += answers


def _reserve(core: Core, wall_ms: int) -> list[Effect]:
    state = core.state
    if state.bound_write is not None:
        return []
    bound = state.clock.next_bound(wall_ms)
    if bound is None:
        return []
    state.bound_write = core.shards.new_write()
    return [Replace(state.bound_write, BOUND_FILE, encode_bound(bound))]


# What became of it


def bound_written(core: Core, write: WriteId, wall_ms: int) -> bool:
    """The clock may go on; whether that was it."""
    state = core.state
    if write != state.bound_write:
        return False
    state.bound_write = None
    state.clock.bound_written(wall_ms)
    return True


def bound_failed(core: Core, write: WriteId, why: str) -> list[Effect]:
    """There was no room for a bound; nothing if it was something else."""
    state = core.state
    if write != state.bound_write:
        return []
    state.bound_write = None
    state.clock.bound_failed()
    return [Note("streams_bound_failed", why), *_refuse_waiting(core, DiskFull(why))]


def settle(core: Core, now: Now) -> list[Effect]:
    """What the step means for those who wait: confirm what is applied, refuse what was taken back."""
    state = core.state
    effects: list[Effect] = []
    if state.pending:
        effects += _settle_pending(core)
    if state.waiting:
        effects += drain(core, now)
    return effects


def _settle_pending(core: Core) -> list[Effect]:
    state, log = core.state, core.log
    applied, effects, done = log.applied, list[Effect](), 0
    for pending in state.pending:
        if pending.offset > applied:
            break
        done += 1
        state.overlay.remove(pending.record)
        record = pending.record
        if isinstance(record, FeedOrdered) and isinstance(record.order, Prune):
            _clear_for(core, pending.answers)
        else:
            effects += [answer.send for answer in pending.answers]
    del state.pending[:done]
    if state.pending and state.pending[0].offset > log.head.offset:
        return effects + _taken_back(core) + core.serve_visible()
    return effects + core.serve_visible() if done else effects


def _taken_back(core: Core) -> list[Effect]:
    """The oldest record was not written: it and all after it are refused."""
    state = core.state
    failed, state.pending = state.pending, []
    state.overlay.clear()
    state.held = None  # it was judged with them
    full = DiskFull("there was no room for it")
    effects: list[Effect] = [Note("streams_write_failed", f"{len(failed)} records")]
    for each in failed:
        effects += [refusal(answer.send.to, answer.request, full) for answer in each.answers]
    return effects


# A full disk


def _has_room(core: Core, effects: list[Effect], now: Now) -> bool:
    """Whether the log takes an entry. If not now, that may change in a moment; ``DiskFull`` if it has not."""
    state, log = core.state, core.log
    if log.refusal(0) is None:
        state.is_room_sought = False
        return True
    if not core.shards.is_writing:
        if state.is_room_sought:
            raise DiskFull("there was no room for it")
        state.is_room_sought = True
        effects += log.look_for_room(now) if log.is_serving else starting.elect(core, now)
    return False  # what comes of that will show


def _refuse_waiting(core: Core, error: MotetError) -> list[Effect]:
    waiting, core.state.waiting = core.state.waiting, []
    return [refusal(each.client, each.message.request, error) for each in waiting]


def commit(core: Core, client: Address, message: CommitFixed, now: Now) -> list[Effect]:
    """Commit what is held; ``Conflict`` if it has been given up."""
    state, log, held = core.state, core.log, core.state.held
    if held is None or held.transaction != message.transaction:
        raise Conflict(
            f"transaction {message.transaction} was given up before it was committed",
            hint=f"leave the block within {clock_held_ms_max} ms of commit_clock()",
        )
    state.held = None
    # Nobody has turned clock visibility since it was fixed: who writes waits.
    has_clock = state.overlay.has_clock(core.index)
    done = Send(client, CommitDone(message.request, held.transaction, held.clock, has_clock))
    if held.record is None:
        return [done, *core.serve_visible()]
    if log.refusal(0) is not None:
        raise DiskFull("there was no room for it")
    if log.last_clock >= held.clock:
        raise Conflict(f"the log has begun anew above {held.clock}")
    return put(core, held.record, DueAnswer(message.request, done), now)


def release(core: Core, client: Address, message: ReleaseClock) -> list[Effect]:
    """Give up what is held; what is not held any more is over."""
    held = core.state.held
    if held is not None and held.transaction == message.transaction:
        core.state.held = None
    return [Send(client, ClockReleased(message.request)), *core.serve_visible()]


def expire(core: Core, now: Now) -> list[Effect]:
    """Give up what has been held for too long."""
    held = core.state.held
    if held is None or now.monotonic_ns < held.until_ns:
        return []
    core.state.held = None
    return [Note("streams_held_too_long", held.transaction), *core.serve_visible()]


def standing(core: Core, message: GetTransaction) -> TransactionIs:
    """What is known of a transaction: only what is in the log, or on its way there."""
    name, state = message.transaction, core.state
    clock = core.index.transactions.get(name)
    if clock is not None:
        has_clock = core.index.has_clock_at(clock)
        return TransactionIs(message.request, "committed", clock, has_clock)
    records = [pending.record for pending in state.pending]
    messages = [waiting.message for waiting in state.waiting]
    is_under_way = (
        (state.held is not None and state.held.transaction == name)
        or any(isinstance(each, CommittedRecord) and each.transaction == name for each in records)
        or any(
            isinstance(each, Commit | FixClock) and each.transaction == name for each in messages
        )
    )
    return TransactionIs(message.request, "prepared" if is_under_way else "unknown", None)
