"""`motet clock` against real nodes, as somebody types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import motet
from motet.cli import app as root
from motet.core.clock.hlc import Clock
from motet.testing.local_cluster import LocalCluster

DATABASE = ["clock", "visible", "behind_ms", "enabled"]
NODE = ["node", "node_clock", "drift_ms", "bound", "agreed"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes with data, and one that keeps the tree."""
    folder = tmp_path_factory.mktemp("clock")
    data = ("data", "operator")
    with LocalCluster(3, folder, roles=("keeper",), other_roles={0: data, 1: data}) as running:
        yield running


class Shell:
    """Runs command lines in this process; what they print is what they say."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exited:
            root.main(["clock", *words])
        code = exited.value.code
        return (code if isinstance(code, int) else 0, *self._capsys.readouterr())

    def row(self, *words: str) -> dict[str, Any]:
        status, output, errors = self.run(*words, "-o", "json")
        assert (status, errors) == (0, "")
        (row,) = json.loads(output)
        assert isinstance(row, dict)
        return row


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def test_clock_shows_the_database_and_the_node_that_is_asked(
    cluster: LocalCluster, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with motet.connect(cluster.endpoints) as db:
        done = db.create_stream("s", shards=1).append(key=b"k", value=b"v").clock
    rows = [shell.row("--endpoint", cluster.endpoint(i)) for i in (0, 1)]
    for i, row in enumerate(rows):
        assert list(row) == [*DATABASE, *NODE]
        assert Clock.parse(row["clock"]) >= done
        assert (row["node"], row["agreed"], row["enabled"]) == (f"n{i}", True, True)
        assert isinstance(row["drift_ms"], int)
    leaders = [row for row in rows if row["bound"] != "(0,0)"]
    assert leaders, "one of them has handed out a clock"
    for row in leaders:
        assert done <= Clock.parse(row["node_clock"]) <= Clock.parse(row["bound"])
    monkeypatch.setenv("MOTET_ENDPOINT", cluster.endpoints)
    assert list(shell.row()) == DATABASE, "of several nodes, the clock of their database"


def test_a_node_without_the_role_data_has_no_clock_and_says_so(
    cluster: LocalCluster, shell: Shell
) -> None:
    status, output, errors = shell.run("--endpoint", cluster.endpoint(2))
    assert (status, output) == (1, "")
    assert errors.startswith("NODE n2 at 127.0.0.1:")
    assert "has no clock: its roles are keeper; ask a node that has the role data" in errors
    assert len(errors.splitlines()) == 1


def test_a_clock_is_not_ticked_from_outside(shell: Shell) -> None:
    status, output, errors = shell.run("--tick")
    assert (status, output) == (2, "")
    assert "--tick" in errors


def test_nobody_there_is_one_clear_line(shell: Shell) -> None:
    status, _, errors = shell.run("--endpoint", "127.0.0.1:1")
    assert status == 1
    assert errors.startswith("NODE nothing answers at 127.0.0.1:1")
    assert len(errors.splitlines()) == 1


def test_a_bad_endpoint_is_one_clear_line(shell: Shell) -> None:
    status, output, errors = shell.run("--endpoint", "nonsense")
    assert (status, output) == (1, "")
    assert errors.startswith("BAD_INPUT 'nonsense' is not an endpoint")
