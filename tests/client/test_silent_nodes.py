"""Nodes that are there and say nothing: nobody waits for them as long as for one that works."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.scripted_nodes import NODES, described, inserted, scripted, table_at

from motet.client import link as any_link
from motet.client import silent_nodes, table_writing
from motet.client.silent_nodes import SilentNodes
from motet.core.machine import Message
from motet.core.mergetree.messages import DescribeTables, InsertBlock, NodeProbed, ProbeNode
from motet.errors import NodeError, OutcomeUnknown
from motet.ids import Address, TableName

SILENT, OTHER = Address("n0"), Address("n1")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(any_link, "doubt_seconds", 0.01)
    monkeypatch.setattr(silent_nodes, "probe_seconds_max", 0.05)
    monkeypatch.setattr(silent_nodes, "heard_seconds", 0.0)


def test_an_insert_does_not_wait_for_a_silent_node_and_the_next_one_asks_it_last() -> None:
    silent = {"n0", "n1"}

    def script(node: str, message: Any) -> Message | None:
        if isinstance(message, DescribeTables):
            return described(message, table_at())
        if node in silent:
            return None
        return (
            inserted(message) if isinstance(message, InsertBlock) else NodeProbed(message.request)
        )

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes), asyncio.timeout(5):
            name = TableName("t")
            await tables.insert(name, [{"k": 1}], None, "a")
            before = len(nodes.kinds(InsertBlock))
            await tables.insert(name, [{"k": 1}], None, "b")
            assert [node for node, _ in nodes.kinds(InsertBlock)[before:]] == ["n2"]

    asyncio.run(run())


def test_a_node_that_works_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_writing, "insert_seconds_max", 0.3)
    monkeypatch.setattr("motet.client.table_link.node_seconds_max", 0.1)

    def script(node: str, message: Any) -> Message | None:
        if isinstance(message, DescribeTables):
            return described(message, table_at())
        if isinstance(message, ProbeNode):
            return NodeProbed(message.request)
        return None if node != "n2" else inserted(message)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            began = asyncio.get_running_loop().time()
            await tables.insert(TableName("t"), [{"k": 1}], None, "a")
            asked = [node for node, _ in nodes.kinds(InsertBlock)]
            took = asyncio.get_running_loop().time() - began
            assert took >= 0.3 * asked.index("n2"), "each of the others had all its time"
            assert set(asked) <= set(NODES)

    asyncio.run(run())


def test_all_that_wait_share_a_probe_and_an_answer_makes_good() -> None:
    probed: list[Address] = []
    works = False

    async def probe(node: Address) -> None:
        probed.append(node)
        if not works:
            raise NodeError("nobody is there")

    async def run() -> None:
        nonlocal works
        silent = SilentNodes(probe)
        waiting = [silent.answers(SILENT) for _ in range(3)]
        for each in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(each, OutcomeUnknown)
        assert probed == [SILENT]
        assert silent.last([SILENT, OTHER]) == [OTHER, SILENT]
        works = True
        assert await silent.answers(SILENT)
        assert silent.last([SILENT, OTHER]) == [SILENT, OTHER]

    asyncio.run(run())
