"""Ordered writers: how far each is, and what went wrong last."""

from __future__ import annotations

from motet.client.calls import Calls
from motet.core.metadata.definitions import check_name
from motet.core.tables.messages import (
    ListWriters,
    NoteWriter,
    ReadWriter,
    WriterInfo,
    WriterIs,
    WriterNotedDone,
    WritersAre,
)
from motet.errors import BadInput
from motet.ids import WriterName
from motet.limits import writer_note_length_max


class Writers:
    """The ordered writers of a database."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def one(self, name: str) -> WriterInfo | None:
        """A writer; None if nobody of that name has published or said anything."""
        writer = writer_name(name)
        return (await self._calls.repeated(lambda n: ReadWriter(n, writer), WriterIs)).info

    async def all(self) -> list[WriterInfo]:
        """All of them, by name."""
        found = await self._calls.repeated(ListWriters, WritersAre)
        return sorted(found.writers, key=lambda info: info.writer)

    async def note(self, name: str, error: str) -> None:
        """Remember a writer's last error; empty when all is well. A long one is cut."""
        writer, text = writer_name(name), error[:writer_note_length_max]
        await self._calls.repeated(lambda n: NoteWriter(n, writer, text), WriterNotedDone)


def writer_name(name: object) -> WriterName:
    """A name that an ordered writer can have."""
    if not isinstance(name, str):
        raise BadInput(f"the name of an ordered writer is str, not {type(name).__name__}")
    check_name(name, "an ordered writer")
    return WriterName(name)
