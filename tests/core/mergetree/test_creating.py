"""Creating tables: all of one or nothing, whoever is cut off, and wherever."""

from __future__ import annotations

import pytest
from tests.core.mergetree.service_stand import N1, ServiceStand
from tests.core.mergetree.tables import SALES, T, create, enter, serving

from motet.core.mergetree.creating import place
from motet.core.mergetree.messages import NodeRefused, TableReady
from motet.core.mergetree.paths import (
    NAMED,
    TABLE_DATA,
    TABLES,
    decode_shards,
    definition_path,
    hosted_path,
    name_path,
    node_path,
    table_root,
)
from motet.core.metadata.definitions import decode_table_definition
from motet.core.metadata.messages import Create, Failed, Unknown, Write
from motet.core.metadata.paths import DRAINS, NODES
from motet.core.metadata.zookeeper import why_too_large
from motet.errors.operator import NoNodeToPlaceOn
from motet.format.zookeeper.sizes import WriteLimits
from motet.ids import NodeId, RequestId, TableId, TableName
from motet.limits import KIB


def hosts(stand: ServiceStand, node: str, table: TableId = T) -> tuple[int, ...]:
    found = stand.find(hosted_path(NodeId(node), table))
    return () if found is None else decode_shards(found.data)


def assert_whole(stand: ServiceStand, name: TableName = SALES) -> TableId:
    """There is one table of the name, and its node is told of all of its shards."""
    found = stand.find(name_path(name))
    assert found is not None
    table = TableId(found.data.decode())
    node = stand.find(definition_path(table))
    assert node is not None
    definition = decode_table_definition(node.data)
    assert definition.id == table
    root = stand.find(table_root(table))
    assert root is not None
    assert root.data == NAMED
    assert hosts(stand, N1, table) == tuple(range(definition.shards))
    count = stand.find(node_path(N1))
    assert count is not None
    assert int(count.data) == definition.shards
    return table


def test_a_table_of_a_folder_is_on_its_node() -> None:
    stand = serving()
    ready = stand.ask(create(shards=2))
    assert isinstance(ready, TableReady)
    assert (ready.definition.id, ready.is_new) == (T, True)
    assert_whole(stand)
    assert [each.phase for each in stand.node.replicas.values()] == ["active", "active"]


def test_the_name_comes_last() -> None:
    stand = serving()
    stand.is_held = True
    stand.ask(create(shards=20))
    while not stand.told:
        assert stand.find(name_path(SALES)) is None
        assert not stand.node.replicas
        stand.answer()
    assert_whole(stand)


def test_every_multi_fits_a_folder() -> None:
    limits = WriteLimits(reply_bytes_max=32 * KIB)
    stand = serving(*(f"node-of-a-long-name-{number:03}" for number in range(100)))
    stand.is_held = stand.is_checked = False
    stand.is_held = True
    stand.ask(create(shards=256, replicas=3))
    writes = 0
    while not stand.told:
        request = stand.asked[0]
        if isinstance(request, Write):
            writes += 1
            assert why_too_large(request.operations, limits) is None
        stand.answer()
    assert writes > 10
    assert len(stand.tree.names(f"{table_root(T)}/shards")) == 256


def test_the_same_table_again_is_fine() -> None:
    stand = serving()
    stand.ask(create())
    again = stand.ask(create(id=TableId("00000000000000bb")))
    assert isinstance(again, TableReady)
    assert (again.definition.id, again.is_new) == (T, False)
    assert stand.tree.names(TABLE_DATA) == (T,)


def test_another_table_of_the_name_is_refused() -> None:
    stand = serving()
    stand.ask(create())
    assert stand.refusal(create(shards=2)).code == "TABLE_EXISTS"
    assert stand.refusal(create(engine="replacing")).code == "TABLE_EXISTS"


def test_of_two_who_create_it_one_is_first() -> None:
    stand = serving()
    stand.is_held = True
    stand.ask(create(request=1))
    stand.ask(create(request=2, id=TableId("00000000000000bb")))
    stand.ask(create(request=3, id=TableId("00000000000000cc"), shards=2))
    while stand.asked:
        stand.answer()
    told = {each.request: each for each in stand.told}
    assert isinstance(told[RequestId(1)], TableReady)
    second, third = told[RequestId(2)], told[RequestId(3)]
    assert isinstance(second, TableReady)
    assert (second.definition.id, second.is_new) == (T, False)
    assert isinstance(third, NodeRefused)
    assert third.code == "TABLE_EXISTS"
    assert_whole(stand)


def test_an_id_that_is_taken_is_drawn_anew() -> None:
    stand = serving()
    stand.ask(create())
    ready = stand.ask(create("other"))
    assert isinstance(ready, TableReady)
    assert ready.is_new
    assert ready.definition.id != T
    assert set(stand.tree.names(TABLE_DATA)) == {T, ready.definition.id}


@pytest.mark.parametrize("is_done", [False, True])
def test_whatever_the_keeper_does_not_say_the_table_is_there_once(is_done: bool) -> None:
    """Each answer is lost once: of the tree, of the last multi, and of what settles it."""
    for cut in range(20):
        stand = serving()
        stand.is_held = True
        stand.ask(create(shards=12))
        for _ in range(cut):
            if not stand.told:
                stand.answer()
        if stand.told:
            return
        request = stand.asked[0]
        if is_done:
            stand.answer(Unknown(request.request))
        else:
            stand.asked.pop(0)
            stand.receive("metadata", Unknown(request.request))
        while not stand.told:
            stand.answer()
        stand.is_held = False
        while stand.asked:
            stand.answer()
        (told,) = stand.told
        if isinstance(request, Write):
            assert isinstance(told, TableReady)
            assert told.definition.id == assert_whole(stand)
            assert told.is_new
        assert len(stand.tree.names(TABLES)) <= 1


def test_a_creation_that_was_done_and_dropped_since_is_not_done_twice() -> None:
    stand = serving()
    stand.is_held = True
    stand.ask(create())
    while not (isinstance(stand.asked[0], Write) and name_path(SALES) in repr(stand.asked[0])):
        stand.answer()
    stand.answer(Unknown(stand.asked[0].request))
    stand.delete(name_path(SALES))
    while not stand.told:
        stand.answer()
    assert isinstance(stand.told[0], TableReady)
    assert stand.tree.names(TABLES) == ()


def test_a_session_that_ends_leaves_it_unknown_at_its_last_multi_alone() -> None:
    codes = []
    for cut in range(20):
        stand = serving()
        stand.is_held = True
        stand.ask(create())
        for _ in range(cut):
            if not stand.told:
                stand.answer()
        if stand.told:
            break
        stand.end()
        (told,) = stand.told
        assert isinstance(told, NodeRefused)
        codes.append(told.code)
        is_done = stand.find(name_path(SALES)) is not None
        assert not is_done
    assert codes == ["NODE"] * (len(codes) - 1) + ["OUTCOME_UNKNOWN"]


def test_without_a_session_nothing_is_begun() -> None:
    stand = ServiceStand()
    assert stand.refusal(create()).code == "NODE"


def test_a_tree_that_was_collected_gets_no_name() -> None:
    stand = serving()
    stand.is_held = True
    stand.ask(create())
    while name_path(SALES) not in repr(stand.asked[0]) or not isinstance(stand.asked[0], Write):
        stand.answer()
    stand.put(table_root(T), b"collected")
    while not stand.told:
        stand.answer()
    ready = stand.told[0]
    assert isinstance(ready, TableReady)
    assert ready.definition.id != T
    assert_whole(stand)


def test_a_definition_that_is_too_large_for_the_keeper_is_refused() -> None:
    stand = serving()
    stand.is_held = True
    stand.ask(create())
    while not isinstance(stand.asked[0], Write):
        stand.answer()
    request = stand.asked.pop(0)
    failed = Failed(request.request, "KEEPER_TOO_LARGE", "too large", "less")
    stand.receive("metadata", failed)
    (refused,) = stand.told
    assert isinstance(refused, NodeRefused)
    assert (refused.code, "'sales'" in refused.what) == ("TOO_LARGE", True)


def test_junk_in_place_of_a_name_is_told() -> None:
    stand = serving()
    stand.put(name_path(SALES), b"\xff/..")
    refused = stand.refusal(create())
    assert (refused.code, name_path(SALES) in refused.what) == ("BAD_RECORD", True)


def test_junk_in_place_of_the_definition_is_told_with_the_name() -> None:
    stand = serving()
    stand.ask(create())
    stand.put(definition_path(T), b"{")
    refused = stand.refusal(create())
    assert (refused.code, "'sales'" in refused.what) == ("BAD_RECORD", True)


def test_a_count_that_changes_meanwhile_is_read_again() -> None:
    stand = serving("n1")
    stand.is_held = True
    stand.ask(create())
    while not isinstance(stand.asked[0], Write) or name_path(SALES) not in repr(stand.asked[0]):
        stand.answer()
    stand.write(Create(node_path(N1), b"5"))
    while not stand.told:
        stand.answer()
    count = stand.find(node_path(N1))
    assert count is not None
    assert count.data == b"6"


def test_a_keeper_that_changes_all_the_time_is_given_up() -> None:
    stand = serving("n1")
    stand.is_held = True
    stand.ask(create())
    number = 0
    while not stand.told:
        if isinstance(stand.asked[0], Write) and name_path(SALES) in repr(stand.asked[0]):
            number += 1
            stand.put(node_path(N1), str(number).encode())
        stand.answer()
    told = stand.told[0]
    assert isinstance(told, NodeRefused)
    assert told.code == "TABLE_BUSY"


# Where replicas go


def test_replicas_go_to_living_data_nodes_that_stay() -> None:
    stand = serving("n1", "n2", "n3")
    enter(stand, "k1", roles=("keeper", "operator"))
    stand.write(Create(f"{NODES}/junk", b"{"))
    stand.write(Create(f"{DRAINS}/n2", b""))
    ready = stand.ask(create(replicas=2))
    assert isinstance(ready, TableReady)
    assert hosts(stand, "n1") == hosts(stand, "n3") == (0,)
    assert stand.tree.names(f"{table_root(T)}/shards/0/replicas") == ("n1", "n3")


def test_by_default_a_shard_has_three_replicas_or_as_many_as_there_are_nodes() -> None:
    for count, replicas in ((1, 1), (2, 2), (3, 3), (5, 3)):
        stand = serving(*(f"n{number}" for number in range(1, count + 1)))
        stand.ask(create())
        assert len(stand.tree.names(f"{table_root(T)}/shards/0/replicas")) == replicas


def test_more_replicas_than_nodes_are_refused_with_both_figures() -> None:
    refused = serving("n1", "n2").refusal(create(replicas=3))
    assert refused.code == "NO_NODE_TO_PLACE_ON"
    assert refused.what == "replicas=3 exceeds the 2 data nodes of this database"
    assert refused.advice == "add nodes or pass replicas=2"
    refused = serving().refusal(create(replicas=3))
    assert refused.what == "replicas=3 exceeds the 1 data node of this database"


def test_without_a_data_node_there_is_no_table() -> None:
    stand = ServiceStand("n1:7400")
    stand.begin()
    assert stand.refusal(create()).code == "NO_NODE_TO_PLACE_ON"


def test_the_least_loaded_nodes_are_chosen() -> None:
    stand = serving("n1", "n2", "n3")
    stand.put(node_path(N1), b"9")
    stand.put(node_path(NodeId("n2")), b"junk")
    stand.ask(create(shards=4, replicas=1))
    assert (hosts(stand, "n1"), hosts(stand, "n2"), hosts(stand, "n3")) == ((), (0, 2), (1, 3))


def test_replicas_of_many_shards_are_spread_evenly() -> None:
    counts = {NodeId(f"n{number}"): 0 for number in range(5)}
    ensembles = place(counts, create(shards=100, replicas=3))
    assert {sum(node in each for each in ensembles) for node in counts} == {60}
    assert all(len(set(each)) == 3 for each in ensembles)
    with pytest.raises(NoNodeToPlaceOn):
        place({}, create())


def test_a_keeper_that_is_not_reached_is_told() -> None:
    stand = serving()
    stand.is_held = True
    stand.ask(create())
    request = stand.asked.pop(0)
    stand.receive("metadata", Failed(request.request, "KEEPER", "not reached", "wait"))
    told = stand.told[0]
    assert isinstance(told, NodeRefused)
    assert told.what.endswith("not reached")
