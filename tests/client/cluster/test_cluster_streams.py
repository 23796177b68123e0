"""Streams of a cluster through its client: what is appended comes back, and what is wrong is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pyarrow as pa
import pytest

import motet
import motet.aio
from motet.client.cluster.database import AsyncClusterDatabase
from motet.core.clock.hlc import Clock
from motet.core.datanode.messages import AppendRecords, ReadRecords, RecordsAppended, RecordsRead
from motet.core.datanode.records import Chunk
from motet.core.metadata.definitions import StreamDefinition
from motet.core.operator.messages import (
    CreateStream,
    DeleteStream,
    OperatorDone,
    StreamCreated,
)
from motet.core.streams.change import Token
from motet.errors import (
    BadInput,
    BadSchema,
    MotetError,
    NoSuchShard,
    NoSuchStream,
    NotInCluster,
    OutcomeUnknown,
    StreamExists,
    TokenExpired,
    TooLarge,
)
from motet.errors.operator import MapTooOld, NoNodeToPlaceOn
from motet.errors.shards import NotLeader
from motet.format.record_block import encode_block
from motet.ids import NodeId, Offset, RequestId, ShardName, StreamId, StreamName
from motet.limits import (
    key_bytes_max,
    producer_window,
    row_bytes_max,
)
from motet.testing.dev_cluster import DevCluster


def run(cluster: DevCluster, tale: Callable[[AsyncClusterDatabase], object]) -> None:
    async def connected() -> None:
        async with await motet.aio.connect(cluster.endpoints) as db:
            assert isinstance(db, AsyncClusterDatabase)
            await tale(db)  # type: ignore[misc]

    asyncio.run(connected())


def test_what_is_appended_is_read_back_in_order(db: motet.Database) -> None:
    stream = db.create_stream("plain", shards=2)
    places = [stream.append(f"k-{n}", b"v-%d" % n) for n in range(20)]
    assert {place.shard for place in places} == {0, 1}
    for shard in (0, 1):
        wanted = [n for n, place in enumerate(places) if place.shard == shard]
        found = stream.read(shard)
        assert [entry.value for entry in found] == [b"v-%d" % n for n in wanted]
        assert [entry.offset for entry in found] == list(range(len(wanted)))
        assert [entry.clock for entry in found] == [places[n].clock for n in wanted]
        assert [entry.value for entry in stream.tail(shard, stop_after=3)] == [
            entry.value for entry in found[:3]
        ]
        assert stream.read(shard, after=found[-1]) == []
        assert stream.read(shard, after=found[0], limit=2) == found[1:3]
        assert stream.read(shard, source="replica", limit=1)[:1] in ([], found[:1])


def test_clocks_rise_over_shards_for_whoever_has_seen_the_one_before(db: motet.Database) -> None:
    stream = db.create_stream("caused", shards=4)
    clocks = [stream.append(f"key-{n}", b"").clock for n in range(30)]
    assert clocks == sorted(set(clocks))


def test_a_token_is_appended_once_and_an_old_one_is_refused(db: motet.Database) -> None:
    stream = db.create_stream("tokens", shards=1)
    first = stream.append("k", b"v", token=("me", 1))
    again = stream.append("k", b"v", token=("me", 1))
    assert (again, again.duplicate, first.duplicate) == (first, True, False)
    for number in range(2, producer_window + 3):
        stream.append("k", b"", token=("me", number))
    with pytest.raises(TokenExpired):
        stream.append("k", b"v", token=("me", 1))
    assert len(stream.read(0)) == producer_window + 2


def test_arrow_goes_in_and_comes_out(db: motet.Database) -> None:
    stream = db.create_stream("arrow", shards=1)
    rows = pa.table({"key": ["a", "b", "c"], "value": [b"1", b"2", b"3"]})
    assert [place.offset for place in stream.append_batch(rows)] == [0, 1, 2]
    found = stream.read_arrow(0, after=0)
    assert found.column("offset").to_pylist() == [1, 2]
    assert found.select(["key", "value"]).to_pylist() == [
        {"key": b"b", "value": b"2"},
        {"key": b"c", "value": b"3"},
    ]


def test_a_batch_is_spread_over_shards_and_stays_in_order(db: motet.Database) -> None:
    stream = db.create_stream("spread", shards=3)
    keys = [f"key-{n}" for n in range(500)]
    places = stream.append_batch(pa.table({"key": keys, "value": [key.encode() for key in keys]}))
    assert {place.shard for place in places} == {0, 1, 2}
    for shard in range(3):
        wanted = [key.encode() for key, at in zip(keys, places, strict=True) if at.shard == shard]
        assert [entry.value for entry in stream.read(shard)] == wanted
        offsets = [place.offset for place in places if place.shard == shard]
        assert offsets == list(range(len(wanted)))


def test_stats_say_who_leads_and_how_much_there_is(db: motet.Database) -> None:
    stream = db.create_stream("counted", shards=1, replicas=3)
    stream.append("k", b"v")
    (shown,) = stream.stats()
    assert shown["leader"] in shown["ensemble"]
    assert (sorted(shown["ensemble"]), shown["next_offset"]) == (["n0", "n1", "n2"], 1)


def test_a_stream_that_is_made_anew_is_found_by_those_who_knew_the_old_one(
    db: motet.Database,
) -> None:
    stream = db.create_stream("again", shards=1)
    stream.append("k", b"old")
    db.delete_stream("again")
    with pytest.raises(NoSuchStream):
        stream.append("k", b"nowhere")
    db.create_stream("again", shards=2)
    place = stream.append("k", b"new")
    assert [entry.value for entry in stream.read(place.shard)] == [b"new"]


BAD: dict[str, tuple[type[MotetError], Callable[[motet.Database], object]]] = {
    "unknown stream": (NoSuchStream, lambda db: db.stream("nope").append("k", b"")),
    "unknown stream, read": (NoSuchStream, lambda db: db.stream("nope").read()),
    "unknown stream, deleted": (NoSuchStream, lambda db: db.delete_stream("nope")),
    "unknown shard": (NoSuchShard, lambda db: db.stream("bad").read(7)),
    "negative shard": (BadInput, lambda db: db.stream("bad").read(-1)),
    "value too large": (
        TooLarge,
        lambda db: db.stream("bad").append("k", bytes(row_bytes_max + 1)),
    ),
    "key too large": (TooLarge, lambda db: db.stream("bad").append("k" * (key_bytes_max + 1), b"")),
    "empty key": (BadInput, lambda db: db.stream("bad").append("", b"")),
    "key of a wrong type": (BadInput, lambda db: db.stream("bad").append(1, b"")),  # type: ignore[arg-type]
    "value of a wrong type": (BadInput, lambda db: db.stream("bad").append("k", "text")),  # type: ignore[arg-type]
    "bad token": (BadInput, lambda db: db.stream("bad").append("k", b"", token=("p", -1))),
    "bad limit": (BadInput, lambda db: db.stream("bad").read(0, limit=0)),
    "bad source": (BadInput, lambda db: db.stream("bad").read(0, source="anybody")),  # type: ignore[arg-type]
    "no arrow": (BadInput, lambda db: db.stream("bad").append_batch([1])),
    "no column": (BadSchema, lambda db: db.stream("bad").append_batch(pa.table({"key": ["k"]}))),
    "another stream": (StreamExists, lambda db: db.create_stream("bad", shards=2)),
    "no shards": (BadInput, lambda db: db.create_stream("none", shards=0)),
    "too many replicas": (NoNodeToPlaceOn, lambda db: db.create_stream("many", replicas=5)),
    "not in a cluster": (NotInCluster, lambda db: db.tables()),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_told_and_changes_nothing(what: str, db: motet.Database) -> None:
    stream = db.create_stream("bad", shards=1)
    before = len(stream.read(0))
    error, call = BAD[what]
    with pytest.raises(error) as told:
        call(db)
    assert str(told.value).startswith(error.code)
    assert len(stream.read(0)) == before


def test_only_the_leader_takes_an_append(cluster: DevCluster) -> None:
    async def tale(db: AsyncClusterDatabase) -> None:
        stream = await db.create_stream("led", shards=1)
        await stream.append("k", b"v")
        place = (await db.router.stream(stream.name)).places[0]
        follower = next(node for node in place.ensemble if node != place.leader)
        block = encode_block([b"k"], [b"stray"])

        def make(n: RequestId, clock: Clock) -> AppendRecords:
            return AppendRecords(n, clock, place.shard, (Chunk(1, None, block),))

        with pytest.raises(NotLeader):
            await db.router.ask_node(follower, make, RecordsAppended)
        with pytest.raises(NoSuchShard):
            await db.router.ask_node(
                follower,
                lambda n, clock: ReadRecords(
                    n, clock, ShardName("none.0"), Offset(-1), 1, 1000, "replica"
                ),
                RecordsRead,
            )
        assert [entry.value for entry in await stream.read(0)] == [b"v"]

    run(cluster, tale)


def test_a_late_request_leaves_a_deleted_stream_and_the_next_one_alone(
    cluster: DevCluster,
) -> None:
    name = StreamName("comes-back")
    first = StreamDefinition(StreamId("c" * 16), name, 1, None)

    async def tale(db: AsyncClusterDatabase) -> None:
        fence = db.router.map.fence

        async def create(fence: int) -> StreamCreated:
            return await db.router.ask_operator(
                lambda n: CreateStream(n, first, fence), StreamCreated, 30
            )

        async def delete() -> OperatorDone:
            return await db.router.ask_operator(
                lambda n: DeleteStream(n, name, first.id), OperatorDone, 30
            )

        try:
            await create(fence)
        except MapTooOld as error:  # other tests have deleted streams
            fence = error.fence
            await create(fence)
        await db.delete_stream(name)
        with pytest.raises(MapTooOld):
            await create(fence)
        assert name not in [each.name for each in await db.streams()]
        stream = await db.create_stream(name, shards=1)
        await stream.append("k", b"v")
        with pytest.raises(NoSuchStream):
            await delete()
        assert [entry.value for entry in await stream.read(0)] == [b"v"]
        await db.delete_stream(name)
        with pytest.raises(NoSuchStream):
            await db.delete_stream(name)

    run(cluster, tale)


BLOCKS = {
    "no block": b"",
    "a count without records": b"\x05\0\0\0",
    "ends that fall": b"\x02\0\0\0" + b"\x02\0\0\0\x01\0\0\0" * 2 + b"kkv",
    "too short": encode_block([b"k"], [b"v"])[:-1],
    "too long": encode_block([b"k"], [b"v"]) + b"!",
}


@pytest.mark.parametrize("what", BLOCKS)
def test_a_malformed_block_is_refused_by_the_leader(what: str, cluster: DevCluster) -> None:
    async def tale(db: AsyncClusterDatabase) -> None:
        stream = await db.create_stream("blocks", shards=1)
        place = (await db.router.stream(stream.name)).places[0]
        chunk = Chunk(1, Token("p", 1), BLOCKS[what])
        with pytest.raises(BadInput):
            await db.router.ask_leader(
                place.shard,
                lambda n, clock: AppendRecords(n, clock, place.shard, (chunk,)),
                RecordsAppended,
                may_repeat=False,
                seconds=5,
            )
        assert await stream.read(0) == []

    run(cluster, tale)


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", bytes(64), b"\xff" * 5000])
def test_malformed_frames_end_their_connection_and_nothing_else(
    junk: bytes, cluster: DevCluster, db: motet.Database
) -> None:
    stream = db.create_stream("junk", shards=1)
    before = len(stream.read(0))
    for i in range(3):
        host, _, port = cluster.endpoint(i).rpartition(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.settimeout(30)
            connection.sendall(junk)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass  # its greeting, and then the end
    stream.append("k", b"v")
    assert len(stream.read(0)) == before + 1


def test_an_operator_says_what_cannot_be_done(cluster: DevCluster) -> None:
    async def tale(db: AsyncClusterDatabase) -> None:
        await db.create_stream("fixed", shards=1, replicas=3)
        (shard,) = (await db.describe_shards("fixed")).shards
        refused = {
            "NO_NODE_TO_PLACE_ON": db.expand("fixed", 0),
            "NODE_LEADS": db.swap("fixed", 0, str(shard.leader), None),
            "NOT_IN_ENSEMBLE": db.contract("fixed", 0, "n9"),
            "NO_SUCH_SHARD": db.elect("fixed", 4),
            "NO_SUCH_STREAM": db.describe_shards("nope"),
            "NO_SUCH_NODE": db.drain("n9"),
        }
        for code, asked in refused.items():
            with pytest.raises(MotetError) as told:
                await asked
            assert told.value.code == code
        (after,) = (await db.describe_shards("fixed")).shards
        assert after.ensemble == shard.ensemble

    run(cluster, tale)


def test_a_change_of_an_ensemble_is_never_repeated(cluster: DevCluster) -> None:
    """A second expand would be another one: without an answer its outcome is unknown."""

    async def tale(db: AsyncClusterDatabase) -> None:
        await db.create_stream("grown", shards=1, replicas=1)
        asked = 0

        async def silent(*_: object) -> None:
            nonlocal asked
            asked += 1
            raise OutcomeUnknown("nobody answered")

        db.router._ask_operator = silent  # type: ignore[method-assign, assignment]
        with pytest.raises(OutcomeUnknown, match="shard describe"):
            await db.expand("grown", 0)
        assert asked == 1

    run(cluster, tale)


def test_a_node_that_cannot_be_reached_has_not_got_the_request() -> None:
    async def tale() -> None:
        from motet.client.cluster.router import Router
        from motet.errors import NodeError

        with socket.create_server(("127.0.0.1", 0)) as nobody:
            port = nobody.getsockname()[1]
        router = Router([f"127.0.0.1:{port}"], "nowhere")
        await router.start()
        try:
            with pytest.raises(NodeError, match="cannot be reached"):
                await router.ask_node(
                    NodeId(f"127.0.0.1:{port}"),
                    lambda n, clock: AppendRecords(n, clock, ShardName("s.0"), ()),
                    RecordsAppended,
                )
        finally:
            await router.close()

    asyncio.run(tale())
