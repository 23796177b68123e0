"""Repair: what a replica's log lacks, it gets from the others.

Headers first, backwards from the head: each vouches for the one below by its parent, so it does not matter
who sends them. Then prepares, forwards, so that they can be executed as they come; asked for by checksum, so
it does not matter who sends them either. Who does not have the very prepare says nothing; a prepare that the
disk has lost is no denial.

Everything is asked for again until it is there, of each peer in turn: a timer runs while something is
missing, and at no other time.
"""

from __future__ import annotations

from motet.core.vsr.blocks import request_blocks
from motet.core.vsr.commit import anchor, connect_headers, prepare_read, read_prepare_for
from motet.core.vsr.context import WAL, Core
from motet.core.vsr.header import Header, checksum, is_sealed
from motet.core.vsr.messages import Headers, Prepare, RequestHeaders, RequestPrepare
from motet.core.vsr.replies import request_replies
from motet.core.vsr.state import PendingRead, Status
from motet.core.vsr.storage import keep_prepare, write_prepare
from motet.core.vsr.wal_layout import prepare_bytes
from motet.ids import Op, ReplicaIndex, TimerName

REPAIR = TimerName("repair")
SERVE_PREPARE = "prepare for a peer"
CHECK_PREPARE = "prepare to check"
headers_at_once = 64


def may_repair(core: Core) -> bool:
    """Is it settled which log this is to be?"""
    state = core.state
    is_own_log = state.log_view == state.view and core.is_view_durable
    is_settled = state.status is Status.NORMAL or state.leading
    return (is_own_log and is_settled) or state.catching_up


def is_needed(core: Core) -> bool:
    """Is anything missing? Asked at every event, so quick when nothing is."""
    state = core.state
    if state.commit_min < state.commit_max or state.commit_min < state.commit_heard:
        return True  # it may be stuck
    if state.blocks_faulty or state.replies_faulty or state.restore is not None:
        return True
    if state.connected_op <= core.checkpoint_op + 1 and not state.journal.missing:
        return False
    return may_repair(core) and _lacks_entries(core)


def _lacks_entries(core: Core) -> bool:
    """Headers, or prepares that are not on their way to the disk."""
    state = core.state
    journal, lowest = state.journal, core.checkpoint_op + 1
    if state.connected_op > lowest:
        return True
    for slot in journal.missing:
        header = journal.headers[slot]
        if header is not None and header.op >= lowest and not journal.is_being_written(header):
            return True
    return False


def start_timer(core: Core) -> None:
    """Have what is missing asked for soon."""
    core.state.is_repair_due = True
    core.timer(REPAIR, core.config.timeouts.repair_ms)


def on_repair_timer(core: Core) -> None:
    """Ask for all that is missing."""
    core.state.is_repair_due = False
    attempts = core.state.attempts
    request_blocks(core)
    if core.state.replies_faulty and core.state.restore is None:
        request_replies(core)
    if may_repair(core):
        _request_headers(core)
        _request_prepares(core)
    # The next round begins with the next peer: else one that is down could be asked the same for ever.
    core.state.attempts = attempts + 1


# Headers


def _request_headers(core: Core) -> None:
    state = core.state
    connect_headers(core)
    lowest = core.checkpoint_op + 1
    if state.connected_op <= lowest:
        return
    op_max = Op(state.connected_op - 1)
    op_min = Op(max(lowest, op_max - headers_at_once + 1))
    peer = core.next_peer()
    core.send(peer, RequestHeaders(core.config.cluster, core.own, state.view, op_min, op_max))


def on_request_headers(core: Core, message: RequestHeaders) -> None:
    """Whatever headers we have of these: the asker sees whether they fit."""
    state = core.state
    if state.status in (Status.RECOVERING, Status.REFUSED) or message.op_max < message.op_min:
        core.drop("request_headers")
        return
    lowest = max(message.op_min, message.op_max - headers_at_once + 1, 0)
    ops = range(min(message.op_max, state.op), lowest - 1, -1)
    found = [header for op in ops if (header := state.journal.header(Op(op))) is not None]
    if found:
        own, view = core.own, state.view
        core.send(message.replica, Headers(core.config.cluster, own, view, tuple(found)))


def on_headers(core: Core, message: Headers) -> None:
    """Take those that the chain leads to."""
    state = core.state
    if not may_repair(core):
        core.drop("headers_not_wanted")
        return
    for header in message.headers:
        connect_headers(core)
        above = state.journal.header(state.connected_op)
        if above is None or header.op != state.connected_op - 1 or header.op <= core.checkpoint_op:
            continue
        if header.checksum != above.parent or not is_sealed(header):
            continue
        _take_header(core, header)
    connect_headers(core)
    _request_prepares(core)


def _take_header(core: Core, header: Header) -> None:
    before = core.state.journal.header(header.op)
    what = "header_repaired" if before is None else "headers_repaired_through_break"
    core.note(what, f"op {header.op}")
    core.state.journal.set_header(header)


# Prepares


def _request_prepares(core: Core) -> None:
    state = core.state
    journal = state.journal
    lowest = max(core.checkpoint_op + 1, state.connected_op)
    asked = 0
    for op in journal.not_clean(Op(lowest), anchor(core)):
        header = journal.header(op)
        if header is None or journal.is_being_written(header):
            continue
        if journal.cached(header) is not None:
            write_prepare(core, header)
            continue
        request = RequestPrepare(core.config.cluster, core.own, state.view, op, header.checksum)
        core.send(core.next_peer(), request)
        asked += 1
        if asked == 2 * core.config.pipeline_max:
            return


def on_request_prepare(core: Core, message: RequestPrepare) -> None:
    """The very prepare, from memory or from the disk; or nothing."""
    state = core.state
    header = state.journal.header(message.op)
    if state.status is Status.REFUSED or header is None or header.checksum != message.prepare:
        return
    cached = state.journal.cached(header)
    if cached is not None:
        _send_prepare(core, message.replica, cached.header, cached.body)
    elif state.journal.is_clean(header.op):
        slot = header.op % core.layout.slots
        why = PendingRead(SERVE_PREPARE, header.op, header.checksum, asker=message.replica)
        size_bytes = min(prepare_bytes(header.body_bytes), core.layout.slot_bytes)
        core.read(why, WAL, core.layout.prepare_offset(slot), size_bytes)


def on_prepare_to_serve(core: Core, why: PendingRead, data: bytes | None) -> None:
    found = prepare_read(core, why, data)
    if found is not None and why.asker is not None:
        _send_prepare(core, why.asker, found.header, found.body)


def _send_prepare(core: Core, to: ReplicaIndex, header: Header, body: bytes) -> None:
    core.send(to, Prepare(core.config.cluster, core.own, core.state.view, header, body))


def is_repair(core: Core, message: Prepare) -> bool:
    """Is it a prepare that the log has a header for, and lacks?"""
    journal = core.state.journal
    return (
        journal.has(message.header)
        and message.header.op >= core.state.connected_op
        and may_repair(core)
        and not journal.is_clean(message.header.op)
        and journal.cached(message.header) is None
    )


def repair_prepare(core: Core, message: Prepare) -> None:
    core.note("prepare_repaired", f"op {message.header.op}")
    keep_prepare(core, message.header, message.body)


def is_intact(core: Core, message: Prepare) -> bool:
    """Is it a prepare at all?"""
    header, body = message.header, message.body
    return (
        header.cluster == core.config.cluster
        and header.body_bytes == len(body) <= core.config.body_bytes_max
        and checksum(body) == header.body_checksum
        and is_sealed(header)
    )


# Looking for damage before it is needed


def check_prepare(core: Core, op: Op) -> None:
    """Read a prepare that nobody has asked for."""
    header = core.state.journal.header(op)
    if header is not None:
        read_prepare_for(core, CHECK_PREPARE, header)


def on_prepare_checked(core: Core, why: PendingRead, data: bytes | None) -> None:
    prepare_read(core, why, data)
