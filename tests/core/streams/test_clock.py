"""The clock of a data node: what it hands out, what it refuses, when it waits, and what it survives."""

from __future__ import annotations

import pytest
from tests.core.streams.clock_bench import ClockBench
from tests.core.streams.test_gathered import CLIENT, NOW, SHARD, Lone

from motet.core.clock import hlc
from motet.core.clock.hlc import END, ZERO, Clock
from motet.core.clock.node_clock import DataClock
from motet.core.clock.reservation import encode_bound
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import Fired, Received
from motet.core.streams import appends
from motet.core.streams.entries import Chunk
from motet.core.streams.messages import AppendRecords, DataRefused, RecordsAppended
from motet.core.streams.node import CUT_TIMER
from motet.errors import BadRecord, ClockDrift, ClockExhausted
from motet.format.record_block import encode_block
from motet.ids import RequestId, WriteId
from motet.limits import (
    clock_counter_max,
    clock_drift_ms_max,
    clock_lag_ms_max,
    clock_logical_max,
    clock_reserve_ms,
)


def test_c04_a_fresh_clock_is_at_the_wall_and_ticks() -> None:
    """With the wall at 1000, a clock that has never ticked is (1000,0), and counts up from there."""
    bench = ClockBench(1000)
    assert bench.clock.current == Clock(1000, 0)
    assert [bench.tick() for _ in range(3)] == [Clock(1000, 1), Clock(1000, 2), Clock(1000, 3)]


def test_c06_the_clock_follows_the_wall() -> None:
    """When the wall has passed the clock, the next value is the wall's."""
    bench = ClockBench(1000)
    bench.tick()
    bench.wall_ms = 2000
    assert bench.tick() == Clock(2000, 0)


def test_c07_ticks_go_on_above_the_last_when_the_wall_steps_back() -> None:
    """A wall that steps back does not take the clock with it."""
    bench = ClockBench(1000)
    last = bench.tick()
    bench.wall_ms = 500
    assert [bench.tick() for _ in range(2)] == [Clock(1000, 2), Clock(1000, 3)]
    assert last == Clock(1000, 1)


def test_c08_a_restart_behind_the_bound_starts_above_it_and_can_say_so() -> None:
    """With 5000 used up and the wall at 4000, the first value is (5001,0)."""
    bench = ClockBench(4000, encode_bound(Clock(5000, clock_counter_max)))
    assert bench.clock.bound_ahead_ms(4000) == 1000
    assert bench.tick() == Clock(5001, 0)


@pytest.mark.parametrize("wall_ms", [5000 - clock_reserve_ms, 6000])
def test_c08_a_restart_that_nothing_is_wrong_with_is_not_worth_a_notice(wall_ms: int) -> None:
    """The bound is as far ahead as a clock reserves, or the wall has passed it."""
    bench = ClockBench(wall_ms, encode_bound(Clock(5000, clock_counter_max)))
    assert bench.clock.bound_ahead_ms(wall_ms) is None
    assert bench.tick() == max(Clock(5001, 0), Clock(wall_ms, 1))


def test_c09_a_clock_that_never_ticked_starts_at_the_wall_again() -> None:
    """A restart before the first tick finds nothing, and has written nothing."""
    bench = ClockBench(1000)
    bench.wall_ms = 700
    bench.crash()
    assert bench.file == b""
    assert bench.clock.current == Clock(700, 0)
    assert bench.tick() == Clock(700, 1)


@pytest.mark.parametrize("kept", [True, False])
def test_c10_no_value_repeats_after_kill_9(kept: bool) -> None:
    """Whether or not the write in flight survives, everything is above what was handed out before."""
    bench = ClockBench(1000)
    first = bench.tick()
    bench.wall_ms = 1000 + clock_reserve_ms // 2
    second = bench.ask()
    assert second is not None
    assert second > first
    assert bench.in_flight is not None, "the next bound is on its way, and the tick does not wait"
    bench.wall_ms = 300
    bench.crash(kept=kept)
    assert bench.tick() > second


def test_c10_a_tick_is_not_handed_out_before_its_bound_is_durable() -> None:
    """A crash before that takes the tick with it: nobody has seen it."""
    bench = ClockBench(1000)
    assert bench.ask() is None
    assert bench.ask() is None
    bench.written()
    assert bench.ask() == Clock(1000, 1)


def test_c13_a_lower_or_equal_clock_writes_nothing() -> None:
    """What a client or a peer has seen moves the clock only if it is higher."""
    bench = ClockBench(1000)
    last = bench.tick()
    writes = bench.writes
    for seen in (ZERO, Clock(999, 9), last):
        last = hlc.plus(last, 1)
        assert bench.ask(seen) == last
    assert (bench.writes, bench.in_flight) == (writes, None)


def test_c17_a_value_thrown_away_is_not_handed_out_again() -> None:
    """A transaction that rolls back has used its clock: the next value is another one."""
    bench = ClockBench(1000)
    thrown_away = bench.tick()
    assert bench.tick() > thrown_away
    bench.crash()
    assert bench.tick() > thrown_away


def test_c28_at_the_end_of_the_range_there_is_an_error() -> None:
    """The last clock can be reached, never passed, and a restart does not help."""
    bench = ClockBench(1000, encode_bound(END))
    with pytest.raises(ClockExhausted):
        bench.ask()
    assert (bench.clock.current, bench.in_flight) == (END, None)
    bench.crash()
    with pytest.raises(ClockExhausted):
        bench.ask()


def test_c28_a_wall_beyond_the_range_gives_no_clock_until_it_is_set_right() -> None:
    """And then nothing is left of it."""
    bench = ClockBench(1000)
    bench.tick()
    bench.wall_ms = clock_logical_max + 1
    with pytest.raises(ClockExhausted):
        bench.ask()
    bench.wall_ms = 1000
    assert bench.tick() == Clock(1000, 2)


# Clocks of others


def test_a_clock_that_was_seen_is_passed_when_a_bound_covers_it() -> None:
    bench = ClockBench(1000)
    bench.tick()
    seen = Clock(1000 + clock_drift_ms_max, 5)
    assert bench.ask(seen) is None
    bench.written()
    assert bench.ask(seen) == Clock(1000 + clock_drift_ms_max, 6)
    bench.wall_ms = 10
    bench.crash()
    assert bench.tick() > seen


def test_ticks_below_the_bound_do_not_wait_for_one_above_it() -> None:
    bench = ClockBench(1000)
    bench.tick()
    assert bench.ask(Clock(1000 + clock_drift_ms_max, 5)) is None
    assert bench.ask() == Clock(1000, 2)


def test_a_clock_too_far_ahead_is_refused_and_changes_nothing() -> None:
    bench = ClockBench(1000)
    bench.tick()
    before = fingerprint(bench.clock)
    bench.clock.check(Clock(1000 + clock_drift_ms_max, 0), 1000)
    with pytest.raises(ClockDrift, match="501 ms ahead of the cluster's time") as caught:
        bench.clock.check(Clock(1001 + clock_drift_ms_max, 0), 1000)
    assert "wall clock is wrong" in caught.value.advice
    assert fingerprint(bench.clock) == before


def test_a_far_clock_that_we_have_passed_ourselves_is_no_drift() -> None:
    bench = ClockBench(90_000)
    last = bench.tick()
    bench.clock.check(last, wall_ms=1000)


def test_a_clock_found_on_disk_is_passed_however_far_ahead() -> None:
    """It has happened: nobody refuses it, nor what follows closely from it."""
    bench = ClockBench(1000)
    bench.clock.find(Clock(90_000, 0))
    bench.clock.check(Clock(90_000 + clock_drift_ms_max, 0), 1000)
    with pytest.raises(ClockDrift):
        bench.clock.check(Clock(90_001 + clock_drift_ms_max, 0), 1000)
    assert bench.tick(Clock(90_000, 0)) == Clock(90_000, 1)
    assert bench.clock.found_ahead(1000) == Clock(90_000, 0)


def test_no_clock_is_handed_out_before_the_time_is_known() -> None:
    bench = ClockBench(1000)
    bench.clock.has_time = False
    assert bench.ask() is None
    assert bench.in_flight is None
    bench.clock.has_time = True
    assert bench.tick() == Clock(1000, 1)


# The disk


def test_a_full_disk_leaves_the_clock_where_it_is() -> None:
    bench = ClockBench(1000)
    last = bench.tick()
    bench.wall_ms = 5000
    assert bench.ask() is None
    bench.write_failed()
    assert bench.clock.current == last
    assert bench.tick() == Clock(5000, 0), "there is room again"


def test_a_disk_slower_than_the_reservation_delays_ticks_and_does_not_starve_them() -> None:
    """The wall has passed each bound when it is durable: ticks then lag behind the wall, in bounds."""
    bench = ClockBench(1000)
    values = []
    for _ in range(20):
        value = bench.ask()
        if value is not None:
            values.append(value)
            assert bench.wall_ms - value.logical <= clock_lag_ms_max
        if bench.in_flight is not None:
            bench.wall_ms += 2 * clock_reserve_ms
            bench.written()
    assert len(values) >= 10
    assert values == sorted(set(values))


GOOD = encode_bound(Clock(5000, 7))


@pytest.mark.parametrize(
    "damaged",
    [GOOD[:9] + bytes([GOOD[9] ^ 1]) + GOOD[10:], GOOD[:11], GOOD + bytes(1000), b"hello"],
    ids=["flipped", "torn", "prolonged", "foreign"],
)
def test_a_damaged_bound_is_never_taken_for_a_clock_that_has_not_ticked(damaged: bytes) -> None:
    """Such a clock hands out nothing, and says what is wrong and what to do."""
    clock = DataClock()
    with pytest.raises(BadRecord, match="clock-bound is damaged") as caught:
        clock.recover(damaged, 1000)
    assert "keep the file" in caught.value.advice
    assert clock.tick_above(ZERO, 1000) is None
    assert not clock.wants_bound


def test_1000_restarts_with_a_tick_each_stay_within_the_reservation() -> None:
    bench = ClockBench(1000)
    handed_out = [bench.tick()]
    for _ in range(1000):
        bench.crash()
        handed_out.append(bench.tick())
    assert handed_out == sorted(set(handed_out))
    assert hlc.drift_ms(bench.clock.current, 1000) <= clock_reserve_ms
    assert bench.bound.logical <= 1000 + clock_reserve_ms


# Plain state


def test_a_copy_goes_its_own_way() -> None:
    bench = ClockBench(1000)
    bench.tick()
    copy, before = clone_plain(bench.clock), fingerprint(bench.clock)
    assert fingerprint(copy) == before
    copy.tick_above(ZERO, 1000)
    assert fingerprint(bench.clock) == before != fingerprint(copy)


def test_broken_rules_are_named() -> None:
    bench = ClockBench(1000)
    bench.tick()
    unwritten, forgotten = clone_plain(bench.clock), clone_plain(bench.clock)
    assert unwritten.reservation is not None
    unwritten.reservation.wanted = END
    forgotten.write = WriteId(7)
    for clock in (unwritten, forgotten):
        assert [violation.invariant for violation in clock.invariants()] == ["K5"]


# Who waits for it


def test_a_full_queue_says_so_while_the_bound_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends wait for the first clock of a node, so many; one more is refused, the others get theirs."""
    monkeypatch.setattr(appends, "appends_waiting_max", 3)
    lone = Lone()
    chunk = Chunk(1, None, encode_block([b"k"], [b"v"]))
    for number in range(4):
        append = AppendRecords(RequestId(number), ZERO, SHARD, (chunk,))
        lone.step(Received(NOW, CLIENT, append))
        lone.step(Fired(NOW, CUT_TIMER))
    assert list(lone.answers) == [3]
    refused = lone.answers[3]
    assert isinstance(refused, DataRefused)
    assert "too many appends wait" in refused.what
    lone.finish()
    appended = [lone.answers[number] for number in range(3)]
    assert all(isinstance(answer, RecordsAppended) for answer in appended)
