"""Parts whose files are any bytes, with manifests that are theirs."""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from motet.core.mergetree.entries import PartHeader, header_of
from motet.core.mergetree.messages import PartBytes
from motet.format.part_manifest import PartManifest, encode_part_manifest, packed
from motet.ids import PartId, TableId
from motet.real.part_files import PartKey, PartState, part_folder

TABLE = TableId("00000000000000aa")
SHARD = 1


@dataclass(frozen=True)
class MadePart:
    """A part, its two files, and what is said of it."""

    key: PartKey
    header: PartHeader
    manifest: bytes
    data: bytes

    @property
    def block(self) -> PartBytes:
        return PartBytes("parquet", self.manifest, self.data)

    @property
    def path(self) -> str:
        """Where HTTP has it."""
        return f"/tables/{self.key}"


def made_part(number: int = 1, data: bytes = b"some rows", *, rows: int = 3) -> MadePart:
    """The part of this number, with these bytes."""
    key = PartKey(TABLE, SHARD, PartId(f"{number:016x}"))
    manifest = PartManifest(
        table_id=key.table,
        part_id=key.part,
        shard=key.shard,
        partition="all",
        rows=rows,
        size_bytes=len(data),
        hash=blake3(data).hexdigest(),
        schema_version=0,
        engine="merge",
        order_by=(1,),
        low_key="[1]",
        high_key="[9]",
        columns=(),
        leaves=(),
        row_groups=0,
        piece_lengths=packed([0, len(data)]),
        piece_checksums=packed([0, 0]),
    )
    return MadePart(key, header_of(manifest), encode_part_manifest(manifest), data)


def random_bytes(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def put_on_disk(root: Path, part: MadePart, state: PartState = PartState.STORED) -> Path:
    """As a node has written it; its folder."""
    folder = part_folder(root, part.key, state)
    folder.mkdir(parents=True)
    (folder / "part.parquet").write_bytes(part.data)
    (folder / "manifest").write_bytes(part.manifest)
    return folder


def spoil(file: Path) -> None:
    """Change one byte in the middle, as a disk does that rots."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def no_room(*_: object) -> None:
    """Instead of a call of the system."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
