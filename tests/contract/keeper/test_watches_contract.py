"""Watches: which change fires which, once, and before anything newer is read."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.keeper.world import World, in_loop, wire

from motet.client.keeper.errors import NoNode
from motet.client.keeper.watches import Watch
from motet.format.zookeeper.messages import EventType, WatchEvent


@in_loop
async def test_a_watch_of_data_fires_once_when_it_is_set(world: World) -> None:
    async with world.keeper() as keeper, world.keeper() as other:
        path = await keeper.create(world.path("node"))
        told: list[WatchEvent] = []
        await keeper.get(path, told.append)
        await other.set(path, b"1")
        await other.set(path, b"2")
        assert (await keeper.get(path))[0] == b"2"
        assert told == [WatchEvent(EventType.CHANGED, path)]


@in_loop
async def test_a_watch_of_data_fires_when_the_node_is_deleted(world: World) -> None:
    async with world.keeper() as keeper, world.keeper() as other:
        path = await keeper.create(world.path("node"))
        watch = Watch()
        await keeper.get(path, watch)
        await other.delete(path)
        assert await watch == WatchEvent(EventType.DELETED, path)


@in_loop
async def test_an_exists_watches_for_creation_change_and_deletion(world: World) -> None:
    async with world.keeper() as keeper, world.keeper() as other:
        path = world.path("node")
        created, changed, deleted = Watch(), Watch(), Watch()
        assert await keeper.exists(path, created) is None
        await other.create(path)
        assert await created == WatchEvent(EventType.CREATED, path)
        assert await keeper.exists(path, changed) is not None
        await other.set(path, b"1")
        assert await changed == WatchEvent(EventType.CHANGED, path)
        await keeper.exists(path, deleted)
        await other.delete(path)
        assert await deleted == WatchEvent(EventType.DELETED, path)


@in_loop
async def test_children_are_watched_by_name_only(world: World) -> None:
    async with world.keeper() as keeper, world.keeper() as other:
        child = await keeper.create(world.path("child"))
        told: list[WatchEvent] = []
        await keeper.children(world.root, told.append)
        await other.set(child, b"1")
        await other.set(world.root, b"1")
        await keeper.sync()
        assert told == []
        await other.create(world.path("another"))
        await other.delete(child)
        assert await keeper.children(world.root) == ["another"]
        assert told == [WatchEvent(EventType.CHILD, world.root)]


@in_loop
async def test_a_watch_of_children_fires_when_one_or_their_parent_goes(world: World) -> None:
    async with world.keeper() as keeper, world.keeper() as other:
        parent = await keeper.create(world.path("parent"))
        child = await keeper.create(f"{parent}/child")
        gone, ended = Watch(), Watch()
        await keeper.children2(parent, gone)
        await other.delete(child)
        assert await gone == WatchEvent(EventType.CHILD, parent)
        await keeper.children(parent, ended)
        await other.delete(parent)
        assert await ended == WatchEvent(EventType.DELETED, parent)


@in_loop
async def test_a_read_that_fails_sets_no_watch(world: World) -> None:
    async with world.keeper() as keeper:
        told: list[WatchEvent] = []
        for read in (keeper.get, keeper.children):
            with pytest.raises(NoNode):
                await read(world.path("node"), told.append)
        await keeper.create(world.path("node"))
        await keeper.delete(world.path("node"))
        await keeper.sync()
        assert told == []


@in_loop
async def test_own_changes_fire_watches_before_they_are_answered(world: World) -> None:
    async with world.keeper() as keeper:
        path = await keeper.create(world.path("node"))
        told: list[WatchEvent] = []
        await keeper.get(path, told.append)
        await keeper.set(path, b"1")
        assert told == [WatchEvent(EventType.CHANGED, path)]


@in_loop
async def test_the_end_of_a_session_fires_the_watches_of_its_nodes(world: World) -> None:
    async with world.keeper() as keeper:
        watch, names = Watch(), Watch()
        async with world.keeper() as other:
            path = await other.create(world.path("mine"), ephemeral=True)
            await keeper.exists(path, watch)
            await keeper.children(world.root, names)
        assert await watch == WatchEvent(EventType.DELETED, path)
        assert await names == WatchEvent(EventType.CHILD, world.root)


@in_loop
async def test_watches_outlive_a_connection(world: World) -> None:
    async with wire(world) as cable, world.keeper(endpoints=cable.endpoint) as keeper:
        changed, created = world.path("changed"), world.path("created")
        await keeper.create(changed)
        data, exists, children = Watch(), Watch(), Watch()
        await keeper.get(changed, data)
        await keeper.exists(created, exists)
        await keeper.children(changed, children)
        async with world.keeper() as other:
            cable.cut()
            await other.set(changed, b"missed")  # while nobody can be told
            cable.mend()
            assert await data == WatchEvent(EventType.CHANGED, changed)
            await keeper.sync()
            await other.create(created)
            assert await exists == WatchEvent(EventType.CREATED, created)
            await other.create(f"{changed}/child")
            assert await children == WatchEvent(EventType.CHILD, changed)


@in_loop
async def test_many_watchers_of_many_nodes_are_each_told(world: World) -> None:
    async with world.keeper() as keeper, world.keeper() as other:
        paths = [world.path(f"n{number}") for number in range(100)]
        await asyncio.gather(*(keeper.create(path) for path in paths))
        watches = [Watch() for _ in paths for _ in range(2)]
        await asyncio.gather(
            *(keeper.get(path, watch) for path, watch in zip(paths * 2, watches, strict=True))
        )
        await asyncio.gather(*(other.set(path, b"") for path in paths))
        events = await asyncio.gather(*watches)
        assert [event.path for event in events] == paths * 2
