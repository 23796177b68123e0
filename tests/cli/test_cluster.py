"""`motet stream`, `motet shard` and `motet node drain` against a cluster, as somebody types them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from motet.cli import app as root
from motet.core.clock.hlc import Clock
from motet.node.config import ROLES
from motet.testing.local_cluster import LocalCluster

COMMANDS = [
    *(("stream", word) for word in ("create", "append", "read", "tail", "describe", "delete")),
    *(("shard", word) for word in ("describe", "elect", "swap", "expand", "contract")),
    ("node", "drain"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(4, folder, roles=ROLES) as running:
        yield running


class Shell:
    """Runs command lines in this process; what they print is what they say."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exited:
            root.main(list(words))
        code = exited.value.code
        return (code if isinstance(code, int) else 0, *self._capsys.readouterr())

    def told(self, *words: str) -> Any:
        status, output, errors = self.run(*words, "-o", "json")
        assert status == 0, errors
        return json.loads(output)

    def refused(self, *words: str) -> str:
        status, _, errors = self.run(*words)
        assert status == 1
        return errors.split()[0]


@pytest.fixture
def shell(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MOTET_ENDPOINT", cluster.endpoints)
    return Shell(capsys)


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_help_and_an_example(words: tuple[str, str], shell: Shell) -> None:
    status, output, _ = shell.run(*words, "--help")
    assert status == 0
    assert f"Example: motet {' '.join(words)}" in re.sub(r"\s+", " ", output)


def test_a_stream_from_its_creation_to_its_end(shell: Shell) -> None:
    shell.told("stream", "create", "orders", "--shards", "1")
    (first,) = shell.told("stream", "append", "orders", "o-1", "hello", "--token", "p:1")
    (again,) = shell.told("stream", "append", "orders", "o-1", "hello", "--token", "p:1")
    assert (first["offset"], first["duplicate"], again["duplicate"]) == (0, False, True)
    (entry,) = shell.told("stream", "read", "orders")
    assert (entry["key"], entry["value"]) == ("o-1", "hello")
    status, output, _ = shell.run("stream", "tail", "orders", "--stop-after", "1")
    assert (status, output.split()[-2:]) == (0, ["o-1", "hello"])
    (shown,) = shell.told("stream", "describe", "orders")
    assert (shown["next_offset"], len(shown["ensemble"])) == (1, 3)
    (listed,) = shell.told("stream", "list")
    assert (listed["stream"], listed["entries"]) == ("orders", 1)
    assert Clock.parse(listed["created"]) < Clock.parse(entry["clock"])
    shell.told("stream", "delete", "orders")
    assert shell.refused("stream", "read", "orders") == "NO_SUCH_STREAM"


def test_the_feed_of_a_cluster(shell: Shell) -> None:
    shell.told("stream", "create", "fed", "--shards", "2")
    also = '{"stream": "fed", "key": "f-2", "op": "insert", "row": {"n": 2}}'
    (done,) = shell.told("stream", "change", "fed", "f-1", "insert", '{"n": 1}', "--also", also)
    status, output, _ = shell.run("feed", "tail", "fed", "--count", "2")
    assert status == 0
    assert [json.loads(line)["row"] for line in output.splitlines()] == [{"n": 1}, {"n": 2}]
    page = shell.told("feed", "page", "fed", "--last", "1h", "--key", "f-2")
    assert [(c["transaction"], c["key"]) for c in page["changes"]] == [(done["transaction"], "f-2")]
    rest = shell.told("feed", "page", "fed", "--after", page["cursor"])
    assert (rest["changes"], rest["more"]) == ([], False)
    shown = shell.told("feed", "status", "fed")
    assert [each["shard"] for each in shown["shards"]] == [0, 1]
    assert all(each["leader"] and not each["error"] for each in shown["shards"])
    (clock,) = shell.told("clock")
    assert Clock.parse(clock["visible"]) >= Clock.parse(done["clock"])
    became = shell.told("transaction", "show", done["transaction"])
    assert (became["standing"], became["clock"]) == ("committed", done["clock"])
    assert [(c["key"], c["row"]) for c in became["changes"]] == [
        ("f-1", {"n": 1}),
        ("f-2", {"n": 2}),
    ]
    query = "select stream, op from system.changes where stream = 'fed' order by clock, index"
    assert shell.told("sql", query) == [{"stream": "fed", "op": "insert"}] * 2
    rows = shell.told(
        "sql", "select key, clock from system.changes where stream = 'fed' order by index"
    )
    assert [(row["key"], row["clock"]) for row in rows] == [
        ("f-1", done["clock"]),
        ("f-2", done["clock"]),
    ]
    read = shell.told("stream", "read", "fed")
    assert sorted(each["key"] for each in read) == ["f-1", "f-2"], "of all shards"
    assert [each["shard"] for each in read] == sorted(each["shard"] for each in read)


def test_what_is_kept_of_the_feed(shell: Shell) -> None:
    shell.told("stream", "create", "aged", "--shards", "2")
    (first,) = shell.told("stream", "change", "aged", "a", "insert", "{}")
    assert shell.run("feed", "tail", "aged", "--count", "1")[0] == 0
    page = shell.told("feed", "page", "aged")
    (second,) = shell.told("stream", "change", "aged", "b", "insert", "{}")
    shell.told("feed", "keep", "reader", page["cursor"])
    (kept,) = shell.told("feed", "cursors")
    assert (kept["cursor"], kept["streams"], kept["expired"]) == ("reader", ["aged"], False)
    assert Clock.parse(kept["clock"]) >= Clock.parse(first["clock"])
    in_the_way = shell.refused("feed", "prune", "aged", "--up-to", second["clock"])
    assert in_the_way == "CURSOR_IN_THE_WAY"
    (done,) = shell.told("feed", "prune", "aged", "--older-than", "7d")
    assert Clock.parse(done["low_watermark"]) < Clock.parse(first["clock"])
    shell.told("feed", "keep", "reader")
    assert shell.told("feed", "cursors") == []


def test_an_ensemble_is_changed_and_a_node_emptied(shell: Shell) -> None:
    shell.told("stream", "create", "moved", "--shards", "1", "--replicas", "3")
    shell.told("stream", "append", "moved", "k", "stays")
    (before,) = shell.told("shard", "describe", "moved")
    ensemble, leader = list(before["replicas"]), before["leader"]
    assert before["status"] == "steady_state"
    shell.told("shard", "expand", "moved", "--shard", "0")
    follower = next(node for node in ensemble if node != leader)
    shell.told("shard", "contract", "moved", "--shard", "0", "--old", follower)
    (after,) = shell.told("shard", "describe", "moved")
    assert follower not in after["replicas"]
    shell.told("shard", "swap", "moved", "--shard", "0", "--old", _follower(after))
    assert shell.refused("shard", "swap", "moved", "--shard", "0", "--old", leader) == "NODE_LEADS"
    shell.told("shard", "elect", "moved", "--shard", "0")
    (now,) = shell.told("shard", "describe", "moved")
    (drained,) = shell.told("node", "drain", now["leader"])
    assert drained["drained"] is True
    (empty,) = shell.told("shard", "describe", "moved")
    assert now["leader"] not in empty["replicas"]
    shell.told("node", "drain", now["leader"], "--undo")
    (entry,) = shell.told("stream", "read", "moved")
    assert entry["value"] == "stays"


def _follower(row: dict[str, Any]) -> str:
    return str(next(node for node in row["replicas"] if node != row["leader"]))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("stream", "append", "nope", "k", "v"), "NO_SUCH_STREAM"),
        (("stream", "describe", "nope"), "NO_SUCH_STREAM"),
        (("stream", "append", "nope", "k", "v", "--token", "bad"), "BAD_INPUT"),
        (("stream", "create", "no name!"), "BAD_INPUT"),
        (("stream", "create", "many", "--replicas", "6"), "NO_NODE_TO_PLACE_ON"),
        (("shard", "elect", "nope", "--shard", "0"), "NO_SUCH_STREAM"),
        (("node", "drain", "n9"), "NO_SUCH_NODE"),
        (("stream", "list", "--endpoint", "127.0.0.1:1"), "NODE"),
        (("table", "parts", "nope"), "NO_SUCH_TABLE"),
        (("feed", "page", "nope"), "NO_SUCH_STREAM"),
        (("feed", "status", "nope"), "NO_SUCH_STREAM"),
        (("feed", "keep", "reader", "garbled"), "BAD_CURSOR"),
        (("feed", "prune", "nope"), "BAD_INPUT"),
        (("feed", "page", "nope", "--after", "garbled"), "BAD_CURSOR"),
        (("sql", "select * from nope"), "NO_SUCH_TABLE"),
    ],
)
def test_what_is_wrong_is_told_with_its_code(
    words: tuple[str, ...], code: str, shell: Shell
) -> None:
    assert shell.refused(*words) == code
