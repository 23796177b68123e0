"""Plans: which replicas are asked for the parts of a version, and what is said when none can tell."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.scripted_nodes import NOW, described, listed, scripted, table_at

from motet.client import table_reading
from motet.core.machine import Message
from motet.core.mergetree.messages import DescribeTables, FindVersion, ListParts, VersionFound
from motet.core.mergetree.version import Version
from motet.errors import BadInput, BadRecord, MotetError, NodeError
from motet.errors.shards import Unavailable
from motet.errors.tables import PartMissing, SnapshotExpired, TableReadOnly
from motet.ids import TableId, Zxid


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_reading, "plan_seconds_max", 0.05)


def test_parts_come_page_by_page_as_of_the_head_of_the_read() -> None:
    def script(_: str, message: Any) -> Message:
        if isinstance(message, DescribeTables):
            return described(message, table_at(head=7))
        return listed(message, 3, 4) if message.after else listed(message, 1, 2, more=True)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            found = (await tables.snapshot(["t"]))["t"]
            assert [part.name for part in found.parts] == [f"p_{n}.0_{n}.0_0" for n in (1, 2, 3, 4)]
            assert found.version == NOW
            first, second = (message for _, message in nodes.kinds(ListParts))
            assert (first.head, first.version, first.incarnation) == (7, 100, "a1b2")
            assert (first.after, second.after) == ("", "p_2.0_2.0_0")
            places = [node.endpoint for node in found.parts[0].location.nodes]
            assert len(places) == 3, "other replicas may have the file, too"

    asyncio.run(run())


@pytest.mark.parametrize("error", [PartMissing, TableReadOnly, NodeError, BadRecord])
def test_a_replica_that_cannot_tell_is_followed_by_another_once_each(
    error: type[MotetError],
) -> None:
    def script(node: str, message: Any) -> Message | MotetError:
        if isinstance(message, DescribeTables):
            return described(message, table_at())
        return listed(message, 1) if node == "n2" else error(f"{node} lacks part 1")

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            assert (await tables.snapshot(["t"]))["t"].rows == 1
            assert [node for node, _ in nodes.kinds(ListParts)] == ["n0", "n1", "n2"]
            assert len(nodes.kinds(DescribeTables)) == 1

    asyncio.run(run())


def test_a_replica_that_takes_its_time_is_waited_for_and_another_one_asked_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_reading, "hedge_seconds", 0.01)

    def script(node: str, message: Any) -> Message | None:
        if isinstance(message, DescribeTables):
            return described(message, table_at())
        return listed(message, 1) if node == "n1" and isinstance(message, ListParts) else None

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            found = (await tables.snapshot(["t"]))["t"]
            assert found.rows == 1
            assert [node for node, _ in nodes.kinds(ListParts)] == ["n0", "n1"]

    asyncio.run(run())


def test_the_error_names_what_is_missing() -> None:
    def script(node: str, message: Any) -> Message | MotetError:
        if isinstance(message, DescribeTables):
            return described(message, table_at())
        return PartMissing("part 1, which n1 brought") if node == "n1" else NodeError("away")

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            with pytest.raises(PartMissing, match="table t: part 1, which n1 brought"):
                await tables.snapshot(["t"])
            assert len(nodes.kinds(ListParts)) == 3

    asyncio.run(run())


def test_without_an_active_replica_it_is_planned_anew_for_a_while() -> None:
    def script(_: str, message: Any) -> Message:
        if isinstance(message, DescribeTables):
            return described(message, table_at(active=()))
        return listed(message, 1)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            with pytest.raises(Unavailable, match="n0 and n1 and n2 not active"):
                await tables.snapshot(["t"])
            assert len(nodes.kinds(DescribeTables)) > 1
            eventual = await tables.snapshot(["t"], None, "eventual")
            assert eventual["t"].rows == 1, "some replica, as it is"
            assert nodes.kinds(ListParts)[0][1].is_eventual

    asyncio.run(run())


def test_versions_that_cannot_be_shown_are_refused_before_a_replica_is_asked() -> None:
    async def run() -> None:
        async with scripted(lambda _, m: described(m, table_at())) as (tables, _, nodes):
            with pytest.raises(BadInput, match="not visible yet"):
                await tables.snapshot(["t"], "101@a1b2")
            with pytest.raises(SnapshotExpired, match="100@beef"):
                await tables.snapshot(["t"], Version("beef", Zxid(100)))
            assert nodes.kinds(ListParts) == []

    asyncio.run(run())


def test_a_moment_is_the_last_entry_of_all_shards_until_then() -> None:
    from datetime import UTC, datetime

    def script(_: str, message: Any) -> Message:
        if isinstance(message, DescribeTables):
            return described(message, table_at(shards=3))
        if isinstance(message, FindVersion):
            version = Zxid((40, 60, 50)[message.shard])
            return VersionFound(message.table, message.shard, message.request, version)
        return listed(message)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            found = await tables.snapshot(["t"], datetime(2026, 11, 19, tzinfo=UTC))
            assert found.version == Version("a1b2", Zxid(60))
            asked = {message.time_ms for _, message in nodes.kinds(FindVersion)}
            assert asked == {1795046400000}
            assert {message.version for _, message in nodes.kinds(ListParts)} == {60}

    asyncio.run(run())


def test_shards_begin_with_different_replicas() -> None:
    def script(_: str, message: Any) -> Message:
        if isinstance(message, DescribeTables):
            return described(message, table_at(shards=3))
        return listed(message)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            await tables.snapshot(["t"])
            asked = {message.shard: node for node, message in nodes.kinds(ListParts)}
            assert asked == {0: "n0", 1: "n1", 2: "n2"}
            assert {m.table for _, m in nodes.kinds(ListParts)} == {TableId(f"{1:016x}")}

    asyncio.run(run())


def test_a_moment_is_not_after_the_version_that_the_plan_is_of() -> None:
    """An entry is appended between the two reads, and this clock is ahead of the keeper's."""
    from datetime import UTC, datetime

    def script(_: str, message: Any) -> Message:
        if isinstance(message, DescribeTables):
            return described(message, table_at())
        if isinstance(message, FindVersion):
            return VersionFound(message.table, message.shard, message.request, Zxid(NOW.zxid + 7))
        return listed(message, 1)

    async def run() -> None:
        async with scripted(script) as (tables, _, _nodes):
            found = await tables.snapshot(["t"], datetime(2126, 11, 19, tzinfo=UTC))
            assert found.version == NOW

    asyncio.run(run())


def test_a_node_that_goes_away_while_its_parts_are_read_is_planned_around() -> None:
    def script(_: str, message: Any) -> Message:
        if isinstance(message, DescribeTables):
            return described(message, table_at())
        return listed(message, 1)

    async def run() -> None:
        tried = 0

        async def use(_: object) -> int:
            nonlocal tried
            tried += 1
            if tried < 3:
                raise NodeError("it is starting")
            return tried

        async with scripted(script) as (tables, _, nodes):
            assert await tables.read(["t"], None, "sequential", use) == 3
            versions = {message.version for _, message in nodes.kinds(ListParts)}
            assert versions == {NOW.zxid}, "it is the version of before"

    asyncio.run(run())
