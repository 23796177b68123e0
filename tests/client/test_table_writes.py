"""Inserts: what is asked of whom, how often, and what becomes of an answer that does not come."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.client.scripted_nodes import (
    described,
    inserted,
    published,
    scripted,
    staged,
    table_at,
)

from motet.client import table_link, table_staging, table_writing
from motet.core.machine import Message
from motet.core.mergetree.messages import (
    DescribeTables,
    InsertBlock,
    ListParts,
    PublishParts,
    StagePart,
)
from motet.errors import (
    BadInput,
    DiskFull,
    MotetError,
    NodeError,
    NoSuchTable,
    OutcomeUnknown,
    TokenExpired,
)
from motet.errors.tables import QuorumFailed, TableMoved, TooFewReplicas
from motet.ids import TableName

T = TableName("t")
ROWS = [{"k": 1, "v": "a"}]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_link, "pause_seconds_min", 0.001)


def answered(_: str, message: Any) -> Message:
    """As a cluster answers when all is well."""
    if isinstance(message, DescribeTables):
        return described(message, table_at())
    if isinstance(message, InsertBlock):
        return inserted(message)
    if isinstance(message, StagePart):
        return staged(message)
    assert isinstance(message, PublishParts)
    return published(message)


def test_the_definition_is_looked_up_once_and_parts_never() -> None:
    async def run() -> None:
        async with scripted(answered) as (tables, _, nodes):
            await asyncio.gather(*(tables.insert(T, ROWS, "majority", None) for _ in range(5)))
            await tables.stage("t", ROWS)
            assert len(nodes.kinds(DescribeTables)) == 1
            assert nodes.kinds(ListParts) == []

    asyncio.run(run())


def test_each_call_without_a_token_has_a_number_of_its_own() -> None:
    async def run() -> None:
        async with scripted(answered) as (tables, _, nodes):
            for _ in range(3):
                await tables.insert(T, ROWS, "majority", None)
            await asyncio.gather(*(tables.insert(T, ROWS, 1, None) for _ in range(2)))
            await tables.insert(T, ROWS, 2, "text")
            await tables.insert(T, ROWS, 2, ("loader", 7))
            messages = [message for _, message in nodes.kinds(InsertBlock)]
            own = [(each.producer, each.number) for each in messages[:5]]
            first = own[0][0]
            assert own[:3] == [(first, number) for number in range(3)]
            (other,) = {name for name, _ in own[3:]} - {first}
            assert {*own[3:]} == {(first, 3), (other, 0)}, "at once, each counts by itself"
            assert (messages[5].token, messages[5].producer) == ("text", "")
            assert (messages[6].producer, messages[6].number) == ("loader", 7)
            assert [each.quorum for each in messages] == [0, 0, 0, 1, 1, 2, 2]
            assert len({each.content for each in messages}) == 1

    asyncio.run(run())


def test_an_answer_that_does_not_come_is_asked_of_another_replica_with_the_same_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_writing, "insert_seconds_max", 0.05)
    asked: list[InsertBlock] = []

    def script(node: str, message: Any) -> Message | None:
        if not isinstance(message, InsertBlock):
            return answered(node, message)
        asked.append(message)
        return None if len(asked) == 1 else inserted(message, is_duplicate=True)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            done = await tables.insert(T, ROWS, "majority", None)
            assert (done.duplicate, done.rows) == (False, 1), "it was this very call"
            (one, first), (other, second) = nodes.kinds(InsertBlock)
            assert one != other
            assert (first.producer, first.number) == (second.producer, second.number)
            assert first.part.id != second.part.id, "an id belongs to one attempt"
            assert first.part.hash == second.part.hash

    asyncio.run(run())


def test_a_token_of_the_caller_tells_a_repetition() -> None:
    def script(node: str, message: Any) -> Message:
        if isinstance(message, InsertBlock):
            return inserted(message, is_duplicate=True)
        return answered(node, message)

    async def run() -> None:
        async with scripted(script) as (tables, _, _nodes):
            done = await tables.insert(T, ROWS, "majority", "mine")
            assert (done.duplicate, done.rows) == (True, 0)

    asyncio.run(run())


@pytest.mark.parametrize("error", [TokenExpired, BadInput])
def test_what_cannot_be_done_is_not_tried_elsewhere(error: type[MotetError]) -> None:
    def script(node: str, message: Any) -> Message | MotetError:
        return error("no") if isinstance(message, InsertBlock) else answered(node, message)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            with pytest.raises(error):
                await tables.insert(T, ROWS, "majority", None)
            assert len(nodes.kinds(InsertBlock)) == 1

    asyncio.run(run())


def test_a_block_whose_quorum_has_failed_is_inserted_again_a_few_times() -> None:
    failures = 1

    def script(node: str, message: Any) -> Message | MotetError:
        nonlocal failures
        if isinstance(message, InsertBlock) and failures:
            failures -= 1
            return QuorumFailed("a drop came first")
        return answered(node, message)

    async def run() -> None:
        nonlocal failures
        async with scripted(script) as (tables, _, nodes):
            assert (await tables.insert(T, ROWS, "majority", None)).rows == 1
            failures = 100
            with pytest.raises(QuorumFailed):
                await tables.insert(T, ROWS, "majority", None)
            assert len(nodes.kinds(InsertBlock)) == 2 + table_writing.quorum_attempts_max

    asyncio.run(run())


@pytest.mark.parametrize("error", [TableMoved, NoSuchTable])
def test_a_table_that_is_another_one_now_is_looked_up_again(error: type[MotetError]) -> None:
    def script(node: str, message: Any) -> Message | MotetError:
        if isinstance(message, DescribeTables):
            count[0] += 1
            return described(message, table_at(number=count[0]))
        if isinstance(message, InsertBlock) and message.table == f"{1:016x}":
            return error("it is another one")
        return answered(node, message)

    count = [0]

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            assert (await tables.insert(T, ROWS, "majority", "t")).rows == 1
            assert [m.table for _, m in nodes.kinds(InsertBlock)] == [f"{1:016x}", f"{2:016x}"]
            (_, first), (_, second) = nodes.kinds(InsertBlock)
            assert (first.name_path, first.token) == ("/motet/tables/t", "t")
            assert second.content == first.content

    asyncio.run(run())


def test_rows_that_can_be_read_once_are_not_inserted_as_none(pytestconfig: object) -> None:
    import pyarrow as pa

    def script(node: str, message: Any) -> Message | MotetError:
        if isinstance(message, InsertBlock):
            return TableMoved("it is another one")
        return answered(node, message)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            batch = pa.record_batch({"k": [1, 2], "v": ["a", "b"]})
            reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
            with pytest.raises(MotetError):
                await tables.insert(T, reader, "majority", None)
            assert len(nodes.kinds(InsertBlock)) == 1

    asyncio.run(run())


def test_several_parts_are_staged_and_published_in_one_go() -> None:
    def script(node: str, message: Any) -> Message:
        if isinstance(message, DescribeTables):
            return described(message, table_at(shards=3))
        return answered(node, message)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            rows = [{"k": n, "v": "x"} for n in range(100)]
            done = await tables.insert(T, rows, 2, ("loader", 1))
            assert (done.rows, len(done.parts)) == (100, 3)
            assert nodes.kinds(InsertBlock) == []
            parts = [message for _, message in nodes.kinds(StagePart)]
            assert sorted(each.shard for each in parts) == [0, 1, 2]
            assert {each.quorum for each in parts} == {2}
            ((_, message),) = nodes.kinds(PublishParts)
            (table,) = message.tables
            assert (message.producer, message.number) == ("loader", 1)
            assert (table.name_path, len(table.parts)) == ("/motet/tables/t", 3)
            assert table.content

    asyncio.run(run())


def test_a_publication_without_an_answer_is_asked_again_under_its_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_staging, "node_publish_seconds_max", 0.05)
    asked: list[PublishParts] = []

    def script(node: str, message: Any) -> Message | MotetError | None:
        if not isinstance(message, PublishParts):
            return answered(node, message)
        asked.append(message)
        if len(asked) == 1:
            return None
        return NodeError("it has no session") if len(asked) == 2 else published(message)

    async def run() -> None:
        async with scripted(script) as (tables, _, _nodes):
            parts = await tables.stage("t", ROWS)
            done = await tables.publish(parts, None, None, None)
            assert (done.rows, done.duplicate, len(asked)) == (1, False, 3)
            assert len({(each.producer, each.number) for each in asked}) == 1
            assert asked[0].producer

    asyncio.run(run())


def test_an_insert_that_nobody_answers_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_writing, "insert_seconds_max", 0.02)
    monkeypatch.setattr(table_writing, "retry_seconds_max", 0.1)

    def script(node: str, message: Any) -> Message | None:
        return None if isinstance(message, InsertBlock) else answered(node, message)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            with pytest.raises(OutcomeUnknown):
                await tables.insert(T, ROWS, "majority", None)
            assert len({node for node, _ in nodes.kinds(InsertBlock)}) == 3

    asyncio.run(run())


NOT_ANSWERED = pytest.mark.parametrize(
    "error", [TableMoved, NoSuchTable, TokenExpired, DiskFull, TooFewReplicas, QuorumFailed]
)


@NOT_ANSWERED
def test_what_a_later_attempt_is_told_says_nothing_of_one_without_an_answer(
    error: type[MotetError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt may be done yet: the rows must not go into whatever has the name now."""
    monkeypatch.setattr(table_writing, "insert_seconds_max", 0.05)
    tables_told = 0
    network: Any = None

    def script(node: str, message: Any) -> Message | MotetError | None:
        nonlocal tables_told
        if isinstance(message, DescribeTables):
            tables_told += 1
            return described(message, table_at(number=tables_told))
        if isinstance(message, InsertBlock) and message.table == f"{1:016x}":
            return None if len(network.kinds(InsertBlock)) == 1 else error("no")
        return answered(node, message)

    async def run() -> None:
        nonlocal network
        async with scripted(script) as (tables, _, network):
            with pytest.raises(OutcomeUnknown):
                await tables.insert(T, ROWS, "majority", None)
            assert {m.table for _, m in network.kinds(InsertBlock)} == {f"{1:016x}"}

    asyncio.run(run())


def test_a_table_that_has_moved_since_an_attempt_without_an_answer_gets_no_second_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_writing, "insert_seconds_max", 0.05)
    tables_told = 0
    network: Any = None

    def script(node: str, message: Any) -> Message | MotetError | None:
        nonlocal tables_told
        if isinstance(message, DescribeTables):
            tables_told += 1
            return described(message, table_at(number=tables_told))
        if isinstance(message, InsertBlock) and message.table == f"{1:016x}":
            return None if len(network.kinds(InsertBlock)) == 1 else NodeError("it has no replica")
        return answered(node, message)

    async def run() -> None:
        nonlocal network
        async with scripted(script) as (tables, _, network):
            with pytest.raises(OutcomeUnknown):
                await tables.insert(T, ROWS, "majority", None)

    asyncio.run(run())


def test_a_table_that_loses_partitions_by_its_name_is_the_one_of_that_name() -> None:
    """T27: the name was remembered, and is that of another table now."""
    tables_told = 0

    def script(node: str, message: Any) -> Message | MotetError | None:
        nonlocal tables_told
        if isinstance(message, DescribeTables):
            tables_told += 1
            return described(message, table_at(number=tables_told))
        if isinstance(message, PublishParts) and message.tables[0].table == f"{1:016x}":
            return TableMoved("it is another one")
        return answered(node, message)

    async def run() -> None:
        async with scripted(script) as (tables, _, nodes):
            await tables.publish([], None, None, {"t": ["p"]})
            sent = [message.tables[0] for _, message in nodes.kinds(PublishParts)]
            assert [each.table for each in sent] == [f"{1:016x}", f"{2:016x}"]
            assert all(each.name_path == "/motet/tables/t" for each in sent)

    asyncio.run(run())


def test_partitions_that_are_replaced_belong_to_the_content_of_a_publication() -> None:
    async def run() -> None:
        async with scripted(answered) as (tables, _, nodes):
            staged = await tables.stage("t", ROWS)
            for replaced in (None, ["a"], ["b", "a"], ["a", "b"]):
                await tables.publish(staged, "mine", None, replaced)
            await tables.publish([], "mine", None, {"t": ["a"]})
            contents = [message.tables[0].content for _, message in nodes.kinds(PublishParts)]
            assert len(set(contents)) == 4, contents
            assert contents[2] == contents[3]

    asyncio.run(run())


def test_the_version_of_an_insert_is_of_the_incarnation_that_it_was_done_under() -> None:
    """T1: the table was looked up before its keeper was restored."""

    def script(node: str, message: Any) -> Message:
        if isinstance(message, InsertBlock):
            return msgspec.structs.replace(inserted(message), incarnation="c3d4")
        return answered(node, message)

    async def run() -> None:
        async with scripted(script) as (tables, _, _nodes):
            assert str((await tables.insert(T, ROWS, "majority", None)).version) == "101@c3d4"

    asyncio.run(run())


def test_rows_that_the_table_has_already_are_a_duplicate_whoever_made_the_token() -> None:
    """T9: with dedup="content"; a number of this client tells an attempt of the same call."""

    def script(node: str, message: Any) -> Message:
        if isinstance(message, InsertBlock):
            told = inserted(message, is_duplicate=True)
            return msgspec.structs.replace(told, is_by_content=True)
        return answered(node, message)

    async def run() -> None:
        async with scripted(script) as (tables, _, _nodes):
            done = await tables.insert(T, ROWS, "majority", None)
            assert (done.duplicate, done.rows) == (True, 0)

    asyncio.run(run())
