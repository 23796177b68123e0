"""ClickHouse keeps its replicated tables in our keeper as it would in ZooKeeper, and cannot tell them apart.

It is the most demanding of ZooKeeper's users at hand: large multis, numbers from sequential nodes, watches
for everything that goes on, ephemeral nodes for who is there. Each test has a table of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.clickhouse_replicas import QueryFailed, Replica, Replicas, until

from motet.client.keeper.sync import Keeper, connect
from motet.testing.local_cluster import LocalCluster

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(600)]

ROWS_LOST = 20
"""Inserts, and so entries of the log, that a replica is not there for: more than are kept for it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("keeper")
    small = {"MOTET_KEEPER__LOG_SLOTS": "512", "MOTET_KEEPER__CHECKPOINT_OPS": "200"}
    with LocalCluster(3, folder, roles=["keeper"], environment=small) as running:
        yield running


@pytest.fixture(scope="module")
def both(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    keeper = [cluster.zookeeper(i) for i in range(3)]
    with Replicas(tmp_path_factory.mktemp("clickhouse"), keeper) as running:
        yield running


@pytest.fixture
def keeper(cluster: LocalCluster) -> Iterator[Keeper]:
    with connect(",".join(cluster.zookeeper(i) for i in range(3))) as connected:
        yield connected


def rows(replica: Replica, table: str) -> list[int]:
    """The numbers in a table, sorted."""
    return [int(line) for line in replica.ask(f"select n from {table} order by n").split()]


def parts(replica: Replica, table: str) -> list[str]:
    """The parts of a table that count, sorted."""
    found = replica.ask(
        f"select name from system.parts where table = '{table}' and active order by name"
    )
    return found.split()


def until_rows(both: Replicas, table: str, wanted: list[int]) -> None:
    """Until these, and no others, are in the table at both replicas."""
    until(lambda: rows(both.a, table) == wanted, f"{wanted} at a")
    until(lambda: rows(both.b, table) == wanted, f"{wanted} at b")


def insert(replica: Replica, table: str, n: int, day: str = "2020-01-01", **how: object) -> None:
    replica.ask(f"insert into {table} values ('{day}', {n})", **how)


def test_what_is_inserted_at_one_replica_is_at_the_other_and_only_once(
    both: Replicas, keeper: Keeper
) -> None:
    both.create("plain")
    insert(both.a, "plain", 1)
    insert(both.b, "plain", 2)
    insert(both.b, "plain", 1)  # the same block once more
    until_rows(both, "plain", [1, 2])
    assert sorted(keeper.children("/clickhouse/plain/replicas")) == ["a", "b"]
    assert len(keeper.children("/clickhouse/plain/blocks")) == 2


def test_a_quorum_insert_is_read_at_the_other_replica_at_once(both: Replicas) -> None:
    both.create("agreed")
    for n in range(5):
        insert(both.a, "agreed", n, insert_quorum=2)
        seen = both.b.ask("select max(n) from agreed", select_sequential_consistency=1)
        assert seen == f"{n}"


def test_a_quorum_insert_needs_both(both: Replicas) -> None:
    both.create("lonely")
    both.b.kill()
    try:
        with pytest.raises(QueryFailed, match=r"(?i)quorum|live replicas"):
            insert(both.a, "lonely", 1, insert_quorum=2, insert_quorum_timeout=1_000)
    finally:
        both.b.start()
    until(lambda: rows(both.b, "lonely") == [1], "what was under way is there when b is back")


def test_a_merge_leaves_the_same_part_at_both(both: Replicas) -> None:
    both.create("merged")
    for n in range(4):
        insert(both.a if n % 2 else both.b, "merged", n)
    until_rows(both, "merged", [0, 1, 2, 3])
    both.a.ask("optimize table merged final")
    until(lambda: len(parts(both.a, "merged")) == 1, "one part at a")
    until(lambda: parts(both.b, "merged") == parts(both.a, "merged"), "the same at b")
    assert rows(both.b, "merged") == [0, 1, 2, 3]


def test_a_dropped_partition_is_gone_at_both(both: Replicas) -> None:
    both.create("dropped")
    for n in range(10):
        insert(both.a, "dropped", n, "2020-01-01")
    insert(both.b, "dropped", 100, "2020-02-01")
    until(lambda: len(rows(both.a, "dropped")) == 11, "all rows at a")
    both.a.ask("alter table dropped drop partition 202001")
    until_rows(both, "dropped", [100])
    insert(both.b, "dropped", 0, "2020-01-01")  # the same block: what was dropped is not remembered
    until(lambda: rows(both.a, "dropped") == [0, 100], "it can be filled again")


def test_a_replica_that_was_away_too_long_is_lost_and_clones(
    both: Replicas, keeper: Keeper
) -> None:
    both.create("cloned")
    insert(both.a, "cloned", 0)
    until(lambda: rows(both.b, "cloned") == [0], "the first row at b")
    is_lost = "/clickhouse/cloned/replicas/b/is_lost"
    both.b.kill()
    try:
        for n in range(1, ROWS_LOST):
            insert(both.a, "cloned", n)
        until(lambda: keeper.get(is_lost)[0] == b"1", "b is given up")
    finally:
        both.b.start()
    until(lambda: rows(both.b, "cloned") == list(range(ROWS_LOST)), "b has cloned")
    assert keeper.get(is_lost)[0] == b"0"
    insert(both.b, "cloned", ROWS_LOST)
    until(lambda: len(rows(both.a, "cloned")) == ROWS_LOST + 1, "and takes part again")


def test_nodes_of_the_keeper_die_and_no_row_is_lost(both: Replicas, cluster: LocalCluster) -> None:
    both.create("survived")
    for n in range(30):
        if n % 10 == 5:
            cluster.kill(n // 10)
        insert_patiently(both.a, n)
        if n % 10 == 9:
            cluster.restart(n // 10)
    # Nothing is missing, and a block that was tried again is not there twice.
    until_rows(both, "survived", list(range(30)))


def insert_patiently(replica: Replica, n: int) -> None:
    """The same block until it is taken: ClickHouse's session ends with its connection."""

    def is_taken() -> bool:
        try:
            insert(replica, "survived", n)
        except QueryFailed:
            return False
        return True

    until(is_taken, f"row {n} is taken")
