"""Inserting into tables: rows become parts at the client, and one commit makes them visible.

One part is one ``InsertBlock``: its bytes travel within it, or are put over HTTP before. Several parts, of
several shards or partitions or because there are many rows, are staged each on its quorum, and published
together. A definition is looked up once, and again when the table turns out to be another one: then rows are
made to fit it anew.

Every insert has a token: that of the caller, or a number that this client counts. So whatever is not known
to be done is asked again, through other replicas too, and done once. Each attempt has part ids of its own.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from motet.client.publication import Publication
from motet.client.table_link import TableAttempts, TableLink, replica_seconds_max, retry_seconds_max
from motet.client.table_reading import TablePlans
from motet.client.table_staging import PartSender, TableStaging
from motet.client.table_targets import TableTargets, Target
from motet.client.table_tokens import OwnProducers, TableToken, quorum_of, table_token
from motet.core.mergetree.messages import BlockInserted, InsertBlock, PartBytes, TablePublication
from motet.core.mergetree.paths import name_path
from motet.core.mergetree.version import Version
from motet.errors import MotetError, NoSuchTable
from motet.errors.tables import QuorumFailed, TableMoved
from motet.ids import RequestId, TableName

if TYPE_CHECKING:
    from motet.columnar.encode import EncodedPart, EncodedRows

insert_seconds_max = replica_seconds_max
"""How long one replica may take for an insert."""

quorum_attempts_max = 3
"""How often a block whose quorum has failed is inserted: a drop may have come in between."""


class TableInserts:
    """Inserts into the tables of one database."""

    def __init__(
        self,
        link: TableLink,
        plans: TablePlans,
        targets: TableTargets,
        sender: PartSender,
        staging: TableStaging,
        own_producers: OwnProducers,
    ) -> None:
        self._link, self._plans, self._targets = link, plans, targets
        self._sender, self._staging = sender, staging
        self._own_producers = own_producers

    async def insert(
        self, name: TableName, data: object, quorum: object, token: object
    ) -> Publication:
        """Insert rows, all of them or none, once."""
        given, wanted = table_token(token), quorum_of(quorum)
        used = given or self._own_producers.take()
        rows: EncodedRows | None = None
        try:
            while True:
                target = await self._targets.get(name)
                before, rows = rows, await self._sender.encoded(target, data)
                if before is not None and before.rows != rows.rows:
                    raise TableMoved(
                        f"{name} is another table now, and the rows cannot be read once more"
                    )
                try:
                    return await self._insert(target, rows, wanted, used)
                except (TableMoved, NoSuchTable):
                    self._targets.forget(name)
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
        staged = await self._staging.stage_all(target, rows, quorum, "")
        table = target.table
        publication = TablePublication(
            *(target.id, table.definition_version, tuple(part.staged for part in staged), ()),
            *(name_path(table.name), table.name_version, rows.content),
        )
        return await self._staging.publish_all((publication,), token, None)

    async def _insert_block(
        self, target: Target, rows: EncodedRows, quorum: int, token: TableToken
    ) -> Publication:
        """One part, by one commit of a replica."""
        (made,) = rows.parts
        attempts = TableAttempts(retry_seconds_max, may_repeat=True)
        quorums_failed = 0
        while True:
            for node in self._targets.candidates(target, made.manifest.shard):
                part = self._sender.minted(made)
                try:
                    block = await self._sender.sent(node, part)
                    make = partial(_insert_block, target, part, quorum, token, rows, block)
                    done = await self._link.ask(node, make, BlockInserted, insert_seconds_max)
                except QuorumFailed as error:
                    quorums_failed += 1
                    attempts.last = error
                    if quorums_failed == quorum_attempts_max:
                        raise attempts.final() from None
                except MotetError as error:
                    self._link.check_open()
                    attempts.failed(error)
                else:
                    return _inserted(target, done, token, rows.rows)
            await attempts.pause()
            try:
                target = await self._targets.again(target)
            except MotetError as error:
                attempts.last = error
                raise attempts.final() from None


async def _removed(rows: EncodedRows) -> None:
    """Its files are not needed any more; most have none."""
    if any(part.path is not None for part in rows.parts):
        await asyncio.to_thread(rows.remove)


def _insert_block(
    target: Target,
    part: EncodedPart,
    quorum: int,
    token: TableToken,
    rows: EncodedRows,
    block: PartBytes | None,
    number: RequestId,
) -> InsertBlock:
    table = target.table
    return InsertBlock(
        *(target.id, part.manifest.shard, number, part.header, quorum, token.text, rows.content),
        dedup_hash=rows.contents.get(part.place, ""),
        name_path=name_path(table.name),
        name_version=table.name_version,
        producer=token.producer,
        number=token.number,
        block=block,
    )


def _inserted(target: Target, done: BlockInserted, token: TableToken, rows: int) -> Publication:
    is_duplicate = done.is_duplicate and (done.is_by_content or not token.is_own)
    version = Version(done.incarnation or target.version.incarnation, done.version)
    names = (done.name,) if done.name else ()
    return Publication(version, names, is_duplicate, 0 if is_duplicate else rows)
