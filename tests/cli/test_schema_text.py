"""Schemas as they are typed on a command line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from tests.cli.test_stream_and_feed import run

from motet.cli.schema_text import TYPES, parse_schema
from motet.columnar.schema import encode_schema
from motet.errors import BadSchema


def test_names_types_and_nullability_are_read() -> None:
    text = (
        'sku STRING not null, qty: int,"at all" timestamp , wall timestamp_ntz, price decimal(10,2),'
        " tags list<string>, items array<struct<sku string NOT NULL, qty: bigint>> not null"
    )
    item = pa.struct([pa.field("sku", pa.string(), nullable=False), ("qty", pa.int64())])
    assert parse_schema(text) == pa.schema(
        [
            pa.field("sku", pa.string(), nullable=False),
            ("qty", pa.int32()),
            ("at all", pa.timestamp("us", tz="UTC")),
            ("wall", pa.timestamp("us")),
            ("price", pa.decimal128(10, 2)),
            ("tags", pa.list_(pa.string())),
            pa.field("items", pa.list_(item), nullable=False),
        ]
    )


@pytest.mark.parametrize("word", TYPES)
def test_every_word_is_a_type_that_streams_have(word: str) -> None:
    schema = parse_schema(f"x {word}")
    assert encode_schema(schema, what="a") == encode_schema(
        pa.schema([("x", pa.type_for_alias(TYPES[word]))]), what="a"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sku",
        "sku,",
        "sku string,",
        "sku string qty int",
        "sku word",
        "sku string not",
        "sku string not nul",
        "x list",
        "x list<int",
        "x list<int>>",
        "x struct<>",
        "x decimal",
        "x decimal(10)",
        "x decimal(39,2)",
        "x decimal(a,b)",
        "x decimal(²,1)",
        "x; int",
        '"" int',
        "x " + "list<" * 1000 + "int" + ">" * 1000,
    ],
    ids=lambda text: text[:30],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadSchema):
        parse_schema(text)


def test_a_typed_stream_is_created_from_the_command_line(tmp_path: Path) -> None:
    where = ("--data", str(tmp_path / "db"), "-o", "json")
    create = ("stream", "create", "stock", "--shards", "1", "--schema")
    assert run(*create, "left bigint not null, at timestamp", *where).returncode == 0
    assert run(*create, "left bigint", *where).stderr.startswith("STREAM_EXISTS ")
    assert run(*create, "left number", *where).stderr.startswith("BAD_SCHEMA ")
    (listed,) = json.loads(run("stream", "list", *where).stdout)
    assert listed["typed"] is True
