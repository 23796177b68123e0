"""`motet feed`, `motet transaction`, `motet clock` and `motet stream change` on an embedded database."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.cli import app as root
from motet.core.clock.hlc import Clock, plus

COMMANDS = [
    *(("feed", word) for word in ("page", "tail", "status", "mirror", "cursors", "keep", "prune")),
    ("stream", "change"),
    ("stream", "describe"),
    ("transaction", "show"),
]


class Shell:
    """Runs command lines in this process, about one database."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys = capsys
        self.folder = folder

    def run(self, *words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exited:
            root.main(list(words))
        code = exited.value.code
        return (code if isinstance(code, int) else 0, *self._capsys.readouterr())

    def told(self, *words: str) -> Any:
        status, output, errors = self.run(*words, "--data", str(self.folder), "-o", "json")
        assert status == 0, errors
        return json.loads(output)

    def refused(self, *words: str) -> str:
        status, _, errors = self.run(*words)
        assert status == 1
        return errors


@pytest.fixture
def shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shell:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("MOTET_ENDPOINT", raising=False)
    with motet.open(tmp_path / "db") as db:
        db.create_stream("orders", shards=2)
        db.create_stream("stock", shards=2)
    return Shell(capsys, tmp_path / "db")


def change(shell: Shell, *words: str) -> dict[str, str]:
    (row,) = shell.told("stream", "change", *words)
    return dict(row)


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_help_and_an_example(words: tuple[str, str], shell: Shell) -> None:
    status, output, _ = shell.run(*words, "--help")
    assert status == 0
    assert f"Example: motet {' '.join(words)}" in re.sub(r"\s+", " ", output)


def test_a_change_of_several_streams_is_one_transaction_that_can_be_shown(shell: Shell) -> None:
    also = '{"stream": "stock", "key": "s-9", "op": "update", "row": {"left": 7}, "before": {"left": 9}}'
    done = change(shell, "orders", "o-1", "insert", '{"qty": 2}', "--also", also)
    found = shell.told("transaction", "show", done["transaction"])
    assert (found["standing"], found["clock"]) == ("committed", done["clock"])
    assert [(c["stream"], c["key"], c["op"], c["row"], c["before"]) for c in found["changes"]] == [
        ("orders", "o-1", "insert", {"qty": 2}, None),
        ("stock", "s-9", "update", {"left": 7}, {"left": 9}),
    ]
    status, table, _ = shell.run(
        "transaction", "show", done["transaction"], "--data", str(shell.folder)
    )
    assert (status, table.splitlines()[1].split()[1]) == (0, "committed")
    assert shell.told("transaction", "show", "never")["standing"] == "unknown"


def test_pages_by_key_by_clock_and_of_the_last_hour(shell: Shell) -> None:
    first = change(shell, "stock", "a", "insert", '{"left": 1}')
    second = change(shell, "stock", "b", "insert", '{"left": 2}')
    third = change(shell, "stock", "a", "update", '{"left": 3}')

    def clocks(*words: str) -> list[str]:
        page = shell.told("feed", "page", "stock", *words)
        return [each["clock"] for each in page["changes"]]

    everything = [first["clock"], second["clock"], third["clock"]]
    assert clocks() == everything
    assert clocks("--key", "a") == [first["clock"], third["clock"]]
    assert clocks("--after", first["clock"]) == everything[1:]
    assert clocks("--after", first["clock"], "--up-to", second["clock"]) == [second["clock"]]
    assert clocks("--last", "1h") == everything
    ago_ms = Clock.parse(third["clock"]).logical - Clock.parse(first["clock"]).logical
    assert clocks("--last", f"{ago_ms // 1000 + 1000}s", "--key", "b") == [second["clock"]]
    status, output, _ = shell.run(
        *("feed", "tail", "stock", "--key", "a", "--count", "2"), "--data", str(shell.folder)
    )
    assert status == 0
    assert [json.loads(line)["row"] for line in output.splitlines()] == [{"left": 1}, {"left": 3}]


def test_the_status_and_the_clock_say_how_far_everything_is(shell: Shell) -> None:
    done = change(shell, "stock", "a", "insert", '{"left": 1}')
    found = shell.told("feed", "status", "stock")
    assert Clock.parse(found["visible"]) >= Clock.parse(done["clock"])
    assert [(each["stream"], each["shard"]) for each in found["shards"]] == [
        ("stock", 0),
        ("stock", 1),
    ]
    status, output, _ = shell.run("feed", "status", "--data", str(shell.folder))
    assert (status, output.splitlines()[-1].split()[0]) == (0, "visible")
    (clock,) = shell.told("clock")
    assert Clock.parse(clock["visible"]) >= Clock.parse(done["clock"])


def test_a_mirror_of_the_command_line_goes_on_where_it_was_left(
    shell: Shell, tmp_path: Path
) -> None:
    change(shell, "stock", "a", "insert", '{"left": 1}')
    copy = str(tmp_path / "copy")

    def mirrored() -> dict[str, Any]:
        status, output, errors = shell.run(
            *("feed", "mirror", str(shell.folder), copy, "stock", "--once", "-o", "json")
        )
        assert status == 0, errors
        (row,) = json.loads(output)
        return dict(row)

    assert (mirrored()["changes"], mirrored()["changes"]) == (1, 0)
    change(shell, "stock", "a", "delete")
    assert mirrored()["changes"] == 1
    with motet.open(copy) as db:
        assert [c.op for c in db.changes("stock")] == ["insert", "delete"]


def test_bad_input_is_one_clear_line(shell: Shell, tmp_path: Path) -> None:
    where = ("--data", str(shell.folder))
    far = str(plus(Clock(1, 0), 0))
    for words, code in (
        (("feed", "page", "stock", "--last", "soon", *where), "BAD_INPUT 'soon'"),
        (("feed", "page", "stock", "--last", "1h", "--after", far, *where), "BAD_INPUT both"),
        (("feed", "page", "stock", "--after", "(5)", *where), "BAD_CLOCK"),
        (("feed", "status", "nothing", *where), "NO_SUCH_STREAM"),
        (("stream", "change", "stock", "a", "upsert", "{}", *where), "BAD_INPUT 'upsert'"),
        (("stream", "change", "stock", "a", "insert", "[1]", *where), "BAD_INPUT '[1]'"),
        (("stream", "change", "stock", "a", "insert", *where), "BAD_INPUT an insert needs"),
        (("stream", "change", "stock", "a", "delete", "--also", "{}", *where), "BAD_INPUT '{}'"),
        (("feed", "mirror", str(tmp_path / "none"), str(tmp_path / "to")), "BAD_INPUT there is no"),
    ):
        told = shell.refused(*words)
        assert told.startswith(code), told
        assert len(told.splitlines()) == 1
    assert shell.told("feed", "page", "stock")["changes"] == []


def test_what_is_kept_of_the_feed(shell: Shell) -> None:
    first = change(shell, "orders", "o-1", "insert", "{}")
    page = shell.told("feed", "page", "orders")
    second = change(shell, "orders", "o-2", "insert", "{}")
    shell.told("feed", "keep", "reader", page["cursor"])
    (kept,) = shell.told("feed", "cursors")
    assert (kept["cursor"], kept["streams"], kept["expired"]) == ("reader", ["orders"], False)
    where = ("--data", str(shell.folder))
    in_the_way = shell.refused("feed", "prune", "orders", "--up-to", second["clock"], *where)
    assert in_the_way.startswith("CURSOR_IN_THE_WAY")
    (aged,) = shell.told("feed", "prune", "orders", "stock", "--older-than", "7d")
    assert Clock.parse(aged["low_watermark"]) < Clock.parse(first["clock"])
    (done,) = shell.told("feed", "prune", "orders", "--up-to", second["clock"], "--force")
    assert done["low_watermark"] == second["clock"]
    assert shell.told("feed", "cursors")[0]["expired"]
    late = shell.refused("feed", "page", "orders", "--after", page["cursor"], *where)
    assert late.startswith("CURSOR_EXPIRED")
    assert f"read on after {second['clock']}" in late
    assert shell.told("feed", "page", "orders")["changes"] == []
    copy = str(shell.folder.parent / "copy")
    for command in (("page", "orders", "stock", *where), ("mirror", str(shell.folder), copy)):
        uneven = shell.refused("feed", *command)
        assert uneven.startswith("CURSOR_EXPIRED")
        assert f"orders is kept after {second['clock']}" in uneven
        assert f"stock is kept after {aged['low_watermark']}" in uneven
    change(shell, "orders", "o-3", "insert", "{}")
    oldest = shell.told("feed", "page", "orders", "stock", "--after", "oldest")
    assert [each["key"] for each in oldest["changes"]] == ["o-3"]
    shell.told("feed", "keep", "reader")
    assert shell.told("feed", "cursors") == []


@pytest.mark.filterwarnings("ignore::motet.ClockOff")
def test_the_changes_of_a_transaction_are_shown_that_has_no_clock(shell: Shell) -> None:
    shell.told("clock", "disable")
    (done,) = shell.told("stream", "change", "orders", "o-1", "insert", '{"qty": 2}')
    assert done["clock"] is None
    for turned in ("enable", "disable"):
        shell.told("clock", turned)
        found = shell.told("transaction", "show", done["transaction"])
        assert (found["standing"], found["clock"]) == ("committed", None)
        assert [each["key"] for each in found["changes"]] == ["o-1"]


def test_what_to_prune_is_said_in_one_way(shell: Shell) -> None:
    where = ("--data", str(shell.folder))
    for words in ((), ("--older-than", "7d", "--up-to", "(1,1)")):
        told = shell.refused("feed", "prune", "orders", *words, *where)
        assert told == (
            "BAD_INPUT say either --older-than or --up-to; for instance --older-than 7d\n"
        )


def test_a_transaction_whose_changes_are_pruned_is_known(shell: Shell) -> None:
    done = change(shell, "orders", "o-1", "insert", "{}")
    shell.told("feed", "prune", "orders", "--up-to", done["clock"])
    found = shell.told("transaction", "show", done["transaction"])
    assert (found["standing"], found["changes"]) == ("committed", [])


def test_the_shards_of_a_stream_are_described(shell: Shell) -> None:
    for key in ("o-1", "o-2", "o-3"):
        change(shell, "orders", key, "insert", "{}")
    shards = shell.told("stream", "describe", "orders")
    assert [each["shard"] for each in shards] == [0, 1]
    assert sum(each["next_offset"] for each in shards) == 3
    strange = shell.refused("stream", "describe", "nope", "--data", str(shell.folder))
    assert strange.startswith("NO_SUCH_STREAM")
