"""Sessions: they outlive their connections, and end when nobody is heard of them."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.keeper.world import World, in_loop, wire

from motet.client.keeper.errors import SessionExpired
from motet.client.keeper.watches import Watch
from motet.errors import NodeError, OutcomeUnknown
from motet.format.zookeeper.messages import EventType, WatchEvent


@in_loop
async def test_each_client_has_a_session_of_its_own(world: World) -> None:
    async with world.keeper() as one, world.keeper() as other:
        assert one.session != other.session
        assert one.is_connected
        assert one.timeout_ms > 0


@in_loop
async def test_a_session_outlives_its_connection(world: World) -> None:
    async with wire(world) as cable, world.keeper(endpoints=cable.endpoint) as keeper:
        session = keeper.session
        path = await keeper.create(world.path("mine"), ephemeral=True)
        for _ in range(3):
            cable.shake()
            stat = await keeper.exists(path)
            assert stat is not None
            assert stat.ephemeral_owner == keeper.session == session


@in_loop
async def test_calls_in_flight_when_the_wire_is_cut_are_answered_or_unknown(world: World) -> None:
    async with wire(world) as cable, world.keeper(endpoints=cable.endpoint) as keeper:
        path = await keeper.create(world.path("node"))
        for turn in range(5):
            writes = [asyncio.ensure_future(keeper.set(path, b"")) for _ in range(100)]
            reads = [asyncio.ensure_future(keeper.get(path)) for _ in range(100)]
            for _ in range(turn):
                await asyncio.sleep(0)
            cable.shake()
            ends = await asyncio.gather(*writes, return_exceptions=True)
            answered = sum(not isinstance(end, BaseException) for end in ends)
            unknown = sum(isinstance(end, OutcomeUnknown) for end in ends)
            assert answered + unknown == len(ends)
            assert [data for data, _ in await asyncio.gather(*reads)] == [b""] * 100
            _, stat = await keeper.get(path)
            assert answered <= stat.version <= answered + unknown
            path = await keeper.create(world.path(f"node-{turn}"))


@in_loop
async def test_a_session_of_which_nothing_is_heard_expires(world: World) -> None:
    timeout_ms = world.server.timeout_ms_min
    async with wire(world) as cable, world.keeper() as other:
        async with world.keeper(endpoints=cable.endpoint, timeout_ms=timeout_ms) as keeper:
            session, lost = keeper.session, Watch()
            path = await keeper.create(world.path("mine"), ephemeral=True)
            await keeper.get(path, lost)
            gone = Watch()
            await other.exists(path, gone)
            cable.cut()
            assert await gone == WatchEvent(EventType.DELETED, path)
            with pytest.raises(NodeError, match="nothing was asked"):
                await keeper.set(world.root, b"", seconds=0.01)
            cable.mend()
            with pytest.raises(SessionExpired):
                await keeper.get(world.root)
            with pytest.raises(NodeError):
                await lost
            await keeper.renew()
            assert keeper.session != session
            assert await keeper.exists(path) is None
            await keeper.create(path, ephemeral=True)
        assert await other.exists(path) is None


@in_loop
async def test_an_idle_session_is_kept_by_its_pings(world: World) -> None:
    timeout_ms = world.server.timeout_ms_min
    async with world.keeper() as other:
        async with world.keeper(timeout_ms=timeout_ms) as keeper:
            path = await keeper.create(world.path("mine"), ephemeral=True)
            gone = Watch()
            await other.exists(path, gone)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(gone.wait(), 3 * timeout_ms / 1000)
            assert keeper.is_connected
        assert await gone == WatchEvent(EventType.DELETED, path)
