"""Which tables a statement names."""

from __future__ import annotations

import pytest

from motet.errors import BadInput
from motet.sql.statement import tables_of, with_system_tables


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("select 1", set()),
        ('select * from sales join "odd name" using (sku)', {"sales", "odd name"}),
        ("from sales", {"sales"}),
        ("with c as (select * from t) select * from c, u", {"t", "u"}),
        ("with sales as (select * from sales) select * from SALES", {"sales"}),
        ("with a as (select 1), b as (select * from a) select * from b", set()),
        ("select * from (with a as (select 1) select * from a), a", {"a"}),
        (
            "with recursive r as (select 1 n union all select n + 1 from r, s) select * from r",
            {"s"},
        ),
        (
            "select (select max(qty) from sales) where exists (select * from stock)",
            {"sales", "stock"},
        ),
        ("select * from a union all select * from b except select * from c", {"a", "b", "c"}),
        ("select * from main.sales, memory.main.stock", {"sales", "stock"}),
        ("select * from system.tables, System.Parts", {"system.tables", "system.Parts"}),
        ("select * from information_schema.tables", set()),
        ("describe sales", {"sales"}),
        ("summarize sales", {"sales"}),
        ("show tables", set()),
        ("explain select * from sales", {"sales"}),
        ("explain analyze select * from sales", {"sales"}),
        ("explain (format json) (select * from sales)", {"sales"}),
        ("/* é */ explain select * from sales -- stock", {"sales"}),
        ('select * from "a""b"', {'a"b'}),
        ("select * from range(10), read_csv('x')", set()),
        ("select * from sales where sku = ? and qty > $2", {"sales"}),
    ],
)
def test_the_tables_of_a_statement(query: str, tables: set[str]) -> None:
    assert tables_of(query) == tables


def test_a_statement_that_writes_names_none() -> None:
    with pytest.raises(BadInput, match="INSERT"):
        tables_of("insert into sales select * from stock")
    with pytest.raises(BadInput, match="syntax"):
        tables_of("selec")


@pytest.mark.parametrize(
    ("query", "changed"),
    [
        ("select * from system.tables", 'select * from "system.tables"'),
        ("select * from SYSTEM . Tables;", 'select * from "system.tables";'),
        (
            "select 'é', system.tables.a from system.tables",
            'select \'é\', "system.tables".a from "system.tables"',
        ),
        ("select 'system.tables' -- system.tables", "select 'system.tables' -- system.tables"),
        (
            "select * from system.other, systems.tables",
            "select * from system.other, systems.tables",
        ),
        ('from "system"."tables"', 'from "system.tables"'),
    ],
)
def test_the_systems_own_tables_become_one_name(query: str, changed: str) -> None:
    assert with_system_tables(query, ["system.tables"]) == changed
