"""Feeds of changes: good ones by construction, and each fault planted."""

from __future__ import annotations

from random import Random

import pytest

from motet.errors import BadHistory
from motet.verify.history import History, Recorder, check_feed
from motet.verify.history.operation import Value


class Told:
    """A history written down step by step."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.at = 0

    def commit(self, process: str, name: str, count: int, clock: Value) -> Told:
        op = self.recorder.invoke(process, "commit", None, (name, count), self.at)
        if clock == "failed":
            self.recorder.failed(op, self.at)
        elif clock == "?":
            self.recorder.unknown(op, self.at)
        else:
            self.recorder.ok(op, clock, self.at)
        return self

    def page(self, process: str, *changes: Value, after: Value = None) -> Told:
        op = self.recorder.invoke(process, "page", None, after, self.at)
        self.recorder.ok(op, changes, self.at)
        return self

    def fault(self) -> str | None:
        witness = check_feed(self.recorder.history()).witness
        return None if witness is None else witness.fault


def two() -> Told:
    return Told().commit("c1", "a", 2, (5, 0)).commit("c2", "b", 1, (6, 0))


A0, A1, B0 = ((5, 0), "a", 0), ((5, 0), "a", 1), ((6, 0), "b", 0)


def test_what_is_complete_and_in_order_is_ok() -> None:
    assert two().page("r", A0).page("r", A1, B0).page("q", A0, A1).fault() is None
    assert two().page("r", A1, B0, after=A0).fault() is None
    assert Told().commit("c1", "a", 1, "?").page("r", ((7, 0), "a", 0)).fault() is None


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        (two().page("r", B0, A0), "order"),
        (two().page("r", A0).page("r", A0), "doubled"),
        (two().page("r", B0), "skipped"),
        (two().page("r", A0, B0), "torn"),
        (two().page("r", ((5, 0), "x", 0)), "phantom"),
        (two().page("r", ((5, 0), "a", 2)), "phantom"),
        (two().page("r", ((4, 0), "a", 0)), "clock"),
        (Told().commit("c1", "a", 1, "failed").page("r", ((4, 0), "a", 0)), "phantom"),
        (Told().commit("c1", "a", 1, 5).commit("c1", "b", 1, 4), "causality"),
        (two().page("c3", A0, A1, B0).commit("c3", "d", 1, (5, 9)), "causality"),
        (
            Told()
            .commit("c1", "a", 1, "?")
            .commit("c2", "b", 1, 9)
            .page("r", (5, "a", 0))
            .page("q", (9, "b", 0)),
            "skipped",
        ),
        (two().page("r", A0, A1, B0).commit("c9", "late", 1, (5, 5)), "skipped"),
        (two().page("r", B0).page("r", A0, after=((1, 0), "", 0)), "skipped"),
    ],
)
def test_each_fault_has_its_word(told: Told, fault: str) -> None:
    assert told.fault() == fault


def good(random: Random, *, holes: bool) -> History:
    """Transactions with clocks out of turn, and readers who are shown what is closed."""
    told = Told()
    feed = sorted(
        ((random.randrange(40), number), f"t{number}", random.randrange(1, 3))
        for number in range(12)
    )
    for number, (clock, name, count) in enumerate(feed):
        told.commit(f"c{number}", name, count, "?" if random.random() < 0.2 else clock)
    changes = [(clock, name, index) for clock, name, count in feed for index in range(count)]
    if holes:
        del changes[random.randrange(len(changes) - 1)]
    for reader in ("r", "q"):
        left = list(changes)
        while left:
            size = random.randrange(1, 6)
            told.page(reader, *left[:size])
            left = left[size:]
    return told.recorder.history()


def test_feeds_with_and_without_holes() -> None:
    assert all(check_feed(good(Random(seed), holes=False)) for seed in range(100))
    verdicts = [check_feed(good(Random(seed), holes=True)).status for seed in range(100)]
    assert verdicts.count("violated") > 70  # the rest lost a change that nobody can know of


def test_what_is_no_feed_is_refused() -> None:
    with pytest.raises(BadHistory, match="a change is"):
        Told().page("r", 7).fault()
    with pytest.raises(BadHistory, match="committed"):
        Told().commit("c1", "a", 0, 5).fault()
