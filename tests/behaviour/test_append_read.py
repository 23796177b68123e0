"""Raw entries: appended, read back in the order of their shard, and appended once under a token."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from tests.behaviour.face import covers
from tests.behaviour.places import fresh, keys_of_shards

import motet.aio
from motet.aio import Database
from motet.client.change import Position
from motet.core.metadata.definitions import shard_of
from motet.errors import BadInput, BadSchema, NoSuchShard, TokenExpired, TooLarge
from motet.limits import key_bytes_max, producer_window, row_bytes_max


@covers("Stream.append", "Stream.read")
async def test_entries_come_back_in_the_order_of_their_shard(db: Database) -> None:
    name = fresh("plain")
    stream = await db.create_stream(name, shards=2)
    began = datetime.now(UTC)
    sent = [(f"k-{n}".encode(), b"v-%d" % n) for n in range(20)]
    positions = [await stream.append(key, value) for key, value in sent]
    clocks = [position.clock for position in positions]
    assert clocks == sorted(set(clocks)), "each is above the one that was seen before it"
    for shard in range(2):
        entries = await stream.read(shard)
        assert [(e.key, e.value) for e in entries] == [
            each for each in sent if shard_of(each[0], 2) == shard
        ]
        assert [e.offset for e in entries] == list(range(len(entries)))
        placed = [each for each in positions if each.shard == shard]
        assert [Position(e.shard, e.epoch, e.offset, e.raw.clock) for e in entries] == placed
        assert [e.clock for e in entries] == [each.clock for each in placed]
        assert {(e.op, e.stream, e.index, e.count, e.before) for e in entries} == {
            ("append", name, 0, 1, None)
        }
        assert [e.row for e in entries] == [e.value for e in entries]
        for entry in entries:
            assert began - timedelta(minutes=1) < entry.at < datetime.now(UTC)
        assert len({hash(entry) for entry in entries}) == len(entries)


@covers("Stream.append", "Stream.read", "Stream.tail")
async def test_reading_goes_on_after_an_offset_a_position_or_an_entry(db: Database) -> None:
    stream = await db.create_stream(fresh("after"), shards=1)
    positions = [await stream.append("k", bytes([n])) for n in range(7)]
    first, second = await stream.read(limit=2)
    rest = [bytes([n]) for n in range(2, 7)]
    for after in (1, second, positions[1]):
        assert [entry.value for entry in await stream.read(0, after)] == rest
        assert [e.value async for e in stream.tail(after=after, stop_after=5)] == rest
    assert [entry.value for entry in await stream.read(after=first, limit=1)] == [b"\x01"]
    assert await stream.read(after=positions[-1]) == []
    assert await stream.read(after=1_000) == []
    assert len(await stream.read(after=-1)) == 7


@covers("Stream.read")
async def test_a_replica_shows_what_its_reader_has_seen(db: Database) -> None:
    stream = await db.create_stream(fresh("copies"), shards=1)
    for number in range(5):
        await stream.append("k", bytes([number]))
        found = await stream.read(source="replica")
        assert [entry.value for entry in found] == [bytes([n]) for n in range(number + 1)]
    with pytest.raises(BadInput, match="source"):
        await stream.read(source="anybody")  # type: ignore[arg-type]


@covers("Stream.tail")
async def test_a_tail_of_a_shard_gives_what_is_there_and_what_comes(db: Database) -> None:
    stream = await db.create_stream(fresh("tailed"), shards=1)
    for number in range(3):
        await stream.append("k", bytes([number]))
    tail = stream.tail()
    async with asyncio.timeout(60):
        there = [await anext(tail) for _ in range(3)]
        assert [entry.value for entry in there] == [b"\0", b"\1", b"\2"]
        coming = asyncio.ensure_future(anext(tail))
        await stream.append("k", b"new")
        assert (await coming).value == b"new"
    assert [entry.offset async for entry in stream.tail(stop_after=2)] == [0, 1]
    assert [entry async for entry in stream.tail(stop_after=0)] == []


# Tokens


@covers("Stream.append")
async def test_a_token_is_appended_once(db: Database) -> None:
    stream = await db.create_stream(fresh("tokens"), shards=1)
    first = await stream.append("k", b"v", token=("p", 17))
    again = await stream.append("k", b"v", token=("p", 17))
    assert (again, first.duplicate, again.duplicate) == (first, False, True)
    other = await stream.append("k", b"v", token=("q", 17))
    assert (other.duplicate, other.offset) == (False, first.offset + 1)
    async with motet.aio.connect(await db.endpoint()) as elsewhere:
        theirs = await elsewhere.stream(stream.name).append("k", b"v", token=("q", 17))
        assert (theirs, theirs.duplicate) == (other, True)
    at_once = await asyncio.gather(
        *(stream.append("k", b"w", token=("r", 1)) for _ in range(8)),
        stream.append("k", b"plain"),
    )
    assert len({position.offset for position in at_once[:8]}) == 1
    assert sum(not position.duplicate for position in at_once[:8]) == 1
    assert len(await stream.read()) == 4


@covers("Stream.append")
async def test_the_last_tokens_of_a_producer_may_be_repeated(db: Database) -> None:
    stream = await db.create_stream(fresh("window"), shards=1)
    numbers = range(1, producer_window + 1)
    positions = {n: await stream.append("k", b"v", token=("p", n)) for n in numbers}
    for number in (producer_window, producer_window // 2, 1):
        again = await stream.append("k", b"v", token=("p", number))
        assert (again, again.duplicate) == (positions[number], True)


@covers("Stream.append")
async def test_a_token_that_is_older_than_what_is_remembered_is_refused(db: Database) -> None:
    stream = await db.create_stream(fresh("old"), shards=1)
    numbers = range(1, producer_window + 2)
    await asyncio.gather(*(stream.append("k", b"v", token=("p", n)) for n in numbers))
    with pytest.raises(TokenExpired):
        await stream.append("k", b"v", token=("p", 1))
    assert len(await stream.read()) == producer_window + 1


# Arrow


@covers("Stream.append_batch", "Stream.read_arrow")
async def test_arrow_goes_in_and_comes_out(db: Database) -> None:
    stream = await db.create_stream(fresh("arrow"), shards=1)
    rows = pa.table({"key": ["a", "b", "c"], "value": [b"1", b"2", b"3"]})
    positions = await stream.append_batch(rows)
    assert [position.offset for position in positions] == [0, 1, 2]
    found = await stream.read_arrow(0, after=0)
    assert found.column_names == ["offset", "epoch", "clock", "at", "key", "value"]
    assert found.column("offset").to_pylist() == [1, 2]
    assert found.select(["key", "value"]).to_pylist() == [
        {"key": b"b", "value": b"2"},
        {"key": b"c", "value": b"3"},
    ]
    async with db.transaction() as txn:
        txn.change(stream.name, key="d", op="insert", row={"n": 4})
    mixed = await stream.read_arrow(after=positions[-1], limit=5)
    assert mixed.select(["offset", "key", "value"]).to_pylist() == [
        {"offset": 3, "key": b"d", "value": b'{"n":4}'}
    ]
    assert (await stream.read_arrow(limit=2)).num_rows == 2
    assert (await stream.read_arrow(after=3)).num_rows == 0


@covers("Stream.append_batch")
async def test_a_batch_is_spread_over_shards_and_stays_in_order(db: Database) -> None:
    stream = await db.create_stream(fresh("spread"), shards=3)
    keys = [f"key-{n}" for n in range(200)]
    values = [key.encode() for key in keys]
    positions = await stream.append_batch(pa.table({"key": keys, "value": values}))
    assert {position.shard for position in positions} == {0, 1, 2}
    for shard in range(3):
        mine = [n for n, position in enumerate(positions) if position.shard == shard]
        assert [entry.value for entry in await stream.read(shard)] == [values[n] for n in mine]
        assert [positions[n].offset for n in mine] == list(range(len(mine)))


# Bounds


@covers("Stream.append", "Stream.read", "Stream.append_batch")
async def test_what_cannot_be_taken_is_refused_and_changes_nothing(db: Database) -> None:
    stream = await db.create_stream(fresh("bad"), shards=2)
    bad: Any = 7
    for key, value in [("", b"v"), (bad, b"v"), ("k", bad), ("k", "text"), ("\ud800", b"v")]:
        with pytest.raises(BadInput):
            await stream.append(key, value)
    for token in [("p",), ("p", -1), ("p", "1"), ("", 1), (7, 1), "p", ("p", True)]:
        with pytest.raises(BadInput, match="token"):
            await stream.append("k", b"v", token=token)  # type: ignore[arg-type]
    with pytest.raises(TooLarge):
        await stream.append("k" * (key_bytes_max + 1), b"v")
    with pytest.raises(TooLarge):
        await stream.append("k", bytes(row_bytes_max + 1))
    wrong: list[dict[str, Any]] = [{"limit": 0}, {"limit": -1}, {"shard": -1}, {"shard": "0"}]
    for arguments in [*wrong, {"after": "x"}, {"after": -2}]:
        with pytest.raises(BadInput) as told:
            await stream.read(**arguments)
        assert told.value.code == "BAD_INPUT"
    with pytest.raises(BadInput):
        await stream.append_batch([1])
    with pytest.raises(BadSchema, match="value"):
        await stream.append_batch(pa.table({"key": ["k"]}))
    for shard in range(2):
        assert await stream.read(shard) == []


@covers("Stream.read", "Stream.tail", "Stream.read_arrow")
async def test_a_shard_that_is_not_there_is_named(db: Database) -> None:
    stream = await db.create_stream(fresh("two"), shards=2)
    with pytest.raises(NoSuchShard, match="has no shard 2"):
        await stream.read(2)
    with pytest.raises(NoSuchShard, match="has no shard 2"):
        await stream.read_arrow(2)
    with pytest.raises(NoSuchShard, match="has no shard 2"):
        await anext(stream.tail(2))


@covers("Stream.append", "Stream.read")
async def test_the_largest_entry_makes_the_whole_trip(db: Database) -> None:
    stream = await db.create_stream(fresh("large"), shards=1)
    key, value = b"k" * key_bytes_max, bytes(range(256)) * (row_bytes_max // 256)
    await stream.append(key, value)
    await stream.append(key, value)
    first = await stream.read()
    (second,) = await stream.read(after=first[0], limit=1)
    assert [(e.key, e.value) for e in (first[0], second)] == [(key, value)] * 2


async def test_hundreds_of_appends_under_way_at_once(db: Database) -> None:
    shards = 3
    stream = await db.create_stream(fresh("many"), shards=shards)
    keys = keys_of_shards(shards)
    done = await asyncio.gather(
        *(stream.append(keys[n % shards], b"%d" % n) for n in range(300)),
    )
    for shard in range(shards):
        offsets = [done[n].offset for n in range(300) if done[n].shard == shard]
        assert offsets == list(range(100)), "those of one client stay in order"


async def test_a_repr_is_short_and_says_what_it_is(db: Database) -> None:
    stream = await db.create_stream(fresh("shown"), shards=1)
    await stream.append("o-1", b"x" * 1000)
    (entry,) = await stream.read()
    assert f"append {stream.name} o-1" in repr(entry)
    assert len(repr(entry)) < 200
