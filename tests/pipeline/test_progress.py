"""What is left to do of a slice: the table of cases, and any history of restarts against a plain model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.messages import PublishedStep
from motet.core.mergetree.version import Version
from motet.errors import BadCheckpoint
from motet.ids import WriterName, Zxid
from motet.pipeline.progress import Slice, decide, done_through, slices_of, worked_on

SHOP = WriterName("shop")


def at(tick: int) -> Clock:
    return Clock(tick, 0)


def step(epoch: int, after: int | None, through: int) -> WriterStep:
    return WriterStep(SHOP, epoch, None if after is None else at(after), at(through))


LAST = step(4, 10, 20)


@pytest.mark.parametrize(
    ("last", "after", "through", "taken"),
    [
        (None, 0, 10, step(0, None, 10)),
        (LAST, 20, 30, step(5, 20, 30)),
        (LAST, 10, 20, None),  # the last one handed out again
        (LAST, 0, 10, None),  # from an old copy of the checkpoint
        (LAST, 0, 30, step(5, 20, 30)),  # begins before what is done and ends behind it
        (LAST, 20, 20, None),
    ],
)
def test_a_slice_is_held_against_the_last_step(
    last: WriterStep | None, after: int, through: int, taken: WriterStep | None
) -> None:
    assert decide(SHOP, last, Slice(at(after), at(through))) == taken


@pytest.mark.parametrize("last", [None, LAST])
def test_a_checkpoint_that_is_ahead_of_the_tables_is_refused(last: WriterStep | None) -> None:
    with pytest.raises(BadCheckpoint, match="remove the checkpoint"):
        decide(SHOP, last, Slice(at(21), at(30)))


def test_counters_count_as_well() -> None:
    last = WriterStep(SHOP, 0, None, Clock(5, 3))
    assert decide(SHOP, last, Slice(ZERO, Clock(5, 3))) is None
    assert decide(SHOP, last, Slice(ZERO, Clock(5, 4))) is not None


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 15))))
def test_whatever_spark_hands_out_each_change_is_worked_on_once(
    handed: list[tuple[int, int]],
) -> None:
    """Slices that begin anywhere, as after any mix of crashes, lost and old checkpoints."""
    changes = range(1, 50)
    worked: list[int] = []
    last: WriterStep | None = None
    for begin, length in handed:
        done = done_through(last)
        slice_ = Slice(at(begin), at(begin + length))
        if slice_.after > done:
            with pytest.raises(BadCheckpoint):
                decide(SHOP, last, slice_)
            continue
        taken = decide(SHOP, last, slice_)
        if taken is not None:
            assert taken.epoch == (0 if last is None else last.epoch + 1), "P1"
            todo = worked_on(taken)
            assert todo.after == done, "P1"
            worked += [n for n in changes if todo.after < at(n) <= todo.through]
            last = taken
    assert worked == [n for n in changes if at(n) <= done_through(last)], "P2"


def published(epoch: int, after: int | None, through: int) -> PublishedStep:
    version = Version("a1b2", Zxid(100 + epoch))
    return PublishedStep(epoch, None if after is None else at(after), at(through), version)


def test_steps_are_slices() -> None:
    steps = [published(0, None, 10), published(1, 10, 20), published(2, 20, 40)]
    last = step(2, 20, 40)
    bounds = [(0, 10), (10, 20), (20, 40)]
    assert slices_of(steps, last) == [Slice(at(a), at(b)) for a, b in bounds]
    later = [*steps, published(3, 40, 50)]
    assert slices_of(later, last) == slices_of(steps, last), "it goes on meanwhile"


def test_the_first_slices_may_be_forgotten() -> None:
    slices = slices_of([published(6, 20, 30), published(7, 30, 40)], step(7, 30, 40))
    assert slices == [Slice(at(20), at(30)), Slice(at(30), at(40))]
