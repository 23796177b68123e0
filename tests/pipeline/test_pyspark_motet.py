"""The package by which Spark finds the source: it costs little and never fails to import."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from motet.errors import MissingLibrary


def run_python(code: str) -> list[str]:
    """What the code prints in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_spark_finds_a_source_called_motet() -> None:
    from pyspark.sql.datasource import DataSource

    import pyspark_motet

    assert issubclass(pyspark_motet.DefaultSource, DataSource)
    assert pyspark_motet.DefaultSource.name() == "motet"


def test_what_is_made_is_the_source() -> None:
    from motet.pipeline.source import MotetSource
    from pyspark_motet import DefaultSource

    made: object = DefaultSource(options={"table": "sales", "endpoint": "127.0.0.1:1"})
    assert type(made) is MotetSource
    assert DefaultSource.name() == MotetSource.name()


def test_the_import_brings_in_nothing_heavy_of_ours() -> None:
    code = """
        import sys
        import pyspark.sql.datasource
        before = set(sys.modules)
        import pyspark_motet
        print(*sorted(set(sys.modules) - before))
    """
    assert run_python(code) == ["pyspark_motet"]


@pytest.mark.parametrize("missing", ["pyspark", "motet.pipeline.source"])
def test_what_is_missing_is_told_on_use_not_on_import(missing: str) -> None:
    code = f"""
        import sys
        sys.modules[{missing!r}] = None
        from pyspark_motet import DefaultSource
        print(DefaultSource.name())
        try:
            DefaultSource(options={{}})
        except Exception as error:
            print(type(error).__name__, error)
    """
    name, told = run_python(code)
    assert name == "motet"
    assert told.startswith(MissingLibrary.__name__)
    assert missing in told
    assert "pip install 'motet[spark]'" in told
