"""Requests about tables: which node is asked, which one instead, and how a call ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.scripted_nodes import NODES, described, scripted, table_at

from motet.client import link as link_module
from motet.client import table_link
from motet.client.table_link import TableLink
from motet.core.machine import Message
from motet.core.mergetree.messages import (
    DescribeTables,
    DropTable,
    FindVersion,
    TableChanged,
    TablesDescribed,
)
from motet.core.mergetree.standing_messages import ReplicasDescribed
from motet.errors import BadInput, DiskFull, MotetError, NodeError, NoSuchTable, OutcomeUnknown
from motet.errors.shards import Unavailable
from motet.errors.tables import TableBusy, TooFewReplicas
from motet.ids import Address, NodeId, RequestId, TableName

T = TableName("t")


def describe(number: RequestId) -> DescribeTables:
    return DescribeTables(number, (T,))


def drop(number: RequestId) -> DropTable:
    return DropTable(number, T)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_link, "pause_seconds_min", 0.001)
    monkeypatch.setattr(table_link, "pause_seconds_max", 0.01)


def test_another_node_is_asked_when_one_cannot_serve() -> None:
    def script(node: str, message: Any) -> Message | MotetError | None:
        if node == "n0":
            return NodeError("it has no session")
        return TableBusy("later") if node == "n1" else described(message, table_at())

    async def run() -> None:
        async with scripted(script) as (_, link, nodes):
            told = await link.ask_any(describe, TablesDescribed)
            assert told.node == "n2"
            assert [node for node, _ in nodes.asked] == list(NODES)
            await link.ask_any(describe, TablesDescribed)
            assert nodes.asked[-1][0] == "n2", "who has answered is asked first"
            assert len(nodes.asked) == 4

    asyncio.run(run())


@pytest.mark.parametrize("error", [BadInput, NoSuchTable, TooFewReplicas])
def test_what_another_node_would_say_too_is_raised_at_once(error: type[MotetError]) -> None:
    async def run() -> None:
        async with scripted(lambda *_: error("no", hint="do so")) as (_, link, nodes):
            with pytest.raises(error, match="no") as told:
                await link.ask_any(describe, TablesDescribed)
            assert told.value.advice == "do so"
            assert len(nodes.asked) == 1

    asyncio.run(run())


def test_where_no_node_has_room_none_is_asked_twice() -> None:
    async def run() -> None:
        async with scripted(lambda *_: DiskFull("full")) as (_, link, nodes):
            with pytest.raises(DiskFull):
                await link.ask_any(describe, TablesDescribed)
            assert [node for node, _ in nodes.asked] == list(NODES)

    asyncio.run(run())


def ask_soon(link: TableLink, *, may_repeat: bool) -> Any:
    make, kind = (describe, TablesDescribed) if may_repeat else (drop, TableChanged)
    return link.ask_any(make, kind, may_repeat=may_repeat, node_seconds=0.02, seconds=0.2)


def test_what_may_not_be_repeated_is_unknown_when_no_answer_comes() -> None:
    async def run() -> None:
        async with scripted(lambda *_: None) as (_, link, nodes):
            with pytest.raises(OutcomeUnknown):
                await ask_soon(link, may_repeat=False)
            assert len(nodes.asked) == 1

    asyncio.run(run())


def test_what_may_be_repeated_is_asked_of_others_and_unknown_in_the_end() -> None:
    asked: list[str] = []

    def script(node: str, _: Any) -> MotetError | None:
        asked.append(node)
        return None if len(asked) == 1 else NodeError("it cannot serve now")

    async def run() -> None:
        async with scripted(script) as (_, link, _nodes):
            with pytest.raises(OutcomeUnknown, match="n0"):
                await ask_soon(link, may_repeat=True)
            assert set(asked) == set(NODES)

    asyncio.run(run())


def test_a_node_that_has_stopped_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "doubt_seconds", 0.01)
    monkeypatch.setattr(table_link, "silent_seconds_max", 0.02)

    def script(node: str, message: Any) -> Message | MotetError | None:
        if node == "n0":
            return None
        return described(message, table_at()) if isinstance(message, DescribeTables) else None

    async def run() -> None:
        async with scripted(script) as (_, link, nodes):
            told = await link.ask_any(describe, TablesDescribed, node_seconds=60)
            assert told.node == "n1"
            assert len(nodes.kinds(FindVersion)) == 1

    asyncio.run(run())


def test_a_node_that_has_stopped_is_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "doubt_seconds", 0.01)
    monkeypatch.setattr(table_link, "silent_seconds_max", 0.02)
    silent = {"n0"}

    def script(node: str, message: Any) -> Message | MotetError | None:
        if node in silent:
            return None
        return described(message, table_at())

    async def run() -> None:
        async with scripted(script) as (_, link, nodes):
            await link.ask_any(describe, TablesDescribed, node_seconds=60)
            assert link.silent_last(["n0", "n1"]) == ["n1", "n0"]
            silent.clear()
            await link.ask(Address("n0"), describe, TablesDescribed)
            assert link.silent_last(["n0", "n1"]) == ["n0", "n1"]
            silent.add("n0")
            monkeypatch.setattr(table_link, "asked_last_seconds", 0.0)
            with pytest.raises(OutcomeUnknown, match="stopped"):
                await link.ask(Address("n0"), describe, TablesDescribed, 60)
            assert link.silent_last(["n0", "n1"]) == ["n0", "n1"], "not for ever"
            assert nodes.kinds(FindVersion)

    asyncio.run(run())


def test_a_node_that_is_slow_and_there_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "doubt_seconds", 0.01)

    def script(_: str, message: Any) -> Message | MotetError | None:
        return NodeError("no such table") if isinstance(message, FindVersion) else None

    async def run() -> None:
        async with scripted(script) as (_, link, nodes):
            with pytest.raises(OutcomeUnknown, match="did not answer"):
                await link.ask(Address("n0"), drop, TableChanged, 0.1)
            assert len(nodes.kinds(FindVersion)) > 2

    asyncio.run(run())


def test_a_read_is_never_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with scripted(lambda *_: None) as (_, link, _nodes):
            asking = link.ask_any

            async def soon(make: Any, kind: Any, **how: Any) -> Any:
                return await asking(make, kind, node_seconds=0.02, seconds=0.1, **how)

            monkeypatch.setattr(link, "ask_any", soon)
            with pytest.raises(Unavailable, match="the cluster"):
                await link.read_any(describe, TablesDescribed)

    asyncio.run(run())


def test_nothing_is_asked_after_the_end() -> None:
    async def run() -> None:
        async with scripted(lambda _, m: described(m, table_at())) as (tables, link, nodes):
            await tables.close()
            with pytest.raises(NodeError, match="closed"):
                await link.ask_any(describe, TablesDescribed)
            assert nodes.asked == []

    asyncio.run(run())


def test_nodes_that_came_since_are_asked_about_their_replicas() -> None:
    def script(node: str, message: Any) -> Message:
        return ReplicasDescribed(message.request, NodeId(node), ())

    async def run() -> None:
        async with scripted(script, joins="n3") as (tables, _, nodes):
            await tables.standings.replicas()
            assert [node for node, _ in nodes.asked] == [*NODES, "n3"]

    asyncio.run(run())
