"""The life of a database: opened, found by others, closed, and there again."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.behaviour.face import covers
from tests.behaviour.places import CLUSTERS, CONNECTED, EMBEDDED, Place, fresh

import motet
import motet.aio
from motet.aio import Database
from motet.errors import BadConfig, BadInput, DatabaseLocked, NodeError

only_a_folder = pytest.mark.parametrize("place", [EMBEDDED], indirect=True)
only_behind_a_socket = pytest.mark.parametrize("place", [CONNECTED, *CLUSTERS], indirect=True)


@pytest.fixture
def nobody() -> str:
    """An endpoint where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


# Opening and closing


@covers("aio.open", "aio.connect", "Database.close")
async def test_it_can_be_awaited_or_entered_and_closed_twice(place: Place) -> None:
    opened = motet.aio.open if place.name == EMBEDDED else motet.aio.connect
    assert type(place.open()) is type(opened("nowhere"))
    db = await place.open()
    assert "closed" not in repr(db)
    await db.close()
    await db.close()
    assert repr(db).endswith(", closed>")
    async with place.open() as again:
        assert await again.streams() is not None
    assert repr(again).endswith(", closed>")


ROWS = pa.table({"key": ["k"], "value": [b"v"]})
USES: dict[str, Callable[[Database, str], Awaitable[object]]] = {
    "append": lambda db, name: db.stream(name).append("k", b"v"),
    "append with a token": lambda db, name: db.stream(name).append("k", b"v", token=("p", 1)),
    "batch": lambda db, name: db.stream(name).append_batch(ROWS),
    "read": lambda db, name: db.stream(name).read(),
    "stats": lambda db, name: db.stream(name).stats(),
    "create": lambda db, name: db.create_stream(f"{name}_b"),
    "streams": lambda db, _: db.streams(),
    "transact": lambda db, name: db.transact(lambda txn: txn.get(name, "k")),
    "status": lambda db, _: db.transaction_status("t"),
    "changes": lambda db, name: db.changes(name),
    "plan": lambda db, name: db.feed_plan([name]),
    "feed status": lambda db, name: db.feed_status(name),
    "clock": lambda db, _: db.clock(),
    "clock enabled": lambda db, _: db.clock_enabled(),
    "visible": lambda db, name: db.visible_clock(name),
    "cursors": lambda db, _: db.cursors(),
    "low watermark": lambda db, name: db.low_watermark(name),
    "nodes": lambda db, _: db.nodes(),
    "endpoint": lambda db, _: db.endpoint(),
    "tables": lambda db, _: db.tables(),
}


async def test_a_closed_database_says_so_to_every_call(place: Place) -> None:
    name = fresh("closed")
    async with place.open() as db:
        await db.create_stream(name, shards=1)
        await db.stream(name).append("k", b"v")
    said = {}
    for what, use in USES.items():
        try:
            said[what] = f"answered with {await use(db, name)}"
        except NodeError as error:
            said[what] = error.what
    assert {what: text for what, text in said.items() if "is closed" not in text} == {}
    assert [change async for change in db.tail(name)] == []
    assert [entry async for entry in db.stream(name).tail()] == []
    async with place.open() as db:
        assert len(await db.stream(name).read()) == 1


@covers("Database.close")
async def test_closing_lets_what_is_under_way_be_answered(place: Place) -> None:
    name = fresh("busy")
    db = await place.open()
    stream = await db.create_stream(name, shards=1)
    await stream.append("k", b"first")
    under_way = [asyncio.ensure_future(stream.append(f"k-{n}", b"v")) for n in range(50)]
    await asyncio.sleep(0)
    await db.close()
    done = await asyncio.gather(*under_way)
    async with place.open() as db:
        offsets = [entry.offset for entry in await db.stream(name).read()]
    assert offsets == list(range(51))
    assert sorted(position.offset for position in done) == offsets[1:]


@covers("Database.close", "Database.tail")
async def test_closing_ends_a_tail_that_waits(place: Place) -> None:
    name = fresh("tailed")
    db = await place.open()
    await db.create_stream(name, shards=1)
    await db.stream(name).append("k", b"v")
    came = asyncio.Event()

    async def follow() -> int:
        count = 0
        async for _ in db.tail(name):
            count += 1
            came.set()
        return count

    follower = asyncio.create_task(follow())
    async with asyncio.timeout(60):
        await came.wait()
        await db.close()
        assert await follower == 1


async def test_a_block_that_is_left_by_an_exception_closes_it(place: Place) -> None:
    with pytest.raises(ZeroDivisionError):
        async with place.open() as db:
            raise ZeroDivisionError
    assert repr(db).endswith(", closed>")


async def test_what_was_written_is_there_when_it_is_opened_again(place: Place) -> None:
    name = fresh("kept")
    async with place.open() as db:
        stream = await db.create_stream(name, shards=2)
        positions = [await stream.append(f"k-{n}", b"v", token=("p", n)) for n in range(10)]
        async with db.transaction() as txn:
            txn.change(name, key="o-1", op="insert", row={"n": 1})
        await db.visible_clock(name, wait=True)
        whole = (await db.changes(name)).changes
        first = await db.changes(name, limit=4)
        clock, number = await db.clock(), db.database_id
    async with place.open() as db:
        assert db.database_id == number
        assert (await db.changes(name)).changes == whole
        assert (await db.changes(name, after=first.cursor)).changes == whole[4:]
        again = await db.stream(name).append("k-9", b"v", token=("p", 9))
        assert (again, again.duplicate) == (positions[9], True)
        async with db.transaction() as txn:
            assert await txn.get(name, "o-1") == whole[-1]
            txn.change(name, key="o-1", op="update", row={"n": 2})
        assert txn.clock is not None
        assert txn.clock > clock


# Others


@covers("Database.endpoint", "aio.connect")
async def test_others_reach_it_at_its_endpoint(db: Database) -> None:
    name = fresh("shared")
    endpoint = await db.endpoint()
    assert await db.endpoint() == endpoint
    async with motet.aio.connect(endpoint) as other:
        assert other.database_id == db.database_id
        stream = await other.create_stream(name, shards=1)
        position = await stream.append("k", b"theirs")
        assert [entry.value for entry in await db.stream(name).read()] == [b"theirs"]
        await db.stream(name).append("k", b"ours")
        assert [e.value for e in await stream.read(after=position)] == [b"ours"]


@covers("aio.connect")
async def test_the_first_endpoint_that_answers_is_taken(
    db: Database, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await db.endpoint()
    async with motet.aio.connect(f"{nobody}, {endpoint}") as other:
        assert other.database_id == db.database_id
    monkeypatch.setenv("MOTET_ENDPOINT", endpoint)
    async with motet.aio.connect() as other:
        assert other.database_id == db.database_id


@covers("aio.connect")
async def test_an_endpoint_where_nobody_listens_is_named(nobody: str) -> None:
    with pytest.raises(NodeError, match=nobody):
        await motet.aio.connect(nobody)
    with pytest.raises(NodeError, match="no endpoint answers") as told:
        await motet.aio.connect(f"{nobody},{nobody}")
    assert nobody in told.value.what


@pytest.fixture
def stranger() -> Iterator[str]:
    """An endpoint where somebody listens who ends each connection at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@covers("aio.connect")
async def test_somebody_who_is_no_database_is_named(stranger: str) -> None:
    with pytest.raises(NodeError, match=stranger):
        await motet.aio.connect(stranger)


@covers("aio.connect")
@pytest.mark.parametrize("bad", ["", " , ", "nowhere", "127.0.0.1", "127.0.0.1:x", "h:99999"])
async def test_what_is_no_endpoint_is_refused(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOTET_ENDPOINT", raising=False)
    with pytest.raises(BadInput):
        await motet.aio.connect(bad)
    if not bad:
        with pytest.raises(BadConfig, match="no endpoint"):
            await motet.aio.connect()


@covers("Database.endpoint")
@only_behind_a_socket
async def test_the_endpoint_of_a_connection_leads_to_the_same_database(
    place: Place, db: Database
) -> None:
    endpoints = (await db.endpoint()).split(",")
    assert len(endpoints) == place.nodes
    for endpoint in endpoints:
        async with motet.aio.connect(endpoint) as other:
            assert other.database_id == db.database_id


# Folders


@covers("aio.open")
@only_a_folder
async def test_a_folder_is_opened_once_and_the_second_is_told_where_it_serves(
    place: Place, db: Database
) -> None:
    with pytest.raises(DatabaseLocked):
        await place.open()
    endpoint = await db.endpoint()
    with pytest.raises(DatabaseLocked, match=endpoint):
        await place.open()
    await db.close()
    async with place.open() as again:
        assert again.database_id == db.database_id


@covers("aio.open")
async def test_a_place_that_cannot_be_a_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    for path in (file, file / "below"):
        with pytest.raises(NodeError, match="file"):
            await motet.aio.open(path)
    bad: Any
    for bad in ("", None, 7):
        with pytest.raises(BadInput):
            await motet.aio.open(bad)


@covers("aio.open")
async def test_each_folder_is_a_database_of_its_own(tmp_path: Path) -> None:
    async with motet.aio.open(tmp_path / "a") as a, motet.aio.open(str(tmp_path / "b")) as b:
        assert a.database_id != b.database_id
        await a.create_stream("only_here")
        assert await b.streams() == []
