"""The client of a cluster: batches, deadlines, evictions, barriers; against a cluster of one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from tests.node.replicas import SMALL, Solo, solo, solo_format

from motet.client.consensus import ConsensusClient
from motet.core.vsr.key_value import (
    Call,
    Compare,
    Delete,
    Found,
    Get,
    Omitted,
    Put,
    Stored,
    Swapped,
)
from motet.errors import BadInput, NodeError, OutcomeUnknown, TooLarge
from motet.ids import Address


def with_solo(folder: Path, test: Callable[[Solo], Awaitable[None]], **sizes: int) -> None:
    async def run() -> None:
        async with solo(folder, msgspec.structs.replace(SMALL, **sizes)) as one:
            await test(one)

    asyncio.run(run())


def test_calls_are_done_in_their_order_and_each_has_its_result(tmp_path: Path) -> None:
    async def test(one: Solo) -> None:
        async with one.client() as client:
            calls: list[Call] = [
                Put(b"a", b"1"),
                Get(b"a"),
                Compare(b"a", b"1", b"2"),
                Delete(b"a"),
                Get(b"a"),
            ]
            results = await client.call(calls)
            assert [type(each) for each in results] == [Stored, Found, Swapped, Stored, Found]
            assert isinstance(results[1], Found)
            assert results[1].value == b"1"
            assert isinstance(results[4], Found)
            assert results[4].value is None
            assert await client.call([]) == []

    with_solo(tmp_path, test)


def test_what_is_asked_at_once_goes_out_together(tmp_path: Path) -> None:
    async def test(one: Solo) -> None:
        async with one.client(sessions=2) as client:
            await client.call([Put(b"first", b"")])
            before = client.requests_answered
            keys = [f"key-{n}".encode() for n in range(60)]
            await asyncio.gather(*(client.call([Put(key, key)]) for key in keys))
            assert client.requests_answered - before <= 3
            found = await asyncio.gather(*(client.call([Get(key)]) for key in keys))
            assert [each[0].value for each in found if isinstance(each[0], Found)] == keys

    with_solo(tmp_path, test)


def test_a_reply_that_is_full_is_asked_for_again_read_by_read(tmp_path: Path) -> None:
    async def test(one: Solo) -> None:
        async with one.client(sessions=1) as client:
            for key in (b"a", b"b", b"c"):
                await client.call([Put(key, key * 3000)])
            found = await asyncio.gather(*(client.call([Get(key)]) for key in (b"a", b"b", b"c")))
            values = [each[0].value for each in found if isinstance(each[0], Found)]
            assert values == [b"a" * 3000, b"b" * 3000, b"c" * 3000]
            both = await client.call([Get(b"a"), Get(b"b")])  # one caller, who must ask for less
            assert isinstance(both[1], Omitted)

    with_solo(tmp_path, test)


def test_what_is_too_large_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async def test(one: Solo) -> None:
        async with one.client() as client:
            with pytest.raises(TooLarge):
                await client.call([Put(b"a", bytes(4096))])
            with pytest.raises(TooLarge):
                await client.call([Get(b"a")] * 300)
            await client.call([Put(b"a", bytes(3000))])

    with_solo(tmp_path, test)


def test_what_nobody_could_be_asked_is_not_done() -> None:
    async def run() -> None:
        async with solo_nowhere() as client:
            with pytest.raises(NodeError, match="nothing was asked"):
                await client.call([Put(b"a", b"")], seconds=0.1)
            with pytest.raises(NodeError, match="no primary answered"):
                await client.read_barrier(seconds=0.1)

    asyncio.run(run())


def solo_nowhere() -> ConsensusClient:
    return ConsensusClient(solo_format().config(), {Address("r0"): "127.0.0.1:1"})


def test_no_answer_in_time_is_an_unknown_outcome(tmp_path: Path) -> None:
    async def test(one: Solo) -> None:
        async with one.client() as client:
            await client.call([Put(b"a", b"1")])
            one.driver.stop()  # it is connected, and silent
            with pytest.raises(OutcomeUnknown):
                await client.call([Put(b"a", b"2")], seconds=0.2)
        with pytest.raises(NodeError, match="closed"):
            await client.call([Put(b"a", b"3")])

    with_solo(tmp_path, test)


def test_closing_leaves_what_is_in_flight_unknown(tmp_path: Path) -> None:
    async def test(one: Solo) -> None:
        async with one.client() as client:
            await client.call([Put(b"a", b"1")])
            one.driver.stop()
            waiting = asyncio.create_task(client.call([Put(b"a", b"2")]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        with pytest.raises(OutcomeUnknown):
            await waiting

    with_solo(tmp_path, test)


def test_a_session_that_was_evicted_is_replaced(tmp_path: Path) -> None:
    async def test(one: Solo) -> None:
        async with one.client(sessions=1) as old, one.client(sessions=1) as new:
            await old.call([Put(b"a", b"1")])
            await new.call([Put(b"a", b"2")])
            async with one.client(sessions=1) as third:
                await third.call([Put(b"a", b"3")])  # there are two places: the oldest goes
                with pytest.raises(OutcomeUnknown, match="evicted"):
                    await old.call([Put(b"a", b"4")])
                [found] = await old.call([Get(b"a")])
                assert isinstance(found, Found)
                assert found.value in (b"3", b"4")

    with_solo(tmp_path, test, clients_max=2, reserved_max=0)


def test_a_barrier_is_not_below_what_was_acknowledged(tmp_path: Path) -> None:
    async def test(one: Solo) -> None:
        async with one.client(sessions=1) as client:
            for n in range(5):
                [stored] = await client.call([Put(b"a", str(n).encode())])
                assert isinstance(stored, Stored)
                assert await client.read_barrier() >= stored.op
            barriers = [client.read_barrier() for _ in range(20)]
            calls = [client.call([Put(b"a", b"")]) for _ in range(20)]
            await asyncio.gather(*barriers, *calls)  # neither waits for ever for the other

    with_solo(tmp_path, test)


def test_a_caller_that_gives_up_takes_nothing_from_the_others(tmp_path: Path) -> None:
    async def test(one: Solo) -> None:
        async with one.client(sessions=1) as client:
            await client.call([Put(b"a", b"1")])
            tasks = [asyncio.create_task(client.call([Put(b"a", b"2")])) for _ in range(10)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [isinstance(each, list) for each in results] == [False, True] * 5

    with_solo(tmp_path, test)


def test_a_client_needs_all_replicas_and_a_session() -> None:
    config = solo_format().config()
    with pytest.raises(BadInput):
        ConsensusClient(config, {Address("other"): "127.0.0.1:1"})
    with pytest.raises(BadInput):
        ConsensusClient(config, {Address("r0"): "127.0.0.1:1"}, sessions=0)
    with pytest.raises(BadInput):
        ConsensusClient(config, {Address("r0"): "nowhere"})
