"""Starting a view, and finding out about one.

The primary of a new view starts it when it has every prepare of its log and has executed what is committed.
It says ``start_view`` to all: the newest headers, enough to cover whatever may be uncommitted, and those of
the checkpoints that its log still reaches back to (the *hooks*). A backup takes the log over, makes that
durable, and acknowledges what it has.

``request_start_view`` is asked by a backup that hears of a newer view in a commit or a prepare, whose repair
is stuck below what is committed, or that came back unsure of its head. The last believes only an answer to
its own question (its nonce): an older one may be from before what it has forgotten.

A backup that lags so far behind that the head has no place in its ring takes only the hook that fits, repairs
its log up to that checkpoint, and asks again (``catching_up``). Its log_view stays as it is meanwhile: it
does not hold the log of the view yet. If no hook fits, it has to fetch a whole checkpoint (``sync``).

W1  log_view rises only with the whole suffix of the new view's log.
W2  Within a view no header is taken back.
W3  A hook is committed, and so is everything below it. So a replica that catches up has another log than that
    of its log_view only where nothing is up for denial; a crash does not change that (S2 of ``storage``).
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.vsr.commit import HEARTBEAT, set_heartbeat
from motet.core.vsr.context import Core
from motet.core.vsr.header import Header, is_sealed
from motet.core.vsr.messages import RequestStartView, StartView
from motet.core.vsr.normal import send_all_prepare_oks
from motet.core.vsr.start_view_change import watch_primary
from motet.core.vsr.state import InFlight, Status
from motet.core.vsr.storage import view_headers, want_superblock
from motet.core.vsr.sync import want_sync
from motet.core.vsr.view_change import GIVE_UP, SEND, VOTE, install_log, leave_view
from motet.ids import Op, ReplicaIndex, TimerName, View

ASK = TimerName("request_start_view")


# The primary


def is_ready_to_lead(core: Core) -> bool:
    """Nothing of the log is missing, and what is committed is executed."""
    state = core.state
    if not state.leading or not core.is_view_durable:
        return False
    if core.is_syncing or state.restore is not None:
        return False
    if state.commit_min != state.commit_max or state.connected_op > state.commit_min + 1:
        return False
    return all(state.journal.is_clean(Op(op)) for op in range(state.commit_min + 1, state.op + 1))


def begin_view(core: Core) -> None:
    """Lead."""
    state = core.state
    uncommitted = [state.journal.header(Op(op)) for op in range(state.commit_max + 1, state.op + 1)]
    leave_view(core)
    state.status = Status.NORMAL
    state.timestamp = max(state.timestamp, core.head.timestamp)
    state.heard_ok_monotonic_ns = core.now.monotonic_ns
    state.heard_monotonic_ns = dict.fromkeys(core.peers, core.now.monotonic_ns)
    state.view_start_op = state.op
    for header in uncommitted:
        assert header is not None
        state.pipeline[header.op] = InFlight(header, {}, core.now.monotonic_ns)
    core.note("view_started", f"view {state.view}, head {state.op}")
    core.no_timer(GIVE_UP)
    core.no_timer(VOTE)
    set_heartbeat(core)
    core.broadcast(current_view(core, 0))
    send_all_prepare_oks(core)


def current_view(core: Core, nonce: int) -> StartView:
    """The log of the view that this replica leads."""
    state, superblock = core.state, core.state.superblock
    assert superblock is not None
    headers = [*view_headers(core), *_hooks(core)]
    return StartView(
        core.config.cluster,
        core.own,
        state.view,
        nonce,
        state.op,
        state.commit_max,
        superblock.checkpoint,
        tuple(headers),
    )


def _hooks(core: Core) -> list[Header]:
    """Headers of the last checkpoints."""
    assert core.state.superblock is not None
    found = [core.state.superblock.checkpoint.header]
    before = core.state.journal.header(Op(core.checkpoint_op - core.config.checkpoint_ops))
    return found if before is None else [*found, before]


def on_request_start_view(core: Core, message: RequestStartView) -> None:
    if core.is_primary and core.is_view_durable and message.view <= core.state.view:
        core.send(message.replica, current_view(core, message.nonce))


# Backups


def ask_for_view(core: Core, view: View) -> None:
    """Ask the primary of a view for its log."""
    primary = core.config.primary(view)
    if primary != core.own:
        _ask(core, primary, view)


def _ask(core: Core, replica: ReplicaIndex, view: View) -> None:
    nonce = core.state.nonce
    core.send(replica, RequestStartView(core.config.cluster, core.own, view, nonce))


def keep_asking(core: Core) -> None:
    """A replica that cannot go on without an answer asks everybody, since it knows no primary."""
    state = core.state
    if state.status is Status.RECOVERING_HEAD or state.catching_up:
        for peer in core.peers:
            _ask(core, peer, state.view)
        core.timer(ASK, core.config.timeouts.request_start_view_ms)


def on_start_view(core: Core, message: StartView) -> None:
    state = core.state
    if not _is_acceptable(core, message):
        core.drop("start_view_out_of_view")
        return
    if message.view == state.view and state.status is Status.NORMAL:
        _learn_of_head(core, message)
    elif message.op <= core.op_prepare_max:
        _join_view(core, message)
    else:
        _catch_up(core, message)
    if message.nonce == state.nonce:
        state.commit_heard = (
            message.commit_max
        )  # asked for, so it is better than what was heard before
        _maybe_sync(core, message)
    core.hear_commit(message.commit_max)


def _is_acceptable(core: Core, message: StartView) -> bool:
    state = core.state
    if message.replica != core.config.primary(message.view) or message.replica == core.own:
        return False
    if message.view < state.view or core.is_primary:
        return message.view > state.view and core.is_primary and _is_sound(core, message)
    if state.status in (Status.RECOVERING, Status.REFUSED):
        return False
    if state.status is Status.RECOVERING_HEAD and message.nonce != state.nonce:
        return False
    return _is_sound(core, message)


def _is_sound(core: Core, message: StartView) -> bool:
    """Is it a log that goes with what is committed here?"""
    state = core.state
    headers = message.headers
    if not headers or headers[0].op != message.op or message.op < message.commit_max:
        return False
    if any(header.op > message.op or not is_sealed(header) for header in headers):
        return False
    is_in_view = message.view == state.view and state.status is Status.NORMAL
    return is_in_view or message.op >= state.commit_min


def _learn_of_head(core: Core, message: StartView) -> None:
    """A repeated start of our own view: it may know of more than we do (W2)."""
    state = core.state
    watch_primary(core)
    fitting = [each for each in message.headers if state.op < each.op <= core.op_prepare_max]
    if not fitting:
        return
    for header in fitting:
        state.journal.set_header(header)
    state.op = max(header.op for header in fitting)
    state.connected_op = state.op


def _join_view(core: Core, message: StartView) -> None:
    """Take the log of the view over (W1)."""
    state = core.state
    core.note("view_joined", f"view {message.view}, head {message.op}")
    leave_view(core)
    state.status, state.view, state.log_view = Status.NORMAL, message.view, message.view
    install_log(core, message.op, message.headers)
    state.moved_monotonic_ns = core.now.monotonic_ns
    for timer in (SEND, GIVE_UP, VOTE, ASK, HEARTBEAT):
        core.no_timer(timer)
    watch_primary(core)
    want_superblock(core)


def _catch_up(core: Core, message: StartView) -> None:
    """The head does not fit: go as far as the checkpoint that does, and ask again."""
    state = core.state
    if message.view > state.view:
        if state.status is not Status.RECOVERING_HEAD:
            state.status = Status.VIEW_CHANGE
        state.view = message.view
        leave_view(core)
        want_superblock(core)
    if not state.catching_up:
        core.note("catching_up")
        state.moved_monotonic_ns = core.now.monotonic_ns
        if message.nonce != state.nonce:
            _ask(core, message.replica, message.view)  # a checkpoint is fetched only on an answer
    state.catching_up = True
    for timer in (SEND, VOTE, HEARTBEAT):
        core.no_timer(timer)
    core.timer(ASK, core.config.timeouts.request_start_view_ms)
    # Should the primary die now, this replica may be the one whose vote is missing.
    core.timer(GIVE_UP, core.config.timeouts.view_change_ms)
    _take_hook(core, message)


def _take_hook(core: Core, message: StartView) -> None:
    state = core.state
    # Up to the hook the log of the view replaces one that votes still count as of an older view (W3).
    highest = min(core.op_prepare_max, message.commit_max)
    hooks = [each for each in message.headers if core.checkpoint_op < each.op <= highest]
    if not hooks or core.is_syncing:
        return
    hook = max(hooks, key=lambda each: each.op)
    if state.anchor_op == hook.op and state.journal.has(hook):
        return
    state.journal.set_header(hook)
    state.op = Op(max(state.op, hook.op))
    state.anchor_op = state.connected_op = hook.op
    # What is beyond the hook has no place here yet; up to it everything is in the log of the view.
    state.commit_max = Op(max(state.commit_max, hook.op))
    want_superblock(core)


def _maybe_sync(core: Core, message: StartView) -> None:
    """A checkpoint that the log does not lead to any more is fetched whole.

    For that our own is given up. So only an answer to our own question is believed: whoever lags asks.
    """
    checkpoint = message.checkpoint
    is_far = checkpoint.op > core.checkpoint_op + core.config.checkpoint_ops
    if is_far or (checkpoint.op > core.checkpoint_op and is_stuck(core)):
        want_sync(core, checkpoint)


def is_stuck(core: Core) -> bool:
    """Committed ops wait to be executed, or a state to be restored, and nothing has moved for a while."""
    state = core.state
    waited_ms = (core.now.monotonic_ns - state.moved_monotonic_ns) // NS_PER_MS
    known = max(state.commit_max, state.commit_heard)
    is_behind = state.commit_min < known or state.restore is not None
    return is_behind and waited_ms > core.config.timeouts.stuck_ms


def ask_if_stuck(core: Core) -> None:
    """A replica whose repair leads nowhere asks how things are."""
    state = core.state
    if core.is_primary or state.catching_up or not is_stuck(core):
        return
    if core.now.monotonic_ns - state.asked_monotonic_ns > core.config.timeouts.stuck_ms * NS_PER_MS:
        state.asked_monotonic_ns = core.now.monotonic_ns
        for peer in core.peers:
            _ask(core, peer, state.view)
