"""Queries that take too long or need too much memory are stopped, and are told by which bound."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.sql.test_session import STOCK, table_of

import motet
from motet.errors import BadInput
from motet.errors.queries import QueryStopped
from motet.limits import MIB, sql_memory_bytes_min
from motet.sql.session import query_bounds, run_sql

ENDLESS = "select count(*) from range(1000000000) a, range(1000000000) b where hash(a.range + b.range) = 7"
#: its rows come at once, and do not end
ENDLESS_ANSWER = "select range as n from range(1000000000000000)"
LARGE = "select list(range) as l from range(100000000)"
LARGE_ANSWER = "select range as n, repeat('x', 1000) as x from range(1000000)"


@pytest.mark.parametrize("query", [ENDLESS, f"explain analyze {ENDLESS}"])
def test_a_query_that_does_not_end_is_stopped(query: str) -> None:
    with pytest.raises(QueryStopped) as caught:
        run_sql(query, {}, bounds=query_bounds(0.2, None))
    assert "QUERY_STOPPED the query was stopped after timeout=0.2 seconds" in str(caught.value)
    assert "db.sql(…, timeout=seconds) or --timeout" in str(caught.value)


def test_time_that_is_over_before_the_query_begins_stops_it_too() -> None:
    bounds = query_bounds(0.001, None)
    threading.Event().wait(0.002)
    with pytest.raises(QueryStopped, match=r"timeout=0\.001"):
        run_sql("select 1", {}, bounds=bounds)


@pytest.mark.parametrize("query", [LARGE, LARGE_ANSWER, ENDLESS_ANSWER])
def test_a_query_that_needs_too_much_memory_is_stopped(query: str) -> None:
    with pytest.raises(QueryStopped) as caught:
        run_sql(query, {}, bounds=query_bounds(None, 64 * MIB))
    assert f"needs more than memory_bytes={64 * MIB}" in str(caught.value)
    assert "db.sql(…, memory_bytes=…) or --memory-bytes" in str(caught.value)


def test_what_does_not_fit_but_can_be_spilled_is_answered() -> None:
    query = """
        select count(*) as n from
        (select range as a, repeat('x', 100) as x from range(1000000) order by hash(range), x)
    """
    assert run_sql(query, {}, bounds=query_bounds(None, 64 * MIB)).to_pylist() == [{"n": 1_000_000}]


def test_a_table_that_must_be_read_whole_is_refused_before_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, STOCK, [[{"sku": "a", "left": 5, "version": 1}]], "replacing")
    monkeypatch.setattr("motet.sql.session.size_in_memory", lambda _: 65 * MIB)
    with pytest.raises(QueryStopped, match="table stock, which is read as a whole"):
        run_sql("select * from stock", {"stock": table}, bounds=query_bounds(None, 64 * MIB))
    assert run_sql("select * from stock", {"stock": table}).num_rows == 1


def test_an_error_in_the_middle_of_an_answer_is_the_queries() -> None:
    query = "select case when range = 4000000 then error('boom') else 'x' end from range(5000000)"
    with pytest.raises(BadInput, match="boom"):
        run_sql(query, {})


def test_bounds_are_given_with_the_call(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        db.create_table("t", pa.schema([("k", pa.int64())]), order_by=["k"]).insert([{"k": 1}])
        with pytest.raises(QueryStopped, match="timeout"):
            db.sql(ENDLESS, timeout=0.2)
        with pytest.raises(QueryStopped, match="memory_bytes"):
            db.sql(LARGE, memory_bytes=64 * MIB)
        found = db.sql("select k from t", timeout=60, memory_bytes=64 * MIB)
        assert found.to_pylist() == [{"k": 1}], "and the next one is as before"
        for timeout in (0, -1, float("nan"), float("inf"), True, "1h"):
            with pytest.raises(BadInput, match="timeout"):
                db.sql("select 1", timeout=timeout)  # type: ignore[arg-type]
        for memory_bytes in (0, sql_memory_bytes_min - 1, True, 1e9):
            with pytest.raises(BadInput, match="memory_bytes"):
                db.sql("select 1", memory_bytes=memory_bytes)  # type: ignore[arg-type]
