"""Collecting what is no table."""

from __future__ import annotations

import msgspec
from tests.core.mergetree.service_stand import N1, ServiceStand
from tests.core.mergetree.tables import (
    OTHER,
    TABLE,
    describe,
    filled,
    serving,
)

from motet.core.mergetree.paths import (
    NAMED,
    TABLE_DATA,
    ShardPaths,
    definition_path,
    layout_of,
    node_path,
    table_root,
)
from motet.core.mergetree.tree_collecting import age_ms, first_look_ms, look_ms
from motet.core.metadata.definitions import encode_table_definition
from motet.core.metadata.messages import Create, Write
from motet.ids import NodeId, TableId


def half_made(stand: ServiceStand, table: TableId = OTHER) -> None:
    for path, data in layout_of(table, ((N1,), (N1,)))[:12]:
        stand.write(Create(path, data))


def test_a_tree_without_a_name_goes_after_an_hour() -> None:
    stand = filled("sales")
    half_made(stand)
    stand.tick(first_look_ms)
    stand.tick(age_ms - first_look_ms - 1_000)
    assert stand.tree.names(TABLE_DATA) == (TABLE.id, OTHER)
    stand.tick(look_ms)
    assert stand.tree.names(TABLE_DATA) == (TABLE.id,)


def test_nothing_is_written_where_there_is_nothing_to_collect() -> None:
    stand = filled("sales")
    zxid = describe(stand, "sales").version
    for _ in range(10):
        stand.tick(look_ms)
    assert describe(stand, "sales").version == zxid


def test_a_tree_that_gets_its_name_meanwhile_stays() -> None:
    stand = serving()
    half_made(stand)
    stand.keeper_ms = age_ms
    stand.is_held = True
    stand.tick(first_look_ms)
    while not (isinstance(stand.asked[0], Write) and table_root(OTHER) in repr(stand.asked[0])):
        stand.answer()
    stand.put(table_root(OTHER), NAMED)
    while stand.asked:
        stand.answer()
    assert stand.tree.names(TABLE_DATA) == (OTHER,)


def test_two_who_collect_are_not_in_each_others_way() -> None:
    stand = serving()
    half_made(stand)
    stand.keeper_ms = age_ms
    stand.is_held = True
    stand.tick(first_look_ms)
    while not (isinstance(stand.asked[0], Write) and table_root(OTHER) in repr(stand.asked[0])):
        stand.answer()
    stand.answer()
    for path in reversed(stand.below(table_root(OTHER))[-4:]):
        stand.delete(path)
    while stand.asked:
        stand.answer()
    assert stand.below(TABLE_DATA) == []


def test_a_collection_that_was_cut_off_goes_on() -> None:
    for cut in range(12):
        stand = serving()
        half_made(stand)
        stand.keeper_ms = age_ms
        stand.is_held = True
        stand.tick(first_look_ms)
        for _ in range(cut):
            if stand.asked:
                stand.answer()
        stand.end()
        stand.is_held = False
        stand.begin()
        stand.tick(first_look_ms)
        assert stand.below(TABLE_DATA) == []


def test_a_dropped_table_without_replicas_goes() -> None:
    stand = serving()
    for path, data in layout_of(OTHER, ((NodeId("n9"),), ())):
        stand.write(Create(path, data))
    definition = msgspec.structs.replace(TABLE, id=OTHER, shards=2, is_dropped=True)
    stand.write(Create(definition_path(OTHER), encode_table_definition(definition)))
    stand.put(table_root(OTHER), NAMED)
    stand.tick(first_look_ms)
    assert stand.tree.names(TABLE_DATA) == (OTHER,), "a replica is left"
    replica = ShardPaths(OTHER, 0).replica(NodeId("n9")).root
    for path in reversed([replica, *stand.below(replica)]):
        stand.delete(path)
    stand.tick(look_ms)
    assert stand.tree.names(TABLE_DATA) == ()


def test_what_cannot_be_read_is_let_alone() -> None:
    stand = serving()
    stand.put(node_path(N1), b"0")
    stand.write(Create(table_root(OTHER), NAMED))
    stand.write(Create(definition_path(OTHER), b"{"))
    stand.write(Create(table_root(TableId("junk")), b"junk"))
    stand.tick(age_ms * 2)
    assert stand.tree.names(TABLE_DATA) == (OTHER, "junk")
