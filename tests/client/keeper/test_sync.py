"""The keeper's client without an event loop, without a socket, and its errors over a process boundary."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import cast

import pytest
from tests.client.keeper.fake_keeper import PASSWORD, SESSION, STAT, answer_to, in_loop

from motet.client.keeper import sync
from motet.client.keeper.client import OPEN, KeeperClient, Outcome
from motet.client.keeper.errors import KeeperMultiFailed, KeeperTooLarge, NoNode
from motet.client.keeper.watches import WATCH_LOST, ThreadWatch
from motet.errors import NodeError, error_of
from motet.format.zookeeper.codec import decode_request, encode_event, encode_reply
from motet.format.zookeeper.jute import FrameCutter
from motet.format.zookeeper.messages import (
    AnyResult,
    Check,
    Children,
    Create,
    Created,
    Data,
    Delete,
    ErrorCode,
    EventType,
    Failed,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    MultiResult,
    Nothing,
    Request,
    SetData,
    StatResult,
    WatchEvent,
)
from motet.format.zookeeper.records import (
    ConnectReply,
    decode_connect_request,
    encode_connect_reply,
)
from motet.format.zookeeper.sizes import WriteLimits


class Inside:
    """A keeper in this very process: a transport that answers what is written to it."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._cutter = FrameCutter()
        self._is_greeted = False

    def write(self, data: bytes) -> None:
        answers = b"".join(self._answer(payload) for payload in self._cutter.feed(data))
        asyncio.get_running_loop().call_soon(self._protocol.data_received, answers)

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def _answer(self, payload: bytes) -> bytes:
        if not self._is_greeted:
            self._is_greeted = True
            decode_connect_request(payload)
            return encode_connect_reply(ConnectReply(10_000, SESSION, PASSWORD, False))
        xid, request = decode_request(payload)
        reply = encode_reply(xid, 1, 0, answer_inside(request), request)
        if isinstance(request, GetData) and request.watch:
            reply += encode_event(WatchEvent(EventType.CHANGED, request.path))
        return reply


def answer_inside(request: Request) -> AnyResult:
    if isinstance(request, Multi) and request.operations[-1] == Delete("/none", -1):
        before = [Failed(0)] * (len(request.operations) - 1)
        return MultiResult((*before, Failed(ErrorCode.NO_NODE)))
    if isinstance(request, Multi):
        return MultiResult((Created("/a"), StatResult(STAT), Nothing(), Nothing()))
    if isinstance(request, MultiRead):
        return MultiResult((Data(b"a", STAT), Failed(ErrorCode.NO_NODE), Children(("x", "y"))))
    return answer_to(request)


async def connect_inside(
    make: Callable[[], asyncio.Protocol], host: str, port: int
) -> tuple[object, object]:
    protocol = make()
    transport = Inside(protocol)
    protocol.connection_made(cast("asyncio.BaseTransport", transport))
    return transport, protocol


@in_loop
async def test_a_keeper_can_be_spoken_to_without_a_socket() -> None:
    async with KeeperClient("inside:1", connect=connect_inside) as keeper:
        assert await keeper.get("/a") == (b"/a", STAT)
        assert keeper.session == SESSION


@in_loop
async def test_a_multi_has_an_outcome_for_each_operation_or_says_which_was_refused() -> None:
    async with KeeperClient("inside:1", connect=connect_inside) as keeper:
        done: list[Outcome] = await keeper.multi(
            [Create("/a", b"", OPEN, 0), SetData("/a", b"", 0), Check("/a", 1), Delete("/b", -1)]
        )
        assert done == ["/a", STAT, None, None]
        with pytest.raises(KeeperMultiFailed, match=r"operation 1 .* /none") as raised:
            await keeper.multi([Create("/a", b"", OPEN, 0), Delete("/none", -1)])
        assert raised.value.index == 1
        assert isinstance(raised.value.error, NoNode)


@in_loop
async def test_a_multi_that_is_too_large_is_refused_before_it_is_sent() -> None:
    small = WriteLimits(reply_bytes_max=1_000)
    async with KeeperClient("inside:1", connect=connect_inside, limits=small) as keeper:
        with pytest.raises(KeeperTooLarge, match="7 operations exceeds the limit of 1000 bytes"):
            await keeper.multi([SetData("/a", b"", 0)] * 7)
        with pytest.raises(KeeperTooLarge, match="for a request"):
            await keeper.multi([SetData("/a", bytes(2 << 20), 0), Check("/a", 0)])
        assert await keeper.get("/a") == (b"/a", STAT), "and the session goes on"


@in_loop
async def test_reads_of_a_multi_fail_one_by_one() -> None:
    async with KeeperClient("inside:1", connect=connect_inside) as keeper:
        zxid, (data, missing, names) = await keeper.multi_read(
            ["/a", "/b", GetChildren("/c", False)]
        )
        assert zxid == 1
        assert data == (b"a", STAT)
        assert isinstance(missing, NoNode)
        assert "/b" in missing.what
        assert names == ["x", "y"]


def test_without_an_event_loop_the_calls_are_the_same() -> None:
    before = threading.active_count()
    with sync.connect("inside:1", connect=connect_inside) as keeper:
        watch = ThreadWatch()
        assert keeper.get("/a", watch) == (b"/a", STAT)
        assert watch.wait(60) == WatchEvent(EventType.CHANGED, "/a")
        assert keeper.create("/b", sequential=True) == "/b"
        assert keeper.set("/b", b"") == STAT
        assert keeper.exists("/b") == STAT
        keeper.ensure_path("/a/b/c")
        keeper.delete("/b")
        assert keeper.session == SESSION
        lost = ThreadWatch()
        keeper.exists("/b", lost)
        assert lost.wait(0) is None
    event = lost.wait(60)
    assert event is not None
    assert event.type == WATCH_LOST
    with pytest.raises(NodeError, match="closed"):
        keeper.get("/a")
    assert threading.active_count() == before


def test_a_connect_that_fails_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(NodeError):
        sync.connect("127.0.0.1:1", seconds=0.1)
    assert threading.active_count() == before


def test_errors_cross_processes_with_all_they_know() -> None:
    error = KeeperMultiFailed("what", index=3, error=NoNode("there is no node /a"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.index, str(again.error)) == (str(error), 3, str(error.error))
    assert isinstance(error_of("NO_NODE", "what", "advice"), NoNode)
