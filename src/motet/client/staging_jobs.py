"""Staging jobs as a client sees them: opened, and renewed for as long as somebody stages parts in them."""

from __future__ import annotations

from collections.abc import Sequence

from motet.client.table_link import MakeNodeRequest, TableLink
from motet.client.table_writing import TableWrites, job_name
from motet.core.mergetree.messages import JobStanding, OpenJob, RenewJob
from motet.errors.tables import StagingEnded
from motet.ids import TableId, TableName


class StagingJobs:
    """The staging jobs of one database."""

    def __init__(self, link: TableLink, writes: TableWrites) -> None:
        self._link = link
        self._writes = writes

    async def open(self, job: object, names: Sequence[TableName]) -> None:
        """Begin to stage parts of these tables over a longer time; to repeat it is fine."""
        name, tables = job_name(job), await self._ids_of(names)
        await self._ask(name, lambda n: OpenJob(n, name, tables))

    async def renew(self, job: object, names: Sequence[TableName]) -> None:
        """Say that a job goes on."""
        name, tables = job_name(job), await self._ids_of(names)
        await self._ask(name, lambda n: RenewJob(n, name, tables))

    async def _ids_of(self, names: Sequence[TableName]) -> tuple[TableId, ...]:
        return tuple([(await self._writes.target(name)).id for name in names])

    async def _ask(self, job: str, make: MakeNodeRequest) -> None:
        told = await self._link.ask_any(make, JobStanding)
        if told.answer.value != "open":
            raise StagingEnded(f"staging job {job} is {told.answer.value}")
