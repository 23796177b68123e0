"""What `./dev test` leaves out, and what it says about it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = {
    "pytest.ini": """
[pytest]
testpaths = tests
addopts = --strict-markers --import-mode=importlib
markers =
    long: takes its time; more words
    foreign: needs a server; more words
""",
    "tests/core/deep/test_a.py": """
import pytest
def test_quick(): pass
def test_other(): pass
@pytest.mark.long
def test_long(): pass
""",
    "tests/node/test_b.py": """
import pytest
def test_quick(): pass
@pytest.mark.long
@pytest.mark.foreign
def test_foreign(): pass
""",
    "tests/test_top.py": "def test_top(): pass",
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small suite with both tiers."""
    root = tmp_path_factory.mktemp("suite")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def run(suite: Path, *arguments: str) -> list[str]:
    """The lines that pytest prints with our plugin."""
    quick = ["-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:cacheprovider"]
    clean = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *quick, "-p", "pytest_parts", *arguments],
        cwd=suite,
        env={**clean, "PYTHONPATH": str(REPOSITORY / "tools")},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout.splitlines()


def parts(lines: list[str]) -> dict[str, int]:
    """Parts and their numbers of tests, from the account."""
    rows = (re.fullmatch(r"(\w+) +(\d+) tests +\d+\.\d s", line) for line in lines)
    return {row[1]: int(row[2]) for row in rows if row}


def not_run(lines: list[str]) -> list[str]:
    """What the account says of omissions."""
    return [line for line in lines if line.startswith(("not run", "run everything"))]


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_the_tiers_are_left_out_and_named(suite: Path, processes: str) -> None:
    lines = run(suite, processes)
    assert parts(lines) == {"core": 2, "node": 1, "tests": 1}
    assert not_run(lines) == [
        "not run: 1 marked foreign (needs a server); to run them: ./dev test -m foreign",
        "not run: 1 marked long (takes its time); to run them: ./dev test -m long",
        "run everything: ./dev test --all",
    ]
    assert re.search(r"\b4 passed\b.* in \d", lines[-1]), "pytest's own summary comes last"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--all"], {"core": 3, "node": 2, "tests": 1}),
        (["-m", "long"], {"core": 1, "node": 1}),
        (["tests/node/test_b.py::test_foreign"], {"node": 1}),
    ],
)
def test_the_tiers_run_when_asked_for(
    suite: Path, arguments: list[str], expected: dict[str, int]
) -> None:
    lines = run(suite, *arguments)
    assert parts(lines) == expected
    assert not_run(lines) == []


def test_what_was_not_selected_anyway_does_not_count(suite: Path) -> None:
    lines = run(suite, "-k", "test_quick or test_long")
    assert parts(lines) == {"core": 1, "node": 1}
    assert [line.split()[3:5] for line in not_run(lines)[:-1]] == [["marked", "long"]]


def test_files_and_the_tests_of_spark_stay_in_one_process_and_what_is_long_begins(
    tmp_path: Path,
) -> None:
    many = "import pytest\n@pytest.mark.parametrize('i', range(8))\ndef test_many(i): pass\n"
    names = ("core/test_c", "spark/test_a", "spark/deep/test_b", "system/test_d", "system/test_e")
    for name in (f"{name}.py" for name in names):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text(many)
    lines = run(tmp_path, "-n2", "-v")
    rows = [re.match(r"\[(gw\d)\].* PASSED tests/(\w+)/", line) for line in lines]
    workers = [(row[2], row[1]) for row in rows if row]
    assert len(workers) == 40
    assert {worker for _, worker in workers} == {"gw0", "gw1"}
    for part in ("core", "spark", "system"):
        assert len({worker for one, worker in workers if one == part}) == 1
    parts = [part for part, _ in workers]
    assert parts.index("system") < parts.index("core"), "although it was collected later"


def test_the_repository_knows_the_tiers() -> None:
    settings = (REPOSITORY / "pyproject.toml").read_text()
    for tier in ("long", "foreign"):
        assert f'"{tier}: ' in settings
