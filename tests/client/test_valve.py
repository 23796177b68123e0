"""``clock.enabled`` of an embedded database."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import motet


def changed(db: motet.Database, number: int) -> motet.Clock | None:
    with db.transaction() as txn:
        found = txn.get("s", "k")
        assert (0 if found is None else found.row["n"]) == number - 1
        txn.change("s", "k", "update", row={"n": number})
    return txn.clock


def test_c15_no_clock_while_it_is_off_and_above_everything_before_when_it_is_on_again(
    tmp_path: Path,
) -> None:
    with motet.open(tmp_path / "data") as db:
        db.create_stream("s", shards=1)
        before = changed(db, 1)
        assert before is not None
        db.enable_clock(False)
        db.enable_clock(False)
        assert not db.clock_enabled()
        with pytest.warns(motet.ClockOff, match="clock.enabled is off"):
            assert changed(db, 2) is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # once per connection
            db.stream("s").append("raw", b"v")
            with db.transaction() as txn:
                txn.change("s", "x", "insert", row={"n": 1})
                assert txn.commit_clock() is None
            status = db.transaction_status(txn.id)
        assert (txn.clock, status.standing, status.clock) == (None, "committed", None)
        visible = db.visible_clock("s", wait=True)
        assert db.clock() >= visible > before
    with motet.open(tmp_path / "data") as db:
        assert not db.clock_enabled(), "it is in the log"
        db.enable_clock()
        with pytest.warns(motet.ClockOff):  # what it reads has no clock
            after = changed(db, 3)
        assert after is not None
        assert after > visible
        page = db.changes("s")
        assert [change.clock for change in page] == [before, None, None, None, after]
        assert [change.key for change in page] == [b"k", b"k", b"raw", b"x", b"k"]
        assert page.to_arrow()["clock"].null_count == 3
        found = db.sql(
            "select count(*) as many, count(commit_clock) as clocks from system.transaction_commit_clock"
        )
        assert found.to_pylist() == [{"many": 5, "clocks": 2}]
        assert db.sql("select enabled from system.clock").to_pylist() == [{"enabled": True}]


def test_a_mirror_repeats_what_has_no_clock(tmp_path: Path) -> None:
    from motet.client.mirror import Mirror

    with motet.open(tmp_path / "from") as source, motet.open(tmp_path / "to") as target:
        source.create_stream("s", shards=1)
        changed(source, 1)
        source.enable_clock(False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            changed(source, 2)
            source.stream("s").append("raw", b"v")
            Mirror(source, target, ["s"]).run(once=True)
            keys = [(change.key, change.op) for change in target.changes("s")]
    assert keys == [(b"k", "update"), (b"k", "update"), (b"raw", "append")]
