"""Writing to tables: rows become parts at the client, parts go to replicas, and one commit makes them visible.

One part is one ``InsertBlock``: its bytes travel within it, or are put over HTTP before. Several parts, of
several shards or partitions or because there are many rows, are staged each on its quorum, and published
together. A definition is looked up once, and again when the table turns out to be another one: then rows are
made to fit it anew.

Every insert has a token: that of the caller, or a number that this client counts. So whatever is not known to
be done is asked again, through other replicas too, and done once. Each attempt has part ids of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec

from motet.client.publication import Publication, TablePart, checked_parts
from motet.client.rows import whole_number
from motet.client.table_files import TableFiles
from motet.client.table_link import Attempts, TableLink, replica_seconds_max, retry_seconds_max
from motet.client.table_reading import TablePlans
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.messages import (
    BlockInserted,
    InsertBlock,
    PartBytes,
    PartsPublished,
    PartStaged,
    PublishParts,
    StagedPart,
    StagePart,
    TableAt,
    TablePublication,
    TableRequest,
)
from motet.core.mergetree.paths import is_token, name_path
from motet.core.mergetree.version import Version
from motet.errors import BadInput, MotetError, NoSuchTable, OutcomeUnknown
from motet.errors.tables import QuorumFailed, TableMoved
from motet.ids import Address, PartId, RequestId, TableId, TableName
from motet.limits import insert_inline_bytes_max, name_length_max, token_number_max
from motet.ports import Entropy

parts_at_once = 4
"""Parts of one call that are encoded and staged side by side."""

quorum_attempts_max = 3
"""How often a block whose quorum has failed is inserted: a drop may have come in between."""

OWN_PREFIX = "client-"
"""Names of producers that clients make for themselves begin so: they are forgotten when nobody uses them."""


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
        self._client = f"{OWN_PREFIX}{entropy.nonce():016x}"
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
        if not is_token(producer) or producer.startswith(OWN_PREFIX):
            raise BadInput(f"the producer of a token is text of 1 to {name_length_max} characters")
        whole_number("the number of a token", number, 0, token_number_max)
        return TableToken(producer=producer, number=number)
    if not isinstance(token, str) or not is_token(token):
        raise BadInput(
            f"the token of an insert is text of 1 to {name_length_max} characters, or a pair of a"
            " producer's name and a number"
        )
    return TableToken(text=token)


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
        try:
            for is_last in (False, True):
                target = await self.target(name)
                try:
                    data = await asyncio.to_thread(_conformed, target, data)
                    return await self._insert(target, data, wanted, used)
                except (TableMoved, NoSuchTable):
                    self.forget(name)
                    if is_last:
                        raise
        finally:
            self._own_producers.give_back(used)
        raise AssertionError("it is tried at least once")

    async def _insert(
        self, target: Target, block: Any, quorum: int, token: TableToken
    ) -> Publication:
        if not block.num_rows:
            now = (await self._plans.describe([target.table.name])).answer.version
            return Publication(now, (), False, 0)
        content, pieces = await asyncio.to_thread(_divided, target, block)
        if len(pieces) == 1:
            return await self._insert_block(target, pieces[0], quorum, token, content)
        staged = await self._stage_all(target, pieces, quorum)
        table = target.table
        publication = TablePublication(
            target.id,
            table.definition_version,
            tuple(part.staged for part in staged),
            (),
            name_path(table.name),
            table.name_version,
            content,
        )
        return await self._publish((publication,), token, None, block.num_rows)

    async def _insert_block(
        self, target: Target, piece: Piece, quorum: int, token: TableToken, content: str
    ) -> Publication:
        """One part, by one commit of a replica."""
        written = await self._encoded(target, piece)
        attempts = Attempts(retry_seconds_max, may_repeat=True)
        quorums_failed = 0
        while True:
            for node in self._candidates(target, piece.shard):
                part = self._minted(written)
                try:
                    block = await self._bytes_at(node, target, part)
                    message = _InsertOf(target, part, quorum, token, content, block)
                    done = await self._link.ask(node, message, BlockInserted)
                except QuorumFailed:
                    quorums_failed += 1
                    if quorums_failed == quorum_attempts_max:
                        raise
                except MotetError as error:
                    self._link.check_open()
                    attempts.failed(error)
                else:
                    is_duplicate = done.is_duplicate and not token.is_own
                    version = Version(target.version.incarnation, done.version)
                    rows = 0 if is_duplicate else piece.block.num_rows
                    return Publication(version, (done.name,), is_duplicate, rows)
            await attempts.pause()
            target = await self._looked_up_again(target)
