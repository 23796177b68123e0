"""The examples run as they are, in one process with one Spark, and print what they promise."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NOTEBOOK = EXAMPLES / "motet.ipynb"

#: runs a program, then the cells of a notebook, and says where the one ends
RUNNER = """
import json, runpy, sys
program, notebook = sys.argv[1:]
runpy.run_path(program, run_name="__main__")
print("-- notebook", flush=True)
names = {"__name__": "__main__"}
for cell in json.load(open(notebook))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What the quickstart and the notebook print."""
    folder = tmp_path_factory.mktemp("examples")
    as_installed = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(EXAMPLES / "quickstart.py"), str(NOTEBOOK)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**as_installed, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    quickstart, _, notebook = done.stdout.partition("-- notebook\n")
    return quickstart, notebook


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(900)
def test_the_quickstart_goes_from_a_transaction_to_sql(printed: tuple[str, str]) -> None:
    quickstart, _ = printed
    assert "stock  update {'sku': 'kyrie', 'left': 3}" in quickstart
    assert "struct<sku:string,quantity:int>" in quickstart
    assert quickstart.endswith("kyrie: 3 orders, 6 pieces\n")


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(900)
def test_the_notebook_runs_to_its_end_and_its_tables_are_equal(printed: tuple[str, str]) -> None:
    _, notebook = printed
    assert notebook.count("equal") == 2
    assert "DIFFERENT" not in notebook


def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    return found


def test_the_notebook_is_one_and_has_been_run_by_nobody() -> None:
    document = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in cells()]
    assert len(names) == len(set(names))
    for cell in cells():
        assert isinstance(cell["metadata"], dict)
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            ast.parse("".join(cell["source"]))
        else:
            assert cell["cell_type"] == "markdown"


def test_the_pipeline_of_the_shop_is_the_one_that_the_demo_runs() -> None:
    from motet.demos.shop.story import pipeline_file

    assert (EXAMPLES / "shop" / "pipeline.py").resolve() == pipeline_file()


def test_the_pipeline_of_the_shop_defines_its_two_tables() -> None:
    from motet.demos.shop.writer import SALES, STOCK_NOW
    from motet.pipeline import load_pipeline

    loaded = load_pipeline(EXAMPLES / "shop" / "pipeline.py", "shop")
    assert [table.name for table in loaded.tables] == [STOCK_NOW, SALES]
