"""Arrow columns as blocks of records: all rows, in order, in blocks that fit."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.columnar.raw_records import KeyValues
from motet.errors import BadInput, BadSchema, TooLarge
from motet.format.record_block import check_block, decode_block
from motet.limits import (
    append_batch_bytes_max,
    block_records_max,
    entry_bytes_max,
    key_bytes_max,
    row_bytes_max,
)

Rows = list[tuple[bytes, bytes]]


def table(rows: Rows) -> pa.Table:
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


def from_blocks(rows: KeyValues) -> Rows:
    found: Rows = []
    for count, block in rows.blocks():
        assert check_block(block) == count
        found += zip(*decode_block(block), strict=True)
    return found


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=9), st.binary(max_size=9)), max_size=40),
    st.integers(0, 40),
    st.integers(1, 3),
)
def test_blocks_have_what_the_columns_have(rows: Rows, start: int, chunks: int) -> None:
    sliced = pa.concat_tables([table(rows)] * chunks).slice(start)
    assert from_blocks(KeyValues.of(sliced)) == (rows * chunks)[start:]
    assert KeyValues.of(sliced).rows() == (rows * chunks)[start:]


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=40), st.integers(1, 4))
def test_each_shard_gets_its_rows_in_order(keys: list[bytes], shards: int) -> None:
    rows = [(key, b"%d" % number) for number, key in enumerate(keys)]
    seen = []
    for shard, numbers, part in KeyValues.of(table(rows)).by_shard(lambda k: k[0] % shards):
        assert from_blocks(part) == [rows[number] for number in numbers]
        assert all(keys[number][0] % shards == shard for number in numbers)
        assert numbers == sorted(numbers)
        seen += numbers
    assert sorted(seen) == list(range(len(rows)))


@pytest.mark.parametrize("value_bytes", [0, 1000, entry_bytes_max // 2, row_bytes_max])
def test_blocks_hold_what_fits_and_no_row_is_left_out(value_bytes: int) -> None:
    rows = [(b"k", bytes(value_bytes))] * (2 * block_records_max + 5 if value_bytes == 0 else 9)
    counts = [count for count, _ in KeyValues.of(table(rows)).blocks()]
    assert sum(counts) == len(rows)
    for count in counts:
        assert count == 1 or count * (1 + value_bytes) <= entry_bytes_max
        assert count <= block_records_max
    fits = min(block_records_max, max(1, entry_bytes_max // (1 + value_bytes)))
    assert counts[0] == min(fits, len(rows)), "the first is as full as it can be"


def test_text_and_bytes_become_records() -> None:
    rows = pa.table({"value": [b"1", b"2"], "key": ["a", "ä"], "more": [0, 0]})
    assert KeyValues.of(rows).rows() == [(b"a", b"1"), ("ä".encode(), b"2")]
    views = pa.table({"key": pa.array(["a"], pa.large_string()), "value": ["x"]})
    assert from_blocks(KeyValues.of(views)) == [(b"a", b"x")]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([(b"k", b"v")], BadInput),
        (pa.table({"key": ["k"]}), BadSchema),
        (pa.table({"key": ["k"], "value": pa.array([None], pa.binary())}), BadSchema),
        (pa.table({"key": ["k"], "value": [[1]]}), BadSchema),
        (pa.table({"key": [""], "value": ["v"]}), BadInput),
        (pa.table({"key": ["k" * (key_bytes_max + 1)], "value": ["v"]}), TooLarge),
        (pa.table({"key": ["k"], "value": [bytes(row_bytes_max + 1)]}), TooLarge),
    ],
)
def test_what_has_no_keys_and_values_is_refused(data: object, error: type[BadInput]) -> None:
    with pytest.raises(error):
        KeyValues.of(data)


def test_more_than_a_batch_is_refused_before_it_is_copied() -> None:
    chunk = pa.array([bytes(row_bytes_max)])
    count = append_batch_bytes_max // row_bytes_max + 1
    values = pa.chunked_array([chunk] * count)  # the same bytes over and over: little memory
    with pytest.raises(TooLarge, match="column 'value'") as raised:
        KeyValues.of(pa.table({"key": ["k"] * count, "value": values}))
    assert "fewer rows" in raised.value.advice
