"""Changing the view: every replica sends its log to the primary of the new view, which makes one of them.

A replica that enters a view change stops taking part in the old view, makes the new view durable, and
sends ``do_view_change`` to all, until the new view starts. Who receives one of a newer view joins in. The
primary of the new view decides (``view_change_quorum``) what its log is, makes that durable, repairs what
it lacks, executes what is committed, and starts the view (``start_view``).

D1  Nothing is sent in a view that is not durable.
D2  The log a replica sends is that of its ``log_view``: while the view changes it is not touched, but by
    the new primary, whose log_view is the new view by then, and by a replica that catches up, no further
    than its commit_max (W3 of ``start_view``).
D3  A replica that is not sure of its head does not take part.
"""

from __future__ import annotations

from motet.core.vsr.bounds import may_enter
from motet.core.vsr.context import Core
from motet.core.vsr.header import Header, is_sealed
from motet.core.vsr.messages import DoViewChange
from motet.core.vsr.state import Status
from motet.core.vsr.storage import want_superblock
from motet.core.vsr.view_change_quorum import Decision, Verdict, decide
from motet.ids import Op, TimerName, View

SILENCE = TimerName("silence")
VOTE = TimerName("start_view_change")
SEND = TimerName("do_view_change")
GIVE_UP = TimerName("view_change")


def enter_view_change(core: Core, view: View) -> None:
    """Leave the view for a later one."""
    state = core.state
    assert view > state.view
    assert state.status in (Status.NORMAL, Status.VIEW_CHANGE), "D3"
    if not may_enter(view):
        core.note("views_exhausted", str(view))
        return
    core.note("view_change", f"to view {view}")
    state.status, state.view = Status.VIEW_CHANGE, view
    leave_view(core)
    want_superblock(core)
    for timer in (SILENCE, VOTE):
        core.no_timer(timer)  # this change has its own time
    timeouts = core.config.timeouts
    core.timer(GIVE_UP, timeouts.view_change_ms + timeouts.view_change_ms * core.own // 10)


def leave_view(core: Core) -> None:
    """Forget what was only of the view that is left."""
    state = core.state
    state.votes = {}
    state.do_view_changes = {}
    state.pipeline, state.queue = {}, []
    state.suspects, state.acknowledged = {}, {}
    state.confirmed, state.reads_waiting = {}, []
    state.leading = state.catching_up = False
    state.is_heartbeat_idle, state.commit_told = False, Op(0)
    state.awaiting = {}
    state.anchor_op = None
    state.commit_heard = Op(0)


def send_do_view_change(core: Core) -> None:
    """Send our log, once the view is durable (D1), until the view starts."""
    state = core.state
    if state.status is not Status.VIEW_CHANGE or state.leading or state.catching_up:
        return
    if not core.is_view_durable:
        return
    core.timer(SEND, core.config.timeouts.do_view_change_ms)
    log = own_log(core)
    core.broadcast(log)
    if core.primary == core.own:
        take_do_view_change(core, log)


def own_log(core: Core) -> DoViewChange:
    """The newest headers, and what can be said of each right now."""
    state = core.state
    lowest = max(state.op - core.config.pipeline_max, 0)
    headers: list[Header | None] = []
    nacks = presents = 0
    for index, op in enumerate(range(state.op, lowest - 1, -1)):
        header = state.journal.header(Op(op))
        headers.append(header)
        nacks |= _is_nack(core, Op(op), header) << index
        presents |= _is_present(core, header) << index
    assert headers[0] is not None, "D3"
    return DoViewChange(
        core.config.cluster,
        core.own,
        state.view,
        state.log_view,
        state.op,
        state.commit_max,
        core.checkpoint_op,
        tuple(headers),
        nacks,
        presents,
    )


def _is_present(core: Core, header: Header | None) -> bool:
    """Can be had from here, or needs not be: its effect is in our checkpoint."""
    if header is None:
        return False
    return header.op <= core.checkpoint_op or core.state.journal.can_serve(header)


def _is_nack(core: Core, op: Op, header: Header | None) -> bool:
    """Certainly never acknowledged here: not there, and not lost either."""
    if header is None:
        return not core.state.journal.is_faulty(op)
    return not core.state.journal.is_clean(op) and not core.state.journal.is_faulty(op)


def on_do_view_change(core: Core, message: DoViewChange) -> None:
    state = core.state
    if state.status not in (Status.NORMAL, Status.VIEW_CHANGE) or message.view < state.view:
        core.drop("do_view_change_out_of_view")
        return
    if not _is_sound(message, core.config.pipeline_max):
        core.drop("do_view_change_malformed")
        return
    if message.view > state.view:
        enter_view_change(core, message.view)
    if core.primary == core.own and state.status is Status.VIEW_CHANGE and not state.leading:
        take_do_view_change(core, message)


def _is_sound(message: DoViewChange, pipeline_max: int) -> bool:
    """Is it what a replica can have sent? The head is known, and each header is in its place."""
    count = min(message.op, pipeline_max) + 1
    if count < 1 or len(message.headers) != count or message.headers[0] is None:
        return False
    if message.log_view > message.view or message.commit_max < 0:
        return False
    pairs = zip(message.headers, range(message.op, message.op - count, -1), strict=True)
    return all(header is None or (header.op == op and is_sealed(header)) for header, op in pairs)


def take_do_view_change(core: Core, message: DoViewChange) -> None:
    """A log for the new primary to consider; a later one of the same replica counts instead."""
    state = core.state
    if core.own not in state.do_view_changes and message.replica != core.own:
        state.do_view_changes[message.replica] = message
        return  # our own view is not durable yet, so our own log is missing
    state.do_view_changes[message.replica] = message
    logs = [state.do_view_changes[each] for each in sorted(state.do_view_changes)]
    decision = decide(logs, core.quorums, core.config.pipeline_max)
    if decision.verdict is Verdict.COMPLETE_INVALID:
        core.note("view_change_undecidable")
    elif decision.verdict is Verdict.AWAITING_REPAIR:
        core.note("view_change_awaits_repair")
    elif decision.verdict is Verdict.COMPLETE_VALID:
        _lead(core, decision)


def _lead(core: Core, decision: Decision) -> None:
    """Take over the log that was decided on, or let somebody lead who is further."""
    state = core.state
    if _must_forfeit(core, decision):
        core.note("forfeit", f"view {state.view}")
        enter_view_change(core, View(state.view + 1))
        return
    if decision.cut:
        core.note("truncated_by_nacks", f"{decision.cut} ops above {decision.op_head}")
    core.note("view_decided", f"head {decision.op_head}, committed {decision.commit_max}")
    install_log(core, decision.op_head, decision.headers)
    state.commit_max = Op(max(state.commit_max, decision.commit_max))
    state.log_view = state.view
    state.leading = True
    state.do_view_changes = {}
    core.no_timer(SEND)
    want_superblock(core)


def _must_forfeit(core: Core, decision: Decision) -> bool:
    logs = core.state.do_view_changes.values()
    checkpoint_op = max(log.checkpoint_op for log in logs)
    is_far_behind = checkpoint_op > core.checkpoint_op + core.config.checkpoint_ops
    return is_far_behind or decision.op_head > core.op_prepare_max or core.is_syncing


def install_log(core: Core, head: Op, headers: tuple[Header, ...]) -> None:
    """The log ends at this head and has these headers; what we had otherwise is not part of it."""
    state = core.state
    journal = state.journal
    journal.remove_above(head, state.op)
    for header in sorted(headers, key=lambda each: each.op):
        if core.checkpoint_op < header.op <= head:
            journal.set_header(header)
    state.op = head
    state.anchor_op = None
    state.connected_op = head
    clear_faults_above(core, head)
    assert journal.header(head) is not None, "J1"


def clear_faults_above(core: Core, head: Op) -> None:
    """What a slot above the head has lost was of an older log, and will not be missed."""
    state = core.state
    last = core.checkpoint_op + state.journal.slots
    for op in range(head + 1, last + 1):
        slot = op % state.journal.slots
        if state.journal.headers[slot] is None:
            state.journal.faulty[slot] = False
