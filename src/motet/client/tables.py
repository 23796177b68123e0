"""The tables of a database: created, filled, read at one clock, and asked in SQL; and its ordered writers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, get_args

from motet.client.calls import Calls
from motet.client.parts import PartStore
from motet.client.publication import (
    Publication,
    Snapshot,
    TableSnapshot,
    checked_parts,
    remove_staged,
    stage_rows,
    token_of_table,
)
from motet.client.rows import need_pyarrow, whole_number
from motet.core.clock.hlc import Clock
from motet.core.metadata.definitions import check_name
from motet.core.tables.checks import check_table_name
from motet.core.tables.messages import (
    CreateTable,
    ListTables,
    Publish,
    PublishDone,
    ReadTable,
    TableInfo,
    TableIs,
    TableReady,
    TablesAre,
)
from motet.core.tables.records import Engine, StagedPart, TableSpec, WriterStep
from motet.errors import BadInput, BadSchema, DiskFull
from motet.ids import TableId, TableName, WriterName
from motet.limits import table_shards_max
from motet.ports import Entropy

Consistency = Literal["sequential", "eventual"]


class Tables:
    """All tables of a database. ``parts`` finds the store of their files when it is first needed."""

    def __init__(
        self, calls: Calls, parts: Callable[[], Awaitable[PartStore]], entropy: Entropy
    ) -> None:
        self._calls = calls
        self._parts = parts
        self._entropy = entropy

    async def create(
        self,
        name: str,
        schema: object,
        order_by: Sequence[str],
        shards: int,
        engine: Engine,
        version: str | None,
        tombstone: str | None,
    ) -> TableSpec:
        """Create a table; the same once more is fine."""
        need_pyarrow("a table")
        from motet.columnar.schema import encode_schema

        table = table_name(name)
        whole_number("shards", shards, 1, table_shards_max)
        if engine not in get_args(Engine):
            raise BadInput(f"{engine!r} is not an engine", hint="use merge or replacing")
        if isinstance(order_by, str):
            order_by = [order_by]
        if not isinstance(order_by, Sequence):
            raise BadInput(f"order_by is a list of columns, not {order_by!r}")
        data = encode_schema(schema, what=f"table {name}")
        identity = TableId(f"{self._entropy.nonce():016x}")
        spec = TableSpec(table, identity, data, tuple(order_by), shards, engine, version, tombstone)
        _check_columns(spec)
        return (await self._calls.repeated(lambda n: CreateTable(n, spec), TableReady)).spec

    async def all(self) -> list[TableInfo]:
        """All tables, by name."""
        found = await self._calls.repeated(ListTables, TablesAre)
        return sorted(found.tables, key=lambda info: info.spec.name)

    async def snapshot_of(self, name: TableName, at: Clock | None = None) -> TableSnapshot:
        """One table, now or at a clock."""
        found = await self._calls.repeated(lambda n: ReadTable(n, name, at), TableIs)
        return TableSnapshot(found.spec, found.clock, found.parts)

    async def snapshot(self, names: Sequence[str], at: Clock | None) -> Snapshot:
        """Some tables at one clock."""
        if not names:
            raise BadInput("no table is named", hint="name one or more, each as its own argument")
        tables: dict[TableName, TableSnapshot] = {}
        for name in names:
            # The first one says what "now" is, for all.
            found = await self.snapshot_of(table_name(name), at)
            tables[found.spec.name], at = found, found.clock
        assert at is not None
        return Snapshot(at, tables)

    async def stage(self, name: str, data: object) -> list[StagedPart]:
        """Write rows as parts of a table that nobody sees yet."""
        need_pyarrow("a table")
        spec = (await self.snapshot_of(table_name(name))).spec
        return await stage_rows(spec, data, await self._parts(), self._entropy)

    async def publish(self, parts: object, token: object, step: object) -> Publication:
        """Make staged parts visible, all of them at once."""
        staged = checked_parts(parts)
        if step is not None and not isinstance(step, WriterStep):
            raise BadInput(f"{type(step).__name__} is not a writer's step")
        named = None
        if token is not None:
            tables = {part.table for part in staged}
            if len(tables) != 1:
                raise BadInput("a token is of one table", hint="publish with a writer's step")
            named = token_of_table(tables.pop(), token)
        return await self._publish(Publish(_NO_REQUEST, staged, named, step))

    async def insert(
        self, name: TableName, data: object, quorum: object, token: object
    ) -> Publication:
        """Stage and publish in one go."""
        need_pyarrow("a table")
        named = token_of_table(name, token)
        if quorum is not None:
            whole_number("quorum", quorum, 1, 1)
        spec = (await self.snapshot_of(name)).spec
        staged = await stage_rows(spec, data, await self._parts(), self._entropy)
        try:
            return await self._publish(Publish(_NO_REQUEST, tuple(staged), named, None))
        except DiskFull:
            await self._remove_unseen(name, staged)
            raise

    async def _remove_unseen(self, name: TableName, staged: Sequence[StagedPart]) -> None:
        """Remove parts that could not be published, unless they are visible after all."""
        visible = {each.part.staged.id for each in (await self.snapshot_of(name)).parts}
        unseen = [part for part in staged if part.id not in visible]
        await remove_staged(unseen, await self._parts())

    async def _publish(self, wanted: Publish) -> Publication:
        # A part is published once, a token and a step are done once: it can be asked for again.
        done = await self._calls.repeated(
            lambda n: Publish(n, wanted.parts, wanted.token, wanted.step), PublishDone
        )
        rows = 0 if done.duplicate else sum(part.rows for part in wanted.parts)
        return Publication(done.clock, done.names, done.duplicate, rows)

    async def select(
        self,
        name: TableName,
        columns: Sequence[str] | None,
        at: Clock | None,
        consistency: Consistency,
    ) -> Any:
        """The rows of a table."""
        need_pyarrow("a table")
        check_consistency(consistency)
        snapshot = await self.snapshot_of(name, at)
        return await asyncio.to_thread(_read, snapshot, await self._parts(), columns)

    async def paths(self, snapshot: TableSnapshot) -> list[Any]:
        """The files of a snapshot on this machine."""
        parts = await self._parts()
        return [await parts.path(key, size_bytes) for key, size_bytes in snapshot.files()]


_NO_REQUEST: Any = 0
"""Stands where the number of a request will be."""


def table_name(name: object) -> TableName:
    """A name that a table can have."""
    if not isinstance(name, str):
        raise BadInput(f"the name of a table is str, not {type(name).__name__}")
    check_table_name(name)
    return TableName(name)


def check_consistency(consistency: object) -> None:
    """``BadInput`` for a consistency there is not. With one replica both read the same."""
    if consistency not in get_args(Consistency):
        raise BadInput(f"{consistency!r} is not a consistency", hint="use sequential or eventual")


def _check_columns(spec: TableSpec) -> None:
    import pyarrow as pa

    from motet.columnar.ordering import check_sortable
    from motet.columnar.schema import decode_schema

    schema = decode_schema(spec.schema)
    wanted = {"order_by": spec.order_by}
    for role in ("version", "tombstone"):
        column = getattr(spec, role)
        if column is not None:
            wanted[role] = (column,)
    for role, columns in wanted.items():
        for column in columns:
            if column not in schema.names:
                raise BadSchema(
                    f"{role} names {column!r}, which is not a column of {spec.name}",
                    hint=f"its columns are {', '.join(schema.names)}",
                )
    check_sortable(schema, (*spec.order_by, *wanted.get("version", ())))
    if spec.tombstone is not None and schema.field(spec.tombstone).type != pa.bool_():
        raise BadSchema(f"the tombstone column {spec.tombstone!r} has to be a boolean")


def _read(snapshot: TableSnapshot, parts: PartStore, columns: Sequence[str] | None) -> Any:
    from motet.columnar.part_file import read_table

    sources = [parts.source(key, size_bytes) for key, size_bytes in snapshot.files()]
    return read_table(snapshot.spec, sources, columns)


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


def writer_name(name: object) -> WriterName:
    """A name that an ordered writer can have."""
    if not isinstance(name, str):
        raise BadInput(f"the name of an ordered writer is str, not {type(name).__name__}")
    check_name(name, "an ordered writer")
    return WriterName(name)
