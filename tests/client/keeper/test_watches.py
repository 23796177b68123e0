"""Watches: they fire once, in order with the answers, survive a connection, and end with the session."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.keeper.fake_keeper import STAT, Peer, answer_to, fake_keeper, good, in_loop

from motet.client.keeper.watches import WATCH_LOST, Watch, Watches
from motet.errors import MotetError, NodeError
from motet.format.zookeeper.messages import (
    Children,
    ErrorCode,
    EventType,
    Exists,
    Failed,
    GetChildren,
    GetData,
    Nothing,
    Request,
    SetWatches,
    WatchEvent,
)


@in_loop
async def test_a_watch_fires_once_and_can_be_awaited_by_many() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        xid, request = await peer.request()
        assert request == GetData("/a", True)
        peer.reply(xid, answer_to(request))
        peer.event(EventType.CHANGED, "/a")
        peer.event(EventType.CHANGED, "/a")
        await peer.serve()

    async with fake_keeper(script) as fake, fake.client() as keeper:
        watch, told = Watch(), list[WatchEvent]()

        def both(event: WatchEvent) -> None:
            watch(event)
            told.append(event)

        await keeper.get("/a", both)
        event = WatchEvent(EventType.CHANGED, "/a")
        assert list(await asyncio.gather(watch, watch)) == [event, event]
        await keeper.get("/b")
        assert told == [event]


@in_loop
async def test_names_are_watched_without_reading_them() -> None:
    asked: list[Request] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        for is_there in (True, False):
            xid, request = await peer.request()
            asked.append(request)
            if not is_there:
                peer.event(EventType.DELETED, "/b")
            peer.reply(xid, Nothing())
        peer.event(EventType.CHILD, "/a")
        xid, request = await peer.request()
        peer.reply(xid, Failed(ErrorCode.SYSTEM_ERROR))
        await peer.serve()

    async with fake_keeper(script) as fake, fake.client() as keeper:
        names, gone, refused = Watch(), Watch(), Watch()
        await keeper.watch_children("/a", names)
        await keeper.watch_children("/b", gone)
        assert gone.event == WatchEvent(EventType.DELETED, "/b"), "told before it is answered"
        assert await names == WatchEvent(EventType.CHILD, "/a")
        with pytest.raises(MotetError):
            await keeper.watch_children("/c", refused)
        assert len(keeper._session._watches) == 0
    since = (1 << 63) - 1
    assert asked == [SetWatches(since, (), (), ("/a",)), SetWatches(since, (), (), ("/b",))]


@in_loop
async def test_whoever_watches_is_told_before_any_answer_behind_the_event() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        first, second = await peer.request(), await peer.request()
        peer.reply(first[0], answer_to(first[1]))
        peer.event(EventType.CHANGED, "/a")
        peer.reply(second[0], answer_to(second[1]))
        await peer.serve()

    async with fake_keeper(script) as fake, fake.client() as keeper:
        told: list[str] = []

        async def later() -> None:
            await keeper.get("/b")
            told.append("answer")

        await asyncio.gather(keeper.get("/a", lambda event: told.append("event")), later())
        assert told == ["event", "answer"]


@in_loop
async def test_a_watcher_that_raises_harms_nobody_but_is_heard_of() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        xid, request = await peer.request()
        peer.reply(xid, answer_to(request))
        peer.event(EventType.DELETED, "/a")
        await peer.serve()

    heard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: heard.append(context.get("exception"))
    )
    async with fake_keeper(script) as fake, fake.client() as keeper:
        error = ZeroDivisionError()

        def fail(event: WatchEvent) -> None:
            raise error

        await keeper.get("/a", fail)
        assert await keeper.get("/b") == (b"/b", STAT)
        assert heard == [error]


@in_loop
async def test_after_a_reconnect_watches_are_set_again_and_nothing_is_missed() -> None:
    prepared: list[Request] = []
    is_asked = asyncio.Event()

    async def first(peer: Peer) -> None:
        await peer.greet()
        peer.zxid = 9
        for _ in range(4):
            xid, request = await peer.request()
            if isinstance(request, GetChildren):
                peer.reply(xid, Children(()))
            elif request in (Exists("/none", True), GetData("/none", True)):
                peer.reply(xid, Failed(ErrorCode.NO_NODE))
            else:
                peer.reply(xid, answer_to(request))
        await is_asked.wait()

    async def second(peer: Peer) -> None:
        await peer.greet()
        xid, request = await peer.request()
        prepared.append(request)
        peer.event(EventType.CREATED, "/none")
        peer.reply(xid, Nothing())
        await peer.serve()

    async with fake_keeper(first, second) as fake, fake.client() as keeper:
        watch = Watch()
        await keeper.get("/a", Watch())
        await keeper.children("/b", Watch())
        assert await keeper.exists("/none", watch) is None
        with pytest.raises(Exception, match="NO_NODE"):
            await keeper.get("/none", Watch())  # sets no watch
        is_asked.set()
        assert await watch == WatchEvent(EventType.CREATED, "/none")
    assert prepared == [SetWatches(13, ("/a",), ("/none",), ("/b",))]


@in_loop
async def test_watches_that_a_server_will_not_set_again_are_lost() -> None:
    async def first(peer: Peer) -> None:
        await peer.greet()
        xid, request = await peer.request()
        peer.reply(xid, answer_to(request))

    async def second(peer: Peer) -> None:
        await peer.greet()
        xid, request = await peer.request()
        assert isinstance(request, SetWatches)
        peer.reply(xid, Failed(ErrorCode.UNIMPLEMENTED))
        await peer.serve()

    async with fake_keeper(first, second) as fake, fake.client() as keeper:
        watch = Watch()
        await keeper.get("/a", watch)
        with pytest.raises(NodeError, match="/a is lost"):
            await watch


@in_loop
async def test_watches_end_with_their_session() -> None:
    told: list[WatchEvent] = []
    async with fake_keeper(good) as fake, fake.client() as keeper:
        await keeper.get("/a", told.append)
    assert told == [WatchEvent(WATCH_LOST, "/a")]


def test_each_kind_of_event_concerns_its_kinds_of_watches() -> None:
    def told(type_: int) -> list[str]:
        watches, names = Watches(), list[str]()
        watches.add(GetData("/a", True), lambda _: names.append("data"), is_there=True)
        watches.add(Exists("/a", True), lambda _: names.append("absent"), is_there=False)
        watches.add(GetChildren("/a", True), lambda _: names.append("children"), is_there=True)
        watches.add(GetData("/b", True), lambda _: names.append("other"), is_there=True)
        event = WatchEvent(type_, "/a")
        for watcher in watches.take(event):
            watcher(event)
        assert len(watches) == 4 - len(names)
        return names

    assert told(EventType.CREATED) == told(EventType.CHANGED) == ["data", "absent"]
    assert told(EventType.DELETED) == ["data", "absent", "children"]
    assert told(EventType.CHILD) == ["children"]
    assert told(99) == []


def test_the_same_watcher_is_told_once_of_one_change() -> None:
    watches, told = Watches(), list[WatchEvent]()
    for _ in range(2):
        watches.add(GetData("/a", True), told.append, is_there=True)
        watches.add(GetChildren("/a", True), told.append, is_there=True)
    assert len(watches.take(WatchEvent(EventType.DELETED, "/a"))) == 1


def test_many_watches_are_set_again_in_messages_of_bounded_size() -> None:
    watches = Watches()
    paths = [f"/{n:0100}" for n in range(5000)]
    for path in paths:
        watches.add(GetData(path, True), print, is_there=True)
        watches.add(GetChildren(path, True), print, is_there=True)
    messages = list(watches.set_again(7))
    assert len(messages) > 5
    assert [path for each in messages for path in each.data] == paths
    assert [path for each in messages for path in each.children] == paths
    assert all(sum(map(len, each.data + each.children)) < 1 << 18 for each in messages)
    assert {each.relative_zxid for each in messages} == {7}
