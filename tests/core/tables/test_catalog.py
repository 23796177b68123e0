"""The catalog as a fold of the log: what it knows after each record, and which records cannot be next."""

from __future__ import annotations

from bisect import bisect_right

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.tables.harness import SHOP, at, created, published, spec, staged, step, token

from motet.core.tables.catalog import Catalog, TableState, TokenDone
from motet.core.tables.messages import TableInfo, VisiblePart, WriterInfo
from motet.core.tables.part_name import PartName, of_block
from motet.core.tables.records import Published, TableRecord, WriterNoted
from motet.ids import TableName, WriterName

SALES = TableName("sales")
STOCK = TableName("stock")


def catalog(*records: TableRecord) -> Catalog:
    made = Catalog()
    for record in records:
        assert made.objection(record) is None
        made.add(record)
    return made


def two_tables() -> list[TableRecord]:
    return [created(1, spec()), created(2, spec("stock", shards=2))]


def test_a_table_knows_its_parts_and_how_large_it_is() -> None:
    first = published(
        3, (staged(1, rows=5), 1), (staged(2, "stock", 1, rows=7), 1), step=step(0, None, 5)
    )
    second = published(4, (staged(3, "stock", 1, rows=9), 2), (staged(4, "stock", rows=1), 1))
    made = catalog(*two_tables(), first, second)
    sales, stock = made.tables[SALES], made.tables[STOCK]
    assert sales.info() == TableInfo(spec(), at(1), 1, 5, 105)
    assert stock.info() == TableInfo(spec("stock", 2), at(2), 3, 17, 317)
    assert sales.next_block == [2]
    assert stock.next_block == [2, 3]
    assert stock.parts == [
        VisiblePart(first.parts[1], at(3), step(0, None, 5)),
        VisiblePart(second.parts[0], at(4), None),
        VisiblePart(second.parts[1], at(4), None),
    ]


def test_a_merged_part_takes_the_numbers_of_its_blocks() -> None:
    made = catalog(*two_tables(), merged(3, 1, 4))
    assert made.tables[SALES].next_block == [5]


def merged(counter: int, low: int, high: int) -> Published:
    record = published(counter, (staged(counter), low))
    name = PartName("all", low, high, 1)
    part = msgspec.structs.replace(record.parts[0], name=name)
    return msgspec.structs.replace(record, parts=(part,))


def test_a_token_is_remembered_with_what_it_published_and_for_its_table_alone() -> None:
    record = published(3, (staged(1), 1), (staged(2), 2), token=token("t"))
    made = catalog(*two_tables(), record)
    assert made.tables[SALES].tokens == {"t": TokenDone(at(3), (of_block(1), of_block(2)))}
    assert made.tables[STOCK].tokens == {}


def test_a_writer_is_where_its_last_step_ended() -> None:
    first = published(
        3, (staged(1, rows=5), 1), (staged(2, "stock", rows=2), 1), step=step(0, None, 5)
    )
    second = msgspec.structs.replace(
        published(4, (staged(3, "stock", rows=3), 2), step=step(1, 5, 9)), at_ms=2_000
    )
    noted = WriterNoted(at(5), 3_000, SHOP, "oh")
    made = catalog(*two_tables(), first, second, noted)
    info = WriterInfo(SHOP, step(1, 5, 9), 2_000, 3_000, 10, 2, (SALES, STOCK), "oh")
    assert made.writers[SHOP].info() == info
    assert made.writers[SHOP].clock == at(4)
    made.add(WriterNoted(at(6), 4_000, SHOP, ""))
    assert (made.writers[SHOP].error, made.writers[SHOP].noted_ms) == ("", 4_000)
    assert made.writers[SHOP].step == step(1, 5, 9)


def test_who_has_only_said_something_has_no_step() -> None:
    made = catalog(WriterNoted(at(1), 3_000, SHOP, "oh"))
    assert made.writers[SHOP].info() == WriterInfo(SHOP, None, 0, 3_000, 0, 0, (), "oh")


@given(st.lists(st.integers(1, 3), max_size=8), st.integers(0, 12))
def test_a_table_at_a_clock_is_what_was_published_up_to_it(counts: list[int], until: int) -> None:
    """Each publication takes a clock and adds so many parts."""
    made, number = catalog(created(1, spec())), 0
    for counter, count in enumerate(counts, start=2):
        parts = [(staged(number + each), number + each) for each in range(1, count + 1)]
        made.add(published(counter, *parts))
        number += count
    table = made.tables[SALES]
    naive = [each for each in table.parts if each.clock <= at(until)]
    assert list(table.parts_at(at(until))) == naive
    assert len(naive) == sum(counts[: max(until - 1, 0)])
    assert bisect_right(table.clocks, at(until)) == len(naive)


KNOWN: list[TableRecord] = [
    *two_tables(),
    published(3, (staged(1), 1), token=token("t")),
    published(4, (staged(2), 2), step=step(0, None, 5)),
    WriterNoted(at(5), 1_000, WriterName("other"), "oh"),
]


@pytest.mark.parametrize(
    "record",
    [
        created(6, spec("new")),
        published(6),
        published(6, (staged(3), 3), (staged(4), 4), (staged(5, "stock", 1), 1)),
        published(6, (staged(3), 3), token=token("u")),
        published(6, (staged(3, "stock"), 1), token=token("t", "stock")),
        published(6, step=step(1, 5, 6)),
        published(6, step=step(0, None, 1, "other")),
        published(6, step=step(0, None, 1, "new")),
        merged(6, 3, 5),
        WriterNoted(at(6), 1_000, SHOP, ""),
    ],
)
def test_a_record_that_can_be_next(record: TableRecord) -> None:
    made = catalog(*KNOWN)
    assert made.objection(record) is None
    made.add(record)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (created(6, spec()), "a table sales already"),
        (published(6, (staged(3, "nowhere"), 1)), "no shard 0 of a table nowhere"),
        (published(6, (staged(3, "stock", 2), 1)), "no shard 2"),
        (published(6, (staged(3, "stock", -1), 1)), "no shard -1"),
        (published(6, (staged(3), 2)), "goes on with block 3, not with all_2_2_0"),
        (published(6, (staged(3), 4)), "goes on with block 3"),
        (published(6, (staged(3), 3), (staged(4), 3)), "goes on with block 4"),
        (published(6, (staged(3), 3), (staged(4), 5)), "goes on with block 4"),
        (merged(6, 3, 2), "goes on with block 3"),
        (published(6, token=token("t")), "its token 't'"),
        (published(6, token=token("t", "nowhere")), "its token 't'"),
        (published(6, step=step(1, 5, 5)), "was at"),
        (published(6, step=step(1, None, 4)), "was at"),
    ],
)
def test_a_record_that_cannot_be_next(record: TableRecord, why: str) -> None:
    objection = catalog(*KNOWN).objection(record)
    assert objection is not None
    assert why in objection


@pytest.mark.parametrize(
    "record",
    [published(6, (staged(3), 2)), published(6, (staged(3), 4)), published(6, step=step(1, 5, 5))],
)
def test_what_breaks_a_rule_is_not_taken_in(record: Published) -> None:
    with pytest.raises(AssertionError):
        catalog(*KNOWN).add(record)


def test_a_fresh_table_is_empty() -> None:
    table = TableState(spec(shards=3), at(1), [1, 1, 1])
    assert catalog(created(1, spec(shards=3))).tables[SALES] == table
    assert table.parts_at(at(9)) == ()
