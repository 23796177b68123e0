"""What is found out about a pipeline before it does anything: streams, schemas, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from motet.columnar.schema import encode_schema
from motet.core.clock.hlc import Clock
from motet.core.streams.messages import StreamInfo
from motet.errors import BadPipeline, BadSchema, MotetError, NoSuchStream
from motet.ids import StreamName
from motet.pipeline.load import load_pipeline

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
    assert not plan_of(body.replace("ROWS", STOCK)).tables[0].is_row_wise


def test_the_order_of_a_union_matters_where_rows_replace_each_other(plan_of: PlanOf) -> None:
    body = "return ROWS.select('row.sku').union(ROWS.select('op'))".replace("ROWS", STOCK)
    assert plan_of(body, engine="merge").tables[0].is_row_wise
    assert not plan_of(body, engine="replacing").tables[0].is_row_wise
