"""What the catalog answers, and which clocks a table can be read at."""

from __future__ import annotations

import pytest
from tests.core.tables.harness import REQUEST, SHOP, at, created, published, spec, staged, step

from motet.core.tables.catalog import Catalog
from motet.core.tables.messages import (
    ListTables,
    ListWriters,
    ReadTable,
    ReadWriter,
    TableIs,
    TablesAre,
    WriterIs,
    WritersAre,
)
from motet.core.tables.reading import answer_table
from motet.core.tables.records import WriterNoted
from motet.errors import BadInput, NoSuchTable
from motet.ids import TableName, WriterName

SALES = TableName("sales")


def filled() -> Catalog:
    made = Catalog()
    made.add(created(1, spec()))
    made.add(published(2, (staged(1), 1), step=step(0, None, 5)))
    made.add(published(4, (staged(2), 2), (staged(3), 3)))
    return made


@pytest.mark.parametrize(
    ("counter", "parts"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 3), (5, 3), (None, 3)]
)
def test_a_table_is_read_at_any_clock_up_to_the_visible_one(
    counter: int | None, parts: int
) -> None:
    made = filled()
    clock = None if counter is None else at(counter)
    answer = answer_table(made, ReadTable(REQUEST, SALES, clock), at(5))
    shown = tuple(made.tables[SALES].parts[:parts])
    assert answer == TableIs(REQUEST, spec(), at(5) if clock is None else clock, shown)


def test_a_clock_that_is_not_visible_yet_is_refused() -> None:
    with pytest.raises(BadInput):
        answer_table(filled(), ReadTable(REQUEST, SALES, at(6)), at(5))


def test_a_table_nobody_knows_is_refused_at_any_clock() -> None:
    for clock in (None, at(1), at(9)):
        with pytest.raises(NoSuchTable):
            answer_table(filled(), ReadTable(REQUEST, TableName("stock"), clock), at(5))


def test_tables_and_writers_are_told_in_the_order_in_which_they_came() -> None:
    made = filled()
    made.add(created(5, spec("a")))
    made.add(WriterNoted(at(6), 1_000, WriterName("a"), "oh"))
    tables = answer_table(made, ListTables(REQUEST), at(6))
    writers = answer_table(made, ListWriters(REQUEST), at(6))
    assert tables == TablesAre(REQUEST, tuple(each.info() for each in made.tables.values()))
    assert isinstance(tables, TablesAre)
    assert [(each.spec.name, each.parts) for each in tables.tables] == [("sales", 3), ("a", 0)]
    assert isinstance(writers, WritersAre)
    assert [each.writer for each in writers.writers] == ["shop", "a"]


def test_a_writer_is_told_by_name() -> None:
    made = filled()
    known = answer_table(made, ReadWriter(REQUEST, SHOP), at(5))
    assert known == WriterIs(REQUEST, made.writers[SHOP].info())
    nobody = answer_table(made, ReadWriter(REQUEST, WriterName("nobody")), at(5))
    assert nobody == WriterIs(REQUEST, None)
