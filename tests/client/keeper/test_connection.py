"""One connection: many calls in flight, answers in order, and what happens when they are not."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.keeper.fake_keeper import STAT, Peer, answer_to, fake_keeper, good, in_loop

from motet.client.keeper.errors import BadVersion, KeeperError, NoNode
from motet.errors import BadInput, NodeError, OutcomeUnknown, TooLarge
from motet.format.zookeeper.codec import encode_reply
from motet.format.zookeeper.messages import (
    Data,
    ErrorCode,
    Failed,
    GetData,
    SetData,
    StatResult,
    Sync,
)


@in_loop
async def test_thousands_of_calls_in_flight_each_get_their_own_answer() -> None:
    async with fake_keeper(good) as fake, fake.client() as keeper:
        count = 5000
        found = await asyncio.gather(*(keeper.get(f"/{n}") for n in range(count)))
        assert [data for data, _ in found] == [f"/{n}".encode() for n in range(count)]


@in_loop
async def test_what_is_asked_in_one_turn_of_the_loop_arrives_in_its_order() -> None:
    paths: list[str] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        for _ in range(10):
            xid, request = await peer.request()
            assert isinstance(request, SetData)
            paths.append(request.path)
            peer.reply(xid, StatResult(STAT))
        await peer.serve()

    async with fake_keeper(script) as fake, fake.client() as keeper:
        await asyncio.gather(*(keeper.set(f"/{n}", b"") for n in range(10)))
    assert paths == [f"/{n}" for n in range(10)]


@in_loop
async def test_answers_in_single_bytes_are_still_answers() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        xid, request = await peer.request()
        for byte in encode_reply(xid, 1, 0, answer_to(request)):
            peer.write(bytes([byte]))
            await asyncio.sleep(0)
        await peer.serve()

    async with fake_keeper(script) as fake, fake.client() as keeper:
        assert await keeper.get("/a") == (b"/a", STAT)


@in_loop
async def test_a_wrong_xid_ends_the_connection_and_leaves_writes_unknown() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.request()
        xid, request = await peer.request()
        peer.reply(xid, answer_to(request))  # the second first
        await peer.gone()

    async with fake_keeper(script, good) as fake, fake.client() as keeper:
        read, write = await asyncio.gather(
            keeper.get("/a"), keeper.set("/a", b""), return_exceptions=True
        )
        assert read == (b"/a", STAT)  # asked again
        assert isinstance(write, OutcomeUnknown)
        assert "xid" in write.what
        assert fake.connections == 2


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x7f\xff\xff\xff",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\3abc",
        b"\0\0\0\x10" + b"\0\0\0\7" + bytes(12),
    ],
    ids=["too long", "another protocol", "too short", "an answer to nothing"],
)
def test_garbage_ends_the_connection_and_the_next_one_goes_on(garbage: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.write(garbage)
        await peer.gone()

    @in_loop
    async def test() -> None:
        async with fake_keeper(script, good) as fake, fake.client() as keeper:
            assert await keeper.get("/a") == (b"/a", STAT)
            assert fake.connections == 2

    test()


@in_loop
async def test_an_answer_that_cannot_be_read_is_no_answer() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        xid, _ = await peer.request()
        peer.reply(xid, StatResult(STAT))  # to a create, whose answer is a path
        await peer.gone()

    async with fake_keeper(script, good) as fake, fake.client() as keeper:
        with pytest.raises(OutcomeUnknown):
            await keeper.create("/a")


@in_loop
async def test_errors_of_the_keeper_are_raised_by_name() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        for error in (ErrorCode.BAD_VERSION, ErrorCode.NO_NODE, -999):
            xid, _ = await peer.request()
            peer.reply(xid, Failed(error))
        await peer.serve()

    async with fake_keeper(script) as fake, fake.client() as keeper:
        with pytest.raises(BadVersion, match="/a"):
            await keeper.set("/a", b"", version=3)
        with pytest.raises(NoNode):
            await keeper.get("/a")
        with pytest.raises(KeeperError, match="-999"):
            await keeper.delete("/a")
        assert await keeper.get("/b") == (b"/b", STAT)


@in_loop
async def test_a_server_that_lost_sight_of_a_write_leaves_it_unknown() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        while True:
            xid, _ = await peer.request()
            peer.reply(xid, Failed(ErrorCode.CONNECTION_LOSS))

    async with fake_keeper(script) as fake, fake.client() as keeper:
        with pytest.raises(OutcomeUnknown):
            await keeper.set("/a", b"")
        with pytest.raises(NodeError, match="ask again"):
            await keeper.get("/a")


@in_loop
async def test_an_answer_that_comes_too_late_is_that_of_its_own_call() -> None:
    is_late = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.greet()
        asked = [await peer.request(), await peer.request()]
        await is_late.wait()
        for xid, request in asked:
            peer.reply(xid, answer_to(request))
        await peer.serve()

    async with fake_keeper(script) as fake, fake.client() as keeper:
        late = await asyncio.gather(
            keeper.get("/a", seconds=0.01),
            keeper.set("/a", b"", seconds=0.01),
            return_exceptions=True,
        )
        assert [type(each) for each in late] == [NodeError, OutcomeUnknown]
        is_late.set()
        assert await keeper.get("/b") == (b"/b", STAT)
        assert fake.connections == 1


@in_loop
async def test_a_call_that_was_cancelled_disturbs_nobody() -> None:
    async with fake_keeper(good) as fake, fake.client() as keeper:
        calls = [asyncio.create_task(keeper.get(f"/{n}")) for n in range(10)]
        await asyncio.sleep(0)
        calls[3].cancel()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(found.pop(3), asyncio.CancelledError)
        assert [each[0] for each in found if not isinstance(each, BaseException)] == [
            f"/{n}".encode() for n in range(10) if n != 3
        ]


@in_loop
async def test_what_cannot_be_sent_is_refused_to_its_caller_alone() -> None:
    async with fake_keeper(good) as fake, fake.client() as keeper:
        with pytest.raises(TooLarge):
            await keeper.set("/a", bytes(2 << 20))
        with pytest.raises(BadInput):
            await keeper.get("/\ud800")
        with pytest.raises(BadInput):
            await keeper.delete("/a", version=1 << 40)
        assert await keeper.get("/b") == (b"/b", STAT)
        assert fake.connections == 1


@in_loop
async def test_large_values_wait_for_room_and_all_arrive() -> None:
    async with fake_keeper(good) as fake, fake.client() as keeper:
        stats = await asyncio.gather(*(keeper.set(f"/{n}", bytes(1 << 20)) for n in range(24)))
        assert stats == [STAT] * 24


@in_loop
async def test_linearizable_reads_of_a_zookeeper_share_a_sync_in_front_of_them() -> None:
    kinds: list[str] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        for _ in range(6):
            xid, request = await peer.request()
            kinds.append(type(request).__name__)
            peer.reply(xid, answer_to(request))
        await peer.serve()

    async with fake_keeper(script) as fake, fake.client(server="zookeeper") as keeper:
        await asyncio.gather(keeper.set("/a", b""), keeper.get("/a"), keeper.get("/b"))
        await keeper.get("/c")
    assert kinds == ["SetData", "Sync", "GetData", "GetData", "Sync", "GetData"]


@in_loop
async def test_a_read_behind_a_refused_sync_is_asked_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        xid, request = await peer.request()
        assert isinstance(request, Sync)
        peer.reply(xid, Failed(ErrorCode.SYSTEM_ERROR))
        xid, request = await peer.request()
        assert isinstance(request, GetData)
        peer.reply(xid, Data(b"old", STAT))
        await peer.gone()

    async with fake_keeper(script, good) as fake, fake.client(server="zookeeper") as keeper:
        assert await keeper.get("/a") == (b"/a", STAT)
