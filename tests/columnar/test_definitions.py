"""Definitions of new tables: made as asked for, and what would lose rows is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from motet.columnar.definitions import make_definition
from motet.columnar.part_schema import file_schema, leaf_ids, table_schema
from motet.core.metadata.definitions import (
    Column,
    decode_table_definition,
    encode_table_definition,
)
from motet.errors import BadInput, BadSchema
from motet.ids import TableId

ID = TableId("0123456789abcdef")
SCHEMA = pa.schema(
    [
        pa.field("sku", pa.string()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("qty", pa.int64(), nullable=False),
        pa.field("gone", pa.bool_()),
        pa.field("tags", pa.list_(pa.struct([("a", pa.string()), ("b", pa.list_(pa.int8()))]))),
    ]
)


def test_it_is_as_it_was_asked_for() -> None:
    made = make_definition(
        *("sales", ID, SCHEMA, ["sku", "at"]),
        partition_by="day(at)",
        shards=4,
        engine="replacing",
        version="qty",
        tombstone="gone",
        dedup="content",
    )
    assert made.columns == tuple(Column(n, name) for n, name in enumerate(SCHEMA.names, 1))
    assert (made.order_by, made.shard_by) == (("sku", "at"), ("sku",))
    assert (made.partition_by, made.shards, made.engine) == ("day(at)", 4, "replacing")
    assert (made.version, made.tombstone, made.dedup, made.disk) == (
        *("qty", "gone", "content", "local"),
    )
    assert table_schema(made) == SCHEMA
    assert decode_table_definition(encode_table_definition(made)) == made
    assert make_definition("sales", ID, SCHEMA, "sku").order_by == ("sku",)


def test_every_column_has_an_id_and_what_is_within_it_too() -> None:
    schema = file_schema(make_definition("sales", ID, SCHEMA, "sku"))
    assert leaf_ids(schema) == (1, 2, 3, 4, 2 * 65536 + 5, 4 * 65536 + 5)
    ids = [field.metadata[b"PARQUET:field_id"] for field in schema]
    assert ids == [b"1", b"2", b"3", b"4", b"5"]
    item = schema.field("tags").type.value_field
    assert item.metadata[b"PARQUET:field_id"] == b"%d" % (65536 + 5)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"engine": "summing"}, "'summing' is not an engine"),
        ({"disk": "s3"}, "'s3' is not a disk"),
        ({"dedup": "hash"}, "dedup='hash'"),
        ({"shards": 0}, "shards=0"),
        ({"shards": 257}, "shards=257"),
        ({"shards": True}, "shards=True"),
        ({"shards": "2"}, "shards='2'"),
        ({"order_by": []}, "order_by names no column"),
        ({"order_by": ["no"]}, "order_by names 'no'"),
        ({"order_by": ["sku", "sku"]}, "twice"),
        ({"order_by": 7}, "order_by is a list"),
        ({"order_by": ["tags"]}, "cannot be sorted"),
        ({"shard_by": ["no"]}, "shard_by names 'no'"),
        ({"shard_by": ["tags"]}, "shard_by cannot be 'tags'"),
        ({"shard_by": []}, "shard_by names no column"),
        ({"partition_by": "day(sku)"}, "cannot be day"),
        ({"version": "qty"}, "no use for version"),
        ({"tombstone": "gone"}, "no use for version or tombstone"),
        ({"engine": "replacing", "version": "no"}, "version names 'no'"),
        ({"engine": "replacing", "version": "tags"}, "cannot be sorted"),
        ({"engine": "replacing", "tombstone": "qty"}, "has to be a boolean"),
        ({"engine": "replacing", "shard_by": ["qty"]}, "part the versions of a key"),
        ({"engine": "replacing", "partition_by": "day(at)"}, "part the versions of a key"),
        ({"schema": pa.schema([("a", pa.uint8())])}, "unsigned|uint8"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_by_name(wrong: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"schema": SCHEMA, "order_by": ["sku"], **wrong}
    schema, order_by = asked.pop("schema"), asked.pop("order_by")
    with pytest.raises((BadInput, BadSchema), match=said):
        make_definition("sales", ID, schema, order_by, **asked)
