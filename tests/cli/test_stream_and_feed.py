"""`motet stream` and `motet feed` on an embedded database, and on one that another process serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import motet


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "motet", *words]
    clean = {name: value for name, value in os.environ.items() if name != "MOTET_ENDPOINT"}
    return subprocess.run(
        command, env=clean | environment, capture_output=True, text=True, check=False
    )


def test_what_is_appended_is_listed_read_and_in_the_feed(tmp_path: Path) -> None:
    where = ("--data", str(tmp_path / "db"), "-o", "json")
    assert run("stream", "create", "orders", "--shards", "1", *where).returncode == 0
    first = json.loads(
        run("stream", "append", "orders", "o-1", "la", "--token", "p:1", *where).stdout
    )
    again = json.loads(
        run("stream", "append", "orders", "o-1", "la", "--token", "p:1", *where).stdout
    )
    assert (first[0]["offset"], first[0]["duplicate"]) == (0, False)
    assert (again[0]["clock"], again[0]["duplicate"]) == (first[0]["clock"], True)
    (listed,) = json.loads(run("stream", "list", *where).stdout)
    assert (listed["stream"], listed["entries"]) == ("orders", 1)
    (entry,) = json.loads(run("stream", "read", "orders", *where).stdout)
    assert (entry["key"], entry["value"]) == ("o-1", "la")
    page = json.loads(run("feed", "page", "orders", *where).stdout)
    assert [change["clock"] for change in page["changes"]] == [first[0]["clock"]]
    rest = json.loads(run("feed", "page", "orders", "--after", page["cursor"], *where).stdout)
    assert rest["changes"] == []


def test_an_endpoint_serves_the_command_line_of_another_process(tmp_path: Path) -> None:
    with motet.open(tmp_path / "db") as db:
        db.create_stream("stock")
        with db.transaction() as txn:
            txn.change("stock", key="s-9", op="insert", row={"left": 7})
        told = run("feed", "tail", "stock", "--count", "1", MOTET_ENDPOINT=db.endpoint)
    assert json.loads(told.stdout)["row"] == {"left": 7}


def test_a_database_that_is_open_elsewhere_is_refused_by_its_name(tmp_path: Path) -> None:
    with motet.open(tmp_path / "db") as db:
        done = run("stream", "list", "--data", str(tmp_path / "db"))
        assert done.returncode == 1
        assert done.stderr.startswith("DATABASE_LOCKED ")
        _ = db.endpoint
        assert db.endpoint in run("stream", "list", "--data", str(tmp_path / "db")).stderr


def test_bad_input_is_one_clear_line(tmp_path: Path) -> None:
    where = ("--data", str(tmp_path / "db"))
    assert run("stream", "create", "orders", *where).returncode == 0
    for words, code in (
        (("feed", "page", "nothing", *where), "NO_SUCH_STREAM"),
        (("feed", "page", "nothing", "--after", "garbled", *where), "BAD_CURSOR"),
        (("stream", "create", "", *where), "BAD_INPUT"),
        (("stream", "append", "orders", "k", "v", "--token", "x", *where), "BAD_INPUT"),
        (("stream", "list", *where, "--endpoint", "127.0.0.1:1"), "BAD_INPUT"),
        (("stream", "list", "--endpoint", "127.0.0.1:1"), "NODE"),
        (("stream", "list"), "BAD_CONFIG"),
    ):
        done = run(*words)
        assert (done.returncode, done.stdout) == (1, ""), words
        assert done.stderr.startswith(code + " "), done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_only_creating_makes_a_folder(tmp_path: Path) -> None:
    mistyped = tmp_path / "dta"
    for words in (
        ("stream", "list"),
        ("stream", "append", "orders", "k", "v"),
        ("feed", "page", "o"),
    ):
        done = run(*words, "--data", str(mistyped))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"BAD_INPUT there is no database in {mistyped}; ")
    assert not mistyped.exists()


def test_a_locale_without_the_letters_neither_changes_what_is_written_nor_ends_a_reader(
    tmp_path: Path,
) -> None:
    where = ("--data", str(tmp_path / "db"))
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    assert run("stream", "create", "orders", "--shards", "1", *where).returncode == 0
    assert run("stream", "append", "orders", "клю", "→", *where, **plain).returncode == 0
    with motet.open(tmp_path / "db") as db:
        (entry,) = db.stream("orders").read(shard=0)
    assert (entry.key, entry.value) == ("клю".encode(), "→".encode())
    for words in (("feed", "page", "orders"), ("feed", "tail", "orders", "--count", "1")):
        done = run(*words, *where, PYTHONIOENCODING="latin-1")
        assert done.returncode == 0, done.stderr
        assert r"\u2192" in done.stdout


def test_the_row_before_an_update_is_shown(tmp_path: Path) -> None:
    with motet.open(tmp_path / "db") as db:
        db.create_stream("stock")
        with db.transaction() as txn:
            txn.change("stock", key="s", op="update", row={"left": 1}, before={"left": 2})
    told = run("feed", "tail", "stock", "--count", "1", "--data", str(tmp_path / "db"))
    assert json.loads(told.stdout)["before"] == {"left": 2}
    table = run("feed", "page", "stock", "--data", str(tmp_path / "db")).stdout
    header, row = table.splitlines()
    assert header.split() == ["clock", "transaction", "stream", "key", "op", "row", "before"]
    assert row.split()[-5:] == ["stock", "s", "update", "left=1", "left=2"]
    assert len(row) < 80, "a change of one field fits a terminal"
