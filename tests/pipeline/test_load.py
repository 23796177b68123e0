"""Loading a pipeline file: its tables in order, and what is wrong with it by line."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from motet.errors import BadPipeline, MissingLibrary
from motet.pipeline.definition import load_pipeline

TWO_TABLES = """\
from __future__ import annotations
from dataclasses import dataclass
from motet import pipeline

@dataclass
class Helper:
    name: str

@pipeline.table(engine="replacing", order_by=["sku"], version="clock")
def stock_now(changes): return changes.stream("stock")

@pipeline.table(engine="merge", order_by=["minute"])
def sales_by_minute(changes): return changes.stream("orders")
"""


def write(folder: Path, text: str, name: str = "shop.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_file_is_a_pipeline_of_its_name_with_its_tables_in_order(tmp_path: Path) -> None:
    loaded = load_pipeline(write(tmp_path, TWO_TABLES))
    assert loaded.name == "shop"
    assert [table.name for table in loaded.tables] == ["stock_now", "sales_by_minute"]
    assert load_pipeline(tmp_path / "shop.py", "other").name == "other"


def test_loading_leaves_nothing_behind_in_the_process(tmp_path: Path) -> None:
    before = (set(sys.modules), list(sys.path))
    first = load_pipeline(write(tmp_path, TWO_TABLES))
    second = load_pipeline(tmp_path / "shop.py")
    assert (set(sys.modules), list(sys.path)) == before
    assert len(second.tables) == len(first.tables), "the first load is not counted once more"


def test_its_functions_travel_to_workers_by_value(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    loaded = load_pipeline(
        write(
            tmp_path,
            "from motet import pipeline\nFACTOR = 3\n"
            "@pipeline.table(engine='merge', order_by=['a'])\n"
            "def thrice(changes): return FACTOR * changes\n",
        )
    )
    sent = cloudpickle.dumps(loaded.tables[0].function)  # type: ignore[no-untyped-call]
    assert pickle.loads(sent)(5) == 15


def test_a_module_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    write(tmp_path, "COLUMN = 'sku'\n", "beside_the_shop.py")
    text = TWO_TABLES.replace('["sku"]', "[COLUMN]")
    text = text.replace(
        "from motet import", "from beside_the_shop import COLUMN\nfrom motet import"
    )
    try:
        assert load_pipeline(write(tmp_path, text)).tables[0].order_by == ("sku",)
    finally:
        sys.modules.pop("beside_the_shop", None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1\n", "defines no table"),
        ("x = 1\ndef broken(:\n", "shop.py, line 2: "),
        ("x = 1\n\n1 / 0\n", "shop.py, line 3: ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", "line 2: SystemExit"),
        ("import no_such_library_at_all\n", "line 1: No module named"),
        ("\0", "shop.py"),
        (TWO_TABLES.replace('"merge"', '"sum"'), "line 12: table sales_by_minute: engine is 'sum'"),
        (TWO_TABLES.replace("def sales_by_minute", "def stock_now"), "lines 9 and 12"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(BadPipeline, match=why):
        load_pipeline(write(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadPipeline, match=r"nothing\.py: No such file"):
        load_pipeline(tmp_path / "nothing.py")


def test_a_library_of_spark_that_is_missing_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as if it were not installed
    with pytest.raises(MissingLibrary, match=r"line 1: pyspark.*motet\[spark\]"):
        load_pipeline(write(tmp_path, "import pyspark\n"))


def test_a_file_whose_name_is_no_name_needs_another(tmp_path: Path) -> None:
    file = write(tmp_path, TWO_TABLES, "1 shop.py")
    with pytest.raises(BadPipeline, match="--name"):
        load_pipeline(file)
    assert load_pipeline(file, "shop").name == "shop"
