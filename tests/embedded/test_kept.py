"""What was ordered about the feed of an embedded database is there after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.embedded.processes import line_of, python_running

import motet
from motet.core.clock.hlc import Clock
from motet.errors.shards import CursorExpired, CursorInTheWay

PRUNES = """
    import os, signal, sys
    import motet

    db = motet.open(sys.argv[1])
    db.create_stream("orders")
    clocks = []
    for number in range(4):
        with db.transaction() as txn:
            txn.change("orders", f"o-{number}", "insert", row={"n": number})
        clocks.append(txn.clock)
    print(db.changes("orders", limit=1).cursor)
    db.save_cursor("reader", db.changes("orders", limit=2).cursor)
    print(db.prune("orders", up_to=clocks[1]), clocks[2], sep="\\n", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    """


def test_cursors_and_the_low_watermark_survive_a_kill(tmp_path: Path) -> None:
    with python_running(PRUNES, tmp_path) as process:
        cursor, low_watermark, third = (line_of(process) for _ in range(3))
        assert process.wait(60) == -9
    with motet.open(tmp_path) as db:
        assert str(db.low_watermark("orders")) == low_watermark
        assert [(each.name, str(each.clock)) for each in db.cursors()] == [
            ("reader", low_watermark)
        ]
        assert [change.row["n"] for change in db.changes("orders")] == [2, 3]
        with pytest.raises(CursorExpired) as raised:
            db.changes("orders", after=cursor)
        assert raised.value.advice == f"read on after {low_watermark}"
        with pytest.raises(CursorInTheWay, match="reader"):
            db.prune("orders", up_to=Clock.parse(third))
        with db.transaction() as txn:
            found = txn.get("orders", "o-0")
        assert found is not None
        assert found.row == {"n": 0}
