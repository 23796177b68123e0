"""What a user meets when something breaks: it is said, nothing acknowledged is lost, and it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.behaviour.breakable import (
    EVERYTHING,
    Breakable,
    BreakableCluster,
    BreakableFolder,
    limit_files,
)
from tests.behaviour.feeds import put
from tests.behaviour.places import fresh

import motet.aio
from motet.aio import Database
from motet.client.cluster import router
from motet.errors import BadRecord, DiskFull, MotetError, NodeError, OutcomeUnknown
from motet.limits import peer_queue_bytes_max, row_bytes_max
from motet.real.disk import RealDisk

patience_seconds = 120.0
PLACES = ("folder", "cluster-1", "cluster-3")


@pytest.fixture(scope="module")
def built() -> Iterator[dict[str, Breakable]]:
    """What was started for a case before."""
    found: dict[str, Breakable] = {}
    yield found
    for each in found.values():
        each.close()


@pytest.fixture(params=PLACES)
def place(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    built: dict[str, Breakable],
) -> Breakable:
    """A database that a case breaks and leaves whole."""
    name = request.param
    if name not in built:
        folder = tmp_path_factory.mktemp(name)
        nodes = {"cluster-1": 1, "cluster-3": 3}
        built[name] = (
            BreakableFolder(folder) if name == "folder" else BreakableCluster(nodes[name], folder)
        )
    built[name].restart()  # whoever a failed case has left behind
    return built[name]


async def until_done(attempt: Callable[[], Awaitable[object]]) -> None:
    """Try again until it is done: what was started again needs a moment."""
    async with asyncio.timeout(patience_seconds):
        while True:
            try:
                await attempt()
                return
            except MotetError:
                await asyncio.sleep(0.05)


# A full disk


@pytest.mark.parametrize("place", ["folder", "cluster-1"], indirect=True)
async def test_a_full_disk_is_said_reads_go_on_and_with_room_it_works_again(
    place: Breakable,
) -> None:
    name = fresh("full")
    async with motet.aio.connect(place.endpoint()) as db:
        stream = await db.create_stream(name, shards=1)
        await stream.append("k", b"before")
        limit_files(place.pids(), 1)
        try:
            with pytest.raises(DiskFull):
                await stream.append("k", b"refused")
            assert [entry.value for entry in await stream.read()] == [b"before"]
            with pytest.raises(DiskFull):
                await put(db, name, "k", 1)
        finally:
            limit_files(place.pids(), EVERYTHING)
        await until_done(lambda: stream.append("k", b"after", token=("p", 1)))
        assert [entry.value for entry in await stream.read()] == [b"before", b"after"]


# Processes that die


async def test_all_that_was_acknowledged_is_there_after_kill_9(place: Breakable) -> None:
    name = fresh("killed")
    async with motet.aio.connect(place.endpoint()) as db:
        stream = await db.create_stream(name, shards=2)
        positions = [await stream.append(f"k-{n}", b"v", token=("p", n)) for n in range(10)]
        clock = await put(db, name, "t", 1)
        await db.visible_clock(name, wait=True)
        whole = (await db.changes(name)).changes
        await asyncio.to_thread(place.kill, len(place.pids()))
    await asyncio.to_thread(place.restart)
    async with motet.aio.connect(place.endpoint()) as db:
        await until_done(lambda: db.visible_clock(name, wait=True))
        assert (await db.changes(name)).changes == whole
        again = await db.stream(name).append("k-9", b"v", token=("p", 9))
        assert (again, again.duplicate) == (positions[9], True)
        async with db.transaction() as txn:
            found = await txn.get(name, "t")
            assert found is not None
            assert (found.row, found.clock) == ({"left": 1}, clock)
            txn.change(name, "t", "delete")
        assert txn.clock is not None
        assert txn.clock > clock


@pytest.mark.parametrize("place", ["folder", "cluster-1"], indirect=True)
async def test_an_answer_that_is_lost_is_an_unknown_outcome_and_a_token_makes_it_safe(
    place: Breakable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "failover_seconds_max", 1.0)
    name = fresh("unknown")
    async with motet.aio.connect(place.endpoint()) as db:
        stream = await db.create_stream(name, shards=1)
        await stream.append("k", b"first")
        everybody = len(place.pids())
        await asyncio.to_thread(place.stop, everybody)
        asked = [
            asyncio.ensure_future(stream.append("k", b"plain")),
            asyncio.ensure_future(stream.append("k", b"named", token=("p", 1))),
        ]
        for _ in range(10):
            await asyncio.sleep(0)  # they are sent, and nobody reads them
        await asyncio.to_thread(place.kill, everybody)
        async with asyncio.timeout(patience_seconds):
            told = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(error) for error in told] == [OutcomeUnknown] * 2
    await asyncio.to_thread(place.restart)
    async with motet.aio.connect(place.endpoint()) as db:
        await until_done(lambda: db.stream(name).append("k", b"named", token=("p", 1)))
        values = [entry.value for entry in await db.stream(name).read()]
        assert values[0] == b"first"
        assert values.count(b"named") == 1


USES: dict[str, Callable[[Database, str], Awaitable[object]]] = {
    "append": lambda db, name: db.stream(name).append("k", b"v"),
    "read": lambda db, name: db.stream(name).read(),
    "get": lambda db, name: db.transact(lambda txn: txn.get(name, "k")),
}


@pytest.mark.parametrize("place", ["cluster-3"], indirect=True)
async def test_one_node_of_three_may_die_and_without_two_calls_fail_in_bounded_time(
    place: Breakable, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = fresh("fewer")
    async with motet.aio.connect(place.endpoint()) as db:
        stream = await db.create_stream(name, shards=3)
        for n in range(6):
            await stream.append(f"k-{n}", b"v", token=("p", n))
        await asyncio.to_thread(place.kill, 1)
        for n in range(6, 12):
            await until_done(lambda n=n: stream.append(f"k-{n}", b"v", token=("p", n)))  # type: ignore[misc]
        await until_done(lambda: put(db, name, "t", 1))
        await until_done(lambda: db.visible_clock(name, wait=True))
        assert len(await db.changes(name)) == 13
        monkeypatch.setattr(router, "failover_seconds_max", 0.5)
        await asyncio.to_thread(place.kill, 2)
        async with asyncio.timeout(patience_seconds):
            told = await asyncio.gather(
                *(use(db, name) for use in USES.values()), return_exceptions=True
            )
        for what, error in zip(USES, told, strict=True):
            assert isinstance(error, MotetError), what
            assert what == "append" or not isinstance(error, OutcomeUnknown), "a read has failed"
        await asyncio.to_thread(place.restart)
        for use in USES.values():
            await until_done(lambda use=use: use(db, name))  # type: ignore[misc]


# Damage, and a disk that fails


async def test_a_damaged_log_is_named_and_kept(tmp_path: Path) -> None:
    async with motet.aio.open(tmp_path) as db:
        stream = await db.create_stream("damaged", shards=1)
        for number in range(50):
            await stream.append("k", bytes([number]) * 100)
    log = max((tmp_path / "streams").iterdir(), key=lambda file: file.stat().st_size)
    damaged = bytearray(log.read_bytes())
    damaged[600] ^= 1
    log.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(BadRecord, match=log.name):
            await motet.aio.open(tmp_path)
    assert log.read_bytes() == damaged


async def test_a_node_that_had_to_stop_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with motet.aio.open(tmp_path) as db:
        stream = await db.create_stream("stopped", shards=1)

        def fail(self: RealDisk, file: str) -> None:
            raise RuntimeError("no platter")

        with monkeypatch.context() as broken:
            broken.setattr(RealDisk, "sync", fail)
            with pytest.raises(OutcomeUnknown, match="no platter"):
                await stream.append("k", b"v")
        with pytest.raises(NodeError, match="no platter"):
            await stream.append("k", b"v")
    async with motet.aio.open(tmp_path) as db:
        assert len(await db.stream("stopped").read()) <= 1


# Too much at once


@pytest.mark.parametrize("place", ["folder", "cluster-1"], indirect=True)
async def test_more_than_fits_into_the_queues_is_refused_or_done(place: Breakable) -> None:
    """Nothing is dropped without a word, and what was refused is not there."""
    many = 2 * peer_queue_bytes_max // row_bytes_max
    async with motet.aio.connect(place.endpoint()) as db:
        stream = await db.create_stream(fresh("crowded"), shards=1)
        sent = [stream.append(f"{n}", bytes(row_bytes_max)) for n in range(many)]
        told = await asyncio.gather(*sent, return_exceptions=True)
        refused = [each for each in told if isinstance(each, BaseException)]
        assert all(type(error) is NodeError and "slow down" in str(error) for error in refused)
        assert len(refused) < many
        (shard,) = await stream.stats()
        assert shard["next_offset"] == many - len(refused)
