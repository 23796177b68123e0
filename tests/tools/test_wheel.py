"""What is in the package that people install."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of a wheel built here."""
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = place.glob("motet-*.whl")
    with zipfile.ZipFile(wheel) as contents:
        return set(contents.namelist())


def test_the_wheel_has_every_file_of_both_packages(names: set[str]) -> None:
    source = REPOSITORY / "src"
    files = {
        path.relative_to(source).as_posix()
        for package in ("motet", "pyspark_motet")
        for path in (source / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {name for name in names if ".dist-info/" not in name} == files


def test_it_has_what_spark_looks_for(names: set[str]) -> None:
    assert {"pyspark_motet/__init__.py", "motet/pipeline/log4j2.properties"} <= names
