"""Timers against a naive twin: a dict of due times that is searched in full."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.machine import NS_PER_MS
from motet.ids import TimerName
from motet.limits import timers_max
from motet.node.hosted import Timers

NAMES = [TimerName(name) for name in "abcde"]

actions = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(NAMES), st.integers(0, 9)),
    st.tuples(st.just("cancel"), st.sampled_from(NAMES), st.just(0)),
    st.tuples(st.just("wait"), st.just(NAMES[0]), st.integers(0, 9)),
)


@given(st.lists(actions, max_size=60))
def test_like_a_dict_of_due_times(script: list[tuple[str, TimerName, int]]) -> None:
    timers, due_ns, now_ns = Timers(), dict[TimerName, int](), 0
    for action, name, ms in script:
        if action == "set":
            timers.set(name, now_ns, ms)
            due_ns[name] = now_ns + ms * NS_PER_MS
        elif action == "cancel":
            timers.cancel(name)
            due_ns.pop(name, None)
        else:
            now_ns += ms * NS_PER_MS
            fired = []
            while (timer := timers.pop_due(now_ns)) is not None:
                fired.append((due_ns.pop(timer), timer))
            assert fired == sorted(fired), "the one that is due longest comes first"
            assert all(due > now_ns for due in due_ns.values()), "all that were due have fired"
        assert timers.next_due_ns() == min(due_ns.values(), default=None)
        assert len(timers) == len(due_ns)


def test_a_timer_that_is_moved_for_ever_takes_no_more_room() -> None:
    timers = Timers()
    for now_ns in range(10_000):
        timers.set(NAMES[0], now_ns, 1_000)
    assert len(timers.heap) < 200


def test_too_many_timers_are_a_fault_of_the_machine() -> None:
    timers = Timers()
    for number in range(timers_max):
        timers.set(TimerName(f"t{number}"), 0, 1)
    with pytest.raises(AssertionError, match="timers run at once"):
        timers.set(TimerName("one more"), 0, 1)


@given(st.integers(0, 10_000), st.sampled_from([1, 5, 10]))
def test_timers_in_step_are_due_together(start_ms: int, periods: int) -> None:
    """Whenever they were set, those with equal periods meet, and those of longer ones fall on theirs."""
    timers, short, long = Timers(), NAMES[0], NAMES[1]
    now_ns = start_ms * NS_PER_MS + 17
    timers.set(short, now_ns, 100, in_step=True)
    due_ns = timers.next_due_ns()
    assert due_ns is not None
    assert due_ns % (100 * NS_PER_MS) == 0
    assert 50 * NS_PER_MS < due_ns - now_ns <= 150 * NS_PER_MS
    timers.cancel(short)
    timers.set(long, now_ns + 3 * NS_PER_MS, 100 * periods, in_step=True)
    due_ns = timers.next_due_ns()
    assert due_ns is not None
    assert due_ns % (100 * periods * NS_PER_MS) == 0
