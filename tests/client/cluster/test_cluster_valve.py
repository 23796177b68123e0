"""``clock.enabled`` of a cluster: users get no clocks while it is off, and everything else goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from collections.abc import Iterator

import msgspec
import pytest

import motet
import motet.aio
from motet.client.change import Change
from motet.client.cluster.database import AsyncClusterDatabase
from motet.core.clock.hlc import Clock
from motet.core.placement.key_hash import shard_of
from motet.errors import BadInput
from motet.testing.dev_cluster import DevCluster


@pytest.fixture(autouse=True)
def on_again(db: motet.Database) -> Iterator[None]:
    """The cluster is for other tests, too."""
    yield
    db.enable_clock()


def keys_of_shards(shards: int) -> list[str]:
    """One key for each shard, in order."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < shards:
        found.setdefault(shard_of(f"k-{number}".encode(), shards), f"k-{number}")
        number += 1
    return [found[shard] for shard in range(shards)]


def moved(db: motet.Database, stream: str, number: int) -> Clock | None:
    """A transaction over two shards that reads what it changes; its clock."""
    with db.transaction() as txn:
        for key in keys_of_shards(2):
            found = txn.get(stream, key)
            assert (0 if found is None else found.row["n"]) == number - 1
            txn.change(stream, key, "update", row={"n": number})
    return txn.clock


def clocks_of(changes: list[Change]) -> list[Clock | None]:
    return [change.clock for change in changes]


def test_c15_no_clock_while_it_is_off_and_above_everything_before_when_it_is_on_again(
    cluster: DevCluster, db: motet.Database
) -> None:
    db.create_stream("valve", shards=2)
    before = moved(db, "valve", 1)
    assert before is not None
    assert db.clock_enabled()

    db.enable_clock(False)
    assert not db.clock_enabled()
    with pytest.warns(motet.ClockOff, match="clock.enabled is off"):
        assert moved(db, "valve", 2) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once per connection
        assert moved(db, "valve", 3) is None
        db.stream("valve").append("raw", b"value")
    assert db.clock() > before, "the clock itself goes on"
    visible = db.visible_clock("valve", wait=True)
    assert visible > before

    db.enable_clock()
    assert db.clock_enabled()
    after = moved(db, "valve", 4)
    assert after is not None
    assert after > visible > before

    db.visible_clock("valve", wait=True)
    with motet.connect(cluster.endpoints) as other:
        with pytest.warns(motet.ClockOff):
            first = other.changes("valve", limit=4)
        rest = other.changes("valve", after=first.cursor)
        found = [*first.changes, *rest.changes]
        assert clocks_of(found) == [before] * 2 + [None] * 5 + [after] * 2
        numbers = [change.row["n"] for change in found if change.op == "update"]
        assert numbers == [1, 1, 2, 2, 3, 3, 4, 4], "the order is not concerned"
        shown = other.changes("valve").to_arrow()["clock"].to_pylist()
        assert [each is None for each in shown] == [False] * 2 + [True] * 5 + [False] * 2
        entries = [other.stream("valve").read(shard=shard) for shard in (0, 1)]
        assert sum(each.clock is None for some in entries for each in some) == 5
        arrow = [other.stream("valve").read_arrow(shard=shard)["clock"] for shard in (0, 1)]
        assert sum(each.null_count for each in arrow) == 5


def test_a_clock_that_is_to_be_fixed_is_hidden_too(db: motet.Database) -> None:
    db.create_stream("fixed", shards=2)
    db.enable_clock(False)
    with db.transaction() as txn:
        for key in keys_of_shards(2):
            txn.change("fixed", key, "insert", row={"n": 1})
        with pytest.warns(motet.ClockOff):
            assert txn.commit_clock() is None
    assert txn.clock is None
    status = db.transaction_status(txn.id)
    assert (status.standing, status.clock) == ("committed", None)


def test_a_stream_that_is_created_meanwhile_has_no_clocks_from_its_first_change(
    db: motet.Database,
) -> None:
    db.enable_clock(False)
    db.create_stream("newborn", shards=2)
    with pytest.warns(motet.ClockOff):
        assert moved(db, "newborn", 1) is None
    db.enable_clock()
    assert moved(db, "newborn", 2) is not None


def test_a_new_leader_knows_it_from_the_log(cluster: DevCluster, db: motet.Database) -> None:
    async def elect() -> tuple[str | None, str | None]:
        async with await motet.aio.connect(cluster.endpoints) as other:
            assert isinstance(other, AsyncClusterDatabase)
            (before,) = (await other.describe_shards("inherited")).shards
            follower = next(node for node in before.ensemble if node != before.leader)
            await other.elect("inherited", 0, follower)
            (after,) = (await other.describe_shards("inherited")).shards
            return before.leader, after.leader

    db.create_stream("inherited", shards=1)
    db.enable_clock(False)
    old, new = asyncio.run(elect())
    assert old != new
    with pytest.warns(motet.ClockOff), db.transaction() as txn:
        txn.change("inherited", "k", "insert", row={"n": 1})
    assert txn.clock is None


def test_on_the_command_line(cluster: DevCluster) -> None:
    def run(*words: str) -> tuple[object, str]:
        done = subprocess.run(
            [sys.executable, "-m", "motet", *words, "--endpoint", cluster.endpoints, "-o", "json"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return msgspec.json.decode(done.stdout), done.stderr

    run("stream", "create", "typed")
    told, _ = run("clock", "disable")
    assert told[0]["enabled"] is False  # type: ignore[index]
    told, warned = run("stream", "change", "typed", "k", "insert", '{"n": 1}')
    assert told[0]["clock"] is None  # type: ignore[index]
    assert warned.startswith("warning: clock.enabled is off")
    told, _ = run("clock")
    assert told[0]["enabled"] is False  # type: ignore[index]
    told, _ = run("clock", "enable")
    assert told[0]["enabled"] is True  # type: ignore[index]
    told, _ = run("stream", "change", "typed", "k", "update", '{"n": 2}')
    assert told[0]["clock"] is not None  # type: ignore[index]


def test_what_cannot_be_meant_is_told(db: motet.Database) -> None:
    with pytest.raises(BadInput, match="True or False"):
        db.enable_clock("off")  # type: ignore[arg-type]
