"""Each extra of the wheel, installed into an environment of its own, runs its guide's first example.

Packages come from wherever pip gets them here, and from its cache.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.docs.test_examples import Block, blocks
from tests.tools.conftest import PYTHON

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = {"sql", "spark", "s3", "all"}

NOT_CLOSED = """
import motet
db = motet.open("left open/")
db.create_stream("orders")
db.stream("orders").append(key="a", value=b"1")
other = motet.connect(db.endpoint)
assert len(other.streams()) == 1
following = other.tail("orders")
next(following)
begun = other.transaction().__enter__()
begun.change("orders", key="b", op="insert", row={})
"""
"""A program that ends without closing anything, in the midst of things."""

STREAMS = """
import motet
with motet.open("data/") as db:
    for name in ("orders", "stock"):
        db.create_stream(name)
"""


class Environment:
    """A virtual environment, and a folder to work in."""

    def __init__(self, place: Path, wheel: Path) -> None:
        self._wheel = wheel
        self._place = place
        self._python = place / "venv/bin/python"
        subprocess.run([PYTHON, "-m", "venv", str(place / "venv")], check=True)

    def install(self, extra: str = "") -> None:
        words = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input"]
        asked = f"{self._wheel}[{extra}]" if extra else str(self._wheel)
        done = subprocess.run(
            [self._python, *words, asked], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def run(self, *sources: str) -> str:
        """What a program prints on stderr that has to end well."""
        done = subprocess.run(
            [self._python, "-c", "\n".join(sources)],
            cwd=self._place,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = place.glob("motet-*.whl")
    return built


def page(name: str) -> list[Block]:
    return blocks((ROOT / name).read_text("utf-8"))


def test_every_extra_is_tested_and_the_readme_names_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == EXTRAS
    readme = (ROOT / "README.md").read_text("utf-8")
    first_block = readme.split("```console\n")[1].split("```")[0]
    installs = re.findall(
        r"^\$ pip install '?motet(?:\[([a-z0-9,]+)\])?'? ", first_block, re.MULTILINE
    )
    assert installs == ["", "sql", "spark,sql"], "README begins with how to install it"


@pytest.mark.timeout(600)
def test_without_extras_and_with_sql(tmp_path: Path, wheel: Path) -> None:
    environment = Environment(tmp_path, wheel)
    environment.install()
    start = page("docs/start/quickstart.md")
    assert environment.run(*(block.source for block in start[:2])) == "", "it does not close"
    assert environment.run(NOT_CLOSED) == ""
    environment.install("sql")
    tables = page("docs/guides/tables.md")
    asked = next(block for block in tables if "db.sql(" in block.source)
    assert environment.run("import shutil; shutil.rmtree('data')") == ""
    rows = asked.source.splitlines()[0]
    assert environment.run(tables[0].source, rows, "assert rows.num_rows == 2") == ""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_with_spark_and_with_all(tmp_path: Path, wheel: Path) -> None:
    """Downloads Spark, about 460 MB, unless pip has it in its cache."""
    (tmp_path / "spark").mkdir()
    environment = Environment(tmp_path / "spark", wheel)
    environment.install("spark")
    guide = page("docs/guides/spark.md")
    count = "assert feed.count() == 0"
    environment.run(STREAMS, guide[0].source, guide[1].source, count)
    environment.install("sql")
    readme = page("README.md")[0].source.replace('"data/', f'"{tmp_path}/readme/')
    environment.run(readme)
    environment.install("s3")
    assert environment.run("import obstore") == ""
    environment.install("all")
    environment.run("import motet, uvloop, obstore, duckdb, pyspark")
