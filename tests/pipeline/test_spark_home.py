"""The home that Spark is started in: its programs, its libraries, and no second pyspark."""

from __future__ import annotations

from pathlib import Path

import pyspark

from motet.pipeline.java import spark_home

INSTALLED = Path(pyspark.__file__).parent


def test_it_has_programs_and_libraries_and_no_archive(tmp_path: Path) -> None:
    home = spark_home({"XDG_CACHE_HOME": str(tmp_path)})
    assert home is not None
    assert home.is_relative_to(tmp_path)
    assert (home / "bin/spark-submit").samefile(INSTALLED / "bin/spark-submit")
    assert (home / "jars").samefile(INSTALLED / "jars")
    assert not (home / "python").exists()
    assert spark_home({"XDG_CACHE_HOME": str(tmp_path)}) == home, "it is made once"


def test_a_spark_of_somebodys_own_is_left_alone(tmp_path: Path) -> None:
    assert spark_home({"XDG_CACHE_HOME": str(tmp_path), "SPARK_HOME": "/opt/spark"}) is None
    assert not list(tmp_path.iterdir())


def test_what_is_in_the_way_is_not_used(tmp_path: Path) -> None:
    home = spark_home({"XDG_CACHE_HOME": str(tmp_path)})
    assert home is not None
    (home / "jars").unlink()
    (home / "jars").mkdir()
    other = spark_home({"XDG_CACHE_HOME": str(tmp_path)})
    assert other is None or not other.is_relative_to(tmp_path)
