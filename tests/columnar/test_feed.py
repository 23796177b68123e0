"""The feed in Arrow: every change in its place, with rows as their streams' schemas say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.columnar.typed_rows import rows_of, schemas

from motet.columnar.feed import (
    _read_natively,
    _read_one_by_one,
    _wire_schema,
    feed_schema,
)
from motet.columnar.feed import feed_table as table_of_runs
from motet.columnar.rows import RowCodec
from motet.columnar.schema import encode_schema
from motet.core.clock.hlc import Clock
from motet.core.streams.change import FeedChange, Op, runs_of
from motet.errors import BadSchema
from motet.ids import Offset, ShardId, StreamName, TransactionId


class Known(NamedTuple):
    """A stream and its schema."""

    name: StreamName
    schema: bytes | None


ORDERS = pa.schema(
    [
        pa.field("sku", pa.string(), nullable=False),
        ("qty", pa.int64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
STOCK = pa.schema([("left", pa.int32()), ("photo", pa.binary())])
orders = Known(StreamName("orders"), encode_schema(ORDERS, what="stream orders"))
stock = Known(StreamName("stock"), encode_schema(STOCK, what="stream stock"))
notes = Known(StreamName("notes"), None)

BOOK = {"sku": "s-1", "qty": 2, "day": date(2024, 1, 1), "at": datetime(2024, 1, 1, tzinfo=UTC)}
PHOTO = {"left": 7, "photo": b"\xff"}


def change(
    stream: Known, op: Op, row: bytes | None, before: bytes | None = None, index: int = 0
) -> FeedChange:
    return FeedChange(
        clock=Clock(1_700_000_000_000 + index, index),
        transaction=TransactionId(f"t-{index}"),
        index=index,
        count=9,
        stream=stream.name,
        shard=ShardId(3),
        offset=Offset(index),
        key=b"\xff%d" % index,
        op=op,
        row=row,
        before=before,
        at_ms=1_700_000_000_123,
    )


def feed_table(changes: Sequence[FeedChange], streams: Sequence[Known]) -> pa.Table:
    return table_of_runs(runs_of(changes), streams)


def book(**other: Any) -> bytes:
    return RowCodec(ORDERS).encode(BOOK | other)


def photo(**other: Any) -> bytes:
    return RowCodec(STOCK).encode(PHOTO | other)


def test_the_columns_are_these_eleven() -> None:
    expected = {
        "clock": pa.struct([("logical", pa.int64()), ("counter", pa.int32())]),
        "transaction": pa.string(),
        "index": pa.int32(),
        "count": pa.int32(),
        "stream": pa.string(),
        "shard": pa.int32(),
        "key": pa.binary(),
        "op": pa.string(),
        "row": pa.string(),
        "before": pa.string(),
        "at": pa.timestamp("us", tz="UTC"),
    }
    assert feed_schema([notes]) == pa.schema(expected.items())
    assert feed_schema([notes, orders]) == feed_schema([notes])
    one, two = pa.struct(list(ORDERS)), pa.struct(list(STOCK))
    both = pa.struct([("orders", one), ("stock", two)])
    assert feed_schema([orders]) == pa.schema((expected | {"row": one, "before": one}).items())
    assert feed_schema([orders, stock]) == pa.schema(
        (expected | {"row": both, "before": both}).items()
    )


def test_every_field_of_a_change_is_in_its_column() -> None:
    table = feed_table([change(notes, "update", b'{"a":2}', b'{"a":1}', index=4)], [notes])
    assert table.to_pylist() == [
        {
            "clock": {"logical": 1_700_000_000_004, "counter": 4},
            "transaction": "t-4",
            "index": 4,
            "count": 9,
            "stream": "notes",
            "shard": 3,
            "key": b"\xff4",
            "op": "update",
            "row": '{"a":2}',
            "before": '{"a":1}',
            "at": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1_700_000_000_123),
        }
    ]


@pytest.mark.parametrize("streams", [[notes], [orders], [orders, stock], [notes, orders]])
def test_no_changes_are_an_empty_table_of_the_same_columns(streams: list[Known]) -> None:
    table = feed_table([], streams)
    assert (table.num_rows, table.schema) == (0, feed_schema(streams))


def test_an_untyped_feed_has_the_text_of_rows_and_entries() -> None:
    changes = [
        change(orders, "insert", book()),
        change(notes, "delete", None, b'{"a":1}'),
        change(notes, "append", "é".encode()),
        change(notes, "append", b"\xff\x00"),
        change(notes, "append", b""),
    ]
    table = feed_table(changes, [notes, orders])
    table.validate(full=True)
    assert table["row"].to_pylist() == [book().decode(), None, "é", '{"$base64": "/wA="}', ""]
    assert table["before"].to_pylist() == [None, '{"a":1}', None, None, None]


def test_the_feed_of_one_typed_stream_has_its_rows_as_structs() -> None:
    changes = [
        change(orders, "insert", book()),
        change(orders, "update", book(qty=3), book()),
        change(orders, "delete", None, book(qty=None)),
    ]
    table = feed_table(changes, [orders])
    table.validate(full=True)
    assert table["row"].to_pylist() == [BOOK, BOOK | {"qty": 3}, None]
    assert table["before"].to_pylist() == [None, BOOK, BOOK | {"qty": None}]


def test_the_feed_of_several_typed_streams_has_a_field_for_each() -> None:
    changes = [
        change(stock, "update", photo(), photo(left=None)),
        change(orders, "insert", book()),
        change(stock, "delete", None),
    ]
    table = feed_table(changes, [orders, stock])
    table.validate(full=True)
    rows = [{"orders": None, "stock": PHOTO}, {"orders": BOOK, "stock": None}, None]
    assert table["row"].to_pylist() == rows
    before = {"orders": None, "stock": PHOTO | {"left": None}}
    assert table["before"].to_pylist() == [before, None, None]
    assert table["row"].null_count == 1


def test_a_raw_entry_in_a_typed_feed_is_a_row_if_it_reads_as_one() -> None:
    entries = [b'{ "left": 7, "photo": "/w==" }', b"{}", b'{"left":"7"}', b'{"right":7}', b"\xff"]
    changes = [change(stock, "append", entry) for entry in entries]
    table = feed_table(changes, [stock])
    empty = {"left": None, "photo": None}
    assert table["row"].to_pylist() == [PHOTO, empty, None, None, None]
    among = feed_table([*changes, change(orders, "insert", book())], [orders, stock])
    assert among["row"].is_null().to_pylist() == [False, False, True, True, True, False]


@pytest.mark.parametrize("row", [b'{"sku":"s","qty":"2"}', b'{"qty":2}', b"\xff", b'{"new":1}'])
def test_a_row_that_is_not_of_its_schema_stops_the_feed_by_name(row: bytes) -> None:
    with pytest.raises(BadSchema, match="orders"):
        feed_table([change(orders, "insert", book()), change(orders, "insert", row)], [orders])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_both_ways_to_read_rows_agree(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    rows = data.draw(st.lists(rows_of(schema), min_size=1, max_size=4))
    stream = Known(StreamName("a"), encode_schema(schema, what="stream a"))
    assert stream.schema is not None
    texts = [RowCodec(schema).encode(row) for row in rows]
    slowly = _read_one_by_one(texts, stream)
    slowly.validate(full=True)
    assert slowly.equals(pa.array(rows, pa.struct(list(schema))))
    wire = _wire_schema(stream.schema)
    if wire is not None:
        natively = _read_natively(texts, wire, schema)
        natively.validate(full=True)
        assert natively.type == slowly.type
        assert natively.equals(slowly)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_typed_feed_has_the_rows_that_were_written(data: st.DataObject) -> None:
    streams: list[Known] = []
    changes: list[FeedChange] = []
    rows: list[tuple[str, dict[str, Any]]] = []
    for name in ("a", "b")[: data.draw(st.integers(1, 2))]:
        schema = data.draw(schemas)
        stream = Known(StreamName(name), encode_schema(schema, what=name))
        drawn = data.draw(st.lists(rows_of(schema), max_size=3))
        streams.append(stream)
        changes += [change(stream, "insert", RowCodec(schema).encode(row)) for row in drawn]
        rows += [(name, row) for row in drawn]
    table = feed_table(changes, streams)
    table.validate(full=True)
    expected: list[dict[str, Any]] = [row for _, row in rows]
    if len(streams) == 2:
        expected = [{"a": None, "b": None} | {name: row} for name, row in rows]
    kind = table.schema.field("row").type
    assert table["row"].combine_chunks().equals(pa.array(expected, kind))


def test_plain_columns_are_read_natively() -> None:
    assert orders.schema is not None
    assert _wire_schema(orders.schema) is not None
    nested = pa.schema([("l", pa.list_(pa.struct([("t", pa.timestamp("us")), ("n", pa.int8())])))])
    assert _wire_schema(encode_schema(nested, what="a")) is not None
