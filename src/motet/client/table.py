"""One table: rows in, and the rows that are there back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from motet.client.publication import Publication
from motet.client.snapshot import TableSnapshot
from motet.client.tables import Consistency, Tables, table_name
from motet.core.clock.hlc import Clock
from motet.ids import TableName


class AsyncTable:
    """A table by its name; whether there is one shows when it is used."""

    name: TableName

    def __init__(self, tables: Tables, name: str, database: str) -> None:
        self._tables = tables
        self._database = database
        self.name = table_name(name)

    async def insert(
        self,
        data: object,
        quorum: int | None = None,
        token: str | tuple[str, int] | None = None,
    ) -> Publication:
        """Insert rows, durably, all of them or none: anything that speaks Arrow, or a list of dicts.

        Columns are matched by name; ``BadSchema`` names one that does not fit. With a token it is
        inserted once however often it is sent; without one a lost answer is an ``OutcomeUnknown``.
        """
        return await self._tables.insert(self.name, data, quorum, token)

    async def select(
        self,
        columns: Sequence[str] | None = None,
        at: Clock | None = None,
        consistency: Consistency = "sequential",
    ) -> Any:
        """The rows as a ``pyarrow.Table``; of a table that replaces, the latest row of each key."""
        return await self._tables.select(self.name, columns, at, consistency)

    async def snapshot(self, at: Clock | None = None) -> TableSnapshot:
        """What it is, and which parts it has, now or at a clock."""
        return await self._tables.snapshot_of(self.name, at)

    def __repr__(self) -> str:
        return f"<Table {self.name} of {self._database}>"
