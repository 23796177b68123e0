"""A session over connections that come and go: what is asked again, what is unknown, what is over."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.keeper.fake_keeper import (
    PASSWORD,
    SESSION,
    STAT,
    Peer,
    answer_to,
    fake_keeper,
    good,
    in_loop,
)

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.errors import AuthFailed, SessionExpired
from motet.errors import BadInput, NodeError, OutcomeUnknown
from motet.format.zookeeper.messages import (
    Auth,
    CloseSession,
    ErrorCode,
    Failed,
    GetData,
    Nothing,
    Request,
)
from motet.format.zookeeper.records import ConnectRequest


async def hang_up_after_two(peer: Peer) -> None:
    """Take two requests and answer neither."""
    await peer.greet()
    await peer.request()
    await peer.request()


@in_loop
async def test_a_lost_connection_leaves_writes_unknown_and_reads_are_asked_again() -> None:
    async with fake_keeper(hang_up_after_two, good) as fake, fake.client() as keeper:
        write, read = await asyncio.gather(
            keeper.set("/a", b""), keeper.get("/a"), return_exceptions=True
        )
        assert isinstance(write, OutcomeUnknown)
        assert read == (b"/a", STAT)


@in_loop
async def test_the_same_session_is_asked_for_with_what_was_seen_last() -> None:
    hellos: list[ConnectRequest] = []

    async def first(peer: Peer) -> None:
        hellos.append(await peer.greet())
        peer.zxid = 41
        xid, request = await peer.request()
        peer.reply(xid, answer_to(request))

    async def second(peer: Peer) -> None:
        hellos.append(await peer.greet())
        await peer.serve()

    async with fake_keeper(first, second) as fake, fake.client(timeout_ms=7000) as keeper:
        await keeper.get("/a")
        await keeper.get("/b")
        assert keeper.session == SESSION
    assert hellos == [
        ConnectRequest(0, 0, 7000, 0, bytes(16), False),
        ConnectRequest(0, 42, 7000, SESSION, PASSWORD, False),
    ]


@in_loop
async def test_the_next_server_is_tried_when_one_is_silent_or_gone() -> None:
    async def silent(peer: Peer) -> None:
        await peer.gone()

    async def closing(peer: Peer) -> None:
        await peer.payload()

    async with fake_keeper(silent) as deaf, fake_keeper(closing) as shy, fake_keeper(good) as fake:
        endpoints = f"127.0.0.1:1,{deaf.endpoint},{shy.endpoint},{fake.endpoint}"
        async with KeeperClient(endpoints, timeout_ms=1000) as keeper:
            assert await keeper.get("/a") == (b"/a", STAT)
        assert (deaf.connections, shy.connections, fake.connections) == (1, 1, 1)


@in_loop
async def test_without_any_server_there_is_an_error_that_says_why() -> None:
    with pytest.raises(NodeError, match=r"no session at 127\.0\.0\.1:1 .*127\.0\.0\.1:1"):
        await KeeperClient("127.0.0.1:1", seconds=0.2).__aenter__()


@in_loop
async def test_an_expired_session_fails_everything_until_it_is_renewed() -> None:
    async def expired(peer: Peer) -> None:
        await peer.expire()

    async def renewed(peer: Peer) -> None:
        hello = await peer.greet(session=SESSION + 1)
        assert (hello.session, hello.last_zxid) == (0, 0)
        await peer.serve()

    async with (
        fake_keeper(hang_up_after_two, expired, renewed) as fake,
        fake.client() as keeper,
    ):
        ends = await asyncio.gather(keeper.get("/a"), keeper.set("/a", b""), return_exceptions=True)
        assert [type(each) for each in ends] == [SessionExpired, OutcomeUnknown]
        assert keeper.is_expired
        for _ in range(2):
            with pytest.raises(SessionExpired, match="renew"):
                await keeper.set("/a", b"")
        await asyncio.gather(keeper.renew(), keeper.renew())
        assert await keeper.get("/a") == (b"/a", STAT)
        assert keeper.session == SESSION + 1
        await keeper.renew()  # nothing happens
        assert fake.connections == 3


@in_loop
async def test_an_answer_that_says_expired_ends_the_session_too() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        xid, _ = await peer.request()
        peer.reply(xid, Failed(ErrorCode.SESSION_EXPIRED))
        await peer.gone()

    async with fake_keeper(script) as fake, fake.client() as keeper:
        with pytest.raises(SessionExpired):
            await keeper.set("/a", b"")
        with pytest.raises(SessionExpired):
            await keeper.get("/a")
        assert fake.connections == 1


@in_loop
async def test_calls_wait_for_a_connection_and_go_out_with_it() -> None:
    is_lost, is_back = asyncio.Event(), asyncio.Event()

    async def gone(peer: Peer) -> None:
        await peer.greet()

    async def back(peer: Peer) -> None:
        is_lost.set()
        await is_back.wait()
        await peer.greet()
        await peer.serve()

    async with fake_keeper(gone, back) as fake, fake.client() as keeper:
        await is_lost.wait()
        assert not keeper.is_connected
        with pytest.raises(NodeError, match="nothing was asked"):
            await keeper.set("/a", b"", seconds=0.01)
        waiting = [asyncio.create_task(keeper.set(f"/{n}", b"")) for n in range(100)]
        await asyncio.sleep(0)
        is_back.set()
        assert await asyncio.gather(*waiting) == [STAT] * 100


@in_loop
async def test_callers_that_went_leave_nothing_behind_while_there_is_no_connection() -> None:
    is_lost = asyncio.Event()

    async def gone(peer: Peer) -> None:
        await peer.greet()

    async def deaf(peer: Peer) -> None:
        is_lost.set()
        await peer.gone()

    async with fake_keeper(gone, deaf) as fake, fake.client() as keeper:
        await is_lost.wait()
        assert not keeper.is_connected
        for _ in range(10):
            calls = (keeper.get("/a", seconds=0.001) for _ in range(100))
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(each) for each in ends} == {NodeError}
        assert len(keeper._session._wanted) < 600


@in_loop
async def test_a_silent_server_is_given_up_before_the_session_is() -> None:
    async def silent(peer: Peer) -> None:
        await peer.greet(timeout_ms=300)
        await peer.gone()

    async with fake_keeper(silent, good) as fake, fake.client() as keeper:
        assert await keeper.get("/a") == (b"/a", STAT)
        assert fake.connections == 2


@in_loop
async def test_pings_keep_an_idle_connection() -> None:
    pings = 0
    is_enough = asyncio.Event()

    async def script(peer: Peer) -> None:
        nonlocal pings
        # Long enough that a busy machine is not taken for a dead server.
        await peer.greet(timeout_ms=3_000)
        while pings < 3:
            payload = await peer.payload()
            assert payload == b"\xff\xff\xff\xfe\0\0\0\x0b"
            peer.reply(-2, Nothing())
            pings += 1
        is_enough.set()
        await peer.serve()

    async with fake_keeper(script) as fake, fake.client():
        await is_enough.wait()
        assert fake.connections == 1


@in_loop
async def test_identities_are_told_to_every_connection_before_anything_else() -> None:
    told: list[list[Request]] = [[], []]

    async def script(peer: Peer, requests: list[Request], stop: int) -> None:
        await peer.greet()
        while len(requests) < stop:
            xid, request = await peer.request()
            requests.append(request)
            is_known = not isinstance(request, Auth) or request.auth != b"no"
            peer.reply(xid, answer_to(request) if is_known else Failed(ErrorCode.AUTH_FAILED))

    async with (
        fake_keeper(
            lambda peer: script(peer, told[0], 3), lambda peer: script(peer, told[1], 3)
        ) as fake,
        fake.client() as keeper,
    ):
        await keeper.add_auth("digest", b"a:b")
        with pytest.raises(AuthFailed):
            await keeper.add_auth("digest", b"no")
        await keeper.get("/a")
        await keeper.get("/b")
    good_one = Auth("digest", b"a:b")
    assert told[0] == [good_one, Auth("digest", b"no"), GetData("/a", False)]
    assert told[1] == [good_one, GetData("/b", False), CloseSession()]


@in_loop
async def test_closing_says_goodbye_after_all_that_was_asked() -> None:
    requests: list[Request] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        for _ in range(2):
            xid, request = await peer.request()
            requests.append(request)
            peer.reply(xid, answer_to(request))

    async with fake_keeper(script) as fake:
        async with fake.client() as keeper:
            call = asyncio.create_task(keeper.get("/a"))
            await asyncio.sleep(0)
        assert await call == (b"/a", STAT)
        assert requests == [GetData("/a", False), CloseSession()]
        await keeper.close()
        with pytest.raises(NodeError, match="closed"):
            await keeper.get("/a")
        assert fake.connections == 1


@in_loop
async def test_closing_without_an_answer_leaves_nobody_waiting() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.gone()

    async with fake_keeper(script) as fake:
        async with fake.client(seconds=0.05) as keeper:
            calls = (keeper.get("/a", seconds=60), keeper.set("/a", b"", seconds=60))
            ends = asyncio.gather(*calls, return_exceptions=True)
            await asyncio.sleep(0)
        assert [type(each) for each in await ends] == [NodeError, OutcomeUnknown]


def test_what_makes_no_sense_is_refused_at_once() -> None:
    for endpoints in ("", "nowhere", "a:1,,b:2", "a:99999"):
        with pytest.raises(BadInput):
            KeeperClient(endpoints)
    with pytest.raises(BadInput):
        KeeperClient("a:1", reads="new")  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        KeeperClient("a:1", server="other")  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        KeeperClient("a:1", timeout_ms=0)


@in_loop
async def test_a_client_that_has_not_begun_says_so() -> None:
    with pytest.raises(NodeError, match="async with"):
        await KeeperClient("a:1").get("/a")
