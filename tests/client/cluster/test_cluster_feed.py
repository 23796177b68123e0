"""The feed of a cluster: in SQL, held back, and replayed into another database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import motet
import motet.aio
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.mirror import MIRRORS, Mirror
from motet.client.sync import Transaction
from motet.core.clock.hlc import Clock
from motet.core.metadata.definitions import shard_of
from motet.core.streams.change import Branch, RowChange
from motet.errors import NoSuchTable
from motet.ids import ShardName, StreamName, TransactionId
from motet.testing.local_cluster import LocalCluster

Tale = Callable[[AsyncClusterDatabase], Awaitable[None]]
State = dict[tuple[str, bytes], object]
patience_seconds = 60.0
INCOMPLETE = (
    'select stream, shard, home from system.incomplete_transactions where "transaction" = ?'
)


def run(cluster: LocalCluster, tale: Tale) -> None:
    async def connected() -> None:
        async with await motet.aio.connect(cluster.endpoints) as db:
            assert isinstance(db, AsyncClusterDatabase)
            await tale(db)

    asyncio.run(connected())


def keys_of_shards(shards: int, kind: str = "k") -> list[str]:
    """One key for each shard, in order."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < shards:
        found.setdefault(shard_of(f"{kind}-{number}".encode(), shards), f"{kind}-{number}")
        number += 1
    return [found[shard] for shard in range(shards)]


def write(db: motet.Database, stream: str, *keys: str) -> Clock:
    with db.transaction() as txn:
        for key in keys:
            txn.change(stream, key, "insert", row={"n": 1})
    assert txn.clock is not None
    return txn.clock


# What holds the feed back


def test_the_status_names_the_shard_and_the_transaction_that_hold_the_feed_back(
    cluster: LocalCluster,
) -> None:
    async def tale(db: AsyncClusterDatabase) -> None:
        await db.create_stream("held", shards=2)
        left, right = keys_of_shards(2)
        async with db.transaction() as txn:
            txn.change("held", left, "insert", row={})
        number = shard_of(right.encode(), 2)
        where = {"stream": "held", "shard": number, "home": f"held/{1 - number}"}
        attempt = 0
        async with asyncio.timeout(patience_seconds):
            while True:  # the home shard does not wait for ever
                name = TransactionId(f"left-behind-{attempt}")
                behind = await leave_behind(db, name, left, right)
                last = (await db.feed_status("held")).last
                found = (await db.sql(INCOMPLETE, [name])).to_pylist()
                if last is not None and last.transaction == name and found:
                    break
                attempt += 1
        assert (last.stream, last.shard, last.home) == tuple(where.values())
        assert found == [where]
        await db._cluster.coordinator._abort(*behind)
        await db.visible_clock("held", wait=True)
        assert (await db.transaction_status(name)).standing == "aborted"

    run(cluster, tale)


async def leave_behind(
    db: AsyncClusterDatabase, name: TransactionId, left: str, right: str
) -> tuple[ShardName, list[ShardName], Branch]:
    """A coordinator that dies before it asks for the commit."""
    coordinator = db._cluster.coordinator
    keys = (left.encode(), right.encode())
    changes = [
        (StreamName("held"), RowChange(index, key, "update", b"{}", None))
        for index, key in enumerate(keys)
    ]
    branches = await coordinator._divided(name, db.router.clock, (), changes)
    home, participant = branches
    await coordinator._prepare(branches, [participant])
    return home, [participant], branches[home][0]


# SQL


def test_the_three_queries_of_the_text(db: motet.Database) -> None:
    db.create_stream("track", shards=3)
    first, second, third = keys_of_shards(3)
    write(db, "track", second, first)
    write(db, "track", third)
    with db.transaction() as txn:
        txn.change("track", first, "update", row={"n": 2})
    everything = db.sql(
        "select tt.key, tt.op from system.changes tt, system.transaction_commit_clock cc "
        "where tt.stream = 'track' and tt.transaction = cc.transaction "
        "order by cc.commit_clock, tt.transaction, tt.index"
    )
    wanted = [(second, "insert"), (first, "insert"), (third, "insert"), (first, "update")]
    assert [(r["key"].decode(), r["op"]) for r in everything.to_pylist()] == wanted
    of_object = db.sql(
        "select tt.op, cc.commit_clock from system.changes tt, system.transaction_commit_clock cc "
        "where tt.stream = 'track' and tt.transaction = cc.transaction and tt.key = ? "
        "order by cc.commit_clock",
        [first.encode()],
    ).to_pylist()
    assert [row["op"] for row in of_object] == ["insert", "update"]
    assert Clock(**of_object[1]["commit_clock"]) == txn.clock
    last_hour = (
        "select count(*) as n from system.changes tt, system.transaction_commit_clock cc "
        "where tt.stream = 'track' and cc.timestamp >= now() - interval '1 hour' "
        "and tt.transaction = cc.transaction"
    )
    assert db.sql(last_hour).to_pylist() == [{"n": 4}]
    before = last_hour.replace(">=", "<")
    assert db.sql(before).to_pylist() == [{"n": 0}]


def test_clocks_and_how_the_cluster_stands_in_sql(db: motet.Database) -> None:
    db.create_stream("asked", shards=2)
    done = write(db, "asked", *keys_of_shards(2))
    db.visible_clock("asked", wait=True)
    (row,) = db.sql(
        "select cluster_clock() as c, visible_clock() as v, transaction_id() as t, "
        "visible_clock() <= cluster_clock() as is_below"
    ).to_pylist()
    assert Clock(**row["c"]) >= done
    assert (row["t"], row["is_below"]) == (None, True)
    shards = db.sql("select * from system.shards where stream = 'asked' order by shard").to_pylist()
    assert [(each["shard"], len(each["ensemble"]), each["error"]) for each in shards] == [
        (0, 3, None),
        (1, 3, None),
    ]
    assert all(Clock(**each["closed"]) >= done for each in shards)
    nodes = db.sql("select node, roles, shards from system.nodes order by node").to_pylist()
    assert [each["node"] for each in nodes] == ["n0", "n1", "n2"]
    assert all("data" in each["roles"] and each["shards"] >= 2 for each in nodes)
    (clock,) = db.sql("select clock, behind_ms from system.clock").to_pylist()
    assert Clock(**clock["clock"]) >= done
    (stream,) = db.sql("select * from system.streams where name = 'asked'").to_pylist()
    assert (stream["shards"], stream["entries"]) == (2, 2)
    assert Clock(**stream["created"]) < done
    db.create_stream("asked_later", shards=1)
    (later,) = db.sql("select created from system.streams where name = 'asked_later'").to_pylist()
    assert Clock(**later["created"]) > done, "whoever has read up to there misses nothing of it"
    with pytest.raises(NoSuchTable):
        db.sql("select * from sales")


# A mirror


def insert_rows(txn: Transaction, keys: list[str]) -> None:
    """The text's transaction A: rows in several shards."""
    for key in keys:
        txn.change("things", key, "insert", row={"state": "new"})


def update_rows(txn: Transaction, keys: list[str], state: str) -> None:
    """The text's transaction B: whatever is there by then, in several shards."""
    for key in keys:
        if txn.get("things", key) is not None:
            txn.change("things", key, "update", row={"state": state})


def at_every_clock(db: motet.Database, stream: str) -> list[tuple[Clock, State]]:
    """What a reader sees behind each clock of the feed."""
    state: State = {}
    found: list[tuple[Clock, State]] = []
    after, more = None, True
    streams = [stream, *([MIRRORS] if MIRRORS in [i.name for i in db.streams()] else [])]
    while more:
        page = db.changes(*streams, after=after)
        after, more = page.cursor, page.more
        for change in page:
            state[change.stream, change.key] = None if change.op == "delete" else change.row
            if found and found[-1][0] == change.raw.clock:
                found.pop()
            found.append((change.raw.clock, dict(state)))
    return found


@pytest.mark.timeout(180)
def test_a_mirror_shows_what_the_source_showed_also_for_the_example_of_the_text(
    db: motet.Database, tmp_path: Path
) -> None:
    db.create_stream("things", shards=3)
    rounds = [keys_of_shards(3, kind=f"round-{number}") for number in range(8)]

    def inserts() -> None:
        for keys in rounds:
            db.transact(lambda txn, keys=keys: insert_rows(txn, keys))  # type: ignore[misc]

    def updates(state: str) -> None:
        for keys in rounds:
            backwards = keys[::-1]
            db.transact(lambda txn, keys=backwards: update_rows(txn, keys, state))  # type: ignore[misc]

    writers = [
        threading.Thread(target=inserts),
        threading.Thread(target=updates, args=("seen",)),
        threading.Thread(target=updates, args=("again",)),
    ]
    for writer in writers:
        writer.start()
    with motet.open(tmp_path / "copy") as copy:
        Mirror(db, copy, ["things"]).run(once=True)  # while they write
        for writer in writers:
            writer.join(patience_seconds)
            assert not writer.is_alive()
        Mirror(db, copy, ["things"]).run(once=True)
        source = dict(at_every_clock(db, "things"))
        shown = at_every_clock(copy, "things")
        assert len(shown) == len(source)
        for _, state in shown:
            note = state.pop((MIRRORS, f"{db.database_id:016x}".encode()))
            assert isinstance(note, dict)
            assert state == source[Clock.parse(note["after"])]
    assert {key for stream, key in source[max(source)]} == {
        key.encode() for keys in rounds for key in keys
    }


def test_a_cluster_mirrors_an_embedded_database(db: motet.Database, tmp_path: Path) -> None:
    with motet.open(tmp_path / "origin") as origin:
        origin.create_stream("copied", shards=2)
        left, right = keys_of_shards(2)
        write(origin, "copied", left, right)
        origin.stream("copied").append(left, b"raw")
        write(origin, "copied", right)
        report = Mirror(origin, db).run(once=True)
        assert (report.transactions, report.changes) == (3, 4)
        assert Mirror(origin, db).run(once=True).changes == 0
    db.visible_clock("copied", wait=True)
    page = db.changes("copied")
    assert [(c.key.decode(), c.op, c.row) for c in page] == [
        (left, "insert", {"n": 1}),
        (right, "insert", {"n": 1}),
        (left, "append", b"raw"),
        (right, "insert", {"n": 1}),
    ]
    assert len({c.transaction for c in page}) == 3
