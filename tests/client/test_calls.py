"""Lost answers: asked for again where that is safe, and unknown where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from motet.client.calls import Calls, attempts_max
from motet.client.link import Link
from motet.client.rows import Schemas
from motet.client.stream import AsyncStream
from motet.client.transaction import AsyncTransaction
from motet.core.onelog.messages import (
    Appended,
    CreateStream,
    Describe,
    Described,
    StreamReady,
    StreamsAnswer,
)
from motet.embedded import ADDRESS, EmbeddedNode
from motet.errors import NodeError, OutcomeUnknown
from motet.format.frame import Frame, FrameKind
from motet.ids import Address, StreamName, TransactionId
from motet.ports import Delivery
from motet.real.in_process import InProcessClient


class Lossy:
    """A client's network that loses the next so many answers."""

    def __init__(self, inner: InProcessClient) -> None:
        self._inner = inner
        self.losses = 0
        self.start, self.stop, self.flush = inner.start, inner.stop, inner.flush

    @property
    def address(self) -> Address:
        return self._inner.address

    def send(self, to: Address, frame: Frame) -> bool:
        return self._inner.send(to, frame)

    def take(self, limit: int) -> Sequence[Delivery]:
        deliveries = list(self._inner.take(limit))
        lost = min(self.losses, len(deliveries))
        self.losses -= lost
        return deliveries[lost:]


def play(tmp_path: Path, scene: Callable[[Calls, Lossy], Awaitable[None]]) -> None:
    """Let a scene speak to a node over a network that loses what the scene wants lost."""

    async def run() -> None:
        node = EmbeddedNode(tmp_path)
        await node.start()
        networks: list[Lossy] = []

        def network(wake: Callable[[], None]) -> Lossy:
            networks.append(Lossy(node.client(wake)))
            return networks[0]

        link: Link[StreamsAnswer] = Link({}, FrameKind.STREAMS, StreamsAnswer, network=network)
        async with link:
            calls = Calls(link, ADDRESS, "data", seconds=0.2)
            name = StreamName("a")
            await calls.once(lambda n: CreateStream(n, name, 1), StreamReady)
            await scene(calls, networks[0])
        await node.stop()

    asyncio.run(run())


def test_an_append_without_a_token_is_not_sent_again(tmp_path: Path) -> None:
    async def scene(calls: Calls, network: Lossy) -> None:
        stream = AsyncStream(calls, "a", Schemas(calls))
        network.losses = 1
        with pytest.raises(OutcomeUnknown):
            await stream.append("k", b"v")
        assert [entry.value for entry in await stream.read()] == [b"v"]

    play(tmp_path, scene)


def test_an_append_with_a_token_is_sent_again_and_applied_once(tmp_path: Path) -> None:
    async def scene(calls: Calls, network: Lossy) -> None:
        stream = AsyncStream(calls, "a", Schemas(calls))
        network.losses = attempts_max - 1
        position = await stream.append("k", b"v", token=("p", 1))
        assert position.duplicate
        assert [entry.offset for entry in await stream.read()] == [position.offset]
        network.losses = attempts_max
        with pytest.raises(OutcomeUnknown):
            await stream.append("k", b"v", token=("p", 2))
        assert len(await stream.read()) == 2

    play(tmp_path, scene)


def test_a_commit_without_an_answer_names_its_transaction(tmp_path: Path) -> None:
    async def scene(calls: Calls, network: Lossy) -> None:
        schemas = Schemas(calls)
        await schemas.look_for(StreamName("a"))
        txn = AsyncTransaction(calls, TransactionId("t-1"), schemas)
        network.losses = 1
        with pytest.raises(OutcomeUnknown, match=r"ask db\.transaction_status\('t-1'\)"):
            async with txn:
                txn.change("a", key="k", op="insert", row={})
        assert txn.clock is None
        entries = await AsyncStream(calls, "a", schemas).read()
        assert [entry.transaction for entry in entries] == ["t-1"]

    play(tmp_path, scene)


def test_a_transaction_that_cannot_ask_for_its_stream_has_failed(tmp_path: Path) -> None:
    async def scene(calls: Calls, network: Lossy) -> None:
        txn = AsyncTransaction(calls, TransactionId("t-1"), Schemas(calls))
        network.losses = attempts_max
        with pytest.raises(NodeError, match="cannot be asked for"):
            async with txn:
                txn.change("a", key="k", op="insert", row={})
        assert await AsyncStream(calls, "a", Schemas(calls)).read() == []

    play(tmp_path, scene)


def test_reads_are_asked_again(tmp_path: Path) -> None:
    async def scene(calls: Calls, network: Lossy) -> None:
        network.losses = attempts_max - 1
        assert [info.name for info in (await calls.repeated(Describe, Described)).streams] == ["a"]

    play(tmp_path, scene)


def test_an_answer_of_the_wrong_kind_is_an_error(tmp_path: Path) -> None:
    async def scene(calls: Calls, network: Lossy) -> None:
        with pytest.raises(NodeError, match="Described"):
            await calls.once(Describe, Appended)

    play(tmp_path, scene)


def test_closing_lets_what_is_under_way_be_answered(tmp_path: Path) -> None:
    async def scene(calls: Calls, network: Lossy) -> None:
        stream = AsyncStream(calls, "a", Schemas(calls))
        appends = [asyncio.create_task(stream.append("k", bytes([i]))) for i in range(50)]
        await asyncio.sleep(0)  # they are sent
        await calls.close()
        positions = await asyncio.gather(*appends)
        assert [position.offset for position in positions] == list(range(50))
        with pytest.raises(NodeError, match="closed"):
            await stream.read()

    play(tmp_path, scene)


def test_the_end_of_a_link_leaves_nobody_waiting(tmp_path: Path) -> None:
    async def scene(calls: Calls, network: Lossy) -> None:
        network.losses = 1
        append = asyncio.create_task(AsyncStream(calls, "a", Schemas(calls)).append("k", b"v"))
        await asyncio.sleep(0)
        calls._link.end(NodeError("the disk is gone"))
        with pytest.raises(OutcomeUnknown, match="the disk is gone"):
            await append
        with pytest.raises(NodeError, match="the disk is gone"):
            await AsyncStream(calls, "a", Schemas(calls)).read()

    play(tmp_path, scene)
