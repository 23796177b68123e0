"""Nodes: what is made, read, changed and deleted, and what their stats say about it."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.keeper.world import World, in_loop

from motet.client.keeper.errors import (
    BadArguments,
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
)


@in_loop
async def test_what_was_created_is_read_back(world: World) -> None:
    async with world.keeper() as keeper:
        path = world.path("node")
        assert await keeper.create(path, b"data") == path
        data, stat = await keeper.get(path)
        assert data == b"data"
        assert await keeper.exists(path) == stat
        assert await keeper.children(world.root) == ["node"]


@in_loop
async def test_a_read_says_the_zxid_at_which_it_was_so(world: World) -> None:
    async with world.keeper() as keeper:
        path, gone = world.path("node"), world.path("gone")
        _, made = await keeper.create2(path, b"1")
        for number in range(1, 5):
            before, (data, _) = await keeper.multi_read([path, world.root])
            assert data == await keeper.get(path)
            written = await keeper.set(path, b"%d" % number)
            zxid, value, stat = await keeper.get_at(path)
            assert (value, stat) == (b"%d" % number, written)
            assert made.czxid <= before < written.mzxid <= zxid, "no read is of a moment before"
            assert await keeper.exists_at(path) == (zxid, stat), "nothing has happened since"
            assert await keeper.children_at(world.root) == (zxid, ["node"])
            assert await keeper.exists_at(gone) == (zxid, None), "absence has its moment too"
            for absent in (keeper.get_at(gone), keeper.children_at(gone)):
                with pytest.raises(NoNode) as raised:
                    await absent
                assert raised.value.zxid == zxid


@in_loop
async def test_empty_and_large_values_and_names_in_any_script(world: World) -> None:
    async with world.keeper() as keeper:
        for name, data in (("empty", b""), ("größe-文", b"\0" * 900_000)):
            await keeper.create(world.path(name), data)
            assert (await keeper.get(world.path(name)))[0] == data
        assert sorted(await keeper.children(world.root)) == ["empty", "größe-文"]


@in_loop
async def test_the_stat_of_a_new_node(world: World) -> None:
    async with world.keeper() as keeper:
        path, stat = await keeper.create2(world.path("node"), b"data")
        assert path == world.path("node")
        assert stat.czxid == stat.mzxid == stat.pzxid > 0
        assert stat.ctime_ms == stat.mtime_ms > 0
        assert (stat.version, stat.cversion, stat.aversion) == (0, 0, 0)
        assert (stat.ephemeral_owner, stat.data_length, stat.num_children) == (0, 4, 0)
        assert await keeper.exists(path) == stat


@in_loop
async def test_what_a_set_changes_in_the_stat(world: World) -> None:
    async with world.keeper() as keeper:
        path, created = await keeper.create2(world.path("node"), b"data")
        changed = await keeper.set(path, b"other data")
        assert (changed.version, changed.data_length) == (1, 10)
        assert changed.mzxid > created.mzxid
        assert changed.mtime_ms >= created.mtime_ms
        assert (changed.czxid, changed.pzxid) == (created.czxid, created.pzxid)
        assert await keeper.get(path) == (b"other data", changed)


@in_loop
async def test_what_children_change_in_the_stat_of_their_parent(world: World) -> None:
    async with world.keeper() as keeper:
        parent, before = await keeper.create2(world.path("parent"))
        await keeper.create(f"{parent}/a")
        _, second = await keeper.create2(f"{parent}/b")
        names, stat = await keeper.children2(parent)
        assert sorted(names) == ["a", "b"]
        assert (stat.cversion, stat.num_children, stat.version) == (2, 2, 0)
        assert stat.pzxid == second.czxid
        assert stat.mzxid == before.mzxid
        await keeper.delete(f"{parent}/a")
        _, stat = await keeper.children2(parent)
        assert (stat.cversion, stat.num_children) == (3, 1)
        assert stat.pzxid > second.czxid
        await keeper.set(f"{parent}/b", b"changes nothing above")
        assert await keeper.exists(parent) == stat


@in_loop
async def test_versions_guard_sets_and_deletes(world: World) -> None:
    async with world.keeper() as keeper:
        path = await keeper.create(world.path("node"))
        with pytest.raises(BadVersion):
            await keeper.set(path, b"", version=1)
        assert (await keeper.set(path, b"", version=0)).version == 1
        with pytest.raises(BadVersion):
            await keeper.delete(path, version=0)
        await keeper.delete(path, version=1)
        assert await keeper.exists(path) is None


@in_loop
async def test_what_is_refused_by_name(world: World) -> None:
    async with world.keeper() as keeper:
        path = await keeper.create(world.path("node"))
        with pytest.raises(NodeExists):
            await keeper.create(path)
        with pytest.raises(NoNode):
            await keeper.create(world.path("none/below"))
        for call in (keeper.get, keeper.children, keeper.children2, keeper.delete, keeper.get_acl):
            with pytest.raises(NoNode):
                await call(world.path("none"))
        with pytest.raises(NoNode):
            await keeper.set(world.path("none"), b"")
        await keeper.create(f"{path}/child")
        with pytest.raises(NotEmpty):
            await keeper.delete(path)
        for bad in (f"{path}/.", f"{path}/..", "relative"):
            with pytest.raises(BadArguments):
                await keeper.create(bad)


@in_loop
async def test_numbers_of_sequential_nodes_count_all_that_were_ever_created(world: World) -> None:
    async with world.keeper() as keeper:
        parent = await keeper.create(world.path("parent"))
        first = await keeper.create(f"{parent}/s-", sequential=True)
        assert first == f"{parent}/s-0000000000"
        await keeper.delete(first)
        await keeper.create(f"{parent}/plain")
        assert await keeper.create(f"{parent}/s-", sequential=True) == f"{parent}/s-0000000002"
        assert await keeper.create(f"{parent}/", sequential=True) == f"{parent}/0000000003"
        path, stat = await keeper.create2(f"{parent}/e-", sequential=True, ephemeral=True)
        assert path == f"{parent}/e-0000000004"
        assert stat.ephemeral_owner == keeper.session


@in_loop
async def test_sequential_nodes_of_many_calls_at_once_are_all_different(world: World) -> None:
    async with world.keeper() as one, world.keeper() as other:
        creates = [
            keeper.create(world.path("s-"), sequential=True)
            for _ in range(200)
            for keeper in (one, other)
        ]
        paths = await asyncio.gather(*creates)
        assert len(set(paths)) == 400
        assert paths[0::2] == sorted(paths[0::2])  # of one session in its order
        assert sorted(await one.children(world.root)) == sorted(
            path.rpartition("/")[2] for path in paths
        )


@in_loop
async def test_an_ephemeral_node_has_an_owner_and_no_children(world: World) -> None:
    async with world.keeper() as keeper:
        path, stat = await keeper.create2(world.path("mine"), ephemeral=True)
        assert stat.ephemeral_owner == keeper.session != 0
        with pytest.raises(NoChildrenForEphemerals):
            await keeper.create(f"{path}/child")


@in_loop
async def test_ephemeral_nodes_go_with_their_session(world: World) -> None:
    async with world.keeper() as keeper:
        async with world.keeper() as other:
            await other.create(world.path("mine"), ephemeral=True)
            assert await keeper.exists(world.path("mine")) is not None
        assert await keeper.exists(world.path("mine")) is None


@in_loop
async def test_a_read_sees_what_another_client_was_told_is_done(world: World) -> None:
    async with world.keeper() as one, world.keeper() as other:
        path = await one.create(world.path("node"))
        for number in range(50):
            stat = await one.set(path, b"%d" % number)
            assert await other.get(path) == (b"%d" % number, stat)


@in_loop
async def test_calls_of_one_client_are_done_in_their_order(world: World) -> None:
    async with world.keeper() as keeper:
        path = await keeper.create(world.path("node"))
        sets, gets = [], []
        for number in range(200):
            sets.append(asyncio.ensure_future(keeper.set(path, b"%d" % number, version=number)))
            gets.append(asyncio.ensure_future(keeper.get(path)))
        found = list(zip(await asyncio.gather(*sets), await asyncio.gather(*gets), strict=True))
        assert [data for _, (data, _) in found] == [b"%d" % number for number in range(200)]
        assert all(stat == read for stat, (_, read) in found)


@in_loop
async def test_a_path_can_be_ensured_by_many_at_once(world: World) -> None:
    path = world.path("a/b/c/d")
    async with world.keeper() as one, world.keeper() as other:
        await asyncio.gather(*(keeper.ensure_path(path) for keeper in (one, other, one, other)))
        await one.ensure_path(path)
        assert await other.exists(path) is not None


@in_loop
async def test_a_sync_is_answered(world: World) -> None:
    async with world.keeper() as keeper:
        await keeper.sync(world.root)
        await keeper.sync()
