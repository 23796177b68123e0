"""What is found out about a pipeline before it does anything: streams, schemas, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from motet.columnar.schema import encode_schema
from motet.core.clock.hlc import Clock
from motet.core.onelog.messages import StreamInfo
from motet.errors import BadPipeline, BadSchema, MotetError, NoSuchStream
from motet.ids import StreamName
from motet.pipeline.definition import load_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from motet.pipeline.plan import Plan

TYPED = pa.schema([pa.field("sku", pa.string(), False), ("left", pa.int64()), ("at", pa.date32())])
HEAD = """\
from pyspark.sql import functions as f
from pyspark.sql.window import Window
from motet import pipeline

@pipeline.table(engine="{engine}", order_by=["{order_by}"]{more})
def made(changes):
"""

PlanOf = Callable[..., "Plan"]


def stream(name: str, schema: pa.Schema | None = None) -> StreamInfo:
    encoded = None if schema is None else encode_schema(schema, what=name)
    return StreamInfo(StreamName(name), 1, encoded, Clock(1, 0), (0,))


@pytest.fixture
def plan_of(spark: SparkSession, tmp_path: Path) -> PlanOf:
    """The plan of a table function with this body."""

    def plan(
        body: str,
        *streams: StreamInfo,
        engine: str = "merge",
        order_by: str = "sku",
        more: str = "",
    ) -> Plan:
        from motet.pipeline.plan import make_plan

        file = tmp_path / "shop.py"
        file.write_text(HEAD.format(engine=engine, order_by=order_by, more=more) + f"    {body}\n")
        given = streams or (stream("orders"), stream("stock"))
        return make_plan(spark, load_pipeline(file), given)

    return plan


STOCK = 'changes.stream("stock", schema="sku string, left int")'


def test_the_streams_and_the_columns_are_found_without_reading_anything(plan_of: PlanOf) -> None:
    plan = plan_of(f'return {STOCK}.select("row.sku", "row.left", "clock")')
    assert plan.stream_names == ("stock",)
    (table,) = plan.tables
    clock = pa.struct([("logical", pa.int64()), ("counter", pa.int32())])
    assert table.schema == pa.schema(
        [pa.field("sku", pa.string(), nullable=False), ("left", pa.int32()), ("clock", clock)]
    )


def test_all_means_all_streams_of_the_database(plan_of: PlanOf) -> None:
    plan = plan_of('return changes.all().select("key", "row")', order_by="key")
    assert plan.stream_names == ("orders", "stock")
    assert plan.tables[0].schema.field("row").type == pa.string()


TYPED_BODY = 'return changes.stream("t").select("row.sku", "row.left", "row.at", "before")'


@pytest.mark.parametrize(
    "others", [(), (stream("u", TYPED),), (stream("json"),)], ids=["alone", "typed", "mixed"]
)
def test_a_typed_stream_has_its_columns_whatever_other_streams_there_are(
    plan_of: PlanOf, others: tuple[StreamInfo, ...]
) -> None:
    (table,) = plan_of(TYPED_BODY, stream("t", TYPED), *others).tables
    assert table.schema.field("left").type == pa.int64()
    assert table.schema.field("at").type == pa.date32()
    assert [field.name for field in table.schema.field("before").type] == TYPED.names


@pytest.mark.parametrize(
    ("body", "options", "kind", "why"),
    [
        ("return 7", {}, BadPipeline, "table made: the function returns int, not a DataFrame"),
        ("return changes.stream('stok')", {}, NoSuchStream, "line 7: .*did you mean stock"),
        ("1 / 0", {}, BadPipeline, "table made, line 7: ZeroDivisionError"),
        (f"return {STOCK}.select('rest')", {}, BadPipeline, "line 7: .*rest"),
        (
            f"return {STOCK}.select('row.left')",
            {},
            BadPipeline,
            "order_by names sku, which the result does not have",
        ),
        (
            f"return {STOCK}.select('row.sku', 'clock')",
            {"engine": "replacing", "more": ", version='clok'"},
            BadPipeline,
            "version names clok.*did you mean clock",
        ),
        (
            f"return {STOCK}.select('row.sku', f.create_map('key', 'op').alias('pairs'))",
            {},
            BadSchema,
            "pairs",
        ),
        (
            "return changes.stream('stock', schema='no such type').select('row')",
            {},
            BadPipeline,
            "the schema of stream stock",
        ),
        ("return changes.stream('stock', schema=7)", {}, BadPipeline, "the schema of stream stock"),
        (
            "from pyspark.sql import SparkSession; return SparkSession.active().sql('select 1 sku')",
            {},
            BadPipeline,
            "reads a stream",
        ),
    ],
)
def test_what_is_wrong_with_a_function_is_said_before_anything_is_done(
    plan_of: PlanOf, body: str, options: dict[str, str], kind: type[MotetError], why: str
) -> None:
    with pytest.raises(kind, match=why):
        plan_of(body, **options)


def test_a_stream_has_one_schema(plan_of: PlanOf) -> None:
    body = "return changes.stream('t', schema='sku string').select('row.sku')"
    with pytest.raises(BadPipeline, match="stream t has a schema"):
        plan_of(body, stream("t", TYPED))


def test_a_database_without_streams_has_no_pipelines(spark: SparkSession, tmp_path: Path) -> None:
    from motet.pipeline.plan import make_plan

    file = tmp_path / "shop.py"
    file.write_text(HEAD.format(engine="merge", order_by="a", more="") + "    ...\n")
    with pytest.raises(BadPipeline, match="no streams"):
        make_plan(spark, load_pipeline(file), [])


ONE_BY_ONE = [
    "return ROWS.select('row.sku')",
    "return ROWS.where('row.left > 3').select(f.explode(f.array('row.sku', 'op')).alias('sku'))",
    "return ROWS.select(f.udf(lambda s: s + '!')('row.sku').alias('sku'))",
]
TOGETHER = [
    "return ROWS.groupBy('row.sku').count()",
    "return ROWS.select('row.sku').distinct()",
    "return ROWS.select('row.sku').limit(3)",
    "return ROWS.select('row.sku', f.lag('op').over(Window.orderBy('clock')).alias('x'))",
    "return ROWS.alias('a').join(ROWS.alias('b'), 'key').select('a.row.sku')",
    "return ROWS.select('row.sku', f.rand().alias('r'))",
    "return ROWS.select('row.sku').mapInArrow(lambda batches: batches, 'sku string')",
    "return ROWS.select('row.sku').dropDuplicates()",
]


@pytest.mark.parametrize("body", ONE_BY_ONE)
@pytest.mark.parametrize("engine", ["merge", "replacing"])
def test_a_function_of_single_changes_is_known_as_such(
    plan_of: PlanOf, body: str, engine: str
) -> None:
    assert plan_of(body.replace("ROWS", STOCK), engine=engine).tables[0].is_row_wise


@pytest.mark.parametrize("body", TOGETHER)
def test_a_function_that_looks_at_changes_together_is_not(plan_of: PlanOf, body: str) -> None:
    plan = plan_of(body.replace("ROWS", STOCK), more=", per_batch=True")
    assert not plan.tables[0].is_row_wise


def test_the_order_of_a_union_matters_where_rows_replace_each_other(plan_of: PlanOf) -> None:
    body = "return ROWS.select('row.sku').union(ROWS.select('op'))".replace("ROWS", STOCK)
    assert plan_of(body, engine="merge").tables[0].is_row_wise
    assert not plan_of(body, engine="replacing").tables[0].is_row_wise


ORDERS = 'changes.stream("orders", schema="sku string, qty int")'
TWO = f"a = {ORDERS}.select('row.sku', 'clock'); b = {STOCK}.select('row.sku', 'clock'); "
VIEWS = (
    f"{ORDERS}.select('row.sku').createOrReplaceTempView('o'); "
    f"{STOCK}.select('row.sku').createOrReplaceTempView('s'); "
    "sql = changes.stream('orders').sparkSession.sql; "
)
OTHER = "o = changes.stream('orders').sparkSession.createDataFrame([('s-1',)], 'sku string'); "
UNION = TWO + "u = a.unionByName(b); "
LOSES = [
    (TWO + "return a.join(b, 'sku').select('sku')", "joins stream orders with stream stock"),
    (TWO + "return b.join(a, 'sku', 'left_anti')", "joins stream stock with stream orders"),
    (TWO + "return a.crossJoin(b.select('clock')).select('sku')", "joins stream orders with"),
    (
        TWO + "return a.alias('x').join(a.alias('y'), 'sku').select('x.sku')",
        "joins stream orders with itself",
    ),
    (TWO + "return a.intersect(b)", "joins stream orders with stream stock"),
    (TWO + "return b.exceptAll(a)", "joins stream stock with stream orders"),
    (
        TWO + "return a.groupBy('sku').cogroup(b.groupBy('sku'))"
        ".applyInPandas(lambda x, y: x, 'sku string')",
        "joins stream orders with stream stock",
    ),
    (
        TWO + "return a.union(a.join(b, 'sku').select('sku', a.clock))",
        "joins stream orders with stream stock",
    ),
    (UNION + "return u.join(a, 'sku').select('sku')", "joins stream orders and stock with"),
    (VIEWS + "return sql('select sku from o where sku in (select sku from s)')", "joins stream"),
    (VIEWS + "return sql('select sku, (select max(sku) from s) m from o')", "joins stream"),
    (
        VIEWS + "return sql('select o.sku from o, lateral (select * from s where s.sku = o.sku)')",
        "joins stream",
    ),
    (
        VIEWS + "return sql('with c as (select sku, 1 n from o) "
        "select x.sku from c x join c y on x.sku = y.sku')",
        "joins stream orders with itself",
    ),
    (UNION + "return u.groupBy('sku').count()", "groups the streams orders and stock together"),
    (UNION + "return u.select(f.max('sku').alias('sku'))", "groups the streams orders and stock"),
    (UNION + "return u.cube('sku').count()", "groups the streams"),
    (UNION + "return u.distinct()", "drops duplicates of the streams"),
    (UNION + "return u.dropDuplicates(['sku'])", "drops duplicates of the streams"),
    (UNION + "return u.orderBy('clock').limit(3)", "limits the streams"),
    (
        UNION + "return u.select('sku', f.lag('clock').over(Window.orderBy('sku')).alias('x'))",
        "uses a window over the streams",
    ),
    (
        UNION + "return u.select('sku').mapInArrow(lambda batches: batches, 'sku string')",
        "MapInArrow.* the streams",
    ),
    ("return changes.all().groupBy(f.col('key').alias('sku')).count()", "groups the streams"),
    (
        TWO + "skus = [row.sku for row in b.collect()]; return a.where(f.col('sku').isin(skus))",
        "uses stream stock outside of the rows it returns",
    ),
    (OTHER + TWO + "return o.join(a, 'sku', 'left').select('sku')", "no match in stream orders"),
    (OTHER + TWO + "return a.join(o, 'sku', 'full').select('sku')", "no match in stream orders"),
    (OTHER + TWO + "return o.join(a, 'sku', 'left_semi').select('sku')", "no match in stream"),
]
KEEPS = [
    "return a.unionByName(b)",
    "return a.groupBy('sku').count().union(b.groupBy('sku').count())",
    "return a.union(b.distinct()).where('sku > 1').select(f.explode(f.array('sku')).alias('sku'))",
    "return a.union(b).withColumn('x', f.udf(lambda s: s)('sku')).repartition(3).orderBy('sku')",
    "return a.union(b).join(o, 'sku')",
    "return o.join(b.union(a), 'sku', 'right')",
    "return a.join(f.broadcast(o), 'sku', 'left').union(b.join(o, 'sku', 'left_semi'))",
    "return a.unpivot(['sku'], ['clock'], 'n', 'v').union(b.unpivot(['sku'], ['clock'], 'n', 'v'))",
]


@pytest.mark.parametrize(("body", "why"), LOSES)
def test_what_would_lose_rows_of_different_batches_is_refused(
    plan_of: PlanOf, body: str, why: str
) -> None:
    with pytest.raises(
        BadPipeline, match=rf"table made \(function made, line 5\) .*{why}"
    ) as raised:
        plan_of(body)
    assert "per_batch=True" in str(raised.value)


def test_a_table_may_be_declared_to_have_a_result_for_each_batch(plan_of: PlanOf) -> None:
    plan = plan_of(LOSES[0][0], more=", per_batch=True")
    assert plan.tables[0].definition.per_batch


@pytest.mark.parametrize("body", KEEPS)
def test_what_takes_one_row_of_several_streams_at_a_time_is_not(plan_of: PlanOf, body: str) -> None:
    assert plan_of(OTHER + TWO + body).stream_names == ("orders", "stock")


def test_per_batch_is_true_or_false(plan_of: PlanOf) -> None:
    with pytest.raises(BadPipeline, match="per_batch is True or False, not 1"):
        plan_of("return changes.all()", more=", per_batch=1")
