"""A mirror of what was committed while ``clock.enabled`` was off."""

from __future__ import annotations

import warnings
from pathlib import Path

import motet


def changed(db: motet.Database, number: int) -> motet.Clock | None:
    with db.transaction() as txn:
        found = txn.get("s", "k")
        assert (0 if found is None else found.row["n"]) == number - 1
        txn.change("s", "k", "update", row={"n": number})
    return txn.clock


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
