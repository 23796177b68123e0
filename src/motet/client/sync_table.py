"""One table without an event loop: the calls of :mod:`motet.client.table`, each waited for in the portal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from motet.client.portal import Portal
from motet.client.publication import Publication
from motet.client.snapshot import TableSnapshot
from motet.client.table import AsyncTable
from motet.client.tables import Consistency
from motet.core.clock.hlc import Clock
from motet.ids import TableName


class Table:
    """One table of a database."""

    def __init__(self, database: object, portal: Portal, inner: AsyncTable) -> None:
        #: a database that nobody holds any more is closed
        self._database = database
        self._portal = portal
        self._inner = inner

    @property
    def name(self) -> TableName:
        return self._inner.name

    def insert(
        self,
        data: object,
        quorum: int | None = None,
        token: str | tuple[str, int] | None = None,
    ) -> Publication:
        """Insert rows, durably, all of them or none: anything that speaks Arrow, or a list of dicts.

        Columns are matched by name; ``BadSchema`` names one that does not fit. With a token it is
        inserted once however often it is sent; without one a lost answer is an ``OutcomeUnknown``.
        """
        return self._portal.call(self._inner.insert, data, quorum, token)

    def select(
        self,
        columns: Sequence[str] | None = None,
        at: Clock | None = None,
        consistency: Consistency = "sequential",
    ) -> Any:
        """The rows as a ``pyarrow.Table``; of a table that replaces, the latest row of each key."""
        return self._portal.call(self._inner.select, columns, at, consistency)

    def snapshot(self, at: Clock | None = None) -> TableSnapshot:
        """What it is, and which parts it has, now or at a clock."""
        return self._portal.call(self._inner.snapshot, at)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Its rows for any library that speaks Arrow."""
        return self.select().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return repr(self._inner)
