"""The clock client against real nodes: values, refusals, and outcomes that cannot be known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from motet.client.clock import ClockClient
from motet.client.link import parse_endpoint
from motet.core.clock.hlc import Clock
from motet.errors import BadInput, ClockDrift, ClockError, NodeError, OutcomeUnknown
from motet.ids import NodeId
from motet.testing import FaultProxy, LocalCluster

T = TypeVar("T")
N0, N1 = NodeId("n0"), NodeId("n1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(2, roles=()) as running:
        yield running


def nodes(cluster: LocalCluster) -> dict[NodeId, str]:
    return {NodeId(f"n{i}"): cluster.endpoint(i) for i in range(len(cluster))}


def ask(endpoints: dict[NodeId, str], what: Callable[[ClockClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with ClockClient(endpoints) as client:
            return await what(client)

    return asyncio.run(run())


async def tick_when_possible(client: ClockClient) -> Clock:
    """The connection has lost bytes and is reset at its next use, so the first try may be lost too."""
    for _ in range(60):
        try:
            return await client.tick(N0, seconds=1)
        except OutcomeUnknown:
            continue
    raise AssertionError("the node cannot be reached again")


def test_ticks_of_many_requests_at_once_are_all_different(cluster: LocalCluster) -> None:
    async def many(client: ClockClient) -> list[Clock]:
        return list(await asyncio.gather(*(client.tick(N0) for _ in range(500))))

    clocks = ask(nodes(cluster), many)
    assert len(set(clocks)) == 500
    assert max(clocks) < ask(nodes(cluster), lambda client: client.tick(N0))


def test_a_transaction_is_above_what_its_participants_gave_and_below_what_they_give(
    cluster: LocalCluster,
) -> None:
    async def run(client: ClockClient) -> None:
        before = [await client.tick(N0), await client.tick(N1)]
        clock = await client.transaction([N0, N1, N0])
        after = [await client.tick(N0), await client.tick(N1)]
        assert max(before) < clock < min(after)

    ask(nodes(cluster), run)


def test_reading_shows_the_clock_and_promises_nothing(cluster: LocalCluster) -> None:
    async def run(client: ClockClient) -> None:
        ticked = await client.tick(N0)
        first, second = await client.read(N0), await client.read(N0)
        assert first.clock == second.clock == ticked
        assert first.bound >= ticked

    ask(nodes(cluster), run)


def test_an_offer_from_the_far_future_is_refused_and_changes_nothing(cluster: LocalCluster) -> None:
    async def run(client: ClockClient) -> None:
        now = await client.tick(N0)
        with pytest.raises(ClockDrift, match="CLOCK_DRIFT"):
            await client.adjust(N0, Clock(now.logical + 3_600_000, 0))
        assert (await client.tick(N0)).logical < now.logical + 60_000

    ask(nodes(cluster), run)


def test_a_node_that_cannot_be_reached_is_said_before_anything_is_asked() -> None:
    with pytest.raises(NodeError, match="nothing answers at"):
        ask({N0: "127.0.0.1:1"}, lambda client: client.reach(N0))


def test_an_answer_that_is_lost_leaves_the_outcome_unknown(cluster: LocalCluster) -> None:
    with FaultProxy(cluster.endpoint(0)) as proxy:

        async def run(client: ClockClient) -> None:
            first = await client.tick(N0)
            proxy.one_way("to_target")
            with pytest.raises(OutcomeUnknown):
                await client.tick(N0, seconds=0.2)
            with pytest.raises(ClockError, match="n0"):
                await client.transaction([N0], seconds=0.2)
            proxy.heal()
            assert first < await tick_when_possible(client)

        ask({N0: proxy.endpoint}, run)


def test_an_ipv6_host_stands_in_brackets() -> None:
    assert parse_endpoint("[::1]:7400") == ("::1", 7400)


def test_a_reading_that_gets_no_answer_has_just_failed(cluster: LocalCluster) -> None:
    """Somebody answers the connection, but not as a node of this cluster."""

    async def run() -> None:
        async with ClockClient({N0: cluster.endpoint(0)}, cluster="another") as client:
            with pytest.raises(NodeError, match="cluster"):
                await client.read(N0, seconds=0.3)

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "7400", ":7400", "host:", "host:0", "host:70000", "host:x"])
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="endpoint"):
        parse_endpoint(text)
