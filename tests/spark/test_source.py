"""The data source as Spark meets it: found by itself, registered, in SQL, and cheap to look for."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import motet
from motet.errors import BadInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("sku", pa.string()), ("qty", pa.int32())])


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "data") as database:
        database.create_stream("orders")
        with database.transaction() as txn:
            txn.change("orders", key="o-1", op="insert", row={"qty": 1})
        database.create_table("sales", SCHEMA, order_by=["sku"]).insert(
            [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 2}]
        )
        yield database


FRESH_SESSION = """
import sys
from motet.pipeline.session import local_session

spark = local_session(master="local[1]", config={"spark.sql.python.filterPushdown.enabled": "false"})
frame = spark.read.format("motet").options(endpoint=sys.argv[1], table="sales").load()
print("sum", frame.where("qty > 1").groupBy().sum("qty").first()[0])
frame.limit(1).write.format("motet").options(endpoint=sys.argv[1], table="sales").mode("append").save()
spark.stop()
"""


def test_a_fresh_session_finds_it_without_being_told(db: motet.Database) -> None:
    command = [sys.executable, "-c", FRESH_SESSION, db.endpoint]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout.split() == ["sum", "2"], done.stderr
    assert db.table("sales").select().num_rows == 3


def test_a_registered_source_knows_its_endpoint(spark: SparkSession, db: motet.Database) -> None:
    from motet.pipeline.session import PUSHDOWN_SETTING, keeps_filters_apart, register

    session = spark.newSession()
    session.conf.set(PUSHDOWN_SETTING, "false")
    register(session, endpoint=db.endpoint)
    pushes = session.conf.get(PUSHDOWN_SETTING) == "true"
    assert pushes == keeps_filters_apart(session)
    assert session.read.format("motet").option("table", "sales").load().count() == 2
    assert session.read.format("motet").option("streams", "orders").load().count() == 1
    assert session.read.format("motet").option("table", "sales").load().where("qty=2").count() == 1


def test_a_registered_source_knows_how_many_tasks_run_at_once(spark: SparkSession) -> None:
    from motet.pipeline.session import tasks_at_once

    assert tasks_at_once(spark) == 2
    assert tasks_at_once(object()) is None, "a session elsewhere is not asked"


WORKER = """
    import gc, sys
    from motet.pipeline.session import settle_in

    sys.modules["__main__"].__spec__ = None
    settle_in()
    assert not gc.get_freeze_count(), "another program is left as it is"
    import pyspark.daemon
    sys.modules["__main__"].__spec__ = pyspark.daemon.__spec__
    settle_in()
    frozen = gc.get_freeze_count()
    later = [[] for _ in range(1000)]
    settle_in()
    assert gc.get_freeze_count() == frozen > 1000, "what comes later is garbage one day"
"""


def test_a_worker_sets_aside_what_it_has_imported_and_nothing_else() -> None:
    command = [sys.executable, "-c", textwrap.dedent(WORKER)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


def test_registering_again_moves_to_another_database(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    from motet.pipeline.session import register

    session = spark.newSession()
    register(session, endpoint=db.endpoint)
    with motet.open(tmp_path / "another") as another:
        another.create_table("sales", SCHEMA, order_by=["sku"])
        register(session, endpoint=another.endpoint)
        assert session.read.format("motet").option("table", "sales").load().count() == 0


@pytest.mark.parametrize("endpoint", ["", "nowhere", "127.0.0.1:99999"])
def test_a_bad_endpoint_is_refused_when_it_is_registered(
    spark: SparkSession, endpoint: str
) -> None:
    from motet.pipeline.session import register

    with pytest.raises(BadInput, match="endpoint"):
        register(spark, endpoint=endpoint)


def test_views_in_sql(spark: SparkSession, db: motet.Database) -> None:
    spark.sql(
        "create temporary view sold using motet "
        f"options (endpoint '{db.endpoint}', table 'sales', columns 'qty')"
    )
    spark.sql(
        "create temporary view changed using motet "
        f"options (endpoint '{db.endpoint}', streams 'orders')"
    )
    try:
        assert [row["n"] for row in spark.sql("select sum(qty) as n from sold").collect()] == [3]
        rows = spark.sql("select get_json_object(row, '$.qty') as qty from changed").collect()
        assert [row["qty"] for row in rows] == ["1"]
    finally:
        spark.catalog.dropTempView("sold")
        spark.catalog.dropTempView("changed")


def test_a_database_that_is_not_there(spark: SparkSession, db: motet.Database) -> None:
    from pyspark.errors import PySparkException

    endpoint = db.endpoint
    db.close()
    with pytest.raises(PySparkException) as caught:
        spark.read.format("motet").options(endpoint=endpoint, table="sales").load()
    assert f"NODE nothing answers at {endpoint}" in str(caught.value)
    assert "check the address" in str(caught.value)


def test_looking_for_it_imports_neither_arrow_nor_a_client() -> None:
    script = (
        "import sys, pyspark.sql.datasource; before = set(sys.modules); import motet.pipeline.source;"
        "print(sorted(n for n in set(sys.modules) - before"
        " if n.startswith(('pyarrow', 'motet.client', 'pandas', 'asyncio'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
