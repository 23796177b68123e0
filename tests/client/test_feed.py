"""The feed without an event loop, and without Arrow."""

from __future__ import annotations

import sys
import threading

import pytest

import motet
from motet.errors import MissingLibrary


@pytest.fixture
def filled(db: motet.Database) -> motet.Database:
    db.create_stream("a").append("k", b"v")
    return db


def test_leaving_a_tail_leaves_nothing_behind(filled: motet.Database) -> None:
    before = threading.active_count()
    for change in filled.tail("a"):
        assert change.stream == "a"
        break
    assert threading.active_count() == before
    filled.stream("a").append("k", b"v")


def test_arrow_is_asked_for_by_name_when_it_is_missing(
    filled: motet.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingLibrary, match="pyarrow"):
        filled.changes("a").to_arrow()
