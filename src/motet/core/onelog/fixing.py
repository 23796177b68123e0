"""What becomes of a transaction whose clock is fixed before the commit: it is judged, and then held.

Clocks rise along the log. So between the clock that somebody was told and the record that has it nothing else
is put into the log: whoever writes waits, and the visible clock stays below. That is for a short time only. A
transaction that is not decided by then is given up; its clock is used by nobody (S2).

A transaction that is held was judged with what was being written. If that is taken back, so is this.
"""

from __future__ import annotations

from motet.core.machine import Effect, Note, Now, Send
from motet.core.onelog import writing
from motet.core.onelog.change import Committed
from motet.core.onelog.context import Core
from motet.core.onelog.messages import (
    ClockReleased,
    Commit,
    CommitDone,
    CommitFixed,
    FixClock,
    GetTransaction,
    ReleaseClock,
    TransactionIs,
)
from motet.core.onelog.state import Answer
from motet.errors import Conflict, DiskFull
from motet.ids import Address
from motet.limits import clock_held_ms_max


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
    return writing.put(core, held.record, Answer(message.request, done), now)


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
        or any(isinstance(each, Committed) and each.transaction == name for each in records)
        or any(
            isinstance(each, Commit | FixClock) and each.transaction == name for each in messages
        )
    )
    return TransactionIs(message.request, "prepared" if is_under_way else "unknown", None)
