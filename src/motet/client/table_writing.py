"""Writing to tables: rows become parts at the client, parts go to replicas, and one commit makes them
visible.

One part is one ``InsertBlock``: its bytes travel within it, or are put over HTTP before. Several parts, of
several shards or partitions or because there are many rows, are staged each on its quorum, and published
together. A definition is looked up once, and again when the table turns out to be another one: then rows are
made to fit it anew.

Every insert has a token: that of the caller, or a number that this client counts. So whatever is not known to
be done is asked again, through other replicas too, and done once. Each attempt has part ids of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from motet.client.publication import Publication, TablePart, checked_parts
from motet.client.rows import whole_number
from motet.client.table_files import TableFiles
from motet.client.table_link import (
    TableAttempts,
    TableLink,
    all_of,
    replica_seconds_max,
    retry_seconds_max,
)
from motet.client.table_reading import TablePlans
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.messages import (
    BlockInserted,
    InsertBlock,
    JobStanding,
    OpenJob,
    PartBytes,
    PartsPublished,
    PartStaged,
    PublishParts,
    RenewJob,
    StagedPart,
    StagePart,
    TableAt,
    TablePublication,
)
from motet.core.mergetree.paths import CLIENT_PRODUCER, is_token, name_path
from motet.core.mergetree.version import Version
from motet.errors import BadInput, MotetError, NodeError, NoSuchTable, ObjectError
from motet.errors.tables import QuorumFailed, StagingEnded, TableMoved
from motet.format.part_manifest import encode_part_manifest
from motet.ids import Address, PartId, RequestId, TableId, TableName
from motet.limits import insert_inline_bytes_max, name_length_max, token_number_max
from motet.ports import Entropy

if TYPE_CHECKING:
    from motet.columnar.encode import EncodedPart, EncodedRows

insert_seconds_max = replica_seconds_max
"""How long one node may take for an insert, or for a publication."""

parts_at_once = 4
"""Parts of one call that are encoded and staged side by side."""

publish_seconds_max = 60.0
"""How long a publication is asked for: its holders may have to be asked again."""

quorum_attempts_max = 3
"""How often a block whose quorum has failed is inserted: a drop may have come in between."""


class TableToken(NamedTuple):
    """Names an insert within its table: text, or the number of a producer."""

    text: str = ""
    producer: str = ""
    number: int = 0
    #: made by this client: the call itself is never a repetition
    is_own: bool = False


class OwnProducers:
    """Makes tokens for calls that come without. Calls that are under way at once count by themselves.

    A number is not used by two calls, and the numbers of a producer do not overtake each other.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._client = f"{CLIENT_PRODUCER}{entropy.nonce():016x}"
        self._lanes = count()
        #: names that no call uses now
        self._idle: list[str] = []
        self._numbers: dict[str, int] = {}

    def take(self) -> TableToken:
        name = self._idle.pop() if self._idle else f"{self._client}-{next(self._lanes)}"
        number = self._numbers.get(name, -1) + 1
        self._numbers[name] = number
        return TableToken(producer=name, number=number, is_own=True)

    def give_back(self, token: TableToken) -> None:
        """The call has ended, however it did."""
        if token.is_own:
            self._idle.append(token.producer)


def table_token(token: object) -> TableToken | None:
    """A caller's token."""
    if token is None:
        return None
    if isinstance(token, tuple) and len(token) == 2 and isinstance(token[0], str):
        producer, number = token
        if not is_token(producer) or producer.startswith(CLIENT_PRODUCER):
            raise BadInput(f"the producer of a token is text of 1 to {name_length_max} characters")
        whole_number("the number of a token", number, 0, token_number_max)
        return TableToken(producer=producer, number=number)
    if not isinstance(token, str) or not is_token(token):
        raise BadInput(
            f"the token of an insert is text of 1 to {name_length_max} characters, or a pair of a"
            " producer's name and a number"
        )
    return TableToken(text=token)


def job_name(job: object) -> str:
    """The name of a caller's staging job; empty for none."""
    if job is None:
        return ""
    if not isinstance(job, str) or not is_token(job):
        raise BadInput(
            f"the name of a staging job is text of 1 to {name_length_max} printable characters"
        )
    return job


def check_job_open(job: str, standing: JobStanding) -> None:
    """``StagingEnded`` for a job that is over."""
    if standing.value != "open":
        raise StagingEnded(f"staging job {job} is {standing.value}")


def quorum_of(quorum: object) -> int:
    """A caller's quorum; 0 is the majority."""
    if quorum is None or quorum == "majority":
        return 0
    if isinstance(quorum, bool) or not isinstance(quorum, int) or quorum < 1:
        raise BadInput(f"quorum={quorum!r} is no quorum", hint='use "majority", or 1 and more')
    return quorum


class Target(NamedTuple):
    """A table as it was when it was looked up, and who has told of it."""

    table: TableAt
    told_by: Address
    version: Version

    @property
    def id(self) -> TableId:
        return self.table.definition.id


class TableWrites:
    """Writes to the tables of one database."""

    def __init__(
        self, link: TableLink, plans: TablePlans, files: TableFiles, entropy: Entropy
    ) -> None:
        self._link = link
        self._plans = plans
        self._files = files
        self._entropy = entropy
        self._own_producers = OwnProducers(entropy)
        #: looked up once, until it turns out to be another one
        self._targets: dict[TableName, asyncio.Task[Target]] = {}
        #: replicas of a shard take turns over all clients
        self._spread = entropy.nonce()
        self._turn = asyncio.Semaphore(parts_at_once)

    # Definitions

    async def target(self, name: TableName) -> Target:
        """The table of this name, as it was when it was first used here."""
        task = self._targets.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.get_running_loop().create_task(self._look_up(name))
            self._targets[name] = task
        return await asyncio.shield(task)

    def forget(self, name: TableName) -> None:
        """Look it up again when it is used next."""
        self._targets.pop(name, None)

    async def _look_up(self, name: TableName) -> Target:
        told = await self._plans.describe([name])
        return Target(told.answer.tables[0], told.node, told.answer.version)

    async def _looked_up_again(self, target: Target) -> Target:
        """The same table, with its replicas as they are now; ``TableMoved`` if the name has another one."""
        self.forget(target.table.name)
        again = await self.target(target.table.name)
        if again.id != target.id:
            raise TableMoved(f"{target.table.name} is another table now")
        return again

    # Inserting

    async def insert(
        self, name: TableName, data: object, quorum: object, token: object
    ) -> Publication:
        """Insert rows, all of them or none, once."""
        given, wanted = table_token(token), quorum_of(quorum)
        used = given or self._own_producers.take()
        rows: EncodedRows | None = None
        try:
            while True:
                target = await self.target(name)
                before, rows = rows, await self._encoded(target, data)
                if before is not None and before.rows != rows.rows:
                    raise TableMoved(
                        f"{name} is another table now, and the rows cannot be read once more"
                    )
                try:
                    return await self._insert(target, rows, wanted, used)
                except (TableMoved, NoSuchTable):
                    self.forget(name)
                    if before is not None:
                        raise
                finally:
                    await _removed(rows)
        finally:
            self._own_producers.give_back(used)

    async def _insert(
        self, target: Target, rows: EncodedRows, quorum: int, token: TableToken
    ) -> Publication:
        if not rows.parts:
            now = (await self._plans.describe([target.table.name])).answer.version
            return Publication(now, (), False, 0)
        if len(rows.parts) == 1:
            return await self._insert_block(target, rows, quorum, token)
        staged = await self._stage_all(target, rows.parts, quorum, "")
        table = target.table
        publication = TablePublication(
            *(target.id, table.definition_version, tuple(part.staged for part in staged), ()),
            *(name_path(table.name), table.name_version, rows.content),
        )
        return await self._publish((publication,), token, None, rows.rows)

    async def _insert_block(
        self, target: Target, rows: EncodedRows, quorum: int, token: TableToken
    ) -> Publication:
        """One part, by one commit of a replica."""
        (made,) = rows.parts
        attempts = TableAttempts(retry_seconds_max, may_repeat=True)
        quorums_failed = 0
        while True:
            for node in self._candidates(target, made.manifest.shard):
                part = self._minted(made)
                try:
                    block = await self._sent(node, part)
                    make = partial(_insert_block, target, part, quorum, token, rows.content, block)
                    done = await self._link.ask(node, make, BlockInserted, insert_seconds_max)
                except QuorumFailed:
                    quorums_failed += 1
                    if quorums_failed == quorum_attempts_max:
                        raise
                except MotetError as error:
                    self._link.check_open()
                    attempts.failed(error)
                else:
                    return _inserted(target, done, token, rows.rows)
            await attempts.pause()
            target = await self._looked_up_again(target)

    # Staging and publishing

    async def stage(
        self, name: TableName, data: object, quorum: object = None, job: object = None
    ) -> list[TablePart]:
        """Have rows held as parts of a table that nobody sees before they are published."""
        staging_job = job_name(job)
        wanted = quorum_of(quorum)
        target = await self.target(name)
        rows = await self._encoded(target, data)
        try:
            return await self._stage_all(target, rows.parts, wanted, staging_job)
        finally:
            await _removed(rows)

    async def _stage_all(
        self, target: Target, parts: Sequence[EncodedPart], quorum: int, job: str
    ) -> list[TablePart]:
        return await all_of(self._stage(target, part, quorum, job) for part in parts)

    async def _stage(self, target: Target, made: EncodedPart, quorum: int, job: str) -> TablePart:
        """Have one part held."""
        async with self._turn:
            staged = await self._held(target, made, quorum, job)
        held = StagedPart(made.manifest.shard, staged.part, staged.holders)
        return TablePart(target.table.name, target.id, target.table.definition_version, held)

    async def _held(self, target: Target, made: EncodedPart, quorum: int, job: str) -> PartStaged:
        attempts = TableAttempts(retry_seconds_max, may_repeat=True)
        while True:
            for node in self._candidates(target, made.manifest.shard):
                part = self._minted(made)
                try:
                    block = await self._sent(node, part)
                    make = partial(_stage_part, target, part, quorum, job, block)
                    return await self._link.ask(node, make, PartStaged)
                except MotetError as error:
                    self._link.check_open()
                    attempts.failed(error)
            await attempts.pause()
            target = await self._looked_up_again(target)

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
        return tuple([(await self.target(name)).id for name in names])

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
        tables = [
            _publication(table, own, partitions.get(own[0].table, ()))
            for table, own in by_table.items()
        ]
        tables += await self._emptied(partitions, {own[0].table for own in by_table.values()})
        if not tables and step is None:
            raise BadInput("there are no parts to publish", hint="stage some rows first")
        used = given
        if step is None and given is None:
            used = self._own_producers.take()
        try:
            rows = sum(part.rows for part in staged)
            return await self._publish(tuple(tables), used, step, rows, jobs)
        finally:
            if used is not None:
                self._own_producers.give_back(used)

    async def _emptied(
        self, replaced: Mapping[TableName, tuple[str, ...]], filled: Container[TableName]
    ) -> list[TablePublication]:
        """Of tables that lose partitions and get no parts."""
        targets = [await self.target(name) for name in replaced if name not in filled]
        return [
            TablePublication(
                *(each.id, each.table.definition_version, (), replaced[each.table.name]),
                content="0 rows",
            )
            for each in targets
        ]

    async def _publish(
        self,
        tables: tuple[TablePublication, ...],
        token: TableToken | None,
        step: WriterStep | None,
        rows: int,
        jobs: tuple[str, ...] = (),
    ) -> Publication:
        text, producer, number, is_own = token or TableToken()
        told = await self._link.ask_any(
            lambda n: PublishParts(n, tables, text, producer, number, step, jobs),
            PartsPublished,
            node_seconds=insert_seconds_max,
            seconds=publish_seconds_max,
        )
        done = told.answer
        is_duplicate = done.is_duplicate and not is_own
        return Publication(done.version, done.names, is_duplicate, 0 if is_duplicate else rows)

    # Parts

    async def _encoded(self, target: Target, data: object) -> EncodedRows:
        """The rows as parts of the table."""
        from motet.columnar.encode import encode_parts

        return await asyncio.to_thread(encode_parts, target.table.definition, data, self._new_id)

    def _minted(self, made: EncodedPart) -> EncodedPart:
        """The same bytes under a new id: one belongs to one attempt."""
        manifest = msgspec.structs.replace(made.manifest, part_id=self._new_id())
        return replace(made, manifest=manifest, manifest_bytes=encode_part_manifest(manifest))

    def _new_id(self) -> PartId:
        return PartId(f"{self._entropy.nonce():016x}")

    async def _sent(self, node: Address, part: EncodedPart) -> PartBytes | None:
        """The bytes, if they are to travel within a message; else they have arrived over HTTP."""
        is_small = len(part.manifest_bytes) <= insert_inline_bytes_max
        if part.data is not None and is_small:
            return PartBytes("parquet", part.manifest_bytes, part.data)
        try:
            await self._files.put(node, part)
        except ObjectError as error:
            raise NodeError(error.what, hint=error.advice) from None  # another node may take them
        return None

    def _candidates(self, target: Target, shard: int) -> list[Address]:
        """The replicas that can be written through, in turn for each client; others are active again soon."""
        places = [each for each in target.table.shards[shard].replicas if not each.is_lost]
        active = [each for each in places if each.is_active] or places
        first = self._spread % max(len(active), 1)
        return [
            self._link.node_of(place, target.told_by) for place in active[first:] + active[:first]
        ]


async def _removed(rows: EncodedRows) -> None:
    """Its files are not needed any more; most have none."""
    if any(part.path is not None for part in rows.parts):
        await asyncio.to_thread(rows.remove)


def _insert_block(
    target: Target,
    part: EncodedPart,
    quorum: int,
    token: TableToken,
    content: str,
    block: PartBytes | None,
    number: RequestId,
) -> InsertBlock:
    table = target.table
    return InsertBlock(
        *(target.id, part.manifest.shard, number, part.header, quorum, token.text, content),
        name_path=name_path(table.name),
        name_version=table.name_version,
        producer=token.producer,
        number=token.number,
        block=block,
    )


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


def _inserted(target: Target, done: BlockInserted, token: TableToken, rows: int) -> Publication:
    is_duplicate = done.is_duplicate and not token.is_own
    version = Version(target.version.incarnation, done.version)
    return Publication(version, (done.name,), is_duplicate, 0 if is_duplicate else rows)


def _publication(
    table: TableId, parts: Sequence[TablePart], replaced: tuple[str, ...]
) -> TablePublication:
    """What one table gets of a publication; it is addressed by its id, whatever it is called now.

    Its content is the number of its rows: a job that is run again divides them otherwise.
    """
    rows = sum(part.rows for part in parts)
    return TablePublication(
        table,
        max(part.definition_version for part in parts),
        tuple(part.staged for part in parts),
        replaced,
        content=f"{rows} rows",
    )


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
