"""The ordered writers of a database, and tables as of a clock of the feed that they work in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from motet.client.publication import WriterInfo
from motet.client.table_link import TableLink, all_of
from motet.core.clock.hlc import Clock
from motet.core.mergetree.messages import (
    FindStep,
    NoteWriter,
    PublishedStep,
    ReadSteps,
    ReadWriters,
    StepFound,
    StepsAre,
    WriterNoted,
    WritersAre,
    WriterStanding,
)
from motet.core.mergetree.version import Version
from motet.core.metadata.definitions import check_name
from motet.errors import BadInput
from motet.errors.tables import SnapshotExpired
from motet.ids import RequestId, TableId, TableName, WriterName


class OrderedWriters:
    """Those of one database."""

    def __init__(self, link: TableLink) -> None:
        self._link = link

    async def standings(self, name: WriterName | None = None) -> Sequence[WriterStanding]:
        """How far all of them are, or the one of this name."""
        with self._link.under_way:
            told = await self._link.read_any(lambda n: ReadWriters(n, name), WritersAre)
        return sorted(told.answer.writers, key=lambda standing: standing.writer)

    async def steps(self, name: WriterName) -> list[PublishedStep]:
        """The steps of an ordered writer that are remembered, the oldest first."""
        found: list[PublishedStep] = []
        with self._link.under_way:
            more = True
            while more:
                after = found[-1].epoch if found else -1

                def make(number: RequestId, after: int = after) -> ReadSteps:
                    return ReadSteps(number, name, after)

                page = (await self._link.read_any(make, StepsAre)).answer
                found += page.steps
                more = page.more and bool(page.steps)
        return found

    async def note(self, name: WriterName, error: str) -> None:
        """Remember an ordered writer's last error."""
        with self._link.under_way:
            await self._link.ask_any(lambda n: NoteWriter(n, name, error), WriterNoted)

    async def version_through(
        self, tables: Mapping[TableId, TableName], through: object
    ) -> Version:
        """The version at which all writers of these tables have worked in the feed up to a clock."""
        if not isinstance(through, Clock):
            raise BadInput(f"through is a clock of the feed, not {through!r}")
        writers = [each for each in await self.standings() if tables.keys() & set(each.tables)]
        if not writers:
            raise BadInput(
                f"no pipeline writes {', '.join(tables.values())}", hint="use at instead"
            )
        versions = await all_of(self._reached(writer, through) for writer in writers)
        return max(versions, key=lambda version: version.zxid)

    async def _reached(self, writer: WriterStanding, through: Clock) -> Version:
        """The version of the first step of a writer that ends at a clock or above."""
        with self._link.under_way:
            told = await self._link.read_any(
                lambda n: FindStep(n, writer.writer, through), StepFound
            )
        if told.answer.step is not None:
            return told.answer.step.version
        if told.answer.is_forgotten:
            raise SnapshotExpired(
                f"the step of {writer.writer} that reached {through} is forgotten"
            )
        so_far = "nothing yet" if writer.step is None else f"up to {writer.step.through}"
        raise BadInput(f"{through} is not visible yet: {writer.writer} has published {so_far}")


def writer_name(name: object) -> WriterName:
    """A name that an ordered writer can have."""
    if not isinstance(name, str):
        raise BadInput(f"the name of an ordered writer is str, not {type(name).__name__}")
    check_name(name, "an ordered writer")
    return WriterName(name)


def writer_info(standing: WriterStanding, names: Mapping[TableId, TableName]) -> WriterInfo:
    """The same for users, with the tables as they are called now."""
    return WriterInfo(
        *(standing.writer, standing.step, standing.version),
        *(standing.published_ms, standing.noted_ms, standing.rows, standing.steps),
        tuple(sorted(names[table] for table in standing.tables if table in names)),
        standing.error,
    )
