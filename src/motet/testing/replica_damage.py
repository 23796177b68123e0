"""Rot in the files of a replica that does not run, where it hurts and can be repaired by others."""

from __future__ import annotations

from pathlib import Path

from motet.core.vsr.context import GRID, WAL
from motet.core.vsr.grid import block_offset
from motet.core.vsr.wal_layout import WalLayout
from motet.errors import BadInput
from motet.ids import Op
from motet.node.replica_report import checkpoint_blocks, look_beside, report_wal

_into_sector_bytes = 100


def rot_prepares(folder: Path, count: int) -> list[Op]:
    """Flip a byte in so many prepares above the checkpoint, the lowest of them; which ops they were."""
    beside = look_beside(folder)
    if beside.superblock is None:
        raise BadInput(f"there is no superblock in {folder}: {beside.trouble}")
    layout = WalLayout.of(beside.config)
    rows = report_wal((folder / WAL).read_bytes(), beside).rows
    whole = [row["op"] for row in rows if row["prepare"] == "valid" and row["case"] == "Q"]
    above = sorted(
        Op(op) for op in whole if isinstance(op, int) and op > beside.superblock.checkpoint.op
    )
    for op in above[:count]:
        _flip(folder / WAL, layout.prepare_offset(layout.slot_of(op)) + _into_sector_bytes)
    return above[:count]


def rot_block(folder: Path) -> int | None:
    """Flip a byte in the last block of the checkpoint that can be found, a page; which one it was."""
    beside = look_beside(folder)
    refs = checkpoint_blocks((folder / GRID).read_bytes(), beside)
    if not refs:
        return None
    index = refs[-1].index
    _flip(folder / GRID, block_offset(index, beside.config.block_bytes))
    return index


def _flip(file: Path, offset: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(offset)
        (byte,) = opened.read(1)
        opened.seek(offset)
        opened.write(bytes([byte ^ 0x55]))
