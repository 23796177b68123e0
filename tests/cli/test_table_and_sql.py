"""``motet table`` and ``motet sql``: create, fill from files, show, ask."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from motet.cli import table
from motet.errors import BadInput, BadSchema, NoSuchTable
from motet.errors.queries import QueryStopped

CREATE = ["create", "sales", "--schema", "sku string not null, qty int", "--order-by", "sku"]


def run(app: object, *arguments: str, data: Path) -> list[dict[str, object]]:
    result = CliRunner().invoke(
        app,  # type: ignore[arg-type]
        [*arguments, "--data", str(data), "--output", "json"],
        catch_exceptions=False,
    )
    assert result.exit_code == 0, result.output
    rows: list[dict[str, object]] = json.loads(result.stdout)
    return rows


@pytest.fixture
def data(tmp_path: Path) -> Path:
    run(table.app, *CREATE, data=tmp_path / "data")
    return tmp_path / "data"


def rows_file(folder: Path, kind: str) -> Path:
    file = folder / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"sku": ["b", "a"], "qty": pa.array([1, 2], pa.int32())}), file)
    elif kind == "csv":
        file.write_text("sku,qty\nb,1\na,2\n")
    else:
        file.write_text('{"sku": "b", "qty": 1}\n{"sku": "a", "qty": 2}\n')
    return file


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_file_is_inserted_once_per_token(data: Path, tmp_path: Path, kind: str) -> None:
    file = str(rows_file(tmp_path, kind))
    first = run(table.app, "insert", "sales", file, "--token", "t-1", data=data)
    again = run(table.app, "insert", "sales", file, "--token", "t-1", data=data)
    assert (first[0]["rows"], first[0]["duplicate"]) == (2, False)
    assert again[0]["duplicate"] is True
    shown = run(table.app, "select", "sales", data=data)
    assert shown == [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 1}]
    assert run(table.app, "select", "sales", "--columns", "qty", "--limit", "1", data=data) == [
        {"qty": 2}
    ]


def test_sql_answers_and_the_lists_tell_what_is_there(data: Path, tmp_path: Path) -> None:
    done = run(table.app, "insert", "sales", str(rows_file(tmp_path, "csv")), data=data)
    assert run(table.sql_app, "select sum(qty) as n from sales", data=data) == [{"n": 3}]
    assert run(table.app, "list", data=data)[0]["rows"] == 2
    parts = run(table.app, "parts", "sales", data=data)
    assert [part["part"] for part in parts] == done[0]["parts"]
    at = str(done[0]["version"])
    run(table.app, "insert", "sales", str(rows_file(tmp_path, "csv")), data=data)
    assert run(table.sql_app, "select sum(qty) as n from sales", "--at", at, data=data) == [
        {"n": 3}
    ]
    assert len(run(table.app, "select", "sales", "--at", at, data=data)) == 2
    assert len(run(table.app, "parts", "sales", "--at", at, data=data)) == 1
    (replica,) = run(table.app, "describe", "sales", data=data)
    assert (replica["shard"], replica["phase"], replica["parts"]) == (0, "active", 2)
    (synced,) = run(table.app, "sync", "sales", data=data)
    assert "@" in str(synced["version"])


def test_a_table_is_renamed_and_dropped(data: Path) -> None:
    options = ["--partition-by", "bucket(4, day)", "--shards", "2", "--shard-by", "sku"]
    schema = ["--schema", "day date, sku string", "--order-by", "sku,day"]
    (made,) = run(table.app, "create", "old", *schema, *options, data=data)
    assert (made["shards"], made["partition_by"], made["replicas"]) == (2, "bucket(4, day)", 1)
    run(table.app, "rename", "old", "new", data=data)
    assert [each["table"] for each in run(table.app, "list", data=data)] == ["new", "sales"]
    run(table.app, "drop", "new", data=data)
    assert [each["table"] for each in run(table.app, "list", data=data)] == ["sales"]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["select", "nothing"], NoSuchTable, "nothing"),
        (["drop", "nothing"], NoSuchTable, "nothing"),
        (["describe", "nothing"], NoSuchTable, "nothing"),
        (["insert", "sales", "missing.csv"], BadInput, "missing.csv"),
        (["insert", "sales", "rows.xlsx"], BadInput, "rows.xlsx"),
        (["create", "x", "--schema", "a what", "--order-by", "a"], BadSchema, "what"),
        (["create", "x", "--schema", "a int", "--order-by", "b"], BadSchema, "'b'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_what_cannot_be_done_says_why(
    data: Path, arguments: list[str], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        run(table.app, *arguments, data=data)


def test_a_query_has_the_bounds_that_it_is_given(data: Path) -> None:
    endless = (
        "select count(*) from range(1000000000) a, range(1000000000) b where a.range % 7 = b.range"
    )
    with pytest.raises(QueryStopped, match="--timeout"):
        run(table.sql_app, endless, "--timeout", "200ms", data=data)
    large = "select list(range) from range(100000000)"
    with pytest.raises(QueryStopped, match="--memory-bytes"):
        run(table.sql_app, large, "--memory-bytes", str(64 << 20), data=data)


def test_bad_sql_says_where(data: Path) -> None:
    with pytest.raises(BadInput, match="selct"):
        run(table.sql_app, "selct 1", data=data)
    with pytest.raises(BadInput):
        run(table.sql_app, "drop table sales", data=data)
