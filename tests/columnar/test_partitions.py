"""Partitions: what may be asked for, and what they are called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.columnar import partitions
from motet.columnar.partitions import PartitionBy, parse_partition_by, partitions_of
from motet.columnar.placing import hash_rows
from motet.core.mergetree import checks
from motet.errors import BadInput, BadSchema, TooLarge

SCHEMA = pa.schema(
    [
        ("sku", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("here", pa.timestamp("us")),
        ("on", pa.date32()),
        ("n", pa.int32()),
        ("yes", pa.bool_()),
        ("price", pa.float64()),
        ("l", pa.list_(pa.int64())),
        ("day(x)", pa.int64()),
        ("a, b", pa.int64()),
    ]
)


def names(partition_by: str | None, values: Sequence[Any], column: str) -> list[str]:
    block = pa.table({column: pa.array(values, SCHEMA.field(column).type)})
    found = partitions_of(partition_by, block)
    return [found.names[place] for place in found.places]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sku", PartitionBy("column", "sku")),
        ("day(at)", PartitionBy("day", "at")),
        (" month( at ) ", PartitionBy("month", "at")),
        ("year(on)", PartitionBy("year", "on")),
        ("bucket(16, sku)", PartitionBy("bucket", "sku", 16)),
        ("bucket(3,a, b)", PartitionBy("bucket", "a, b", 3)),
        ("day(x)", PartitionBy("column", "day(x)")),
    ],
)
def test_these_are_understood(text: str, expected: PartitionBy) -> None:
    assert parse_partition_by(text, SCHEMA) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a column"),
        ("nothing", "not a column"),
        ("day(nothing)", "not a column"),
        ("day(sku)", "cannot be day"),
        ("price", "cannot be the column"),
        ("at", "cannot be the column"),
        ("bucket(4, l)", "cannot be bucket"),
        ("bucket(0, sku)", "not understood"),
        ("bucket(99999, sku)", "exceed the limit"),
        ("bucket(sku)", "not understood"),
        ("hour(at)", "not understood"),
        ("day(at) + 1", "not understood"),
    ],
)
def test_these_are_refused(text: str, said: str) -> None:
    with pytest.raises((BadInput, BadSchema), match=said):
        parse_partition_by(text, SCHEMA)


def test_times_are_cut_to_days_months_and_years() -> None:
    moments = [
        datetime(2026, 11, 19, 23, 59, 59, 999_999, tzinfo=UTC),
        None,
        datetime(1969, 12, 31, 23, 59, tzinfo=UTC),
        datetime(2026, 11, 1, tzinfo=UTC),
    ]
    assert names("day(at)", moments, "at") == ["2026-11-19", "%null", "1969-12-31", "2026-11-01"]
    assert names("month(at)", moments, "at") == ["2026-11", "%null", "1969-12", "2026-11"]
    assert names("year(at)", moments, "at") == ["2026", "%null", "1969", "2026"]
    plain = [datetime.fromisoformat(text) for text in ("2026-11-19T01:00", "0001-01-01")]
    assert names("day(here)", plain, "here") == ["2026-11-19", "0001-01-01"]
    days = [date(1969, 12, 31), None, date(2026, 2, 3)]
    assert names("month(on)", days, "on") == ["1969-12", "%null", "2026-02"]
    assert names("on", days, "on") == ["1969-12-31", "%null", "2026-02-03"]


def test_values_are_names() -> None:
    assert names("n", [1, -7, None, 1], "n") == ["1", "-7", "%null", "1"]
    assert names("yes", [True, False, None], "yes") == ["true", "false", "%null"]
    assert names(None, [1, 2], "n") == ["p", "p"]
    texts = ["a", "", None, "null", "a/b", "100%", "tab\t", "ß", "a b"]
    assert names("sku", texts, "sku") == [
        *("a", "%empty", "%null", "null", "a%2Fb", "100%25", "tab%09", "ß", "a b")
    ]


@given(st.lists(st.none() | st.text(max_size=12), max_size=30))
def test_different_texts_have_different_names_that_a_part_can_have(texts: list[str | None]) -> None:
    found = names("sku", texts, "sku")
    assert len({*found}) == len({*texts})
    for name in found:
        assert checks._PARTITION.fullmatch(name) is not None
        assert name.isprintable()


def test_buckets_are_mixed_once_more() -> None:
    skus = [f"sku-{n}" for n in range(4000)]
    found = names("bucket(4, sku)", skus, "sku")
    assert {*found} == {"0", "1", "2", "3"}
    hashes = hash_rows([pa.chunked_array([skus])], len(skus))
    in_shard = [bucket for bucket, hash_ in zip(found, hashes, strict=True) if hash_ % 4 == 1]
    assert all(150 < in_shard.count(bucket) < 350 for bucket in "0123")
    assert found[:8] == names("bucket(4, sku)", skus[:8], "sku")


def test_too_many_partitions_and_too_long_names_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(BadInput, match="too long"):
        names("sku", ["x" * 129], "sku")
    assert names("sku", ["x" * 128], "sku") == ["x" * 128]
    monkeypatch.setattr(partitions, "insert_partitions_max", 3)
    with pytest.raises(TooLarge, match="4 partitions exceed the limit of 3"):
        names("n", [1, 2, 3, 4], "n")


def test_no_rows_are_in_no_other_partition() -> None:
    assert names("day(at)", [], "at") == []
    assert re.fullmatch("p", partitions_of("day(at)", SCHEMA.empty_table()).names[0])
