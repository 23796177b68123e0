"""The clock of a data node under crashes at any point and a wall that jumps: no value repeats or falls."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.core.streams.clock_bench import ClockBench

from motet.core.clock.hlc import ZERO, Clock
from motet.core.fingerprint import clone_plain, fingerprint
from motet.errors import ClockDrift
from motet.limits import (
    clock_counter_max,
    clock_drift_ms_max,
    clock_reserve_ms,
    clock_reserve_ticks,
)

counters = st.sampled_from([0, 1, clock_counter_max - 1, clock_counter_max])
offsets_ms = st.integers(-clock_drift_ms_max, clock_drift_ms_max)


class CrashingClock(RuleBasedStateMachine):
    """Everything that can happen to the clock of one node, in any order."""

    @initialize(wall_ms=st.integers(0, 3000))
    def begin(self, wall_ms: int) -> None:
        self.bench = ClockBench(wall_ms)
        #: the highest clock that somebody has seen, over all incarnations
        self.highest = ZERO

    def take(self, floor: Clock = ZERO) -> None:
        value = self.bench.ask(floor)
        if value is not None:
            assert value > max(self.highest, floor), "K1"
            assert value <= self.bench.bound, "K2"
            self.highest = value

    @rule(count=st.sampled_from([1, 1, 1, 1, 1, 5, 5, clock_reserve_ticks + 10]))
    def tick(self, count: int) -> None:
        for _ in range(count):
            self.take()

    @rule(offset_ms=offsets_ms, counter=counters)
    def offer(self, offset_ms: int, counter: int) -> None:
        seen = Clock(max(0, self.bench.wall_ms + offset_ms), counter)
        self.bench.clock.check(seen, self.bench.wall_ms)
        self.take(seen)

    @rule(ahead_ms=st.integers(1, 10**6), counter=counters)
    def offer_too_much(self, ahead_ms: int, counter: int) -> None:
        clock, wall_ms = self.bench.clock, self.bench.wall_ms
        seen = Clock(clock.ceiling_ms(wall_ms) + ahead_ms, counter)
        before = fingerprint(clock)
        try:
            clock.check(seen, wall_ms)
        except ClockDrift:
            assert seen > clock.current
        else:
            assert seen <= clock.current, "it cannot move us"
        assert fingerprint(clock) == before

    @rule(offset_ms=st.integers(-2000, 5000), counter=counters)
    def find_in_a_log(self, offset_ms: int, counter: int) -> None:
        found = Clock(max(0, self.bench.wall_ms + offset_ms), counter)
        self.bench.clock.find(found)
        self.take(found)

    @rule(passed_ms=st.sampled_from([1, 10, clock_reserve_ms // 2, clock_reserve_ms, 5000]))
    def let_time_pass(self, passed_ms: int) -> None:
        self.bench.wall_ms += passed_ms

    @rule(wall_ms=st.integers(0, 20_000))
    def jump(self, wall_ms: int) -> None:
        self.bench.wall_ms = wall_ms

    @precondition(lambda self: self.bench.in_flight is not None)
    @rule()
    def write(self) -> None:
        self.bench.written()

    @precondition(lambda self: self.bench.in_flight is not None)
    @rule()
    def fail_to_write(self) -> None:
        self.bench.write_failed()

    @rule(kept=st.booleans())
    def crash(self, kept: bool) -> None:
        self.bench.crash(kept=kept)

    @invariant()
    def a_copy_is_the_same(self) -> None:
        assert fingerprint(clone_plain(self.bench.clock)) == fingerprint(self.bench.clock)

    @invariant()
    def the_clock_is_above_what_was_seen(self) -> None:
        assert self.bench.clock.current >= self.highest

    def teardown(self) -> None:
        """With a disk that works, there is always a next clock."""
        if hasattr(self, "bench"):
            assert self.bench.tick() > self.highest


TestCrashingClock = CrashingClock.TestCase
TestCrashingClock.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
