"""What is kept of a feed, and for whom."""

from __future__ import annotations

import pytest

from motet.core.clock.hlc import ZERO, Clock
from motet.core.streams.cluster_messages import TurnClock
from motet.core.streams.orders import FeedRules, LoggedOrder, Prune, SetCursor
from motet.errors import BadInput, TooLarge
from motet.errors.shards import CursorExpired, CursorInTheWay
from motet.limits import named_cursors_max

CLOSED = Clock(100, 0)


def obeyed(rules: FeedRules, *orders: LoggedOrder) -> FeedRules:
    for order in orders:
        assert rules.check(order, CLOSED)
        rules.apply(order)
        assert not rules.check(order, CLOSED), "the same again changes nothing"
    return rules


def test_the_slowest_cursor_is_kept_for() -> None:
    assert FeedRules().kept_from is None
    rules = obeyed(FeedRules(), SetCursor("a", Clock(7, 0)), SetCursor("b", Clock(5, 0)))
    assert rules.kept_from == Clock(5, 0)
    obeyed(rules, SetCursor("b", None))
    assert rules.kept_from == Clock(7, 0)


def test_pruning_stops_at_a_cursor_unless_it_is_forced() -> None:
    rules = obeyed(FeedRules(), SetCursor("a", Clock(5, 0)), Prune(Clock(5, 0), is_forced=False))
    with pytest.raises(CursorInTheWay, match="'a'"):
        rules.check(Prune(Clock(6, 0), is_forced=False), CLOSED)
    obeyed(rules, Prune(Clock(6, 0), is_forced=True))
    assert rules.kept_from is None, "it has expired"
    obeyed(rules, Prune(Clock(7, 0), is_forced=False))
    with pytest.raises(CursorExpired, match="pruned up to"):
        rules.check(SetCursor("b", Clock(6, 5)), CLOSED)


def test_the_newest_setting_of_the_clock_counts() -> None:
    rules = FeedRules()
    assert (rules.has_clock, rules.clock_version) == (True, -1)
    obeyed(rules, TurnClock(is_on=False, version=0))
    assert not rules.has_clock
    assert not rules.check(TurnClock(is_on=True, version=0), CLOSED), "it comes late"
    rules.apply(TurnClock(is_on=True, version=0))
    assert not rules.has_clock
    obeyed(rules, TurnClock(is_on=True, version=3))
    assert (rules.has_clock, rules.clock_version) == (True, 3)


def test_the_low_watermark_never_falls() -> None:
    rules = obeyed(FeedRules(), Prune(Clock(6, 0), is_forced=False))
    rules.apply(Prune(Clock(5, 0), is_forced=True))
    assert rules.low_watermark == Clock(6, 0)
    assert not rules.check(Prune(ZERO, is_forced=False), CLOSED)


def test_what_may_still_get_changes_is_not_pruned() -> None:
    with pytest.raises(BadInput, match="not closed"):
        FeedRules().check(Prune(Clock(100, 1), is_forced=True), CLOSED)


def test_cursors_are_bounded() -> None:
    rules = FeedRules({str(number): ZERO for number in range(named_cursors_max)})
    with pytest.raises(TooLarge):
        rules.check(SetCursor("one more", ZERO), CLOSED)
    assert rules.check(SetCursor("7", Clock(1, 0)), CLOSED)
