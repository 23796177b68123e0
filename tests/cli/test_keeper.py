"""`motet keeper`: every command does what its help says, against a node of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from motet.cli import app as root
from motet.client.keeper.sync import connect
from motet.testing.local_cluster import LocalCluster

COMMANDS = ("ls", "tree", "get", "set", "create", "delete", "watch", "status")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("keeper")
    with LocalCluster(1, folder, roles=["keeper"]) as running:
        yield running


class Shell:
    """Runs command lines in this process; what they print is what they say."""

    def __init__(self, endpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._endpoint, self._capsys = endpoint, capsys

    def run(self, *words: str, endpoint: str | None = None) -> tuple[int, str, str]:
        where = [] if "--help" in words else ["--endpoint", endpoint or self._endpoint]
        with pytest.raises(SystemExit) as exited:
            root.main(["keeper", *words, *where])
        code = exited.value.code
        return (code if isinstance(code, int) else 0, *self._capsys.readouterr())

    def told(self, *words: str) -> Any:
        status, output, errors = self.run(*words, "-o", "json")
        assert status == 0, errors
        return json.loads(output)


@pytest.fixture
def shell(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    monkeypatch.setenv("COLUMNS", "200")
    return Shell(cluster.endpoint(0), capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_an_example(command: str, shell: Shell) -> None:
    status, output, _ = shell.run(command, "--help")
    assert status == 0
    assert f"Example: motet keeper {command}" in re.sub(r"\s+", " ", output)


def test_a_node_from_its_creation_to_its_end(shell: Shell) -> None:
    assert shell.told("create", "/settings/limit", "5", "--parents") == [
        {"path": "/settings/limit"}
    ]
    assert shell.told("ls", "/settings") == ["limit"]
    found = shell.told("get", "/settings/limit")
    assert (found["data"], found["version"], found["ephemeral"]) == ("5", 0, False)
    (changed,) = shell.told("set", "/settings/limit", "70", "--version", "0")
    assert (changed["version"], changed["bytes"]) == (1, 2)
    (numbered,) = shell.told("create", "/settings/job-", "--sequential")
    assert numbered == {"path": "/settings/job-0000000001"}
    drawn = shell.told("tree", "/settings")
    assert [(row["path"], row["bytes"]) for row in drawn] == [
        ("/settings", 0),
        ("/settings/job-0000000001", 0),
        ("/settings/limit", 2),
    ]
    assert shell.told("delete", "/settings/limit", "--version", "1")[0]["deleted"] is True
    assert shell.told("ls", "/settings") == ["job-0000000001"]


def test_a_tree_as_it_is_drawn(shell: Shell) -> None:
    shell.told("create", "/drawn/inner/leaf", "abc", "--parents")
    status, output, _ = shell.run("tree", "/drawn")
    assert (status, output) == (0, "/drawn\n  inner\n    leaf  3 bytes\n")


def test_watch_prints_what_happens(shell: Shell, cluster: LocalCluster) -> None:
    shell.told("create", "/watched")
    watching = subprocess.Popen(
        [sys.executable, "-m", "motet", "keeper", "watch", "/watched", "--count", "2"],
        env={**os.environ, "MOTET_ENDPOINT": cluster.endpoint(0)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with connect(cluster.zookeeper(0)) as keeper:
        number = 0
        while watching.poll() is None:  # until it has seen two of them, from whenever it watches
            keeper.create(f"/watched/child-{number}")
            keeper.set("/watched", b"%d" % number)
            number += 1
    output, errors = watching.communicate(timeout=120)
    lines = output.splitlines()
    assert (watching.returncode, len(lines)) == (0, 2), errors
    assert set(lines) <= {"child /watched", "changed /watched"}


def test_status_says_who_leads(shell: Shell) -> None:
    (row,) = shell.told("status")
    assert (row["node"], row["role"]) == ("n0", "primary")
    assert row["nodes"] >= 1
    status, output, _ = shell.run("status", "-o", "json", endpoint="127.0.0.1:1")
    assert status == 0
    assert json.loads(output)[0]["role"] == "unreachable"


def test_errors_are_one_clear_line(shell: Shell) -> None:
    shell.told("create", "/full/child", "--parents")
    for words, code in (
        (("get", "/nothing"), "NO_NODE"),
        (("create", "/full"), "NODE_EXISTS"),
        (("create", "/no/parent"), "NO_NODE"),
        (("set", "/full", "x", "--version", "7"), "BAD_VERSION"),
        (("delete", "/full"), "NOT_EMPTY"),
        (("create", "relative"), "BAD_ARGUMENTS"),
    ):
        status, output, errors = shell.run(*words)
        assert (status, output) == (1, ""), words
        assert errors.startswith(f"{code} "), errors
        assert len(errors.splitlines()) == 1
    assert shell.run("ls", "/", endpoint="nonsense")[2].startswith("BAD_INPUT ")
