"""The tables of a database: created, filled, read at one version; and its ordered writers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from motet.client.publication import (
    Publication,
    Snapshot,
    TableInfo,
    TablePart,
    TableSnapshot,
    WriterInfo,
)
from motet.client.rows import need_pyarrow, whole_number
from motet.client.table_files import OwnNode, TableFiles
from motet.client.table_link import TableLink, all_of
from motet.client.table_reading import At, Consistency, TablePlans, check_consistency
from motet.client.table_staging import PartSender, TableStaging
from motet.client.table_standings import TableStandings
from motet.client.table_targets import TableTargets
from motet.client.table_tokens import OwnProducers
from motet.client.table_writers import OrderedWriters, writer_info
from motet.client.table_writing import TableInserts
from motet.core.mergetree.messages import (
    ChangeSettings,
    CreateTable,
    DropTable,
    ListTables,
    NamedTable,
    NodeRequest,
    RenameTable,
    TableChanged,
    TableReady,
    TablesListed,
)
from motet.core.mergetree.version import Version
from motet.core.metadata.definitions import TableDefinition, check_name
from motet.core.metadata.table_settings import check_settings
from motet.errors import (
    BadBytes,
    BadInput,
    DiskReadFailed,
    NodeError,
    NoSuchTable,
    ObjectError,
    OutcomeUnknown,
)
from motet.ids import RequestId, TableId, TableName, WriterName
from motet.ports import Entropy

SYSTEM_PREFIX = "system."
replicas_max = 7
create_seconds_max = 15.0
"""How long a table with many shards may take to be created."""

change_attempts_max = 3

read_attempts_max = 3
"""How often a version is planned anew because parts of it cannot be read."""

R = TypeVar("R")


class Tables:
    """All tables of a database."""

    def __init__(self, link: TableLink, entropy: Entropy, own: OwnNode | None = None) -> None:
        self._link = link
        self._entropy = entropy
        self.files = TableFiles(link, own)
        self.plans = TablePlans(link, self.files)
        self.ordered_writers = OrderedWriters(link)
        self.standings = TableStandings(link)
        self._targets = TableTargets(link, self.plans, entropy)
        sender, own_producers = PartSender(self.files, entropy), OwnProducers(entropy)
        self._staging = TableStaging(link, self._targets, sender, own_producers)
        self._inserts = TableInserts(
            link, self.plans, self._targets, sender, self._staging, own_producers
        )

    async def close(self) -> None:
        """Let what is under way be answered, and forget what was fetched."""
        await self._link.close()
        await self.files.close()

    # What there is

    async def create(
        self,
        name: str,
        replicas: int | None,
        make: Callable[[TableName, TableId], TableDefinition],
    ) -> TableDefinition:
        """Create a table, and wait until a majority of its replicas serve; the same once more is fine."""
        table = table_name(name)
        if replicas is not None:
            whole_number("replicas", replicas, 1, replicas_max)
        need_pyarrow("a table")
        definition = make(table, TableId(f"{self._entropy.nonce():016x}"))
        with self._link.under_way:
            told = await self._link.ask_any(
                lambda n: CreateTable(n, table, definition, replicas),
                TableReady,
                node_seconds=create_seconds_max,
            )
            if told.answer.is_new:
                await self.plans.until_served(table)
        return told.answer.definition

    async def drop(self, name: str) -> None:
        """Remove a table with all its rows."""
        table = table_name(name)
        await self._changed(table, lambda n: DropTable(n, table))

    async def rename(self, name: str, new_name: str) -> None:
        """Give a table another name."""
        table, wanted = table_name(name), table_name(new_name)
        await self._changed(table, lambda n: RenameTable(n, table, wanted))
        self._targets.forget(wanted)

    async def set(self, name: str, changes: dict[str, int | None]) -> None:
        """Change settings of a table."""
        table = table_name(name)
        check_settings(changes)
        with self._link.under_way:
            await self._link.ask_any(lambda n: ChangeSettings(n, table, changes), TableChanged)

    async def _changed(self, name: TableName, make: Callable[[RequestId], NodeRequest]) -> None:
        """Do what must not be done to another table of that name: an unknown outcome is looked up."""
        with self._link.under_way:
            table = (await self.plans.describe([name])).answer.tables[0].definition.id
            for left in reversed(range(change_attempts_max)):
                try:
                    await self._link.ask_any(make, TableChanged, may_repeat=False)
                except OutcomeUnknown:
                    if not left:
                        raise
                    if await self._id_of(name) != table:
                        break
                else:
                    break
        self._targets.forget(name)

    async def _id_of(self, name: TableName) -> TableId | None:
        with suppress(NoSuchTable):
            return (await self.plans.describe([name])).answer.tables[0].definition.id
        return None

    async def named(self) -> list[NamedTable]:
        """All tables, by name."""
        found: list[NamedTable] = []
        with self._link.under_way:
            more = True
            while more:
                after = found[-1].name if found else ""

                def make(number: RequestId, after: str = after) -> ListTables:
                    return ListTables(number, after)

                page = (await self._link.read_any(make, TablesListed)).answer
                found += page.tables
                more = page.more
        return sorted(found, key=lambda each: each.name)

    async def all(self) -> list[TableInfo]:
        """All tables, by name, with their size as any replica knows it."""
        named = await self.named()
        sizes = await all_of(self._size_of(each.name) for each in named)
        return [
            TableInfo(
                *(each.name, each.definition, each.replicas, each.created_ms, *size),
                each.settings,
            )
            for each, size in zip(named, sizes, strict=True)
        ]

    async def _size_of(self, name: TableName) -> tuple[int | None, int | None, int | None]:
        """Parts, rows and bytes."""
        try:
            snapshot = (await self.snapshot([name], None, "eventual"))[name]
        except (NodeError, NoSuchTable):  # no replica can tell now, or it was dropped just now
            return None, None, None
        size_bytes = sum(part.size_bytes for part in snapshot.parts)
        return len(snapshot.parts), snapshot.rows, size_bytes

    # Reading

    async def snapshot(
        self, names: Sequence[str], at: At = None, consistency: Consistency = "sequential"
    ) -> Snapshot:
        """Some tables at one version."""
        if not names:
            raise BadInput("no table is named", hint="name one or more, each as its own argument")
        check_consistency(consistency)
        with self._link.under_way:
            return await self.plans.snapshot([table_name(n) for n in names], at, consistency)

    async def read(
        self,
        names: Sequence[str],
        at: At,
        consistency: Consistency,
        use: Callable[[Snapshot], Awaitable[R]],
    ) -> R:
        """Use the parts of a version; it is planned anew when some of them cannot be read any more."""
        snapshot = await self.snapshot(names, at, consistency)
        for left in reversed(range(read_attempts_max)):
            try:
                with self._link.under_way:
                    return await use(snapshot)
            except (BadBytes, DiskReadFailed, NodeError, ObjectError) as error:
                if not left:
                    named = " and ".join(snapshot.tables)
                    what = f"table {named} cannot be read: {error.what}"
                    raise type(error)(what, hint=error.advice) from None
                is_damage = isinstance(error, BadBytes)
            parts = [part for table in snapshot.tables.values() for part in table.parts]
            self.files.forget(node for part in parts for node in part.location.nodes)
            if is_damage:
                await asyncio.to_thread(self.files.look_for_damage, [p.location for p in parts])
            version = None if consistency == "eventual" else snapshot.version
            snapshot = await self.snapshot(names, version, consistency)
        raise AssertionError("it is tried at least once")

    async def sync(self, name: TableName) -> Version:
        """Wait until all active replicas have the version of this moment."""
        with self._link.under_way:
            return await self.plans.sync(name)

    async def select(
        self,
        name: TableName,
        columns: Sequence[str] | None,
        at: At,
        consistency: Consistency,
        final: bool,
    ) -> Any:
        """The rows of a table."""
        need_pyarrow("a table")

        async def rows_of(snapshot: Snapshot) -> Any:
            return await asyncio.to_thread(_read, snapshot[name], self.files, columns, final)

        return await self.read([name], at, consistency, rows_of)

    # Writing

    async def insert(
        self, name: TableName, data: object, quorum: object, token: object
    ) -> Publication:
        """Insert rows."""
        need_pyarrow("a table")
        with self._link.under_way:
            return await self._inserts.insert(name, data, quorum, token)

    async def stage(
        self, name: str, data: object, quorum: object = None, job: object = None
    ) -> list[TablePart]:
        """Have rows held as parts that nobody sees yet."""
        need_pyarrow("a table")
        with self._link.under_way:
            return await self._staging.stage(table_name(name), data, quorum, job)

    async def open_job(self, job: str, names: Sequence[str]) -> None:
        """Begin to stage parts of these tables over a longer time."""
        with self._link.under_way:
            await self._staging.open_job(job, [table_name(name) for name in names])

    async def renew_job(self, job: str, names: Sequence[str]) -> None:
        """Say that a job goes on."""
        with self._link.under_way:
            await self._staging.renew_job(job, [table_name(name) for name in names])

    async def publish(
        self, parts: object, token: object, step: object, replaced: object, job: object = None
    ) -> Publication:
        """Make staged parts visible."""
        with self._link.under_way:
            return await self._staging.publish(parts, token, step, replaced, job)

    # Ordered writers

    async def writers(self, name: WriterName | None = None) -> list[WriterInfo]:
        """All ordered writers, by name, or the one of this name."""
        standings = await self.ordered_writers.standings(name)
        names = {each.definition.id: each.name for each in await self.named()} if standings else {}
        return [writer_info(each, names) for each in standings]

    async def snapshot_through(self, names: Sequence[str], through: object) -> Snapshot:
        """Some tables of pipelines, as of the first steps that have worked in the feed up to a clock."""
        now = await self.snapshot(names)
        ids = {table.definition.id: name for name, table in now.tables.items()}
        return await self.snapshot(names, await self.ordered_writers.version_through(ids, through))


def table_name(name: object) -> TableName:
    """A name that a table can have."""
    if not isinstance(name, str):
        raise BadInput(f"the name of a table is str, not {type(name).__name__}")
    check_name(name, "a table")
    if name.lower().startswith(SYSTEM_PREFIX):
        raise BadInput(f"{name!r} would be one of the system's own tables")
    return TableName(name)


def _read(
    table: TableSnapshot, files: TableFiles, columns: Sequence[str] | None, final: bool
) -> Any:
    from motet.columnar.part_reader import read_table

    return read_table(table.definition, files.sources(table.files()), columns, final=final)
