"""A database in a folder that several processes open, one after another or at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.embedded.processes import line_of, python_running, run_python

import motet
from motet.errors import DatabaseLocked


def test_a_cursor_is_good_in_another_process(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        stream = db.create_stream("a")
        for i in range(5):
            stream.append("k", bytes([i]))
        cursor = db.changes("a", limit=3).cursor
    printed = run_python(
        """
        import sys, motet
        with motet.open(sys.argv[1]) as db:
            print([change.row[0] for change in db.changes("a", after=sys.argv[2])])
        """,
        tmp_path,
        cursor,
    )
    assert printed.strip() == "[3, 4]"


def test_a_process_may_end_without_closing(tmp_path: Path) -> None:
    code = """
        import sys, motet
        db = motet.open(sys.argv[1])
        db.create_stream("a").append("k", b"v")
        print("end")
        """
    assert run_python(code, tmp_path) == "end\n"
    with motet.open(tmp_path) as db:
        assert len(db.changes("a")) == 1


HOLDER = """
    import sys, motet
    db = motet.open(sys.argv[1])
    print("open", flush=True)
    sys.stdin.readline()
    print(db.endpoint, flush=True)
    sys.stdin.readline()
    """


def test_a_second_open_says_who_has_it_and_where_that_serves(tmp_path: Path) -> None:
    with python_running(HOLDER, tmp_path) as holder:
        assert line_of(holder) == "open"
        with pytest.raises(DatabaseLocked, match=f"process {holder.pid}") as raised:
            motet.open(tmp_path)
        assert "serves" not in raised.value.what
        print(file=holder.stdin, flush=True)
        endpoint = line_of(holder)
        with pytest.raises(DatabaseLocked, match=f"{holder.pid}.*{endpoint}"):
            motet.open(tmp_path)
    # It was killed: its endpoint is not taken for ours.
    with motet.open(tmp_path), pytest.raises(DatabaseLocked) as raised:
        motet.open(tmp_path)
    assert endpoint not in str(raised.value)
