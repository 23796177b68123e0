"""Blocks of records become Arrow without being looked at, and Arrow becomes records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.columnar.raw_records import SCHEMA, block_columns, records_table
from motet.core.clock.hlc import Clock
from motet.core.streams.entries import Chunk, Records
from motet.format.record_block import encode_block
from motet.ids import Epoch, Offset

rows = st.lists(st.tuples(st.binary(min_size=1, max_size=9), st.binary(max_size=40)), min_size=1)


def chunk(pairs: list[tuple[bytes, bytes]]) -> Chunk:
    return Chunk(len(pairs), None, encode_block([k for k, _ in pairs], [v for _, v in pairs]))


@given(rows)
def test_the_columns_of_a_block_are_its_records(pairs: list[tuple[bytes, bytes]]) -> None:
    keys, values = block_columns(chunk(pairs).block)
    keys.validate(full=True)
    values.validate(full=True)
    assert list(zip(keys.to_pylist(), values.to_pylist(), strict=True)) == pairs


@given(st.lists(st.lists(rows, min_size=1, max_size=3), min_size=1, max_size=3), st.data())
def test_a_page_is_what_was_logged_behind_an_offset(
    entries: list[list[list[tuple[bytes, bytes]]]], data: st.DataObject
) -> None:
    logged, wanted = [], []
    first = 7
    for number, chunks in enumerate(entries):
        records = Records(Offset(first), 1000 + number, tuple(map(chunk, chunks)))
        logged.append((Epoch(3), Clock(50 + number, number), records))
        for key, value in (pair for pairs in chunks for pair in pairs):
            wanted.append((first, 50 + number, key, value))
            first += 1
    after = data.draw(st.integers(6, first))
    limit = data.draw(st.integers(1, 20))
    table = records_table(logged, Offset(after), limit)
    table.validate(full=True)
    assert table.schema == SCHEMA
    found = [
        (row["offset"], row["clock"]["logical"], row["key"], row["value"])
        for row in table.to_pylist()
    ]
    assert found == [row for row in wanted if row[0] > after][:limit]


def test_no_entries_are_an_empty_table() -> None:
    assert records_table([], Offset(-1), 10).num_rows == 0
