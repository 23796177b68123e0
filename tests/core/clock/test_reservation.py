"""The clock below a durable bound: how far it reserves, when it asks, and what a restart costs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock import hlc
from motet.core.clock.hlc import END, ZERO, Clock
from motet.core.clock.reservation import Reservation
from motet.core.fingerprint import clone_plain, fingerprint
from motet.errors import ClockExhausted
from motet.limits import (
    clock_counter_max,
    clock_drift_ms_max,
    clock_lag_ms_max,
    clock_logical_max,
    clock_reserve_ms,
    clock_reserve_ticks,
    clock_reserve_ticks_max,
)


def tick(clock: Reservation, wall_ms: int) -> Clock:
    """A tick with the writes it takes, as a holder with a quick disk would do it."""
    value = clock.tick(wall_ms)
    write_if_wanted(clock, wall_ms)
    if value is None:
        value = clock.tick(wall_ms)
    assert value is not None
    assert clock.invariants() == []
    return value


def write_if_wanted(clock: Reservation, wall_ms: int) -> bool:
    if not clock.wants_bound or clock.next_bound(wall_ms) is None:
        return False
    clock.bound_written(wall_ms)
    return True


def ticking(wall_ms: int = 1000) -> Reservation:
    """A clock that has never ticked before, after its first tick."""
    clock = Reservation.recover(None, wall_ms)
    tick(clock, wall_ms)
    return clock


# How far is reserved


def test_the_first_tick_reserves_ahead_of_the_wall() -> None:
    clock = Reservation.recover(None, 1000)
    assert clock.tick(1000) is None, "nothing is handed out without a bound"
    bound = clock.next_bound(1000)
    assert bound == Clock(1000 + clock_reserve_ms - 1, clock_counter_max)
    assert clock.tick(1000) is None, "a bound in flight is no bound"
    clock.bound_written(1000)
    assert clock.tick(1000) == Clock(1000, 1)


def test_an_idle_clock_reserves_nothing() -> None:
    clock = Reservation.recover(Clock(5000, 7), 9000)
    assert not clock.wants_bound
    assert clock.bound == Clock(5000, 7)


def test_ahead_of_the_wall_the_counter_is_reserved() -> None:
    bound = Clock(5000, clock_counter_max)
    clock = Reservation.recover(bound, 4000)
    assert clock.tick(4000) is None
    assert clock.next_bound(4000) == hlc.plus(bound, 1 + clock_reserve_ticks)


def test_the_reserved_counter_doubles_while_it_is_used_up() -> None:
    clock = Reservation.recover(Clock(5000, 0), 4000)
    reserved: list[int] = []
    while len(reserved) < 12:
        before = clock.bound
        tick(clock, 4000)
        if clock.bound != before:
            reserved.append(hlc.ticks_between(clock.last, clock.bound))
    assert reserved[0] == clock_reserve_ticks
    for smaller, larger in pairwise(reserved):
        assert larger == min(2 * smaller, clock_reserve_ticks_max)
    assert reserved[-1] == clock_reserve_ticks_max


def test_a_little_ahead_of_the_wall_the_bound_still_follows_the_wall() -> None:
    """A node whose wall is behind its peers' is adjusted all the time, and must not sync each time."""
    writes = 0
    clock = ticking(1000)
    for wall_ms in range(1000, 3000):
        peer = Clock(wall_ms + 50, 3)
        if clock.adopt(peer, wall_ms) is None:
            pytest.fail(f"moving up to {peer} has to wait")
        writes += write_if_wanted(clock, wall_ms)
    assert writes < 2000 // 50


def test_the_bound_is_never_further_ahead_of_the_wall_than_reserved() -> None:
    clock = ticking(1000)
    for wall_ms in range(1000, 4000, 7):
        tick(clock, wall_ms)
        assert clock.bound.logical - wall_ms < clock_reserve_ms


# When it asks


def test_steady_ticks_never_wait_and_write_ten_times_a_second() -> None:
    clock = ticking(1000)
    writes = 0
    for wall_ms in range(1001, 11_001):
        value = clock.tick(wall_ms)
        assert value == Clock(wall_ms, 0), "a tick had to wait"
        writes += write_if_wanted(clock, wall_ms)
    assert 90 <= writes <= 10 * 1000 // (clock_reserve_ms // 2)


def test_ticks_ahead_of_the_wall_wait_once_and_then_find_their_bound_in_place() -> None:
    clock = Reservation.recover(Clock(5000, 0), 4000)
    tick(clock, 4000)
    for _ in range(10 * clock_reserve_ticks):
        assert clock.tick(4000) is not None, "a tick had to wait"
        write_if_wanted(clock, 4000)


def test_ticks_go_on_while_the_next_bound_is_in_flight() -> None:
    clock = ticking(1000)
    half_ms = clock_reserve_ms // 2
    assert clock.tick(1000 + half_ms) is not None
    assert clock.wants_bound
    assert clock.next_bound(1000 + half_ms) is not None
    for wall_ms in range(1000 + half_ms, 1000 + clock_reserve_ms):
        assert clock.tick(wall_ms) is not None
    assert clock.tick(1000 + clock_reserve_ms) is None, "past the bound"


def test_one_bound_is_in_flight_at_a_time() -> None:
    clock = Reservation.recover(None, 1000)
    clock.tick(1000)
    assert clock.next_bound(1000) is not None
    clock.tick(1000)
    assert not clock.wants_bound
    assert clock.next_bound(2000) is None


def test_a_wall_that_went_back_asks_for_no_bound_it_has_already() -> None:
    clock = ticking(1000)
    clock.tick(1000 + clock_reserve_ms - 1)
    assert clock.wants_bound
    assert clock.next_bound(500) is None
    bound = clock.bound
    for _ in range(100):
        assert clock.tick(500) is not None
        assert not clock.wants_bound
    assert clock.bound == bound


def test_a_failed_bound_is_not_tried_again_before_it_is_needed() -> None:
    clock = ticking(1000)
    half_ms = clock_reserve_ms // 2
    clock.tick(1000 + half_ms)
    assert clock.next_bound(1000 + half_ms) is not None
    clock.bound_failed()
    for wall_ms in range(1000 + half_ms, 1000 + clock_reserve_ms):
        assert clock.tick(wall_ms) is not None
        assert not clock.wants_bound
    assert clock.tick(1000 + clock_reserve_ms) is None
    assert clock.wants_bound


def test_a_failed_bound_forgets_who_waited() -> None:
    clock = ticking(1000)
    assert clock.adopt(Clock(90_000, 0), 1000) is None
    assert clock.next_bound(1000) is not None
    clock.bound_failed()
    clock.tick(1000 + clock_reserve_ms)
    assert clock.next_bound(1000 + clock_reserve_ms) == Clock(
        1000 + 2 * clock_reserve_ms - 1, clock_counter_max
    )


# The same values as the bare arithmetic


@given(st.lists(st.integers(900, 1500) | st.integers(0, 10**6), max_size=60))
def test_the_values_are_those_of_bare_ticks(walls: list[int]) -> None:
    clock, twin = Reservation.recover(None, 1000), Clock(1000, 0)
    for wall_ms in walls:
        twin = hlc.tick(twin, wall_ms)
        assert tick(clock, wall_ms) == twin


@given(st.integers(clock_counter_max - 5, clock_counter_max), st.integers(0, 12))
def test_c05_the_counter_carries_in_the_quick_path_too(counter: int, ticks: int) -> None:
    """A full counter carries, however the ticks came to it."""
    clock = ticking(1000)
    clock.adopt(Clock(1000, counter), 1000)
    values = [tick(clock, 1000) for _ in range(ticks)]
    assert values == [hlc.plus(Clock(1000, counter), step + 1) for step in range(ticks)]


# Adopting


def test_c13_adopting_a_lower_or_equal_clock_changes_nothing() -> None:
    """Nothing moves and nothing has to be written."""
    clock = ticking(1000)
    before = fingerprint(clock)
    for remote in (ZERO, Clock(999, 5), clock.last):
        assert clock.adopt(remote, 1000) == clock.last
    assert fingerprint(clock) == before


def test_the_clock_moves_exactly_to_the_one_that_is_adopted() -> None:
    clock = ticking(1000)
    assert clock.adopt(Clock(1100, 9), 1000) == Clock(1100, 9)
    assert tick(clock, 1000) == Clock(1100, 10)


def test_a_clock_past_the_bound_waits_for_one_that_covers_it() -> None:
    clock = ticking(1000)
    remote = Clock(1000 + clock_drift_ms_max, 3)
    assert clock.adopt(remote, 1000) is None
    assert clock.last < remote
    bound = clock.next_bound(1000)
    assert bound is not None
    assert bound > remote
    clock.bound_written(1000)
    assert clock.adopt(remote, 1000) == remote
    assert clock.demand == ZERO, "nobody waits any more"


def test_what_is_adopted_before_the_first_tick_cannot_lower_the_clock() -> None:
    """It is made durable even if the wall has passed it: the wall may go back, it may not."""
    clock = Reservation.recover(None, 1000)
    assert clock.adopt(Clock(700, 0), 1000) is None
    assert write_if_wanted(clock, 1000)
    assert clock.adopt(Clock(700, 0), 1000) == Clock(1000, 0)
    later = Reservation.recover(clock.bound, 300)
    assert tick(later, 300) > Clock(700, 0)


def test_a_clock_found_in_a_log_is_adopted_however_far_ahead() -> None:
    clock = ticking(1000)
    assert clock.adopt(Clock(90_000, 0), 1000) is None
    assert write_if_wanted(clock, 1000)
    assert clock.adopt(Clock(90_000, 0), 1000) == Clock(90_000, 0)
    assert tick(clock, 1000) == Clock(90_000, 1)


# Starting again


def test_c08_the_first_value_is_above_the_durable_bound() -> None:
    """Up to the bound everything counts as used, whatever the wall says."""
    clock = Reservation.recover(Clock(5000, clock_counter_max), 4000)
    assert tick(clock, 4000) == Clock(5001, 0)


def test_1000_restarts_while_the_wall_stands_still_stay_within_the_reservation() -> None:
    clock = ticking(1000)
    seen = clock.last
    for _ in range(1000):
        clock = Reservation.recover(clock.bound, 1000)
        value = tick(clock, 1000)
        assert value > seen
        seen = value
    assert clock.bound.logical <= 1000 + clock_reserve_ms
    assert clock.drift_ms(1000) <= clock_reserve_ms


def test_restarts_without_a_tick_move_nothing() -> None:
    clock = ticking(1000)
    for _ in range(1000):
        clock = Reservation.recover(clock.bound, 1000)
        assert not clock.wants_bound
    assert clock.bound == Clock(1000 + clock_reserve_ms - 1, clock_counter_max)


def test_what_a_crash_wastes_is_in_proportion_to_what_was_used() -> None:
    clock = Reservation.recover(Clock(5000, 0), 4000)
    for used in range(1, 20 * clock_reserve_ticks):
        tick(clock, 4000)
        wasted = hlc.ticks_between(clock.last, clock.bound)
        assert wasted <= 2 * used + clock_reserve_ticks


# The end of the range


def test_c28_the_last_clock_is_handed_out_and_then_no_more() -> None:
    """At the end of the range a tick is an error, and stays one after a restart."""
    clock = Reservation.recover(Clock(clock_logical_max, clock_counter_max - 2), 1000)
    assert tick(clock, 1000) == Clock(clock_logical_max, clock_counter_max - 1)
    assert clock.bound == END
    assert tick(clock, 1000) == END
    with pytest.raises(ClockExhausted):
        clock.tick(1000)
    with pytest.raises(ClockExhausted):
        Reservation.recover(END, 1000).tick(1000)


def test_a_wall_beyond_the_range_spoils_nothing() -> None:
    clock = ticking(1000)
    beyond_ms = clock_logical_max + 1
    with pytest.raises(ClockExhausted):
        clock.tick(beyond_ms)
    assert clock.adopt(Clock(2000, 0), beyond_ms) is None
    assert clock.next_bound(beyond_ms) == hlc.plus(Clock(2000, 0), clock_reserve_ticks)
    clock.bound_written(beyond_ms)
    assert tick(clock, 1000) == Clock(1000, 2)
    assert Reservation.recover(None, beyond_ms).current == ZERO


# Plain state


def test_a_copy_goes_its_own_way() -> None:
    clock = ticking(1000)
    copy = clone_plain(clock)
    assert fingerprint(copy) == fingerprint(clock)
    before = fingerprint(clock)
    tick(copy, 5000)
    assert fingerprint(clock) == before != fingerprint(copy)


def test_drift_is_the_clock_against_the_wall() -> None:
    clock = ticking(1000)
    assert [clock.drift_ms(wall_ms) for wall_ms in (400, 1000, 4000)] == [600, 0, -3000]


def test_broken_rules_are_named() -> None:
    clock = ticking(1000)
    clock.last = hlc.plus(clock.bound, 1)
    clock.wanted = ZERO
    clock.counter_free = -1
    assert [violation.invariant for violation in clock.invariants()] == ["K2", "K3"]
    clock = ticking(1000)
    clock.last, clock.bound, clock.counter_free = Clock(5, 1), Clock(5, 3), 4
    assert [violation.invariant for violation in clock.invariants()] == ["K4"]


# A slow disk


def test_a_disk_that_is_slower_than_its_bounds_delays_ticks_and_does_not_starve_them() -> None:
    """Each bound takes 400 ms, twice as long as it is good for: every other look finds a value."""
    clock, wall_ms, values = ticking(1000), 1000, []
    for _ in range(20):
        value = clock.tick(wall_ms)
        if value is not None:
            values.append(value)
        if clock.wants_bound and clock.next_bound(wall_ms) is not None:
            wall_ms += 400
            clock.bound_written(wall_ms)
        assert clock.invariants() == []
    assert len(values) >= 10
    assert all(low < high for low, high in pairwise(values))
    assert wall_ms - values[-1].logical <= clock_lag_ms_max


def test_a_clock_does_not_lag_because_it_was_idle() -> None:
    clock = ticking(1000)
    later_ms = 1000 + clock_reserve_ms + 100
    assert clock.tick(later_ms) is None, "the disk was quick: a new bound is soon there"
    assert tick(clock, later_ms) == Clock(later_ms, 0)


def test_a_clock_that_was_late_lags_only_so_far() -> None:
    clock = ticking(1000)
    assert clock.tick(1500) is None
    bound = clock.next_bound(1500)
    assert bound is not None
    clock.bound_written(bound.logical + 1)
    assert clock.tick(bound.logical + clock_lag_ms_max) == Clock(bound.logical, 0)
    assert clock.tick(bound.logical + clock_lag_ms_max + 1) is None
