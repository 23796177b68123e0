"""A wait ends when its condition holds, when a process is gone, or when it has taken far too long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import motet
from motet.client.sync import Database
from motet.demos.shop.story import fill_shelves
from motet.demos.shop.watch import Children, Watch
from motet.demos.shop.writer import ORDERS, STOCK
from motet.errors import MotetError


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with motet.open(tmp_path / "data") as db:
        db.create_stream(ORDERS)
        db.create_stream(STOCK)
        yield db


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    with Children(tmp_path) as children:
        yield children


def test_it_looks_until_the_condition_holds_and_takes_a_sample_each_time(
    db: Database, children: Children
) -> None:
    watch = Watch(db, children)
    answers = iter([False, False, True])
    watch.until("the third look", lambda: next(answers))
    assert len(watch.samples) == 3
    assert all(sample.tables is None for sample in watch.samples)
    assert [sample.at for sample in watch.samples] == sorted(sample.at for sample in watch.samples)


def test_what_never_happens_ends_with_what_was_waited_for(db: Database, children: Children) -> None:
    with pytest.raises(MotetError, match="waited for a miracle, and gave up 0 s after"):
        Watch(db, children, seconds=0).until("a miracle", lambda: False)


def test_a_process_that_is_gone_ends_the_wait(db: Database, children: Children) -> None:
    children.start("some writer", "no_such_module")
    with pytest.raises(MotetError, match="the some writer ended with 1"):
        Watch(db, children).until("a miracle", lambda: False)


def test_without_a_pipeline_everything_is_behind(db: Database, children: Children) -> None:
    watch = Watch(db, children)
    assert (watch.steps(), watch.is_behind()) == (0, False)
    db.transact(fill_shelves)
    assert (watch.steps(), watch.is_behind()) == (0, True)
