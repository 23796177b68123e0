"""Questions in SQL over part files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from motet.columnar.definitions import make_definition
from motet.columnar.encode import encode_parts
from motet.columnar.part_sources import LocalPart, PartSource, RemotePart
from motet.errors import BadInput, NoSuchTable, ObjectMissing
from motet.ids import PartId, TableId
from motet.sql.session import SqlTable, run_sql

SALES = pa.schema(
    [
        ("sku", pa.string()),
        ("qty", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.string())),
        ("clock", pa.struct([("logical", pa.int64()), ("counter", pa.int32())])),
    ]
)
STOCK = pa.schema(
    [("sku", pa.string()), ("left", pa.int64()), ("version", pa.int64()), ("gone", pa.bool_())]
)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def table_of(
    folder: Path,
    schema: pa.Schema,
    parts: Sequence[list[dict[str, Any]]],
    engine: Literal["merge", "replacing"] = "merge",
) -> SqlTable:
    is_replacing = engine == "replacing"
    definition = make_definition(
        "any",
        TableId("0" * 16),
        schema,
        order_by=["sku"],
        engine=engine,
        version="version" if is_replacing else None,
        tombstone="gone" if is_replacing else None,
    )
    folder.mkdir(parents=True, exist_ok=True)
    sources: list[PartSource] = []
    for number, rows in enumerate(parts):
        part = PartId(f"{number:016x}")
        (made,) = encode_parts(definition, rows, partial(PartId, part)).parts
        assert made.data is not None
        path = folder / f"{part}.parquet"
        path.write_bytes(made.data)
        sources.append(LocalPart(made.manifest, path))
    return SqlTable(definition, sources)


def far_away(table: SqlTable) -> SqlTable:
    """The same table with its parts behind ranges of bytes."""

    def fetch(path: Path, start: int, length: int) -> bytes:
        return path.read_bytes()[start : start + length]

    remote: list[PartSource] = [
        RemotePart(each.manifest, partial(fetch, path))
        for each, path in zip(table.sources, table.paths, strict=True)
    ]
    return SqlTable(table.definition, remote)


@pytest.fixture
def sales(tmp_path: Path) -> SqlTable:
    first = {"sku": "b", "qty": 2, "at": NOON, "tags": ["x"], "clock": {"logical": 7, "counter": 0}}
    return table_of(tmp_path, SALES, [[first, {"sku": "a", "qty": 1}], [{"sku": "b", "qty": 3}]])


@pytest.fixture
def stock(tmp_path: Path) -> SqlTable:
    parts = [
        [{"sku": "a", "left": 5, "version": 1}, {"sku": "b", "left": 9, "version": 4}],
        [{"sku": "a", "left": 4, "version": 2}, {"sku": "b", "left": 1, "version": 3}],
        [{"sku": "c", "left": 1, "version": 1}, {"sku": "c", "version": 2, "gone": True}],
    ]
    return table_of(tmp_path / "stock", STOCK, parts, "replacing")


def test_a_merge_table_is_all_rows_of_its_parts(sales: SqlTable) -> None:
    found = run_sql(
        "select sku, sum(qty)::bigint as n from sales group by sku order by sku", {"sales": sales}
    )
    assert isinstance(found, pa.Table)
    assert found.to_pydict() == {"sku": ["a", "b"], "n": [1, 5]}


def test_parts_that_are_elsewhere_are_read_by_ranges(sales: SqlTable, stock: SqlTable) -> None:
    query = 'select sku, qty, "left" from sales join stock using (sku) order by sku, qty'
    near = run_sql(query, {"sales": sales, "stock": stock})
    assert run_sql(query, {"sales": far_away(sales), "stock": far_away(stock)}) == near
    mixed = SqlTable(sales.definition, [sales.sources[0], far_away(sales).sources[1]])
    assert run_sql(query, {"sales": mixed, "stock": stock}) == near


def test_every_type_comes_back_as_it_was(sales: SqlTable) -> None:
    found = run_sql("select * from sales where qty = 2", {"sales": sales})
    assert found.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert found.to_pylist() == [
        {
            "sku": "b",
            "qty": 2,
            "at": NOON,
            "tags": ["x"],
            "clock": {"logical": 7, "counter": 0},
        }
    ]


def test_a_replacing_table_is_the_latest_row_of_each_key(stock: SqlTable) -> None:
    found = run_sql('select sku, "left" from stock order by sku', {"stock": stock})
    assert found.to_pydict() == {"sku": ["a", "b"], "left": [4, 9]}


def test_tables_are_joined(sales: SqlTable, stock: SqlTable) -> None:
    query = 'select sku, qty, "left" from sales join stock using (sku) order by qty'
    found = run_sql(query, {"sales": sales, "stock": stock})
    assert found.to_pylist() == [
        {"sku": "a", "qty": 1, "left": 4},
        {"sku": "b", "qty": 2, "left": 9},
        {"sku": "b", "qty": 3, "left": 9},
    ]


@pytest.mark.parametrize("engine", ["merge", "replacing"])
def test_a_table_without_parts_has_its_columns(
    tmp_path: Path, engine: Literal["merge", "replacing"]
) -> None:
    empty = table_of(tmp_path, STOCK, [], engine)
    found = run_sql("select * from empty", {"empty": empty})
    assert found.num_rows == 0
    assert found.schema == STOCK
    assert run_sql("select count(*) as n from empty", {"empty": empty}).to_pylist() == [{"n": 0}]


@pytest.mark.parametrize("name", ["odd name", 'a"b', "a.b", "select", "2026", "Größe", "a'b"])
def test_names_that_need_quotes(sales: SqlTable, stock: SqlTable, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    for table in (sales, stock):
        found = run_sql(f"select count(*) as n from {quoted}", {name: table})
        assert found.column("n").to_pylist() == [3 if table is sales else 2]


@pytest.mark.parametrize("folder", ["with 'quote", "star*", "list[1]", "key=value", "what?"])
def test_folders_with_special_names(tmp_path: Path, folder: str) -> None:
    table = table_of(tmp_path / folder, STOCK, [[{"sku": "a", "left": 5}], [{"sku": "b"}]])
    found = run_sql("select * from t order by sku", {"t": table})
    assert found.column_names == STOCK.names
    assert found.column("sku").to_pylist() == ["a", "b"]


def test_parameters_by_place_and_by_name(sales: SqlTable) -> None:
    tables = {"sales": sales}
    assert run_sql("select qty from sales where qty > ?", tables, [2]).to_pydict() == {"qty": [3]}
    assert run_sql("select qty from sales where qty > $n", tables, {"n": 2}).to_pydict() == {
        "qty": [3]
    }
    with pytest.raises(BadInput, match="parameters"):
        run_sql("select qty from sales where qty > ?", tables)


def test_show_describe_and_explain(sales: SqlTable) -> None:
    tables = {"sales": sales}
    assert run_sql("show tables", tables).column("name").to_pylist() == ["sales"]
    assert run_sql("describe sales", tables).column("column_name").to_pylist() == SALES.names
    assert run_sql("explain select * from sales", tables).num_rows > 0


def test_the_systems_own_tables() -> None:
    extra = {
        "system.tables": pa.table({"name": ["sales", "stock"]}),
        "system.parts": pa.table({"table": ["sales", "sales"], "rows": [1, 2]}),
    }
    query = """
        select t.name, 'system.tables' as said, sum(p.rows)::bigint as rows  -- system.tables
        from SYSTEM . tables t left join "system".parts p on p."table" = t.name group by all order by all
    """
    assert run_sql(query, {}, None, extra).to_pylist() == [
        {"name": "sales", "said": "system.tables", "rows": 3},
        {"name": "stock", "said": "system.tables", "rows": None},
    ]
    found = run_sql("select system.tables.name from system.tables order by 1", {}, None, extra)
    assert found.column("name").to_pylist() == ["sales", "stock"]
    assert run_sql("describe system.parts", {}, None, extra).num_rows == 2


@pytest.mark.parametrize(
    "query",
    [
        "insert into sales values (1)",
        "explain analyze insert into sales select * from sales",
        "explain (format json) delete from sales",
        "copy sales to 'out.csv'",
        "create table t as select 1",
        "with x as (select 1) insert into sales select * from x",
        "drop view sales",
        "set threads = 1",
        "attach 'other.db'",
        "pragma database_list",
        "select 1; drop view sales",
        "",
        "-- nothing",
    ],
)
def test_what_does_not_only_read_is_refused(
    sales: SqlTable, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadInput) as refused:
        run_sql(query, {"sales": sales})
    assert "SELECT, WITH, SHOW" in refused.value.advice
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_but_the_tables_can_be_seen(
    sales: SqlTable, stock: SqlTable, tmp_path: Path
) -> None:
    secret = pa.table({"a": [1]})
    with pytest.raises(NoSuchTable, match="'secret'"):
        run_sql("select * from secret", {"sales": sales})
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    for query in (f"select * from '{other}'", f"select * from read_csv('{other}')"):
        with pytest.raises(BadInput, match="disabled by configuration"):
            run_sql(query, {"sales": sales})
    with pytest.raises(BadInput, match="disabled by configuration"):
        run_sql(f"select * from read_parquet('{stock.paths[0]}')", {"sales": sales})
    assert secret.num_rows == 1


def test_what_duckdb_says_is_passed_on(sales: SqlTable) -> None:
    with pytest.raises(BadInput, match="syntax error"):
        run_sql("selec 1", {})
    with pytest.raises(BadInput, match="quantity"):
        run_sql("select quantity from sales", {"sales": sales})
    with pytest.raises(NoSuchTable, match="'sale'"):
        run_sql("select * from sale", {"sales": sales})
    with pytest.raises(BadInput, match="Conversion"):
        run_sql("select cast(sku as integer) from sales", {"sales": sales})


def test_a_part_that_is_gone_is_not_the_callers_fault(sales: SqlTable) -> None:
    sales.paths[0].unlink()
    with pytest.raises(ObjectMissing):
        run_sql("select * from sales", {"sales": sales})


def test_sums_of_whole_numbers_are_whole_numbers_as_long_as_they_fit(tmp_path: Path) -> None:
    rows = [{"sku": "a", "qty": 2**62}, {"sku": "b", "qty": 2**62}]
    table = table_of(tmp_path, SALES, [rows])
    asked = "select sum(qty // 2) as fits, sum(qty) as large from sales"
    answer = run_sql(asked, {"sales": table}, None)
    assert answer.schema.field("fits").type == pa.int64()
    assert answer.to_pylist() == [{"fits": 2**62, "large": 2**63}]
