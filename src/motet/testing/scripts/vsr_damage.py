"""Damage to the files of a replica, for scripts: a flipped bit, a write that was cut short."""

from __future__ import annotations

from typing import Literal

from motet.core.machine import Write
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.context import GRID, REPLIES, SUPERBLOCK, WAL
from motet.core.vsr.grid import block_offset
from motet.core.vsr.replies import reply_offset
from motet.core.vsr.sectors import sector_bytes
from motet.core.vsr.superblock import copy_offset
from motet.core.vsr.wal_layout import WalLayout
from motet.errors import BadScenario
from motet.ids import FileName, Op, WriteId
from motet.testing.bench_disk import BenchDisk

What = Literal["prepare", "header", "reply", "block", "superblock"]
inside_bytes = 30
"""How far from its beginning a thing is damaged."""


def flip(config: VsrConfig, disk: BenchDisk, what: What, number: int) -> None:
    """Flip a bit of the prepare or header of an op, of the reply in a slot, of a block or a copy."""
    file, offset = _place(config, what, number)
    content = bytearray(disk.durable.get(file, b""))
    if len(content) <= offset + inside_bytes:
        raise BadScenario(f"there is no {what} {number} to damage")
    content[offset + inside_bytes] ^= 1
    disk.durable[file] = bytes(content)


def _place(config: VsrConfig, what: What, number: int) -> tuple[FileName, int]:
    layout = WalLayout.of(config)
    match what:
        case "prepare":
            return WAL, layout.prepare_offset(layout.slot_of(Op(number)))
        case "header":
            return WAL, layout.header_offset(layout.slot_of(Op(number)))
        case "reply":
            return REPLIES, reply_offset(config, number)
        case "block":
            return GRID, block_offset(number, config.block_bytes)
        case "superblock":
            return SUPERBLOCK, copy_offset(number)


def torn_write(config: VsrConfig, disk: BenchDisk, op: Op, sectors: int) -> tuple[WriteId, int]:
    """The write of this op's prepare that is pending, and how many of its bytes are to survive."""
    layout = WalLayout.of(config)
    offset = layout.prepare_offset(layout.slot_of(op))
    for change in disk.pending:
        if isinstance(change, Write) and (change.file, change.offset) == (WAL, offset):
            return change.id, sectors * sector_bytes
    raise BadScenario(f"no prepare of op {op} is being written", hint="hold-sync on first")
