"""Nodes that answer requests about tables as a test says, over a network without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pyarrow as pa

from motet.client.link import Link
from motet.client.table_link import TableLink
from motet.client.tables import Tables
from motet.columnar.definitions import make_definition
from motet.core.machine import Message
from motet.core.mergetree.conversation import TableCall, TablesAnswer
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    BlockInserted,
    DescribeTables,
    InsertBlock,
    ListedPart,
    ListParts,
    NodeRefused,
    NodeRequest,
    PartsListed,
    PartsPublished,
    PartStaged,
    PublishParts,
    ReplicaPlace,
    ShardAt,
    StagePart,
    TableAt,
    TableRefused,
    TableRequest,
    TablesDescribed,
)
from motet.core.mergetree.version import Version
from motet.errors import MotetError
from motet.format.frame import Frame, FrameKind
from motet.ids import Address, NodeId, PartId, TableId, TableName, Zxid
from motet.ports import Delivery

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
NOW = Version("a1b2", Zxid(100))
NODES = ("n0", "n1", "n2")

Script = Callable[[str, Any], Message | MotetError | None]
"""What a node answers: a message, an error that refuses, or nothing at all."""


class ScriptedNodes:
    """A client's network, with these nodes at its other end."""

    address = Address("client")

    def __init__(self, script: Script, wake: Callable[[], None]) -> None:
        self._script, self._wake = script, wake
        #: what was asked, and of whom
        self.asked: list[tuple[str, Any]] = []
        self._decode = msgspec.msgpack.Decoder(TableCall).decode
        self._encode = msgspec.msgpack.Encoder().encode
        self._answers: list[Delivery] = []

    async def start(self) -> None:
        """There is nothing to open."""

    async def stop(self) -> None:
        """Nor to close."""

    def flush(self) -> None:
        """Answers come in a later turn."""
        asyncio.get_running_loop().call_soon(self._wake)

    def send(self, to: Address, frame: Frame) -> bool:
        message = self._decode(frame.body)
        self.asked.append((to, message))
        answer = self._script(to, message)
        if isinstance(answer, MotetError):
            answer = refused(message, answer)
        if answer is not None:
            self._answers.append(Delivery(to, Frame(frame.kind, 0, self._encode(answer))))
        return True

    def take(self, limit: int) -> Sequence[Delivery]:
        taken, self._answers = self._answers[:limit], self._answers[limit:]
        return taken

    def kinds(self, kind: type[Message]) -> list[tuple[str, Any]]:
        """What was asked of this kind."""
        return [(node, message) for node, message in self.asked if isinstance(message, kind)]


def refused(message: Message, error: MotetError) -> Message:
    """As a node tells an error."""
    said = (error.code, error.what, error.advice)
    if isinstance(message, NodeRequest):
        return NodeRefused(message.request, *said)
    assert isinstance(message, TableRequest)
    return TableRefused(message.table, message.shard, message.request, *said)


class Entropy:
    """Counts."""

    def __init__(self) -> None:
        self.last = 0

    def nonce(self) -> int:
        self.last += 1
        return self.last


@asynccontextmanager
async def scripted(  # type: ignore[no-untyped-def]
    script: Script, nodes: Sequence[str] = NODES, joins: str | None = None
):
    """Tables, the link to their nodes, and the network, at whose other end the script answers.

    Another node ``joins`` them, which shows when they are looked up again.
    """
    networks: list[ScriptedNodes] = []

    def network(wake: Callable[[], None]) -> ScriptedNodes:
        networks.append(ScriptedNodes(script, wake))
        return networks[0]

    link: Link[TablesAnswer] = Link({}, FrameKind.TABLES, TablesAnswer, network=network)
    async with link:
        known = {Address(node): f"127.0.0.1:{place + 1}" for place, node in enumerate(nodes)}

        async def look_up() -> None:
            if joins is not None:
                known[Address(joins)] = "127.0.0.1:999"

        ways = TableLink(link, "the cluster", lambda: known, look_up)
        tables = Tables(ways, Entropy())
        yield tables, ways, networks[0]
        await tables.close()


# What nodes say


def table_at(
    name: str = "t",
    number: int = 1,
    *,
    shards: int = 1,
    active: Sequence[str] = NODES,
    head: int = 7,
) -> TableAt:
    """A table with a replica of each shard on every node."""
    table = TableId(f"{number:016x}")
    definition = make_definition(name, table, SCHEMA, ["k"], shards=shards)
    places = tuple(
        ReplicaPlace(NodeId(node), f"127.0.0.1:{place + 1}", node in active, False)
        for place, node in enumerate(NODES)
    )
    shard = ShardAt(head, places)
    return TableAt(TableName(name), 0, definition, 0, (shard,) * shards)


def described(message: DescribeTables, *tables: TableAt) -> TablesDescribed:
    return TablesDescribed(message.request, NOW, tables)


def inserted(message: InsertBlock, *, is_duplicate: bool = False) -> BlockInserted:
    return BlockInserted(
        *(message.table, message.shard, message.request, "p_8.0_8.0_0", Zxid(101), is_duplicate)
    )


def staged(message: StagePart) -> PartStaged:
    return PartStaged(message.table, message.shard, message.request, message.part, ())


def published(message: PublishParts) -> PartsPublished:
    names = tuple(part.header.id for table in message.tables for part in table.parts)
    return PartsPublished(message.request, Version(NOW.incarnation, Zxid(101)), names)


def listed(message: ListParts, *numbers: int, more: bool = False) -> PartsListed:
    parts = tuple(
        ListedPart(f"p_{n}.0_{n}.0_0", PartHeader(PartId(f"{n:016x}"), "p", 1, 100, "hash"))
        for n in numbers
    )
    return PartsListed(message.table, message.shard, message.request, parts, more)
