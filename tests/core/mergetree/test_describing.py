"""Describing and listing tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.mergetree.service_stand import N1, ServiceStand
from tests.core.mergetree.tables import (
    OTHER,
    TABLE,
    append,
    create,
    describe,
    drop,
    filled,
    name,
    rename,
    renamed_elsewhere,
    serving,
)

from motet.core.mergetree.messages import (
    DescribeTables,
    ListTables,
    ReplicaPlace,
    TablesDescribed,
    TablesListed,
)
from motet.core.mergetree.paths import (
    ShardPaths,
    definition_path,
    layout_of,
    name_path,
)
from motet.core.metadata.definitions import encode_table_definition
from motet.core.metadata.messages import Create, Read
from motet.ids import NodeId, RequestId, TableId

# Describing


def test_a_description_has_all_of_one_moment() -> None:
    stand = filled("sales", "other", shards=2)
    append(stand, shard=1)
    append(stand, shard=1)
    told = describe(stand, "other", "sales")
    other, sales = told.tables
    assert (other.name, other.definition.id, sales.name) == ("other", OTHER, "sales")
    assert [shard.head for shard in sales.shards] == [-1, 1]
    assert [shard.head for shard in other.shards] == [-1, -1]
    place = ReplicaPlace(N1, "", is_active=True, is_lost=False)
    assert [shard.replicas for shard in sales.shards] == [(place,), (place,)]
    assert sales.definition == msgspec.structs.replace(TABLE, shards=2)
    assert told.version == stand.node.node.version(told.version.zxid)


def test_the_next_time_one_read_is_enough() -> None:
    stand = filled("sales", "other")
    describe(stand, "sales", "other")
    stand.is_held = True
    stand.ask(DescribeTables(RequestId(8), (name("sales"), name("other"))))
    assert len(stand.asked) == 1
    stand.answer()
    assert isinstance(stand.told[0], TablesDescribed)


def test_a_name_that_has_moved_meanwhile_is_read_again() -> None:
    """A swap between the reads: the answer is of one side of it, never of both."""
    for cut in range(6):
        stand = filled("sales", "other")
        stand.is_held = True
        stand.ask(DescribeTables(RequestId(8), (name("sales"), name("other"))))
        for _ in range(cut):
            if not stand.told:
                stand.answer()
        for old, new in (("sales", "aside"), ("other", "sales"), ("aside", "other")):
            renamed_elsewhere(stand, rename(old, new))
        while not stand.told:
            stand.answer()
        (told,) = stand.told
        assert isinstance(told, TablesDescribed)
        ids = [table.definition.id for table in told.tables]
        assert ids in ([TABLE.id, OTHER], [OTHER, TABLE.id])
        pointer = stand.find(name_path(name("sales")))
        assert pointer is not None
        is_after = told.version.zxid >= pointer.stat.czxid
        assert ids == ([OTHER, TABLE.id] if is_after else [TABLE.id, OTHER])


def test_a_name_that_is_known_and_gone_is_no_table() -> None:
    stand = filled("sales")
    describe(stand, "sales")
    stand.ask(drop())
    refused = stand.refusal(DescribeTables(RequestId(8), (name("sales"),)))
    assert (refused.code, "'sales'" in refused.what) == ("NO_SUCH_TABLE", True)
    stand.ask(create(id=OTHER, shards=3))
    assert len(describe(stand, "sales").tables[0].shards) == 3


def test_a_table_of_many_shards_takes_several_reads_and_is_of_one() -> None:
    stand = ServiceStand("n1:7400")
    stand.is_checked = False
    nodes = (NodeId("n1"), NodeId("n2"), NodeId("n3"))
    definition = msgspec.structs.replace(TABLE, shards=256)
    for path, data in layout_of(TABLE.id, (nodes,) * 256):
        stand.write(Create(path, data))
    stand.write(Create(definition_path(TABLE.id), encode_table_definition(definition)))
    stand.write(Create(name_path(name("sales")), TABLE.id.encode()))
    stand.put(ShardPaths(TABLE.id, 255).replica(NodeId("n3")).host, b"n3:7400")
    stand.put(ShardPaths(TABLE.id, 255).replica(NodeId("n2")).is_lost, b"1")
    stand.begin()
    stand.is_held = True
    stand.ask(DescribeTables(RequestId(8), (name("sales"),)))
    reads: list[Read] = []
    while not stand.told:
        request = stand.asked[0]
        if isinstance(request, Read):
            reads.append(request)
        append(stand, shard=7)
        stand.answer()
    (told,) = stand.told
    assert isinstance(told, TablesDescribed)
    assert max(len(read.operations) for read in reads) <= 500
    assert len(told.tables[0].shards) == 256
    assert told.tables[0].shards[7].head == len(reads) - 1
    first, second, third = told.tables[0].shards[255].replicas
    assert (first.is_lost, second.is_lost, third.endpoint) == (False, True, "n3:7400")
    assert not third.is_active


def test_replicas_that_have_left_are_read_again() -> None:
    stand = filled("sales")
    describe(stand, "sales")
    paths = ShardPaths(TABLE.id, 0)
    for path in reversed([paths.replica(N1).root, *stand.below(paths.replica(N1).root)]):
        stand.delete(path)
    assert describe(stand, "sales").tables[0].shards[0].replicas == ()


@pytest.mark.parametrize(
    ("path", "junk"),
    [
        (definition_path(TABLE.id), b"{"),
        (definition_path(TABLE.id), b""),
        (name_path(name("sales")), b"\xff"),
        (name_path(name("sales")), b"a/../b"),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_junk_is_told_with_the_name_of_its_table(path: str, junk: bytes, is_known: bool) -> None:
    stand = filled("sales", "other")
    if is_known:
        describe(stand, "sales", "other")
    stand.put(path, junk)
    refused = stand.refusal(DescribeTables(RequestId(8), (name("other"), name("sales"))))
    assert (refused.code, "sales" in refused.what) == ("BAD_RECORD", True)
    assert describe(stand, "other").tables[0].definition.id == OTHER


def test_more_shards_than_there_can_be_are_not_read() -> None:
    stand = filled("sales")
    definition = msgspec.structs.replace(TABLE, shards=10_000)
    stand.put(definition_path(TABLE.id), encode_table_definition(definition))
    refused = stand.refusal(DescribeTables(RequestId(8), (name("sales"),)))
    assert "'sales' says 10000 shards" in refused.what


def test_what_is_asked_is_checked() -> None:
    stand = filled("sales")
    for asked in ((), ("sales", "sales"), ("a/b",), tuple(f"t{n}" for n in range(1_001))):
        message = DescribeTables(RequestId(8), tuple(map(name, asked)))
        assert stand.refusal(message).code == "BAD_INPUT"


def test_many_at_once_are_refused() -> None:
    stand = filled("sales")
    stand.is_held, stand.is_checked = True, False
    message = DescribeTables(RequestId(8), (name("sales"),))
    for _ in range(1_000):
        assert stand.ask(message) is None
    assert stand.refusal(message).code == "TABLE_BUSY"


# Listing


def listed(stand: ServiceStand, **asked: Any) -> TablesListed:
    told = stand.ask(ListTables(RequestId(9), **asked))
    assert isinstance(told, TablesListed), told
    return told


def test_tables_are_listed_by_name_with_their_replicas() -> None:
    assert listed(serving()).tables == ()
    stand = filled("sales")
    stand.keeper_ms = 5_000
    stand.ask(create("Others", request=2, id=OTHER, shards=2))
    told = listed(stand)
    assert [(t.name, t.definition.id, t.replicas, t.created_ms) for t in told.tables] == [
        ("Others", OTHER, 1, 5_000),
        ("sales", TABLE.id, 1, 0),
    ]
    assert not told.more


def test_many_tables_are_listed_page_by_page() -> None:
    stand = serving()
    stand.is_checked = False
    for number in range(250):
        stand.ask(create(f"t{number:03}", request=number, id=TableId(f"{number:016x}")))
    found, after, pages = [], "", 0
    while True:
        page = listed(stand, after=after)
        found += [table.name for table in page.tables]
        pages += 1
        if not page.more:
            break
        after = page.tables[-1].name
    assert found == [f"t{number:03}" for number in range(250)]
    assert pages == 3


def test_large_definitions_make_small_pages() -> None:
    stand = serving()
    for number in range(6):
        large = create(f"t{number}", id=TableId(f"{number:016x}"), schema=b"x" * 200_000)
        stand.ask(large)
    page = listed(stand)
    assert 1 < len(page.tables) < 6
    assert page.more


def test_junk_is_left_out_of_the_list() -> None:
    stand = filled("sales", "other", "third")
    stand.put(definition_path(OTHER), b"{")
    stand.put(name_path(name("third")), b"/")
    assert [table.name for table in listed(stand).tables] == ["sales"]
    assert {note.what for note in stand.notes} >= {"table_bad_definition", "table_bad_name"}


def test_pages_of_junk_are_passed_over() -> None:
    stand = filled("sales")
    for number in range(150):
        stand.put(name_path(name(f"junk{number:03}")), b"/")
    page = listed(stand)
    assert [table.name for table in page.tables] == ["sales"]
    assert not page.more
