"""Parts that clients put over HTTP: each file comes by itself, and with the second one they are a part.

U1  A file is answered for when it is durable. The part has arrived when both are there, the hash of the one
    is what the other says, and its folder has its name. Then the node's machine is told. Nothing of this is a
    promise (T25): it may go at any time, and goes at a restart.
U2  No more than ``put_bytes_max`` is kept of what nothing names. To make room, halves of parts and parts that
    have arrived go when they are older than ``kept_seconds_max``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from motet.core.mergetree.entries import PartHeader, header_of
from motet.errors import BadInput, BadRecord, ObjectExists, TooLarge
from motet.format.part_manifest import MANIFEST_FILE, PART_FILE
from motet.limits import put_bytes_max
from motet.node.part_draft import PartDraft, is_of
from motet.node.part_folders import PartFolders
from motet.real.part_files import PartKey, PartState, find_part, part_folder, read_manifest

kept_seconds_max = 3600.0


@dataclass(frozen=True, slots=True)
class Half:
    """One file of a part, durable, and the other one has not come yet."""

    file: str
    draft: PartDraft
    size_bytes: int
    since: float


class PartUploads:
    """Of one node. Its methods are called in the loop, and do what blocks in threads."""

    def __init__(self, folders: PartFolders, tell: Callable[[PartKey, PartHeader], None]) -> None:
        self._folders = folders
        self._tell = tell
        self._halves: dict[PartKey, Half] = {}
        #: what has arrived through here: how many bytes, and when; some of it is stored by now
        self._arrived: dict[PartKey, tuple[int, float]] = {}
        self._coming_bytes = 0

    async def receive(
        self, key: PartKey, file: str, size_bytes: int, fill: Callable[[PartDraft], Awaitable[None]]
    ) -> bool:
        """Take in one file; whether it is new. ``fill`` writes it, to its end."""
        await self._make_room(size_bytes)
        self._coming_bytes += size_bytes
        try:
            draft = self._folders.begin()
            try:
                await fill(draft)
                return await self._join(key, Half(file, draft, size_bytes, _now()))
            except BaseException:
                await asyncio.shield(asyncio.to_thread(draft.remove))
                raise
        finally:
            self._coming_bytes -= size_bytes

    async def _join(self, key: PartKey, half: Half) -> bool:
        """U1. What is done with a draft here or by who waits for it ends with its removal."""
        found = await asyncio.to_thread(self._is_here, key, half)
        if found is not None:
            await asyncio.to_thread(half.draft.remove)
            if not found:
                raise ObjectExists(f"part {key} is here already, with other bytes")
            return False
        other = self._halves.pop(key, None)
        if other is None or other.file == half.file:
            self._halves[key] = half
            if other is not None:
                await asyncio.to_thread(other.draft.remove)
            return True
        part, manifest = (half, other) if half.file == PART_FILE else (other, half)
        header = await asyncio.shield(
            asyncio.to_thread(self._finish, key, part.draft, manifest.draft)
        )
        self._arrived[key] = header.size_bytes, _now()
        self._tell(key, header)
        return True

    async def _make_room(self, size_bytes: int) -> None:
        """U2."""
        if self._kept_bytes() + size_bytes <= put_bytes_max:
            return
        old = _now() - kept_seconds_max
        for key in [key for key, half in self._halves.items() if half.since < old]:
            await asyncio.to_thread(self._halves.pop(key).draft.remove)
        for key, (_, since) in list(self._arrived.items()):
            if since < old:
                await asyncio.to_thread(self._folders.remove, key, PartState.ARRIVED)
            if not part_folder(self._folders.root, key, PartState.ARRIVED).exists():
                self._arrived.pop(key, None)
        kept_bytes = self._kept_bytes()
        if kept_bytes + size_bytes > put_bytes_max:
            raise TooLarge(
                f"{kept_bytes} bytes of parts were put here that nothing names; "
                f"the limit is {put_bytes_max}",
                hint="insert what was put, or wait until it is forgotten",
            )

    def _kept_bytes(self) -> int:
        halves = sum(half.size_bytes for half in self._halves.values())
        return halves + sum(size for size, _ in self._arrived.values()) + self._coming_bytes

    # In threads -------------------------------------------------------------------------------------

    def _is_here(self, key: PartKey, half: Half) -> bool | None:
        """Whether the part that is here has this very file; None if there is no such part."""
        folder = find_part(self._folders.root, key)
        if folder is None:
            return None
        if half.file == PART_FILE:
            return read_manifest(folder).hash == half.draft.hash
        here, sent = (each / MANIFEST_FILE for each in (folder, half.draft.folder))
        return here.read_bytes() == sent.read_bytes()

    def _finish(self, key: PartKey, draft: PartDraft, other: PartDraft) -> PartHeader:
        try:
            return self._make_part(key, draft, other)
        finally:
            draft.remove()
            other.remove()

    def _make_part(self, key: PartKey, draft: PartDraft, other: PartDraft) -> PartHeader:
        try:
            manifest = read_manifest(other.folder)
        except BadRecord as error:
            raise BadInput(f"part {key}: {error.what}", hint="send both files again") from None
        if not is_of(manifest, key):
            raise BadInput(f"this is the manifest of part {manifest.part_id}, not of {key}")
        if (manifest.hash, manifest.size_bytes) != (draft.hash, draft.size_bytes):
            what = f"{draft.size_bytes} bytes with the hash {draft.hash} are not part {key}"
            raise BadInput(what, hint="send both files again: they do not belong together")
        (other.folder / MANIFEST_FILE).replace(draft.folder / MANIFEST_FILE)
        self._folders.finish(draft, key, PartState.ARRIVED)
        return header_of(manifest)


def _now() -> float:
    return asyncio.get_running_loop().time()
