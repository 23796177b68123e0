"""Committing: the primary's heartbeat, and executing what is committed, in order, on every replica.

A primary commits a prepare when a replication quorum has it on disk and all before it are committed. It
tells the backups with the next prepare, or with its heartbeat, or at once (X3). What is committed is executed
as soon as its prepare is at hand and its header is certain to be the one of this log (``connected_op``).

A primary that has a prepare in flight and hears no prepare_ok, that hears nothing at all from a replication
quorum, or whose clock nobody agrees with, stops its heartbeat: it may be able to speak and not to hear, and
the others shall not wait for it.

X1  Ops are executed in order, each once between two restarts.
X2  Nothing is executed that is not known to be committed.
X3  A backup where somebody awaits commits says so when it acknowledges. It is told as soon as nothing is
    under way: while something is, the next prepare tells it, or the commit of what is under way.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.vsr import clock
from motet.core.vsr.clients import send_reply
from motet.core.vsr.context import WAL, Core
from motet.core.vsr.header import NO_CHECKSUM, OPERATION_MIN, REGISTER, Header
from motet.core.vsr.journal import Cached
from motet.core.vsr.messages import Commit, Reply
from motet.core.vsr.normal import committed_by_quorum, resend_prepares, suspect_who_lags
from motet.core.vsr.state import PendingRead, Status
from motet.core.vsr.state_machine import Entry
from motet.core.vsr.storage import write_due_headers
from motet.core.vsr.wal_layout import SlotKind, prepare_bytes, read_prepare
from motet.ids import Op, TimerName

HEARTBEAT = TimerName("heartbeat")
PREPARE = "prepare to execute"
_IN_A_VIEW = (Status.NORMAL, Status.VIEW_CHANGE)


# The heartbeat


def on_heartbeat(core: Core) -> bool:
    """Say ``commit`` to all backups; False if somebody else should lead."""
    if not core.is_primary:
        return True
    write_due_headers(core)
    is_well = core.is_solo or not _should_abdicate(core)
    if not is_well:
        core.note("abdicating")
    else:
        suspect_who_lags(core)
        resend_prepares(core)
        core.broadcast(_commit(core))
        core.state.commit_told = core.state.commit_max
    set_heartbeat(core)
    return is_well


def tell_awaiting(core: Core) -> None:
    """Nothing is under way: whoever awaits it hears what is committed, once (X3)."""
    state = core.state
    commit = state.commit_max
    for backup, told in state.awaiting.items():
        if told < commit:
            state.awaiting[backup] = commit
            core.send(backup, _commit(core))


def set_heartbeat(core: Core) -> None:
    """The next heartbeat is due soon while something is under way."""
    timeouts, is_idle = core.config.timeouts, not is_busy(core)
    core.state.is_heartbeat_idle = is_idle
    after_ms = timeouts.idle_heartbeat_ms if is_idle else timeouts.heartbeat_ms
    core.timer(HEARTBEAT, after_ms, in_step=True)


def is_busy(core: Core) -> bool:
    """Somebody waits for an answer of the backups, or they for what is committed."""
    state = core.state
    if state.pipeline or state.queue or state.reads_waiting:
        return True
    return state.commit_told < state.commit_max or core.own in state.votes


def _should_abdicate(core: Core) -> bool:
    state = core.state
    if not clock.is_synchronized(core):
        return True
    heard_since_ns = core.now.monotonic_ns - core.config.timeouts.abdicate_ms * NS_PER_MS
    heard = sum(heard_ns >= heard_since_ns for heard_ns in state.heard_monotonic_ns.values())
    if heard + 1 < core.quorums.replication:
        return True
    return bool(state.pipeline) and state.heard_ok_monotonic_ns < heard_since_ns


def _commit(core: Core) -> Commit:
    state = core.state
    header = state.journal.header(state.commit_max)
    return Commit(
        core.config.cluster,
        core.own,
        state.view,
        state.commit_max,
        NO_CHECKSUM if header is None else header.checksum,
        core.checkpoint_op,
        core.checkpoint_id,
    )


def on_commit(core: Core, message: Commit) -> None:
    """A backup hears its primary."""
    if not core.is_backup or message.view != core.state.view:
        core.drop("commit_out_of_view")
        return
    header = core.state.journal.header(message.commit)
    known = NO_CHECKSUM if header is None else header.checksum
    if NO_CHECKSUM not in (known, message.commit_checksum) and known != message.commit_checksum:
        core.drop("commit_of_another_log")
        return
    core.hear_commit(message.commit)


# Executing


def anchor(core: Core) -> Op:
    """The highest op whose header is certain."""
    state = core.state
    return state.op if state.anchor_op is None else state.anchor_op


def connect_headers(core: Core) -> None:
    """See how far down the chain reaches."""
    state = core.state
    journal = state.journal
    lowest = core.checkpoint_op + 1
    while state.connected_op > lowest:
        above = journal.header(state.connected_op)
        below = journal.header(Op(state.connected_op - 1))
        if above is None or below is None or above.parent != below.checksum:
            return
        state.connected_op = Op(state.connected_op - 1)


def commit_by_quorum(core: Core) -> None:
    """A primary commits what a quorum has."""
    if core.is_primary:
        core.state.commit_max = committed_by_quorum(core)


def can_execute(core: Core) -> bool:
    """In a view whose log this is, or on the way to a checkpoint of it."""
    state = core.state
    if state.restore is not None or core.is_syncing:
        return False
    if state.superblock_next is not None and is_about_to_sync(core):
        return False
    if state.log_view == state.view and state.status in _IN_A_VIEW:
        return True
    # On the way without a hook nothing says which of what it has is of that log.
    return state.catching_up and state.anchor_op is not None


def is_about_to_sync(core: Core) -> bool:
    """The superblock on its way to the disk gives this state up for another."""
    return core.state.superblock_next is not None and core.state.superblock_next.syncing


def next_to_execute(core: Core) -> Header | None:
    """The header of the next op, if it is committed and certain."""
    state = core.state
    op = Op(state.commit_min + 1)
    if op > state.commit_max or op > anchor(core) or state.connected_op > op:
        return None
    if is_checkpoint_due(core) or not can_execute(core):
        return None
    return state.journal.header(op)


def is_checkpoint_due(core: Core) -> bool:
    """A checkpoint has to be taken before anything else is executed."""
    commit_min = core.state.commit_min
    if commit_min % core.config.checkpoint_ops or commit_min <= core.checkpoint_op:
        return False
    checkpointing = core.state.checkpointing
    return checkpointing is None or checkpointing.header.op != commit_min


def execute(core: Core) -> bool:
    """Execute the next op if that is possible now; False if not."""
    header = next_to_execute(core)
    if header is None:
        return False
    cached = core.state.journal.cached(header)
    if cached is None:
        read_prepare_for(core, PREPARE, header)
        return False
    _execute(core, cached)
    return True


def read_prepare_for(core: Core, why: str, header: Header) -> None:
    """Read a prepare from the log, unless it is being read for that already, or is not there."""
    if not core.state.journal.is_clean(header.op):
        return
    if any(read.why == why and read.op == header.op for read in core.state.reads.values()):
        return
    slot = header.op % core.layout.slots
    size_bytes = min(prepare_bytes(header.body_bytes), core.layout.slot_bytes)
    reason = PendingRead(why, header.op, header.checksum)
    core.read(reason, WAL, core.layout.prepare_offset(slot), size_bytes)


def prepare_read(core: Core, why: PendingRead, data: bytes | None) -> Cached | None:
    """What came of it; a prepare that is not what its header says is faulty from here on."""
    journal = core.state.journal
    header = journal.header(why.op)
    if header is None or header.checksum != why.checksum:
        return None
    found = None if data is None else read_prepare(data)
    if found is not None and found.kind is SlotKind.VALID and found.header == header:
        return Cached(header, found.body)
    if not journal.is_being_written(header):
        core.note("prepare_corrupt", f"op {why.op}")
        journal.mark_faulty(header)
    return None


def on_prepare_read(core: Core, why: PendingRead, data: bytes | None) -> None:
    """The prepare to execute next is in memory."""
    found = prepare_read(core, why, data)
    if found is not None:
        core.state.journal.cache[why.op] = found


def _execute(core: Core, prepare: Cached) -> None:
    state, header = core.state, prepare.header
    assert header.op == state.commit_min + 1, "X1"
    assert header.op <= state.commit_max, "X2"
    if header.operation == REGISTER:
        body = header.op.to_bytes(8, "little")
    elif header.operation >= OPERATION_MIN:
        body = core.machine.apply(
            Entry(header.op, header.timestamp, header.client, header.operation, prepare.body)
        )
    else:
        body = b""
    state.commit_min = header.op
    state.moved_monotonic_ns = core.now.monotonic_ns
    if header.timestamp > state.timestamp:
        state.timestamp = header.timestamp
    _keep_reply(core, prepare, body)


def _keep_reply(core: Core, prepare: Cached, body: bytes) -> None:
    state, header = core.state, prepare.header
    in_flight = state.pipeline.pop(header.op, None)
    evicted = state.sessions.commit(core.config, header, prepare.body, body)
    if evicted is not None:
        core.note("session_evicted", str(evicted))
        state.replies.pop(evicted, None)
        state.replies_faulty.pop(evicted, None)
    session = state.sessions.by_client.get(header.client)
    if session is None or session.last_op != header.op:
        return
    reply = Reply(
        core.config.cluster,
        core.own,
        state.view,
        header.client,
        header.request,
        header.op,
        body,
        session.reply_checksum,
    )
    state.replies[header.client] = reply
    state.replies_faulty.pop(header.client, None)
    if core.is_primary:
        send_reply(core, reply, None if in_flight is None else in_flight.through)
