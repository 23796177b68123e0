"""What data nodes and operators refuse, whoever asks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

import motet
import motet.aio
from motet.client.cluster.database import AsyncClusterDatabase
from motet.core.clock.hlc import Clock
from motet.core.metadata.definitions import StreamDefinition
from motet.core.streams.change import Token
from motet.core.streams.cluster_messages import (
    CreateStream,
    DeleteStream,
    OperatorDone,
    StreamCreated,
)
from motet.core.streams.entries import Chunk
from motet.core.streams.messages import AppendRecords, ReadRecords, RecordsAppended, RecordsRead
from motet.errors import (
    BadInput,
    NoSuchShard,
    NoSuchStream,
    OutcomeUnknown,
)
from motet.errors.operator import MapTooOld
from motet.errors.shards import NotLeader
from motet.format.record_block import encode_block
from motet.ids import NodeId, Offset, RequestId, ShardName, StreamId, StreamName
from motet.testing.local_cluster import LocalCluster


def run(cluster: LocalCluster, tale: Callable[[AsyncClusterDatabase], object]) -> None:
    async def connected() -> None:
        async with await motet.aio.connect(cluster.endpoints) as db:
            assert isinstance(db, AsyncClusterDatabase)
            await tale(db)  # type: ignore[misc]

    asyncio.run(connected())


def test_only_the_leader_takes_an_append(cluster: LocalCluster) -> None:
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
    cluster: LocalCluster,
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


def test_rows_are_encoded_by_the_schema_of_the_stream_that_has_the_name_now(
    cluster: LocalCluster,
) -> None:
    pa = pytest.importorskip("pyarrow")
    old, now = (
        pa.schema([("left", pa.int64())]),
        pa.schema([("note", pa.string()), ("left", pa.int32())]),
    )

    async def tale(db: AsyncClusterDatabase) -> None:
        async with await motet.aio.connect(cluster.endpoints) as other:

            async def insert(by: motet.aio.Database, row: dict[str, object]) -> None:
                async with by.transaction() as txn:
                    txn.change("again", key="k", op="insert", row=row)

            await db.create_stream("again", schema=old, shards=1)
            await insert(other, {"left": 1})
            await db.delete_stream("again")
            await db.create_stream("again", schema=now, shards=1)
            assert isinstance(other, AsyncClusterDatabase)
            await other.router.refresh()
            await insert(other, {"left": 2})  # it fits both
            await insert(other, {"note": "n", "left": 3})
            await db.visible_clock("again", wait=True)
            rows = [change.row for change in await db.changes("again")]
            assert rows == [{"note": None, "left": 2}, {"note": "n", "left": 3}]

    run(cluster, tale)


@pytest.mark.parametrize("what", BLOCKS)
def test_a_malformed_block_is_refused_by_the_leader(what: str, cluster: LocalCluster) -> None:
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
    junk: bytes, cluster: LocalCluster, db: motet.Database
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


def test_a_change_of_an_ensemble_is_never_repeated(cluster: LocalCluster) -> None:
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
