"""What a table may be."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.mergetree.tables import create, serving

from motet.core.mergetree.messages import TableReady
from motet.core.mergetree.paths import (
    TABLE_DATA,
)
from motet.core.metadata.definitions import Column
from motet.limits import KIB, table_columns_max, table_shards_max


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"id": "x"}, "'x' is not the id of a table"),
        ({"shards": 0}, "0 shards"),
        ({"shards": table_shards_max + 1}, f"{table_shards_max + 1} shards"),
        ({"schema": b""}, "has a schema"),
        ({"schema": b"x" * (257 * KIB)}, "a schema of"),
        ({"columns": ()}, "0 columns"),
        ({"columns": (Column(1, "a"),) * (table_columns_max + 1)}, "columns are not between"),
        ({"columns": (Column(1, "sku"), Column(2, "sku"))}, "two columns have one name"),
        ({"columns": (Column(1, "sku"), Column(1, "at"))}, "two columns have one id"),
        ({"columns": (Column(1, ""),)}, "has no name"),
        ({"columns": (Column(-1, "sku"),)}, "has id -1"),
        ({"order_by": ()}, "at least one column"),
        ({"order_by": ("nothing",)}, "order_by names 'nothing'"),
        ({"order_by": ("sku", "sku")}, "names a column twice"),
        ({"shard_by": ("nothing",)}, "shard_by names 'nothing'"),
        ({"engine": "summing"}, "there is no engine 'summing'"),
        ({"version": "at"}, "no use for version"),
        ({"tombstone": "gone"}, "no use for version"),
        ({"engine": "replacing", "version": "nothing"}, "version names 'nothing'"),
        ({"engine": "replacing", "tombstone": "nothing"}, "tombstone names 'nothing'"),
        ({"engine": "replacing", "shard_by": ("gone",)}, "shard_by uses 'gone'"),
        ({"engine": "replacing", "partition_by": "bucket(4, gone)"}, "partition_by uses 'gone'"),
        ({"engine": "replacing", "partition_by": "gone"}, "partition_by uses 'gone'"),
        ({"partition_by": ""}, "partition_by has 1 to"),
        ({"disk": "s3"}, "there is no disk 's3'"),
        ({"dedup": "rows"}, "there is no dedup 'rows'"),
        ({"is_dropped": True}, "is not dropped"),
        ({"format": 2}, "format 1"),
        ({"schema_version": 1}, "schema version 0"),
    ],
)
def test_a_table_that_cannot_be_is_refused(changed: dict[str, Any], said: str) -> None:
    stand = serving()
    refused = stand.refusal(create(**changed))
    assert said in refused.what
    assert stand.tree.names(TABLE_DATA) == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": "replacing"},
        {"engine": "replacing", "version": "at", "tombstone": "gone"},
        {"engine": "replacing", "partition_by": "day(at)", "shard_by": ("sku",)},
        {"engine": "replacing", "partition_by": "gone(at)"},
        {"partition_by": "bucket(4, gone)", "shard_by": ("gone",)},
        {"dedup": "content"},
    ],
)
def test_what_may_be_is_created(changed: dict[str, Any]) -> None:
    assert isinstance(serving().ask(create(**changed)), TableReady)


def test_names_and_replicas_are_checked() -> None:
    stand = serving()
    for name in ("", "1st", "a/b", "system.parts", "x" * 129):
        assert stand.refusal(create(name)).code == "BAD_INPUT"
    for replicas in (0, -1, 16):
        assert "replicas are not between 1 and 15" in stand.refusal(create(replicas=replicas)).what
