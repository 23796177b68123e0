"""The files of a new replica.

Only for a replica that has never been: one that has lost its files has promised things with them, and would
deny them with new ones.
"""

from __future__ import annotations

from motet.core.vsr.block_ref import NO_BLOCK
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.context import REPLIES, SUPERBLOCK, WAL
from motet.core.vsr.header import NO_CHECKSUM, root_header
from motet.core.vsr.recovery import format_version
from motet.core.vsr.replies import reply_slot_bytes
from motet.core.vsr.superblock import (
    Checkpoint,
    Superblock,
    copies,
    copy_offset,
    encode_copy,
)
from motet.core.vsr.wal_layout import WalLayout, format_wal
from motet.ids import FileName, Op, ReplicaIndex, View


def format_files(config: VsrConfig, own: ReplicaIndex) -> list[tuple[FileName, int, bytes]]:
    """What to write where, before the first start; the superblock last, since it makes it a replica."""
    layout = WalLayout.of(config)
    writes = [(WAL, offset, data) for offset, data in format_wal(config.cluster, layout)]
    copy = encode_copy(first_superblock(config, own))
    return [*writes, *((SUPERBLOCK, copy_offset(number), copy) for number in range(copies))]


def file_sizes(config: VsrConfig) -> list[tuple[FileName, int]]:
    """How large to make the files from the start, so that a full disk cannot stop what was promised."""
    layout = WalLayout.of(config)
    return [(WAL, layout.size_bytes), (REPLIES, config.clients_max * reply_slot_bytes(config))]


def first_superblock(config: VsrConfig, own: ReplicaIndex) -> Superblock:
    root = root_header(config.cluster)
    return Superblock(
        format_version=format_version,
        cluster=config.cluster,
        replica=own,
        replica_count=config.count,
        members=config.replicas,
        epoch=0,
        sequence=0,
        parent=NO_CHECKSUM,
        view=View(0),
        log_view=View(0),
        commit_max=Op(0),
        view_headers=(root,),
        checkpoint=Checkpoint(Op(0), root, NO_BLOCK, NO_CHECKSUM, NO_CHECKSUM),
        syncing=False,
    )
