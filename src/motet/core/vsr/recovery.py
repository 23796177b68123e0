"""Starting: a replica finds out from its files what it was, and what it has promised.

::

    superblock ──▶ log ──▶ normal, view_change or recovering_head   (and meanwhile: blocks, replies)
         └──────────┴──▶ refused

There is no recovery protocol: what a replica has promised is in its files. Damaged reads are split until only
what is really damaged is missing. What can be had from peers does not keep a replica from starting; what
makes it unsure of its head (a fault to its right) only keeps it from voting.

A replica that comes back as a backup of its view goes on as one. The primary of its view does not: it cannot
know what it had promised to clients, so it looks for the next view. A replica that is alone leads a new view
at once.
"""

from __future__ import annotations

from motet.core.vsr.bounds import problem_of_superblock
from motet.core.vsr.clock import start_clock
from motet.core.vsr.context import SUPERBLOCK, WAL, Core
from motet.core.vsr.journal import Cached, Journal
from motet.core.vsr.restore import begin_restore
from motet.core.vsr.sectors import sector_bytes
from motet.core.vsr.start_view import keep_asking
from motet.core.vsr.start_view_change import watch_primary
from motet.core.vsr.state import PendingRead, Status
from motet.core.vsr.storage import want_superblock, write_stale_copies
from motet.core.vsr.superblock import (
    Superblock,
    check_identity,
    copies,
    copy_bytes,
    copy_offset,
    read_superblock,
    stale_copies,
)
from motet.core.vsr.sync import begin_fetch, take_checkpoint_header
from motet.core.vsr.view_change import GIVE_UP, enter_view_change
from motet.core.vsr.wal_layout import SlotRead, read_prepare
from motet.core.vsr.wal_recovery import RecoveredWal, recover
from motet.errors import BadSuperblock
from motet.ids import Op, View

format_version = 1
SUPERBLOCK_COPY, WAL_PIECE = "superblock", "wal"
piece_bytes_max = 512 * 1024
"""Of the log, at once: what is read into memory that is in use already takes a tenth of the time."""
DAMAGED = b"\xff"


def start(core: Core, nonce: int) -> None:
    """Read the superblock, copy by copy."""
    core.state.nonce = nonce
    start_clock(core, nonce)
    for number in range(copies):
        why = PendingRead(SUPERBLOCK_COPY, Op(number))
        core.read(why, SUPERBLOCK, copy_offset(number), copy_bytes)


def _is_reading(core: Core, why: str) -> bool:
    return any(read.why == why for read in core.state.reads.values())


def _refuse(core: Core, why: str) -> None:
    core.state.status, core.state.refusal = Status.REFUSED, why
    core.note("refused", why)


# The superblock


def on_superblock_read(core: Core, why: PendingRead, data: bytes | None) -> None:
    pieces = core.state.wal_pieces
    pieces[why.op] = (data or b"").ljust(copy_bytes, b"\0")
    if _is_reading(core, SUPERBLOCK_COPY):
        return
    whole = b"".join(pieces[number] for number in range(copies))
    core.state.wal_pieces = {}
    try:
        superblock = read_superblock(whole)
    except BadSuperblock as error:
        _refuse(core, error.what)
        return
    config = core.config
    foreign = check_identity(superblock, config.cluster, core.own, format_version)
    if foreign is None and superblock.members != config.replicas:
        foreign = f"the file is of a cluster of {', '.join(superblock.members)}"
    foreign = foreign or problem_of_superblock(superblock)
    if foreign is not None:
        _refuse(core, foreign)
        return
    _take_superblock(core, superblock)
    write_stale_copies(core, superblock, stale_copies(whole, superblock))
    _read_wal(core)


def _take_superblock(core: Core, superblock: Superblock) -> None:
    state = core.state
    state.superblock = superblock
    state.view, state.log_view = superblock.view, superblock.log_view
    state.commit_max = superblock.commit_max
    state.commit_min = superblock.checkpoint.op


# The log


def _read_wal(core: Core) -> None:
    """The headers, and then the prepares, one piece after the other."""
    core.state.wal_headers, core.state.wal_reads = b"", []
    _read_piece(core, 0, core.layout.prepare_offset(0))


def _read_prepares(core: Core) -> None:
    layout, slot = core.layout, len(core.state.wal_reads)
    count = min(max(piece_bytes_max // layout.slot_bytes, 1), layout.slots - slot)
    _read_piece(core, layout.prepare_offset(slot), count * layout.slot_bytes)


def _read_piece(core: Core, offset: int, size_bytes: int) -> None:
    core.read(
        PendingRead(WAL_PIECE, Op(offset), size_bytes.to_bytes(8, "little")),
        WAL,
        offset,
        size_bytes,
    )


def on_wal_read(core: Core, why: PendingRead, data: bytes | None) -> None:
    size_bytes = int.from_bytes(why.checksum, "little")
    if data is not None:
        core.state.wal_pieces[why.op] = data.ljust(size_bytes, DAMAGED)
    elif size_bytes <= sector_bytes:
        core.state.wal_pieces[why.op] = DAMAGED * size_bytes
    else:
        half_bytes = size_bytes // 2 // sector_bytes * sector_bytes or sector_bytes
        _read_piece(core, why.op, half_bytes)
        _read_piece(core, why.op + half_bytes, size_bytes - half_bytes)
    if not _is_reading(core, WAL_PIECE):
        _take_piece(core)


def _take_piece(core: Core) -> None:
    """A piece is here, whole or with what is damaged in it."""
    state, slot_bytes = core.state, core.layout.slot_bytes
    pieces, state.wal_pieces = state.wal_pieces, {}
    piece = b"".join([pieces[offset] for offset in sorted(pieces)])
    if 0 in pieces:
        state.wal_headers = piece
    else:
        starts = range(0, len(piece), slot_bytes)
        state.wal_reads += [read_prepare(piece, start, start + slot_bytes) for start in starts]
    if len(state.wal_reads) < core.layout.slots:
        _read_prepares(core)
    else:
        _take_wal(core)


def _take_wal(core: Core) -> None:
    state, layout = core.state, core.layout
    headers, reads = state.wal_headers, state.wal_reads
    state.wal_headers, state.wal_reads = b"", []
    assert state.superblock is not None
    recovered = recover(
        layout,
        headers,
        reads,
        core.checkpoint_op,
        core.op_prepare_max,
        solo=core.is_solo,
        log_view=state.log_view,
        view_headers=state.superblock.view_headers,
    )
    for case in recovered.cases:
        core.note(case)
    if recovered.refused is not None:
        _refuse(core, recovered.refused)
        return
    _fill_journal(core, recovered, reads)
    _read_checkpoint(core)
    core.state.is_started = True
    _take_part(core)


def _fill_journal(core: Core, recovered: RecoveredWal, reads: list[SlotRead]) -> None:
    state, superblock = core.state, core.state.superblock
    assert superblock is not None
    assert recovered.op_head is not None
    state.journal = Journal.empty(core.layout.slots)
    journal = state.journal
    for number, slot in enumerate(recovered.slots):
        journal.recover(number, slot.header, dirty=slot.dirty, faulty=slot.faulty)
        if slot.fix:
            journal.headers_due[number] = None
        found = reads[number]
        header = slot.header
        if header is None or slot.dirty or header.op <= core.checkpoint_op:
            continue
        if found.header is not None and found.header.checksum == header.checksum:
            journal.cache[header.op] = Cached(header, found.body)
    state.op = recovered.op_head
    if recovered.torn:
        core.note("torn_prepare", str(recovered.torn))
    if core.is_solo:
        # What the superblock has heard of and the ring has not, was not durable: promised to nobody. Nobody
        # else has it either.
        state.connected_op = state.op
    else:
        take_view_headers(core, superblock)
    take_checkpoint_header(core, superblock.checkpoint)
    if not recovered.head_is_certain:
        state.status = Status.RECOVERING_HEAD
        core.note("recovering_head")


def take_view_headers(core: Core, superblock: Superblock) -> None:
    """The superblock knows the log of its view, even where the ring does not."""
    state = core.state
    for header in sorted(superblock.view_headers, key=lambda each: each.op):
        if header.op > core.checkpoint_op:
            state.journal.set_header(header)
            state.op = Op(max(state.op, header.op))
    state.connected_op = state.op


# The state


def _read_checkpoint(core: Core) -> None:
    superblock = core.state.superblock
    assert superblock is not None
    if superblock.syncing:
        begin_fetch(core)
    else:
        core.state.restore = begin_restore(core.config, superblock.checkpoint.root)


def _take_part(core: Core) -> None:
    """The log is known: that is enough to vote, while the state is still being read."""
    state = core.state
    core.note("recovered", f"view {state.view}, head {state.op}, checkpoint {core.checkpoint_op}")
    if state.status is Status.RECOVERING_HEAD:
        keep_asking(core)
        return
    if core.is_solo:
        _lead_alone(core)
        return
    is_backup = state.log_view == state.view and core.primary != core.own
    if is_backup:
        state.status = Status.NORMAL
        watch_primary(core)
        return
    state.status = Status.VIEW_CHANGE
    if state.log_view == state.view:
        enter_view_change(core, View(state.view + 1))
    else:
        want_superblock(core)
        core.timer(GIVE_UP, core.config.timeouts.view_change_ms)


def _lead_alone(core: Core) -> None:
    """Nobody else can have a say: all of the log is committed, and a new view begins."""
    state = core.state
    state.status = Status.VIEW_CHANGE
    state.view = state.log_view = View(state.view + 1)
    state.commit_max = state.op
    state.leading = True
    want_superblock(core)
