"""What the files of a replica hold, read without the replica: for people who do not trust a disk.

Each file becomes a few words of summary and a table. The sizes that say where everything lies are in
``format.json`` beside the file; without it the defaults are taken, and the summary says so. What a slot of
the log means depends on the superblock beside it: with one, every slot is judged by the same table as at a
start; without one only what can be read is shown. Nothing here raises, whatever the bytes are.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.context import GRID, REPLIES, SUPERBLOCK, WAL
from motet.core.vsr.grid import block_overhead_bytes, decode_block
from motet.core.vsr.header import RESERVED, Header, decode_header, header_bytes
from motet.core.vsr.replies import decode_reply, reply_slot_bytes
from motet.core.vsr.restore import RestorePhase, begin_restore
from motet.core.vsr.superblock import (
    Superblock,
    copies,
    copy_bytes,
    read_superblock,
    stale_copies,
    superblock_bytes,
    superblock_checksum,
)
from motet.core.vsr.wal_layout import WalLayout, read_prepare
from motet.core.vsr.wal_recovery import RecoveredSlot, recover
from motet.core.vsr.wal_table import cases
from motet.errors import BadSuperblock, MotetError
from motet.ids import Address, ClusterId, Op, ReplicaIndex
from motet.node.replica_files import FORMAT, Format, decode_format

Row = dict[str, object]
_NOTHING = "-"
_NO_FORMAT = Format(ClusterId(0), ReplicaIndex(0), (Address("r0"),))


class Report(msgspec.Struct, frozen=True):
    """One file in words."""

    kind: str
    summary: dict[str, object]
    #: all have the same columns; none if there is nothing to list
    rows: list[Row]


class Beside(msgspec.Struct, frozen=True):
    """What the folder of a file says about it."""

    format: Format
    is_format_known: bool
    superblock: Superblock | None
    #: why there is none
    trouble: str | None

    @property
    def config(self) -> VsrConfig:
        return self.format.config()


def report_file(file: Path, data: bytes) -> Report | None:
    """The file in words; None if it is none of a replica's."""
    beside = look_beside(file.parent)
    kind = file.name if file.name in (WAL, SUPERBLOCK, REPLIES, GRID) else ""
    if kind == SUPERBLOCK or any(_copy(data, number) for number in range(copies)):
        return report_superblock(data)
    if not beside.is_format_known and decode_header(data[:header_bytes]) is None:
        return None
    if kind == REPLIES:
        return report_replies(data, beside)
    if kind == GRID:
        return report_grid(data, beside)
    if kind == WAL or decode_header(data[:header_bytes]) is not None:
        return report_wal(data, beside)
    return None


def look_beside(folder: Path) -> Beside:
    """What is known from the other files of the folder."""
    one, is_known = _NO_FORMAT, False
    try:
        one, is_known = decode_format((folder / FORMAT).read_bytes()), True
        one.config()
    except (OSError, MotetError):
        one, is_known = _NO_FORMAT, False
    try:
        superblock = read_superblock((folder / SUPERBLOCK).read_bytes())
        return Beside(one, is_known, superblock, None)
    except BadSuperblock as error:
        return Beside(one, is_known, None, error.what)
    except OSError as error:
        return Beside(one, is_known, None, f"the superblock cannot be read: {error.strerror}")


# The superblock


def report_superblock(data: bytes) -> Report:
    """Each copy, which of them agree, and which one is believed."""
    found = [_copy(data, number) for number in range(copies)]
    sums = [None if one is None else superblock_checksum(one) for one in found]
    try:
        believed = read_superblock(data.ljust(superblock_bytes, b"\0"))
        stale = stale_copies(data, believed)
        summary: dict[str, object] = {"believed": _superblock_row(believed)}
        summary["stale_copies"] = list(stale)
    except BadSuperblock as error:
        stale = tuple(range(copies))
        summary = {"believed": None, "why": error.what, "hint": error.advice}
    rows: list[Row] = []
    for number, one in enumerate(found):
        agrees = [n for n, each in enumerate(sums) if each is not None and each == sums[number]]
        row: Row = {"copy": number, "state": "damaged" if one is None else "readable"}
        row |= {"agrees_with": agrees, "is_believed": number not in stale}
        row |= dict.fromkeys(_SHOWN, _NOTHING) if one is None else _superblock_row(one)
        rows.append(row)
    return Report("superblock", summary, rows)


_SHOWN = (
    "format", "cluster", "replica", "members", "epoch", "sequence", "view", "log_view", "commit_max",
    "checkpoint_op", "checkpoint_id", "root_block", "is_syncing",
)  # fmt: skip


def _superblock_row(one: Superblock) -> Row:
    values = (
        one.format_version, one.cluster, one.replica, list(one.members), one.epoch, one.sequence,
        one.view, one.log_view, one.commit_max, one.checkpoint.op, _short(one.checkpoint.id),
        one.checkpoint.root.index, one.syncing,
    )  # fmt: skip
    return dict(zip(_SHOWN, values, strict=True))


def _copy(data: bytes, number: int) -> Superblock | None:
    """One copy alone; read through the same door as all four, as if the others were equal to it."""
    start = number * copy_bytes
    try:
        return read_superblock(data[start : start + copy_bytes].ljust(copy_bytes, b"\0") * copies)
    except BadSuperblock:
        return None


# The log


def report_wal(data: bytes, beside: Beside) -> Report:
    """Each slot: what its header says, what its prepare says, and what follows from both."""
    config = beside.config
    layout = WalLayout.of(config)
    data = data.ljust(layout.size_bytes, b"\xff")
    starts = [layout.prepare_offset(slot) for slot in range(layout.slots)]
    reads = [read_prepare(data, start, start + layout.slot_bytes) for start in starts]
    slots: list[RecoveredSlot] | None = None
    summary: dict[str, object] = {"slots": layout.slots, **_unsure(beside)}
    if beside.superblock is not None and beside.is_format_known:
        at = beside.superblock
        prepare_max = Op(at.checkpoint.op + config.ops_beyond_checkpoint)
        headers = data[: layout.headers_bytes]
        wal = recover(
            layout, headers, reads, at.checkpoint.op, prepare_max,
            solo=config.count == 1, log_view=at.log_view, view_headers=at.view_headers,
        )  # fmt: skip
        slots = wal.slots
        summary |= {
            "head_op": wal.op_head,
            "is_head_certain": wal.head_is_certain,
            "faulty": sum(slot.faulty for slot in slots),
            "cases": dict(sorted(Counter(slot.case for slot in slots).items())),
            "refused": wal.refused,
        }
    decisions = {case.letter: f"{case.decision.value}: {case.why}" for case in cases()}
    rows: list[Row] = []
    for slot, read in enumerate(reads):
        offset = layout.header_offset(slot)
        header = decode_header(data[offset : offset + header_bytes])
        case = _NOTHING if slots is None else slots[slot].case
        row: Row = {"slot": slot, "header": _header_state(header)}
        row |= {"prepare": read.kind.value, **_operation_row(read.header or header)}
        row |= {"case": case, "meaning": decisions.get(case, _NOTHING)}
        rows.append(row)
    summary["prepares"] = dict(sorted(Counter(read.kind.value for read in reads).items()))
    return Report("wal", summary, rows)


def _header_state(header: Header | None) -> str:
    if header is None:
        return "damaged"
    return "reserved" if header.operation == RESERVED else f"op {header.op}"


def _operation_row(header: Header | None) -> Row:
    if header is None or header.operation == RESERVED:
        return dict.fromkeys(("op", "view", "client", "request", "operation", "bytes"), _NOTHING)
    return {
        "op": header.op,
        "view": header.view,
        "client": f"{header.client:x}",
        "request": header.request,
        "operation": header.operation,
        "bytes": header.body_bytes,
    }


# Replies and blocks


def report_replies(data: bytes, beside: Beside) -> Report:
    """The last reply of each session that has one on disk."""
    slot_bytes = reply_slot_bytes(beside.config)
    rows: list[Row] = []
    damaged = empty = 0
    for slot in range(-(-len(data) // slot_bytes)):
        place = data[slot * slot_bytes : (slot + 1) * slot_bytes]
        reply = decode_reply(place)
        if reply is None and not place.strip(b"\0"):
            empty += 1
            continue
        damaged += reply is None
        row: Row = {"slot": slot, "state": "damaged" if reply is None else "whole"}
        if reply is None:
            row |= dict.fromkeys(("client", "request", "op", "bytes"), _NOTHING)
        else:
            row |= {"client": f"{reply.client:x}", "request": reply.request}
            row |= {"op": reply.op, "bytes": len(reply.body)}
        rows.append(row)
    summary = {"replies": len(rows) - damaged, "damaged": damaged, "empty": empty}
    return Report("replies", {**summary, **_unsure(beside)}, rows)


def report_grid(data: bytes, beside: Beside) -> Report:
    """Each block: is it whole, and does the checkpoint need it?"""
    block_bytes = beside.config.block_bytes
    needed = {ref.index: ref for ref in checkpoint_blocks(data, beside)}
    rows: list[Row] = []
    for index in range(max(-(-len(data) // block_bytes), max(needed, default=-1) + 1)):
        raw = data[index * block_bytes : (index + 1) * block_bytes]
        own = BlockRef(index, raw[:16])
        ref = needed.get(index)
        is_whole = decode_block(raw, ref or own) is not None
        size_bytes = int.from_bytes(raw[16:block_overhead_bytes], "little")
        rows.append(
            {
                "block": index,
                "state": "whole" if is_whole else "damaged" if raw.strip(b"\0") else "empty",
                "is_needed": ref is not None,
                "checksum": _short(own.checksum),
                "bytes": size_bytes if is_whole else _NOTHING,
            }
        )
    lost = [row["block"] for row in rows if row["is_needed"] and row["state"] != "whole"]
    summary: dict[str, object] = {"blocks": len(rows), "needed": len(needed), "lost": lost}
    return Report("grid", {**summary, **_unsure(beside)}, rows)


def checkpoint_blocks(data: bytes, beside: Beside) -> list[BlockRef]:
    """All blocks of the checkpoint that can be found: below one that is lost, none is."""
    if beside.superblock is None or not beside.is_format_known:
        return []
    block_bytes = beside.config.block_bytes
    restore = begin_restore(beside.config, beside.superblock.checkpoint.root)
    found: dict[BlockRef, None] = {}
    is_moving = True
    while is_moving and restore.phase not in (RestorePhase.DONE, RestorePhase.NONSENSE):
        is_moving = False
        for ref in restore.wanted(len(restore.missing)):
            found[ref] = None
            raw = data[ref.index * block_bytes : (ref.index + 1) * block_bytes]
            is_moving = restore.give(ref, raw) or is_moving
    return list(found)


def _unsure(beside: Beside) -> dict[str, object]:
    notes: dict[str, object] = {}
    if not beside.is_format_known:
        notes["sizes"] = f"taken to be the defaults: there is no {FORMAT} beside the file"
    if beside.trouble is not None:
        notes["superblock"] = beside.trouble
    return notes


def _short(digest: bytes) -> str:
    return digest.hex()[:12]
