"""The tables of a database: created, filled, read at one version; and its ordered writers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

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
from motet.client.table_link import TableLink, all_of, node_seconds_max
from motet.client.table_reading import At, Consistency, TablePlans, check_consistency
from motet.client.table_writing import TableWrites
from motet.core.clock.hlc import Clock
from motet.core.mergetree.messages import (
    CreateTable,
    DescribeReplicas,
    DropTable,
    FindStep,
    ListTables,
    LoggedEntry,
    NamedTable,
    NodeRequest,
    NoteWriter,
    OpenQuorum,
    PublishedStep,
    ReadShardLog,
    ReadSteps,
    ReadWriters,
    RenameTable,
    ReplicasDescribed,
    ReplicaStanding,
    ShardLogIs,
    StepFound,
    StepsAre,
    TableChanged,
    TableReady,
    TablesListed,
    WriterNoted,
    WritersAre,
    WriterStanding,
)
from motet.core.mergetree.version import Version
from motet.core.metadata.definitions import TableDefinition, check_name
from motet.errors import (
    BadBytes,
    BadInput,
    DiskReadFailed,
    MotetError,
    NodeError,
    NoSuchTable,
    ObjectError,
    OutcomeUnknown,
)
from motet.errors.tables import SnapshotExpired
from motet.ids import Address, NodeId, RequestId, TableId, TableName, WriterName
from motet.ports import Entropy

SYSTEM_PREFIX = "system."
replicas_max = 7
create_seconds_max = 15.0
"""How long a table with many shards may take to be created."""

change_attempts_max = 3

read_attempts_max = 3
"""How often a version is planned anew because parts of it cannot be read."""

R = TypeVar("R")


class ReplicaAt(NamedTuple):
    """How it stands with a replica, and where that is."""

    node: NodeId
    endpoint: str
    standing: ReplicaStanding


class LogOf(NamedTuple):
    """The log of a shard, and what waits for a quorum in it."""

    table: TableName
    shard: int
    entries: list[LoggedEntry]
    quorums: list[OpenQuorum]


class Tables:
    """All tables of a database."""

    def __init__(self, link: TableLink, entropy: Entropy, own: OwnNode | None = None) -> None:
        self._link = link
        self._entropy = entropy
        self.files = TableFiles(link, own)
        self.plans = TablePlans(link, self.files)
        self._writes = TableWrites(link, self.plans, self.files, entropy)

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
        """Create a table; the same once more is fine."""
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
        return told.answer.definition

    async def drop(self, name: str) -> None:
        """Remove a table with all its rows."""
        table = table_name(name)
        await self._changed(table, lambda n: DropTable(n, table))

    async def rename(self, name: str, new_name: str) -> None:
        """Give a table another name."""
        table, wanted = table_name(name), table_name(new_name)
        await self._changed(table, lambda n: RenameTable(n, table, wanted))
        self._writes.forget(wanted)

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
        self._writes.forget(name)

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
            TableInfo(each.name, each.definition, each.replicas, each.created_ms, *size)
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

    async def replicas(self) -> list[ReplicaAt]:
        """How it stands with all replicas; those of nodes that do not answer are left out."""
        with self._link.under_way:
            nodes = self._link.all_nodes()
            told = await all_of(self._replicas_at(node) for node in nodes)
        return [
            ReplicaAt(found.node, self._link.endpoint_of(node), each)
            for node, found in zip(nodes, told, strict=True)
            if found is not None
            for each in found.replicas
        ]

    async def logs(self) -> list[LogOf]:
        """The logs of all shards, as the keeper has them; of one that grows, its beginning."""
        shards = [
            (each.name, each.definition.id, shard)
            for each in await self.named()
            for shard in range(each.definition.shards)
        ]
        with self._link.under_way:
            return await all_of(self._log(*each) for each in shards)

    async def _log(self, name: TableName, table: TableId, shard: int) -> LogOf:
        entries: list[LoggedEntry] = []
        quorums: list[OpenQuorum] = []
        first, more = 0, True
        while more:

            def make(number: RequestId, first: int = first) -> ReadShardLog:
                return ReadShardLog(number, table, shard, first)

            try:
                page = (await self._link.read_any(make, ShardLogIs)).answer
            except NoSuchTable:  # it was dropped just now
                break
            entries += page.entries
            quorums += page.quorums
            first, more = page.next_number, page.more
        return LogOf(name, shard, entries, quorums)

    async def _replicas_at(self, node: Address) -> ReplicasDescribed | None:
        try:
            return await self._link.ask(node, DescribeReplicas, ReplicasDescribed, node_seconds_max)
        except MotetError:
            self._link.check_open()
            return None

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

    async def snapshot_through(self, names: Sequence[str], through: object) -> Snapshot:
        """Some tables of pipelines, as of the first steps that have worked in the feed up to a clock."""
        if not isinstance(through, Clock):
            raise BadInput(f"through is a clock of the feed, not {through!r}")
        now = await self.snapshot(names)
        ids = {table.definition.id for table in now.tables.values()}
        writers = [each for each in await self._standings(None) if ids & set(each.tables)]
        if not writers:
            raise BadInput(f"no pipeline writes {', '.join(now.tables)}", hint="use at instead")
        versions = await all_of(self._reached(writer, through) for writer in writers)
        return await self.snapshot(names, max(versions, key=lambda version: version.zxid))

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
            except (BadBytes, DiskReadFailed, ObjectError) as error:
                if not left:
                    named = " and ".join(snapshot.tables)
                    what = f"table {named} cannot be read: {error.what}"
                    raise type(error)(what, hint=error.advice) from None
            parts = [part for table in snapshot.tables.values() for part in table.parts]
            self.files.forget(node for part in parts for node in part.location.nodes)
            version = None if consistency == "eventual" else snapshot.version
            snapshot = await self.snapshot(names, version, consistency)
        raise AssertionError("it is tried at least once")

    async def sync(self, name: TableName) -> Version:
        """Wait until all active replicas have the version of this moment."""
        with self._link.under_way:
            return await self.plans.sync(name)

    async def select(
        self, name: TableName, columns: Sequence[str] | None, at: At, consistency: Consistency
    ) -> Any:
        """The rows of a table."""
        need_pyarrow("a table")

        async def rows_of(snapshot: Snapshot) -> Any:
            return await asyncio.to_thread(_read, snapshot[name], self.files, columns)

        return await self.read([name], at, consistency, rows_of)

    # Writing

    async def insert(
        self, name: TableName, data: object, quorum: object, token: object
    ) -> Publication:
        """Insert rows."""
        need_pyarrow("a table")
        with self._link.under_way:
            return await self._writes.insert(name, data, quorum, token)

    async def stage(
        self, name: str, data: object, quorum: object = None, job: object = None
    ) -> list[TablePart]:
        """Have rows held as parts that nobody sees yet."""
        need_pyarrow("a table")
        with self._link.under_way:
            return await self._writes.stage(table_name(name), data, quorum, job)

    async def open_job(self, job: str, names: Sequence[str]) -> None:
        """Begin to stage parts of these tables over a longer time."""
        with self._link.under_way:
            await self._writes.open_job(job, [table_name(name) for name in names])

    async def renew_job(self, job: str, names: Sequence[str]) -> None:
        """Say that a job goes on."""
        with self._link.under_way:
            await self._writes.renew_job(job, [table_name(name) for name in names])

    async def publish(
        self, parts: object, token: object, step: object, replaced: object, job: object = None
    ) -> Publication:
        """Make staged parts visible."""
        with self._link.under_way:
            return await self._writes.publish(parts, token, step, replaced, job)

    # Ordered writers

    async def writers(self, name: WriterName | None = None) -> list[WriterInfo]:
        """All ordered writers, by name, or the one of this name."""
        standings = await self._standings(name)
        names = {each.definition.id: each.name for each in await self.named()} if standings else {}
        found = [_writer_info(each, names) for each in standings]
        return sorted(found, key=lambda info: info.writer)

    async def _standings(self, name: WriterName | None) -> Sequence[WriterStanding]:
        with self._link.under_way:
            told = await self._link.read_any(lambda n: ReadWriters(n, name), WritersAre)
        return told.answer.writers

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

    async def note_writer(self, name: WriterName, error: str) -> None:
        """Remember an ordered writer's last error."""
        with self._link.under_way:
            await self._link.ask_any(lambda n: NoteWriter(n, name, error), WriterNoted)


def table_name(name: object) -> TableName:
    """A name that a table can have."""
    if not isinstance(name, str):
        raise BadInput(f"the name of a table is str, not {type(name).__name__}")
    check_name(name, "a table")
    if name.lower().startswith(SYSTEM_PREFIX):
        raise BadInput(f"{name!r} would be one of the system's own tables")
    return TableName(name)


def writer_name(name: object) -> WriterName:
    """A name that an ordered writer can have."""
    if not isinstance(name, str):
        raise BadInput(f"the name of an ordered writer is str, not {type(name).__name__}")
    check_name(name, "an ordered writer")
    return WriterName(name)


def _writer_info(standing: WriterStanding, names: Mapping[TableId, TableName]) -> WriterInfo:
    return WriterInfo(
        *(standing.writer, standing.step, standing.version),
        *(standing.published_ms, standing.noted_ms, standing.rows, standing.steps),
        tuple(sorted(names[table] for table in standing.tables if table in names)),
        standing.error,
    )


def _read(table: TableSnapshot, files: TableFiles, columns: Sequence[str] | None) -> Any:
    from motet.columnar.part_reader import read_table

    return read_table(table.definition, files.sources(table.files()), columns)


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
    ) -> Any:
        """The rows as a ``pyarrow.Table``; of a table that replaces, the latest row of each key.

        ``sequential`` reads exactly one version: that of this moment, or ``at`` another one. ``eventual``
        reads what some replica has.
        """
        return await self._tables.select(self.name, columns, at, consistency)

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
