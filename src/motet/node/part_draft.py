"""A part while it is written: piece by piece, hashed and synced on the way."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from blake3 import blake3

from motet.core.mergetree.entries import PartHeader, header_of
from motet.errors import BadInput
from motet.format.part_manifest import (
    MANIFEST_FILE,
    PART_FILE,
    PartManifest,
    decode_part_manifest,
)
from motet.limits import MIB
from motet.real.durable import sync_file, write_all
from motet.real.part_files import CHECKED_PARTS, PartKey

sync_every_bytes = 8 * MIB
"""A large file is synced so often while it is written: else the keeper's sync waits for all of it."""


class PartDraft:
    """A part while it is written, in a folder that nobody looks into, and that is made with its first file.

    Threads take turns with it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.size_bytes = 0
        self._hash = blake3()
        self._fd: int | None = None
        self._synced_bytes = 0

    @property
    def hash(self) -> str:
        """Of what was written of the part's file."""
        return str(self._hash.hexdigest())

    def make_folder(self) -> None:
        """Have a folder."""
        self.folder.mkdir(exist_ok=True)

    def write(self, piece: bytes) -> None:
        """Append to the part's file."""
        if self._fd is None:
            self._fd = self._create(PART_FILE)
        write_all(self._fd, piece, self.size_bytes)
        self._hash.update(piece)
        self.size_bytes += len(piece)
        if self.size_bytes - self._synced_bytes >= sync_every_bytes:
            sync_file(self._fd)
            self._synced_bytes = self.size_bytes

    def end_file(self) -> None:
        """All of the part's file was written: it is durable."""
        if self._fd is None:
            self._fd = self._create(PART_FILE)
        sync_file(self._fd)
        CHECKED_PARTS.remember(os.fstat(self._fd), self.hash)
        self.close()

    def write_manifest(self, data: bytes) -> None:
        """The whole manifest; it is durable then."""
        fd = self._create(MANIFEST_FILE)
        try:
            write_all(fd, data, 0)
            sync_file(fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        """No more is written."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def remove(self) -> None:
        """Nobody wants it any more; it may have got its name by now."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _create(self, name: str) -> int:
        self.make_folder()
        return os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)


def check_manifest(key: PartKey, header: PartHeader, data: bytes) -> PartManifest:
    """``BadInput`` unless it is the manifest of this very part."""
    manifest = decode_part_manifest(data)
    if not is_of(manifest, key):
        raise BadInput(f"this is the manifest of part {manifest.part_id}, not of {key}")
    if header_of(manifest) != header:
        raise BadInput(f"the manifest of part {key} says something else than who brings it")
    return manifest


def is_of(manifest: PartManifest, key: PartKey) -> bool:
    return (manifest.table_id, manifest.shard, manifest.part_id) == (key.table, key.shard, key.part)
