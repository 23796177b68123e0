"""kill -9 in the middle of writing, again and again: whatever was acknowledged is there, once and whole."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.embedded.processes import line_of, python_running

import motet
from motet.client.change import Change

KILLS = 4
WRITERS = 4

#: several threads write; each acknowledged write is a line on stdout
WRITER = """
    import json, sys, threading, motet
    path, life, writers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    db = motet.open(path)
    db.create_stream("raw", shards=2)
    db.create_stream("pairs", shards=3)
    said = threading.Lock()

    def say(*what):
        with said:
            print(json.dumps(what), flush=True)

    def write(number):
        for i in range(1_000_000):
            name = f"{life}-{number}-{i}"
            position = db.stream("raw").append(name, name.encode(), token=(f"{life}-{number}", i))
            say("raw", name, position.shard, position.offset)
            with db.transaction() as txn:
                for side in ("left", "right"):
                    txn.change("pairs", key=f"{name}-{side}", op="insert", row={"name": name})
            say("pair", name, txn.id)

    say("open")
    for number in range(writers):
        threading.Thread(target=write, args=(number,), daemon=True).start()
    threading.Event().wait()
    """

Line = list[str | int]


def life_of(number: int, path: Path) -> list[Line]:
    """Let a process write for a while, kill it, and give back all that it has acknowledged."""
    with python_running(WRITER, path, str(number), str(WRITERS)) as process:
        lines: list[Line] = [json.loads(line_of(process))]
        # At least a handful; then the kill comes in the middle of whatever is going on.
        until = time.monotonic() + 0.2 + 0.15 * number
        while time.monotonic() < until or len(lines) < 2 * WRITERS:
            lines.append(json.loads(line_of(process)))
        process.kill()
        assert process.stdout is not None
        lines += [json.loads(line) for line in process.stdout if line.endswith("\n")]
    return [line for line in lines if line[0] != "open"]


def test_everything_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    acknowledged: list[Line] = []
    for number in range(KILLS):
        acknowledged += life_of(number, tmp_path)
        with motet.open(tmp_path) as db:
            check(db, acknowledged)


def check(db: motet.Database, acknowledged: list[Line]) -> None:
    changes = list(feed(db))
    entries = {c.key.decode(): (c.shard, c.offset) for c in changes if c.stream == "raw"}
    pairs: dict[str, list[str]] = {}
    for change in changes:
        if change.stream == "pairs":
            assert change.key.decode().startswith(change.row["name"])
            pairs.setdefault(change.transaction, []).append(change.row["name"])
    for what, name, *where in acknowledged:
        if what == "raw":
            assert entries[str(name)] == tuple(where)
        else:
            assert pairs[str(where[0])] == [name, name]
    assert all(len(names) == 2 for names in pairs.values()), "a transaction is whole or not there"
    keys = [(c.stream, c.key) for c in changes]
    assert len(keys) == len(set(keys)), "nothing is there twice"
    for info in db.streams():
        for shard, count in enumerate(info.entries):
            offsets = [c.offset for c in changes if (c.stream, c.shard) == (info.name, shard)]
            assert offsets == list(range(count))


def feed(db: motet.Database) -> list[Change]:
    found, cursor = [], None
    while True:
        page = db.changes("raw", "pairs", after=cursor)
        found += page.changes
        cursor = page.cursor
        if not page.more:
            return found
