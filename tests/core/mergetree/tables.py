"""Requests about whole tables, and what others do to them meanwhile."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from tests.core.mergetree.service_stand import N1, ServiceStand

from motet.core.mergetree.entries import InsertEntry, PartHeader, encode_entry
from motet.core.mergetree.messages import (
    CreateTable,
    DescribeTables,
    DropTable,
    NodeAnswer,
    NodeRequest,
    RenameTable,
    TableReady,
    TablesDescribed,
)
from motet.core.mergetree.paths import (
    TABLES,
    ShardPaths,
    definition_path,
    name_path,
)
from motet.core.metadata.definitions import (
    Column,
    TableDefinition,
)
from motet.core.metadata.messages import Create, MetadataRequest, Unknown, Write
from motet.core.metadata.paths import NODES
from motet.ids import PartId, RequestId, TableId, TableName

SALES = TableName("sales")
T = TableId("00000000000000aa")
TABLE = TableDefinition(
    T, b"schema", (Column(1, "sku"), Column(2, "at"), Column(3, "gone")), ("sku", "at")
)


def create(
    name: str = SALES, replicas: int | None = None, request: int = 1, **changed: Any
) -> CreateTable:
    definition = msgspec.structs.replace(TABLE, **changed)
    return CreateTable(RequestId(request), TableName(name), definition, replicas)


def enter(stand: ServiceStand, *names: str, roles: tuple[str, ...] = ("data",)) -> None:
    for name in names:
        entry = {"id": name, "roles": roles, "native": f"{name}:7400", "http": f"{name}:7403"}
        stand.write(Create(f"{NODES}/{name}", json.dumps(entry).encode()))


def serving(*nodes: str) -> ServiceStand:
    """A node of a cluster with these data nodes; without any, of a folder."""
    stand = ServiceStand("n1:7400" if nodes else "")
    enter(stand, *nodes)
    stand.begin()
    return stand


OTHER = TableId("00000000000000ab")


def name(text: str) -> TableName:
    return TableName(text)


def filled(*names: str, shards: int = 1) -> ServiceStand:
    stand = serving()
    for number, each in enumerate(names):
        table = TableId(f"{0xAA + number:016x}")
        ready = stand.ask(create(each, request=100 + number, id=table, shards=shards))
        assert isinstance(ready, TableReady)
    return stand


def drop(text: str = "sales") -> DropTable:
    return DropTable(RequestId(1), name(text))


def rename(old: str, new: str) -> RenameTable:
    return RenameTable(RequestId(1), name(old), name(new))


def describe(stand: ServiceStand, *names: str) -> TablesDescribed:
    told = stand.ask(DescribeTables(RequestId(7), tuple(map(name, names))))
    assert isinstance(told, TablesDescribed), told
    return told


def names(stand: ServiceStand) -> tuple[str, ...]:
    return stand.tree.names(TABLES)


def append(stand: ServiceStand, table: TableId = TABLE.id, shard: int = 0) -> None:
    header = PartHeader(PartId("p"), "p", 1, 1, "hash")
    entry = encode_entry(InsertEntry(header, N1, 1))
    stand.write(Create(ShardPaths(table, shard).new_entry, entry, sequential=True))


def cut_off(stand: ServiceStand, message: NodeRequest, how: str) -> NodeAnswer:
    """Ask for something whose multi is not answered: ``done``, ``lost``, or ``late``."""
    stand.is_held = True
    stand.ask(message)
    while not is_commit(stand.asked[0]):
        stand.answer()
    request = stand.asked[0]
    if how == "done":
        stand.answer(Unknown(request.request))
    else:
        stand.asked.pop(0)
        stand.receive("metadata", Unknown(request.request))
        if how == "late":
            stand.tree.answer(request)
    stand.is_held = False
    while stand.asked:
        stand.answer()
    (told,) = stand.told
    stand.told.clear()
    return told


def is_commit(request: MetadataRequest) -> bool:
    return isinstance(request, Write) and len(request.operations) > 1


def unanswered(stand: ServiceStand, message: NodeRequest) -> None:
    """Ask for something whose multi is lost without an answer."""
    stand.is_held = True
    stand.ask(message)
    while not is_commit(stand.asked[0]):
        stand.answer()
    request = stand.asked.pop(0)
    stand.receive("metadata", Unknown(request.request))


def ended(stand: ServiceStand) -> NodeAnswer:
    stand.is_held = False
    while stand.asked:
        stand.answer()
    (told,) = stand.told
    return told


def renamed_elsewhere(stand: ServiceStand, message: RenameTable) -> None:
    """Another node renames it meanwhile: a move of the name, and the definition set to what it is."""
    old, new = name_path(message.name), name_path(message.new_name)
    pointer = stand.find(old)
    assert pointer is not None
    definition = stand.find(definition_path(TableId(pointer.data.decode())))
    assert definition is not None
    stand.delete(old)
    stand.put(definition.path, definition.data)
    stand.write(Create(new, pointer.data))
