"""Which replicas a node has: those that are listed for it, until their tables are dropped."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.mergetree.service_stand import N1, ServiceStand

from motet.core.mergetree.messages import NodeRequest
from motet.core.mergetree.paths import (
    NAMED,
    TABLE_DATA,
    ShardPaths,
    definition_path,
    encode_shards,
    hosted_path,
    layout,
    node_path,
    table_root,
)
from motet.core.mergetree.standing_messages import (
    DescribeReplicas,
    ReplicasDescribed,
    ReplicaStanding,
)
from motet.core.mergetree.work import Clear
from motet.core.metadata.definitions import Column, TableDefinition, encode_table_definition
from motet.core.metadata.messages import Create, Failed, Set, Unknown, Watch
from motet.ids import NodeId, RequestId, TableId

T = TableId("00000000000000aa")
N2 = NodeId("n2")


def definition(table: TableId = T, shards: int = 2) -> TableDefinition:
    return TableDefinition(table, b"schema", (Column(1, "sku"),), ("sku",), shards=shards)


def list_table(stand: ServiceStand, *nodes: NodeId, table: TableId = T, shards: int = 2) -> None:
    """Make a table as whoever creates it does."""
    for path, data in layout(table, shards, nodes):
        stand.write(Create(path, data))
    data = encode_table_definition(definition(table, shards))
    stand.write(Create(definition_path(table), data))
    stand.put(table_root(table), NAMED)
    for node in nodes:
        found = stand.find(node_path(node))
        count = 0 if found is None else int(found.data)
        stand.put(node_path(node), str(count + shards).encode())
        stand.write(Create(hosted_path(node, table), encode_shards(tuple(range(shards)))))


def drop(stand: ServiceStand, table: TableId = T) -> None:
    dropped = msgspec.structs.replace(definition(table), is_dropped=True)
    stand.put(definition_path(table), encode_table_definition(dropped))


def hosted(stand: ServiceStand) -> list[tuple[TableId, int]]:
    return list(stand.node.replicas)


def active(stand: ServiceStand) -> list[tuple[TableId, int]]:
    return [key for key, each in stand.node.replicas.items() if each.phase == "active"]


def noted(stand: ServiceStand, what: str) -> list[str]:
    return [note.detail for note in stand.notes if note.what == f"table_{what}"]


def test_replicas_start_when_their_table_is_listed() -> None:
    stand = ServiceStand()
    stand.begin()
    assert hosted(stand) == []
    list_table(stand, N1)
    assert active(stand) == [(T, 0), (T, 1)]


def test_a_node_that_starts_finds_its_replicas() -> None:
    stand = ServiceStand()
    stand.is_checked = False
    for number in range(250):
        list_table(stand, N1, table=TableId(f"{number:016x}"), shards=1)
    stand.begin()
    assert len(active(stand)) == 250


def test_a_session_that_ends_takes_no_replica_with_it() -> None:
    stand = ServiceStand()
    stand.begin()
    list_table(stand, N1)
    stand.end()
    assert active(stand) == []
    assert hosted(stand) == [(T, 0), (T, 1)]
    stand.begin()
    stand.tick()
    assert active(stand) == [(T, 0), (T, 1)]
    drop(stand)
    assert noted(stand, "dropped") == [T], "definitions are watched under the new session"


@pytest.mark.parametrize("junk", [b"", b"{}", b"\xff", b'{"kind":"table","id":7}'])
def test_a_definition_that_is_none_stops_nobody(junk: bytes) -> None:
    stand = ServiceStand()
    list_table(stand, N1)
    stand.put(definition_path(T), junk)
    stand.begin()
    assert active(stand) == [(T, 0), (T, 1)]
    assert [each.partition(":")[0] for each in noted(stand, "bad_definition")] == [T]
    stand.put(definition_path(T), encode_table_definition(definition()))
    stand.put(definition_path(T), junk)
    stand.tick()
    assert active(stand) == [(T, 0), (T, 1)]


@pytest.mark.parametrize("junk", [b"", b"[-1]", b"[256]", b'{"a":1}', b"\xff"])
def test_a_line_that_is_none_is_noted(junk: bytes) -> None:
    stand = ServiceStand()
    list_table(stand, N1)
    list_table(stand, N1, table=TableId("00000000000000bb"), shards=1)
    stand.put(hosted_path(N1, T), junk)
    stand.begin()
    assert active(stand) == [("00000000000000bb", 0)]
    assert [each.partition(":")[0] for each in noted(stand, "not_hosted")] == [T]


def test_a_line_without_a_table_is_let_alone() -> None:
    stand = ServiceStand()
    stand.put(node_path(N1), b"0")
    stand.put(hosted_path(N1, T), b"[0]")
    stand.begin()
    stand.tick(100_000)
    assert hosted(stand) == []
    assert noted(stand, "not_hosted") == [f"{T} is listed, and the keeper has no such table"]
    assert stand.find(hosted_path(N1, T)) is not None


def test_a_dropped_table_goes_when_readers_had_their_time() -> None:
    stand = ServiceStand()
    stand.begin()
    list_table(stand, N1)
    stand.tick()
    drop(stand)
    stand.tick(59_000)
    assert hosted(stand) == [(T, 0), (T, 1)]
    stand.tick(1_000)
    assert hosted(stand) == []
    assert [each for each in stand.tasks if isinstance(each, Clear)] == [Clear(T, 0), Clear(T, 1)]
    assert stand.removed == [f"table-{T}-0-log", f"table-{T}-1-log"]
    assert stand.below(TABLE_DATA) == []
    assert stand.tree.names(node_path(N1)) == ()
    count = stand.find(node_path(N1))
    assert count is not None
    assert count.data == b"0"
    assert noted(stand, "removed") == [T]


def test_a_table_that_was_dropped_while_the_node_was_down_goes_too() -> None:
    stand = ServiceStand()
    list_table(stand, N1)
    drop(stand)
    stand.keeper_ms = 100_000
    stand.begin()
    assert hosted(stand) == []
    stand.tick()
    assert stand.below(TABLE_DATA) == []


def test_the_last_replica_takes_the_tree_along() -> None:
    stand = ServiceStand()
    list_table(stand, N1, N2)
    stand.begin()
    drop(stand)
    stand.tick(60_000)
    assert stand.tree.names(f"{table_root(T)}/shards/0/replicas") == (N2,)
    assert stand.tree.names(node_path(N1)) == ()
    assert stand.tree.names(node_path(N2)) == (T,)


def test_a_removal_goes_on_under_the_next_session() -> None:
    """Whatever the keeper does not answer, and wherever the session ends, all of it goes at last."""
    for cut in range(20):
        stand = ServiceStand()
        stand.begin()
        list_table(stand, N1)
        drop(stand)
        stand.is_held = True
        stand.tick(60_000)
        for _ in range(cut):
            if stand.asked:
                stand.answer()
        stand.end()
        stand.is_held = False
        stand.begin()
        stand.tick()
        assert hosted(stand) == []
        if stand.below(TABLE_DATA):
            assert stand.tree.names(node_path(N1)) == (), "the collector has the rest"


def test_a_table_is_not_ended_everywhere_as_long_as_it_is_listed_somewhere() -> None:
    """RH3: else another node would remove the tree, and nobody this line."""
    stand = ServiceStand()
    stand.begin()
    list_table(stand, N1)
    drop(stand)
    stand.is_held = True
    stand.tick(60_000)
    while stand.asked:
        stand.answer()
        is_listed = stand.find(hosted_path(N1, T)) is not None
        roots = [ShardPaths(T, shard).replica(N1).root for shard in range(2)]
        assert is_listed == any(stand.find(root) is not None for root in roots)
    assert stand.find(hosted_path(N1, T)) is None


def test_a_watch_that_was_not_set_is_asked_for_again() -> None:
    stand = ServiceStand()
    stand.begin()
    stand.is_held = True
    list_table(stand, N1)
    failed = 0
    for _ in range(100):
        if stand.asked and isinstance(stand.asked[0], Watch) and failed < 2:
            failed += 1
            request = stand.asked.pop(0)
            stand.receive("metadata", Failed(request.request, "NODE", "not reached", "later"))
        elif stand.asked:
            stand.answer()
    assert failed
    stand.is_held = False
    stand.tick()
    drop(stand)
    stand.tick(60_000)
    stand.tick()
    assert hosted(stand) == []


def test_what_the_keeper_does_not_say_is_asked_again() -> None:
    for cut in range(12):
        for kind in ("failed", "unknown", "unknown, and done"):
            stand = ServiceStand()
            stand.begin()
            list_table(stand, N1)
            drop(stand)
            stand.is_held = True
            stand.tick(60_000)
            for _ in range(cut):
                if stand.asked:
                    stand.answer()
            if stand.asked:
                request = stand.asked[0]
                if kind == "failed":
                    stand.asked.pop(0)
                    failed = Failed(request.request, "KEEPER_TOO_LARGE", "too large", "less")
                    stand.receive("metadata", failed)
                elif kind == "unknown":
                    stand.asked.pop(0)
                    stand.receive("metadata", Unknown(request.request))
                else:
                    stand.answer(Unknown(request.request))
            stand.is_held = False
            while stand.asked:
                stand.answer()
            stand.tick()
            stand.tick()
            assert stand.tree.names(node_path(N1)) == ()
            assert hosted(stand) == []


def test_a_count_that_has_changed_is_read_again() -> None:
    stand = ServiceStand()
    stand.begin()
    list_table(stand, N1)
    drop(stand)
    stand.is_held = True
    stand.tick(60_000)
    while not (stand.asked and hosted_path(N1, T) in repr(stand.asked[0])):
        stand.answer()
    stand.answer()
    list_table(stand, N1, table=TableId("00000000000000bb"), shards=3)
    stand.is_held = False
    while stand.asked:
        stand.answer()
    stand.tick()
    count = stand.find(node_path(N1))
    assert count is not None
    assert count.data == b"3"
    assert stand.tree.names(node_path(N1)) == ("00000000000000bb",)


def test_a_folder_that_cannot_be_cleared_is_cleared_later() -> None:
    stand = ServiceStand()
    stand.begin()
    list_table(stand, N1, shards=1)
    drop(stand)
    stand.fails.append("disk")
    stand.tick(60_000)
    assert noted(stand, "not_cleared") == [f"{T}: disk"]
    assert stand.find(hosted_path(N1, T)) is not None
    stand.tick()
    assert stand.find(hosted_path(N1, T)) is None


def test_what_a_replica_has_begun_ends_before_its_folder_goes() -> None:
    stand = ServiceStand()
    stand.begin()
    list_table(stand, N1, shards=1)
    stand.node.node.begin_work((T, 0), Clear(T, 0))
    stand.node.node.take()
    drop(stand)
    stand.tick(60_000)
    stand.tick()
    assert hosted(stand) == []
    assert stand.tasks == stand.tasks[:1], "nothing but the look at its disk"
    stand.node.node.memory.works.clear()
    stand.tick()
    assert stand.below(TABLE_DATA) == []


def test_a_count_that_is_none_counts_for_nothing() -> None:
    stand = ServiceStand()
    list_table(stand, N1)
    found = stand.find(node_path(N1))
    assert found is not None
    stand.write(Set(node_path(N1), b"junk", found.stat.version))
    stand.begin()
    drop(stand)
    stand.tick(60_000)
    count = stand.find(node_path(N1))
    assert count is not None
    assert count.data == b"0"


def test_a_node_tells_how_it_stands_with_its_replicas() -> None:
    stand = ServiceStand()
    stand.begin()
    list_table(stand, N1)
    told = stand.ask(DescribeReplicas(RequestId(1)))
    assert isinstance(told, ReplicasDescribed)
    assert (told.node, [each.shard for each in told.replicas]) == (N1, [0, 1])
    assert told.replicas[0] == ReplicaStanding(T, 0, "active", "", 0, -1, 0, 0, ())
    stand.end()
    told = stand.ask(DescribeReplicas(RequestId(2)))
    assert isinstance(told, ReplicasDescribed)
    assert told.replicas[1].why == "has no session with the keeper"


def test_what_no_service_answers_is_refused() -> None:
    assert ServiceStand().refusal(NodeRequest(RequestId(1))).code == "NODE"
