"""Streams: entries in, entries back, tokens, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import motet
from motet.client.change import Position
from motet.core.placement.key_hash import shard_of
from motet.errors import BadInput, NoSuchStream, StreamExists, TokenExpired, TooLarge
from motet.limits import key_bytes_max, row_bytes_max


def test_entries_come_back_in_the_order_of_their_shard(db: motet.Database) -> None:
    stream = db.create_stream("orders", shards=2)
    sent = [(f"k-{i}".encode(), f"v-{i}".encode()) for i in range(40)]
    positions = [stream.append(key, value) for key, value in sent]
    assert [each.clock for each in positions] == sorted({each.clock for each in positions})
    for shard in range(2):
        entries = stream.read(shard)
        assert [(e.key, e.value) for e in entries] == [
            s for s in sent if shard_of(s[0], 2) == shard
        ]
        assert [e.offset for e in entries] == list(range(len(entries)))
        placed = [each for each in positions if each.shard == shard]
        assert [Position(e.shard, e.epoch, e.offset, e.raw.clock) for e in entries] == placed
        assert {(e.op, e.stream, e.count) for e in entries} == {("append", "orders", 1)}
        assert [e.row for e in entries] == [e.value for e in entries]


def test_reading_goes_on_behind_an_offset_a_position_or_an_entry(db: motet.Database) -> None:
    stream = db.create_stream("one", shards=1)
    positions = [stream.append("k", bytes([i])) for i in range(7)]
    first, second = stream.read(limit=2)
    rest = [bytes([i]) for i in range(2, 7)]
    for after in (1, second, positions[1]):
        assert [entry.value for entry in stream.read(0, after)] == rest
    assert [entry.value for entry in stream.read(after=first, limit=1)] == [b"\x01"]
    assert stream.read(after=positions[-1]) == []


def test_the_same_token_appends_once(db: motet.Database) -> None:
    stream = db.create_stream("orders")
    first = stream.append("k", b"v", token=("p", 17))
    again = stream.append("k", b"v", token=("p", 17))
    assert again == first
    assert (first.duplicate, again.duplicate) == (False, True)
    other = stream.append("k", b"v", token=("q", 17))
    assert not other.duplicate
    assert other.offset == first.offset + 1
    stream.append("k", b"v", token=("p", 18))
    with pytest.raises(TokenExpired):
        stream.append("k", b"v", token=("p", 17))
    assert len(stream.read(first.shard)) == 3


def test_creating_the_same_stream_again_is_fine_and_another_is_not(db: motet.Database) -> None:
    db.create_stream("orders", shards=3)
    db.create_stream("orders", shards=3, replicas=1)
    with pytest.raises(StreamExists):
        db.create_stream("orders", shards=4)
    db.create_stream("a")
    assert [(info.name, info.shards) for info in db.streams()] == [("a", 4), ("orders", 3)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "no name"},
        {"shards": 0},
        {"shards": -1},
        {"shards": 1 << 20},
        {"shards": 2.0},
        {"schema": "a text"},
        {"replicas": 0},
        {"replicas": 3},
    ],
    ids=str,
)
def test_a_stream_that_cannot_be_is_refused(db: motet.Database, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        db.create_stream(**{"name": "orders", **wrong})
    assert db.streams() == []


def test_bad_calls_are_refused_and_change_nothing(db: motet.Database) -> None:
    stream = db.create_stream("orders")
    bad: Any = 7
    for key, value in [("", b"v"), (bad, b"v"), ("k", bad), ("k", "text")]:
        with pytest.raises(BadInput):
            stream.append(key, value)
    with pytest.raises(TooLarge):
        stream.append("k" * (key_bytes_max + 1), b"v")
    with pytest.raises(TooLarge):
        stream.append("k", bytes(row_bytes_max + 1))
    wrong: list[dict[str, Any]] = [{"limit": 0}, {"limit": -1}, {"shard": -1}, {"shard": 4}]
    for arguments in [*wrong, {"after": "x"}, {"after": -2}]:
        with pytest.raises(BadInput):
            stream.read(**arguments)
    assert sum(db.streams()[0].entries) == 0


def test_a_stream_that_is_not_there(db: motet.Database) -> None:
    with pytest.raises(NoSuchStream, match="nothing"):
        db.stream("nothing").append("k", b"v")
    with pytest.raises(NoSuchStream):
        db.stream("nothing").read()


def test_the_largest_entry_makes_the_whole_trip(db: motet.Database) -> None:
    stream = db.create_stream("orders", shards=1)
    key, value = b"k" * key_bytes_max, bytes(range(256)) * (row_bytes_max // 256)
    stream.append(key, value)
    (entry,) = stream.read()
    assert (entry.key, entry.value) == (key, value)


def test_reprs_are_short_and_say_what_it_is(db: motet.Database) -> None:
    stream = db.create_stream("orders", shards=1)
    stream.append("o-1", b"x" * 1000)
    assert repr(stream).startswith("<Stream orders of ")
    (entry,) = stream.read()
    assert "append orders o-1" in repr(entry)
    assert len(repr(entry)) < 200
