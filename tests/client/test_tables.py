"""Tables of an embedded database: rows in, the same rows back, over restarts and for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import motet
from motet.client.sync import Database
from motet.core.clock.hlc import Clock
from motet.core.tables.records import StagedPart, WriterStep
from motet.errors import (
    BadInput,
    BadSchema,
    NoSuchTable,
    TableExists,
    WriterFenced,
)
from motet.ids import WriterName

SALES = pa.schema([("sku", pa.string()), ("qty", pa.int64())])


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with motet.open(tmp_path / "data") as opened:
        yield opened


def step(epoch: int, after: Clock | None, through: Clock) -> WriterStep:
    return WriterStep(WriterName("shop"), epoch, after, through)


def test_rows_are_there_sorted_after_a_restart(tmp_path: Path) -> None:
    with motet.open(tmp_path / "data") as db:
        table = db.create_table("sales", SALES, order_by=["sku"])
        table.insert([{"sku": "b", "qty": 1}, {"sku": "a", "qty": 2}])
        table.insert(pa.table({"qty": [3], "sku": ["c"]}))
    with motet.open(tmp_path / "data") as db:
        rows = db.table("sales").select().to_pylist()
    assert rows == [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 1}, {"sku": "c", "qty": 3}]


def test_a_token_is_inserted_once(db: Database) -> None:
    table = db.create_table("sales", SALES, order_by=["sku"])
    first = table.insert([{"sku": "a", "qty": 1}], token="batch-17")
    again = table.insert([{"sku": "a", "qty": 1}], token="batch-17")
    assert (first.duplicate, again.duplicate) == (False, True)
    assert (again.clock, again.parts) == (first.clock, first.parts)
    assert table.select().num_rows == 1


def test_the_latest_row_of_a_key_stays_and_a_tombstone_removes_it(db: Database) -> None:
    schema = pa.schema(
        [("sku", pa.string()), ("left", pa.int64()), ("v", pa.int64()), ("gone", pa.bool_())]
    )
    table = db.create_table(
        "stock", schema, order_by=["sku"], engine="replacing", version="v", tombstone="gone"
    )
    table.insert([{"sku": "a", "left": 5, "v": 2}, {"sku": "b", "left": 1, "v": 1}])
    table.insert([{"sku": "a", "left": 9, "v": 1}, {"sku": "b", "left": 0, "v": 2, "gone": True}])
    assert table.select(["sku", "left"]).to_pylist() == [{"sku": "a", "left": 5}]
    assert db.sql('select sku, "left" from stock').to_pylist() == [{"sku": "a", "left": 5}]


def test_parts_of_several_tables_become_visible_together(db: Database) -> None:
    for name in ("sales", "returns"):
        db.create_table(name, SALES, order_by=["sku"])
    staged = [db.stage(name, [{"sku": "a", "qty": 1}]) for name in ("sales", "returns")]
    assert db.snapshot("sales", "returns")["sales"].parts == ()
    through = db.clock()
    db.publish(staged, step=step(0, None, through))
    moment = db.snapshot("sales", "returns")
    assert [moment[name].rows for name in ("sales", "returns")] == [1, 1]
    writer = db.writer("shop")
    assert writer is not None
    assert writer.step == step(0, None, through)


def test_a_step_is_done_once_and_in_order(db: Database) -> None:
    db.create_table("sales", SALES, order_by=["sku"])

    def part() -> list[StagedPart]:
        return db.stage("sales", [{"sku": "a", "qty": 1}])

    one, two = Clock(1, 0), Clock(2, 0)
    db.publish(part(), step=step(0, None, one))
    assert db.publish(part(), step=step(0, None, one)).duplicate
    with pytest.raises(WriterFenced):
        db.publish(part(), step=step(2, one, two))
    with pytest.raises(WriterFenced):
        db.publish(part(), step=step(1, None, two))
    assert not db.publish(part(), step=step(1, one, two)).duplicate
    assert db.table("sales").select().num_rows == 2


def test_a_clock_of_the_past_shows_what_was_there_then(db: Database) -> None:
    table = db.create_table("sales", SALES, order_by=["sku"])
    then = table.insert([{"sku": "a", "qty": 1}]).clock
    table.insert([{"sku": "b", "qty": 1}])
    assert table.select(at=then).num_rows == 1
    assert db.sql("select count(*) as n from sales", at=then).to_pylist() == [{"n": 1}]
    with pytest.raises(BadInput, match="not visible yet"):
        table.select(at=Clock(then.logical + 10**6, 0))


def test_another_process_reads_and_writes_the_same_tables(db: Database) -> None:
    db.create_table("sales", SALES, order_by=["sku"])
    with motet.connect(db.endpoint) as other:
        other.table("sales").insert([{"sku": "a", "qty": 1}])
        assert other.table("sales").select().to_pylist() == [{"sku": "a", "qty": 1}]
    assert db.sql("select sum(qty) as n from sales").to_pylist() == [{"n": 1}]


def test_the_same_table_again_is_fine_and_another_one_is_not(db: Database) -> None:
    db.create_table("sales", SALES, order_by=["sku"])
    db.create_table("sales", SALES, order_by="sku")
    with pytest.raises(TableExists, match="engine"):
        db.create_table("sales", SALES, order_by=["sku"], engine="replacing")
    with pytest.raises(TableExists, match="schema"):
        db.create_table("sales", SALES.append(pa.field("x", pa.int64())), order_by=["sku"])


def test_what_does_not_fit_names_the_column_and_changes_nothing(db: Database) -> None:
    table = db.create_table("sales", SALES, order_by=["sku"])
    with pytest.raises(BadSchema, match="'price'"):
        table.insert([{"sku": "a", "qty": 1, "price": 2}])
    with pytest.raises(BadSchema, match="'qty'"):
        table.insert([{"sku": "a", "qty": "many"}])
    with pytest.raises(BadSchema, match="'nothing'"):
        db.create_table("other", SALES, order_by=["nothing"])
    with pytest.raises(BadSchema, match="'nothing'"):
        table.select(["nothing"])
    assert table.select().num_rows == 0


def test_bad_calls_say_what_is_wrong(db: Database) -> None:
    db.create_table("sales", SALES, order_by=["sku"])
    with pytest.raises(NoSuchTable, match="nowhere"):
        db.table("nowhere").insert([{"sku": "a"}])
    with pytest.raises(BadInput, match="engine"):
        db.create_table("other", SALES, order_by=["sku"], engine="summing")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="quorum"):
        db.table("sales").insert([{"sku": "a", "qty": 1}], quorum=2)
    with pytest.raises(BadInput, match="consistency"):
        db.sql("select 1", consistency="strong")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="system"):
        db.create_table("system.x", SALES, order_by=["sku"])


def test_sql_knows_the_systems_own_tables(db: Database) -> None:
    db.create_stream("orders", shards=2)
    db.create_table("sales", SALES, order_by=["sku"]).insert([{"sku": "a", "qty": 1}])
    db.note_writer("shop", "it broke")
    assert db.sql("select name, rows from system.tables").to_pylist() == [
        {"name": "sales", "rows": 1}
    ]
    assert db.sql("select name from system.parts where \"table\" = 'sales'").num_rows == 1
    assert db.sql("select name, shards from system.streams").to_pylist() == [
        {"name": "orders", "shards": 2}
    ]
    assert db.sql("select error from system.writers").to_pylist() == [{"error": "it broke"}]
