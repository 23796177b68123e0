"""Parts on their way to a table: rows are encoded here, sent to replicas, staged, and published together.

A part is sent under an id of its own each time it is tried; what was sent before is collected by whoever got
it. Parts that are staged are held by their replicas for an hour, or as long as the *staging job* that they
belong to is open. A publication is whole or absent, and done once: by its token, its writer's step, or a
number that this client counts.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from motet.client.publication import Publication, TablePart, checked_parts
from motet.client.table_files import TableFiles
from motet.client.table_link import (
    TableAttempts,
    TableLink,
    all_of,
    replica_seconds_max,
    retry_seconds_max,
)
from motet.client.table_targets import TableTargets, Target
from motet.client.table_tokens import (
    OwnProducers,
    TableToken,
    check_job_open,
    job_name,
    quorum_of,
    table_token,
)
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.messages import (
    JobStanding,
    OpenJob,
    PartBytes,
    PartsPublished,
    PartStaged,
    PublishParts,
    RenewJob,
    StagedPart,
    StagePart,
    TablePublication,
)
from motet.core.mergetree.paths import name_path
from motet.errors import BadInput, MotetError, NodeError, NoSuchTable, ObjectError
from motet.errors.tables import TableMoved
from motet.format.part_manifest import encode_part_manifest
from motet.ids import Address, PartId, RequestId, TableId, TableName
from motet.limits import insert_inline_bytes_max
from motet.ports import Entropy

if TYPE_CHECKING:
    from motet.columnar.encode import EncodedPart, EncodedRows

parts_at_once = 4
"""Parts of one call that are staged side by side."""

publish_seconds_max = 60.0
"""How long a publication is asked for: its holders may have to be asked again."""

node_publish_seconds_max = replica_seconds_max
"""How long one node may take for it."""


class PartSender:
    """Makes parts of rows, and has their bytes arrive at replicas."""

    def __init__(self, files: TableFiles, entropy: Entropy) -> None:
        self._files = files
        self._entropy = entropy

    async def encoded(self, target: Target, data: object) -> EncodedRows:
        """The rows as parts of the table."""
        from motet.columnar.encode import encode_parts

        return await asyncio.to_thread(encode_parts, target.table.definition, data, self.new_id)

    def minted(self, made: EncodedPart) -> EncodedPart:
        """The same bytes under a new id: one belongs to one attempt."""
        manifest = msgspec.structs.replace(made.manifest, part_id=self.new_id())
        return replace(made, manifest=manifest, manifest_bytes=encode_part_manifest(manifest))

    def new_id(self) -> PartId:
        return PartId(f"{self._entropy.nonce():016x}")

    async def sent(self, node: Address, part: EncodedPart) -> PartBytes | None:
        """The bytes, if they are to travel within a message; else they have arrived over HTTP."""
        is_small = len(part.manifest_bytes) <= insert_inline_bytes_max
        if part.data is not None and is_small:
            return PartBytes("parquet", part.manifest_bytes, part.data)
        try:
            await self._files.put(node, part)
        except ObjectError as error:
            raise NodeError(error.what, hint=error.advice) from None  # another node may take them
        return None


class TableStaging:
    """Stages and publishes parts of the tables of one database."""

    def __init__(
        self,
        link: TableLink,
        targets: TableTargets,
        sender: PartSender,
        own_producers: OwnProducers,
    ) -> None:
        self._link = link
        self._targets = targets
        self._sender = sender
        self._own_producers = own_producers
        self._turn = asyncio.Semaphore(parts_at_once)

    # Staging

    async def stage(
        self, name: TableName, data: object, quorum: object = None, job: object = None
    ) -> list[TablePart]:
        """Have rows held as parts of a table that nobody sees before they are published."""
        staging_job = job_name(job)
        wanted = quorum_of(quorum)
        target = await self._targets.get(name)
        rows = await self._sender.encoded(target, data)
        try:
            return await self.stage_all(target, rows, wanted, staging_job)
        finally:
            await asyncio.to_thread(rows.remove)

    async def stage_all(
        self, target: Target, rows: EncodedRows, quorum: int, job: str
    ) -> list[TablePart]:
        """Have all parts of a call held; where content is told apart, their hashes are of the call."""
        staged = await all_of(self._stage(target, part, quorum, job) for part in rows.parts)
        if not rows.contents:
            return staged
        call = self._sender.new_id()
        return [
            _with_hash(part, rows.contents[made.place], call)
            for part, made in zip(staged, rows.parts, strict=True)
        ]

    async def _stage(self, target: Target, made: EncodedPart, quorum: int, job: str) -> TablePart:
        """Have one part held."""
        async with self._turn:
            staged = await self._held(target, made, quorum, job)
        held = StagedPart(made.manifest.shard, staged.part, staged.holders)
        return TablePart(target.table.name, target.id, target.table.definition_version, held)

    async def _held(self, target: Target, made: EncodedPart, quorum: int, job: str) -> PartStaged:
        attempts = TableAttempts(retry_seconds_max, may_repeat=True)
        while True:
            for node in self._targets.candidates(target, made.manifest.shard):
                part = self._sender.minted(made)
                try:
                    block = await self._sender.sent(node, part)
                    make = partial(_stage_part, target, part, quorum, job, block)
                    return await self._link.ask(node, make, PartStaged)
                except MotetError as error:
                    self._link.check_open()
                    attempts.failed(error)
            await attempts.pause()
            target = await self._targets.again(target)

    async def open_job(self, job: object, names: Sequence[TableName]) -> None:
        """Begin to stage parts of these tables over a longer time; to repeat it is fine."""
        name, tables = job_name(job), await self._ids_of(names)
        told = await self._link.ask_any(lambda n: OpenJob(n, name, tables), JobStanding)
        check_job_open(name, told.answer)

    async def renew_job(self, job: object, names: Sequence[TableName]) -> None:
        """Say that a job goes on; ``StagingEnded`` if it does not."""
        name, tables = job_name(job), await self._ids_of(names)
        told = await self._link.ask_any(lambda n: RenewJob(n, name, tables), JobStanding)
        check_job_open(name, told.answer)

    async def _ids_of(self, names: Sequence[TableName]) -> tuple[TableId, ...]:
        return tuple([(await self._targets.get(name)).id for name in names])

    # Publishing

    async def publish(
        self, parts: object, token: object, step: object, replaced: object, job: object = None
    ) -> Publication:
        """Make staged parts visible, all of them or none, once."""
        jobs = () if job is None else (job_name(job),)
        staged, given = checked_parts(parts), table_token(token)
        if step is not None and not isinstance(step, WriterStep):
            raise BadInput(f"{type(step).__name__} is not a writer's step")
        if step is not None and given is not None:
            raise BadInput("a publication has a token or a writer's step, not both")
        partitions = replaced_partitions(replaced, staged)
        by_table: dict[TableId, list[TablePart]] = {}
        for part in staged:
            by_table.setdefault(part.table_id, []).append(part)
        filled = [
            _publication(table, own, partitions.get(own[0].table, ()))
            for table, own in by_table.items()
        ]
        names = {own[0].table for own in by_table.values()}
        emptied = {name: each for name, each in partitions.items() if name not in names}
        if not filled and not emptied and step is None:
            raise BadInput("there are no parts to publish", hint="stage some rows first")
        used = given
        if step is None and given is None:
            used = self._own_producers.take()
        try:
            try:
                tables = (*filled, *await self._emptied(emptied))
                return await self.publish_all(tables, used, step, jobs)
            except (TableMoved, NoSuchTable):
                if not emptied:
                    raise
                for name in emptied:
                    self._targets.forget(name)
            tables = (*filled, *await self._emptied(emptied))
            return await self.publish_all(tables, used, step, jobs)
        finally:
            if used is not None:
                self._own_producers.give_back(used)

    async def _emptied(
        self, replaced: Mapping[TableName, tuple[str, ...]]
    ) -> list[TablePublication]:
        """Of tables that lose partitions and get no parts: they are addressed by their names (T27)."""
        targets = [(await self._targets.get(name)).table for name in replaced]
        return [
            TablePublication(
                *(each.definition.id, each.definition_version, (), replaced[each.name]),
                *(name_path(each.name), each.name_version),
                content=_content(0, replaced[each.name]),
            )
            for each in targets
        ]

    async def publish_all(
        self,
        tables: tuple[TablePublication, ...],
        token: TableToken | None,
        step: WriterStep | None,
        jobs: tuple[str, ...] = (),
    ) -> Publication:
        text, producer, number, is_own = token or TableToken()
        told = await self._link.ask_any(
            lambda n: PublishParts(n, tables, text, producer, number, step, jobs),
            PartsPublished,
            node_seconds=node_publish_seconds_max,
            seconds=publish_seconds_max,
        )
        return _published(told.answer, tables, is_own)


def _with_hash(part: TablePart, dedup_hash: str, call: str) -> TablePart:
    staged = msgspec.structs.replace(part.staged, dedup_hash=dedup_hash, dedup_call=call)
    return msgspec.structs.replace(part, staged=staged)


def _published(
    done: PartsPublished, tables: tuple[TablePublication, ...], is_own: bool
) -> Publication:
    """What a caller is told; parts that were left out, since their rows were there, have no names."""
    parts = [part for table in tables for part in table.parts]
    if done.is_duplicate:
        rows = sum(part.header.rows for part in parts) if is_own else 0
        return Publication(done.version, (), not is_own, rows)
    named = [(part, name) for part, name in zip(parts, done.names, strict=False) if name]
    is_duplicate = bool(parts) and not named and not any(table.replace for table in tables)
    rows = sum(part.header.rows for part, _ in named)
    return Publication(done.version, tuple(name for _, name in named), is_duplicate, rows)


def _stage_part(
    target: Target,
    part: EncodedPart,
    quorum: int,
    job: str,
    block: PartBytes | None,
    number: RequestId,
) -> StagePart:
    shard = part.manifest.shard
    return StagePart(target.id, shard, number, part.header, quorum, job, block)


def _publication(
    table: TableId, parts: Sequence[TablePart], replaced: tuple[str, ...]
) -> TablePublication:
    """What one table gets of a publication; it is addressed by its id, whatever it is called now."""
    rows = sum(part.rows for part in parts)
    return TablePublication(
        table,
        max(part.definition_version for part in parts),
        tuple(part.staged for part in parts),
        replaced,
        content=_content(rows, replaced),
    )


def _content(rows: int, replaced: tuple[str, ...]) -> str:
    """The number of rows, since a job that is run again divides them otherwise, and what they replace."""
    if not replaced:
        return f"{rows} rows"
    names = hashlib.sha256("/".join(sorted(replaced)).encode()).hexdigest()
    return f"{rows} rows for {names}"


def replaced_partitions(
    given: object, parts: Sequence[TablePart]
) -> Mapping[TableName, tuple[str, ...]]:
    """What a publication replaces, by table: a list of partitions of its one table, or one for each."""
    names = list(dict.fromkeys(part.table for part in parts))
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(names) != 1:
            raise BadInput(
                "replace is a list of partitions, and there are parts of several tables or none",
                hint="give it as {table: [partition, …]}",
            )
        given = {names[0]: given}
    found = {}
    for name, partitions in given.items():
        if isinstance(partitions, str) or not isinstance(partitions, Iterable):
            raise BadInput(f"replace is a list of partitions, not {partitions!r}")
        found[TableName(name)] = tuple(map(str, partitions))
    return found
