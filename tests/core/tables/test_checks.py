"""Requests about tables at the edge of what is taken: the last that is, and the first that is not."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.tables.harness import FILE, REQUEST, publish, spec, staged, step, token

from motet.core.clock.hlc import Clock
from motet.core.tables import checks
from motet.core.tables.checks import check_table_name, check_table_request, part_rows_max
from motet.core.tables.messages import (
    CreateTable,
    ListTables,
    NoteWriter,
    ReadTable,
    ReadWriter,
    TablesCall,
)
from motet.core.tables.records import StagedPart, TableSpec, WriterStep
from motet.errors import BadInput, BadSchema, MotetError, TooLarge
from motet.ids import TableName, WriterName
from motet.limits import (
    name_length_max,
    part_bytes_max,
    publish_parts_max,
    schema_bytes_max,
    table_columns_max,
    table_parts_max,
    table_shards_max,
    tables_max,
    writer_note_length_max,
)


def columns(count: int) -> tuple[str, ...]:
    return tuple(f"c{number}" for number in range(count))


def part(**changed: object) -> StagedPart:
    return msgspec.structs.replace(staged(1), **changed)


def replacing(**changed: object) -> TableSpec:
    return msgspec.structs.replace(spec(), engine="replacing", **changed)


@pytest.mark.parametrize(
    "table",
    [
        spec(),
        spec("s" * name_length_max),
        spec("systematic"),
        spec(shards=table_shards_max),
        spec(schema=b"x" * schema_bytes_max),
        spec(order_by=columns(table_columns_max)),
        replacing(),
        replacing(version="v"),
        replacing(tombstone="gone"),
        replacing(order_by=("a",), version="b" * (schema_bytes_max - 2), tombstone="c"),
    ],
)
def test_a_table_that_can_be_created(table: TableSpec) -> None:
    check_table_request(CreateTable(REQUEST, table))


@pytest.mark.parametrize(
    ("table", "error"),
    [
        (spec(""), BadInput),
        (spec("s" * (name_length_max + 1)), BadInput),
        (spec("1s"), BadInput),
        (spec("s/t"), BadInput),
        (spec("system.parts"), BadInput),
        (spec("SYSTEM.parts"), BadInput),
        (spec(id="0" * 15), BadInput),
        (spec(id="0" * 17), BadInput),
        (spec(id="0" * 15 + "A"), BadInput),
        (spec(id="0" * 16 + "\n"), BadInput),
        (spec(shards=0), BadInput),
        (spec(shards=-1), BadInput),
        (spec(shards=table_shards_max + 1), BadInput),
        (spec(schema=b""), BadSchema),
        (spec(schema=b"x" * (schema_bytes_max + 1)), BadSchema),
        (spec(order_by=()), BadSchema),
        (spec(order_by=columns(table_columns_max + 1)), BadSchema),
        (spec(order_by=("a", "b", "a")), BadSchema),
        (spec(version="v"), BadInput),
        (spec(tombstone="gone"), BadInput),
        (spec(order_by=("a" * schema_bytes_max, "b")), BadSchema),
        (replacing(order_by=("a",), version="b" * schema_bytes_max), BadSchema),
        (replacing(order_by=("a",), tombstone="c" * schema_bytes_max), BadSchema),
    ],
)
def test_a_table_that_cannot_be_created(table: TableSpec, error: type[MotetError]) -> None:
    with pytest.raises(error):
        check_table_request(CreateTable(REQUEST, table))


@pytest.mark.parametrize("text", [None, "t", "t" * name_length_max])
def test_a_token_that_can_be_taken(text: str | None) -> None:
    check_table_request(publish(part(), token=None if text is None else token(text)))


@pytest.mark.parametrize("text", ["", "t" * (name_length_max + 1)])
def test_a_token_that_cannot_be_taken(text: str) -> None:
    with pytest.raises(BadInput):
        check_table_request(publish(part(), token=token(text)))


def test_a_token_is_of_the_table_of_all_its_parts() -> None:
    check_table_request(publish(staged(1), staged(2), token=token("t")))
    check_table_request(publish(token=token("t")))
    for parts in ((staged(1), staged(2, "stock")), (staged(1, "stock"), staged(2))):
        with pytest.raises(BadInput):
            check_table_request(publish(*parts, token=token("t")))
        check_table_request(publish(*parts, step=step(0, None, 5)))


def test_a_token_and_a_step_are_not_for_the_same_publication() -> None:
    with pytest.raises(BadInput):
        check_table_request(publish(part(), token=token("t"), step=step(0, None, 5)))


def test_a_publication_has_so_many_parts_and_each_of_them_once() -> None:
    parts = tuple(staged(number) for number in range(publish_parts_max + 1))
    check_table_request(publish(*parts[1:]))
    with pytest.raises(TooLarge):
        check_table_request(publish(*parts))
    with pytest.raises(BadInput, match="twice"):
        check_table_request(publish(staged(1), staged(2), staged(1)))
    check_table_request(publish(staged(1), staged(1, "stock")))


@pytest.mark.parametrize(
    "last",
    [
        step(0, None, 0),
        step(checks.count_max, 4, 5),
        step(0, None, 5, "s" * name_length_max),
        WriterStep(WriterName("shop"), 0, Clock(5, 0), Clock(5, 1)),
    ],
)
def test_a_step_that_can_be_taken(last: WriterStep) -> None:
    check_table_request(publish(step=last))


@pytest.mark.parametrize(
    "last",
    [
        step(-1, None, 5),
        step(checks.count_max + 1, None, 5),
        step(0, 5, 5),
        step(0, 6, 5),
        step(0, None, 5, ""),
        step(0, None, 5, "s" * (name_length_max + 1)),
    ],
)
def test_a_step_that_cannot_be_taken(last: WriterStep) -> None:
    with pytest.raises(BadInput):
        check_table_request(publish(step=last))


@pytest.mark.parametrize(
    "one", [part(rows=part_rows_max), part(size_bytes=part_bytes_max), part(size_bytes=1)]
)
def test_a_part_that_can_be_published(one: StagedPart) -> None:
    check_table_request(publish(one))


@pytest.mark.parametrize(
    ("one", "error"),
    [
        (part(table_id="x"), BadInput),
        (part(id="../../../../secret"), BadInput),
        (part(id=""), BadInput),
        (part(file=""), BadInput),
        (part(file="manifest"), BadInput),
        (part(file=FILE + "/.."), BadInput),
        (part(rows=0), BadInput),
        (part(rows=part_rows_max + 1), BadInput),
        (part(size_bytes=0), TooLarge),
        (part(size_bytes=-1), TooLarge),
        (part(size_bytes=part_bytes_max + 1), TooLarge),
    ],
)
def test_a_part_that_cannot_be_published(one: StagedPart, error: type[MotetError]) -> None:
    with pytest.raises(error):
        check_table_request(publish(staged(2), one))


def test_all_rows_a_database_can_have_are_a_number_that_fits_into_an_answer() -> None:
    for total in (part_rows_max, part_bytes_max):
        msgspec.msgpack.encode(table_parts_max * tables_max * total)


@pytest.mark.parametrize(
    "message",
    [
        ReadWriter(REQUEST, WriterName("1")),
        NoteWriter(REQUEST, WriterName(""), ""),
        NoteWriter(REQUEST, WriterName("shop"), "x" * (writer_note_length_max + 1)),
    ],
)
def test_a_writer_that_cannot_be_asked_about(message: TablesCall) -> None:
    with pytest.raises((BadInput, TooLarge)):
        check_table_request(message)


def test_what_needs_no_check_is_taken() -> None:
    check_table_request(NoteWriter(REQUEST, WriterName("shop"), "x" * writer_note_length_max))
    check_table_request(ReadWriter(REQUEST, WriterName("shop")))
    check_table_request(ListTables(REQUEST))
    check_table_request(ReadTable(REQUEST, TableName("nowhere")))
    check_table_name("sales")
