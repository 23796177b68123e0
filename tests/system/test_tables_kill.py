"""kill -9 while tables are filled, again and again: a block is there whole or not at all, and once."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

from tests.embedded.processes import line_of, python_running

import motet
from motet.ids import Zxid

KILLS = 4
#: threads that insert, and one more that publishes steps
INSERTERS = 2
BLOCK_ROWS = 50

#: Inserts blocks under tokens, and publishes steps of two tables; each acknowledged one is a line. What the
#: life before it was not told the end of is tried again under the same token.
FILLER = """
    import json, sys, threading
    import motet, pyarrow as pa
    path, life, inserters, rows = sys.argv[1], *map(int, sys.argv[2:])
    schema = pa.schema([("block", pa.string()), ("row", pa.int64()), ("v", pa.int64())])
    db = motet.open(path)
    db.create_table("blocks", schema, order_by=["row"])
    db.create_table("left", schema, order_by=["block"])
    db.create_table("right", schema, order_by=["row"], engine="replacing", version="v")
    said = threading.Lock()

    def say(*what):
        with said:
            print(json.dumps(what), flush=True)

    def block(name, v=0):
        return pa.table({"block": [name] * rows, "row": range(rows), "v": [v] * rows}, schema)

    def insert(number):
        for i in range(1_000_000):
            for name in (f"{life - 1}-{number}-{i}", f"{life}-{number}-{i}"):
                db.table("blocks").insert(block(name), token=name)
                say("block", name)

    def publish():
        while True:
            info = db.writer("both")
            last = None if info is None else info.step
            epoch, after = (0, None) if last is None else (last.epoch + 1, last.through)
            step = motet.WriterStep("both", epoch=epoch, after=after, through=db.clock())
            parts = [db.stage(table, block(str(epoch), epoch)) for table in ("left", "right")]
            db.publish(parts, step=step)
            say("step", epoch)

    say("open")
    for number in range(inserters):
        threading.Thread(target=insert, args=(number,), daemon=True).start()
    threading.Thread(target=publish, daemon=True).start()
    threading.Event().wait()
    """

Line = list[str | int]


def life_of(number: int, path: Path) -> list[Line]:
    """Let a process fill tables for a while, kill it, and give back all that it has acknowledged."""
    words = (path, str(number), str(INSERTERS), str(BLOCK_ROWS))
    with python_running(FILLER, *words) as process:
        lines: list[Line] = [json.loads(line_of(process))]
        # A few of each; then the kill comes in the middle of whatever is going on.
        until = time.monotonic() + 0.1 * number
        while time.monotonic() < until or len({line[0] for line in lines}) < 3:
            lines.append(json.loads(line_of(process)))
        process.kill()
        assert process.stdout is not None
        lines += [json.loads(line) for line in process.stdout if line.endswith("\n")]
    return [line for line in lines if line[0] != "open"]


def test_every_block_is_there_once_and_whole_after_kill_9(tmp_path: Path) -> None:
    acknowledged: list[Line] = []
    for number in range(KILLS):
        acknowledged += life_of(number, tmp_path)
        with motet.open(tmp_path) as db:
            check_blocks(db, {str(name) for kind, name in acknowledged if kind == "block"})
            check_steps(db, max(int(name) for kind, name in acknowledged if kind == "step"))


def check_blocks(db: motet.Database, acknowledged: set[str]) -> None:
    found = Counter(db.table("blocks").select(["block"])["block"].to_pylist())
    assert set(found.values()) == {BLOCK_ROWS}, "blocks are whole, and none is there twice"
    assert acknowledged <= set(found), "what was acknowledged is there"
    name = max(found)
    again = [{"block": name, "row": row, "v": 0} for row in range(BLOCK_ROWS)]
    assert db.table("blocks").insert(again, token=name).duplicate, "a token outlives a kill"


def check_steps(db: motet.Database, acknowledged: int) -> None:
    """Both tables have all steps up to the last one, and nothing of another."""
    info = db.writer("both")
    assert info is not None
    assert info.step is not None
    last = info.step.epoch
    assert last >= acknowledged
    left = Counter(db.table("left").select(["v"])["v"].to_pylist())
    assert left == dict.fromkeys(range(last + 1), BLOCK_ROWS)
    right = db.table("right").select(["block", "row"]).to_pylist()
    assert right == [{"block": str(last), "row": row} for row in range(BLOCK_ROWS)]
    assert info.version is not None
    steps_before(db, info.version, last + 1)
    steps_before(db, motet.Version(info.version.incarnation, Zxid(info.version.zxid - 1)), last)


def steps_before(db: motet.Database, version: motet.Version, steps: int) -> None:
    """Both tables have so many steps at a version."""
    left = db.table("left").select(["v"], at=version)["v"].to_pylist()
    right = db.table("right").select(["v"], at=version)["v"].to_pylist()
    assert set(left) == set(range(steps))
    assert set(right) == ({steps - 1} if steps else set())
