"""One table, as users have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from motet.client.publication import Publication, TableSnapshot
from motet.client.table_reading import At, Consistency
from motet.client.tables import Tables, table_name
from motet.core.mergetree.version import Version
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
        quorum: int | str = "majority",
        token: str | tuple[str, int] | None = None,
    ) -> Publication:
        """Insert rows, durably, all of them or none: anything that speaks Arrow, or a list of dicts.

        Columns are matched by name; ``BadSchema`` names one that does not fit. It is visible when so many
        replicas have it. With a token it is inserted once however often it is sent, within the window of
        tokens: 10,000 of a table and an hour; a pair of a producer's name and its own rising number is safe
        for ever, or refused with ``TOKEN_EXPIRED``.
        """
        return await self._tables.insert(self.name, data, quorum, token)

    async def select(
        self,
        columns: Sequence[str] | None = None,
        at: At = None,
        consistency: Consistency = "sequential",
        final: bool = True,
    ) -> Any:
        """The rows as a ``pyarrow.Table``; of a table that replaces, the latest row of each key.

        With ``final=False`` these are all rows that its parts have, tombstones and replaced ones included.

        ``sequential`` reads exactly one version: that of this moment, or ``at`` another one. ``eventual``
        reads what some replica has.
        """
        return await self._tables.select(self.name, columns, at, consistency, final)

    async def snapshot(
        self, at: At = None, consistency: Consistency = "sequential"
    ) -> TableSnapshot:
        """What it is, and which parts it has, at a version: that of this moment, or another one."""
        return (await self._tables.snapshot([self.name], at, consistency))[self.name]

    async def sync(self) -> Version:
        """Wait until all active replicas have the version of this moment, and return it."""
        return await self._tables.sync(self.name)

    def __repr__(self) -> str:
        return f"<Table {self.name} of {self._database}>"
