"""A node clock under crashes at any point and a wall that jumps: no value ever repeats or falls."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.core.clock.harness import Bench

from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.messages import Adjusted, ClockRefused, Ticked
from motet.core.fingerprint import fingerprint
from motet.limits import (
    clock_counter_max,
    clock_drift_ms_max,
    clock_reserve_ms,
    clock_reserve_ticks,
    clock_waiting_max,
)

counters = st.sampled_from([0, 1, clock_counter_max - 1, clock_counter_max])
offsets_ms = st.integers(-clock_drift_ms_max, clock_drift_ms_max)


class CrashingClock(RuleBasedStateMachine):
    """Everything that can happen to one node clock, in any order."""

    @initialize(wall_ms=st.integers(0, 3000))
    def begin(self, wall_ms: int) -> None:
        self.bench = Bench(wall_ms)
        #: the highest clock that somebody may rely on, over all incarnations
        self.highest = ZERO
        self.handed_out: set[Clock] = set()
        self.seen = 0

    def look_at_answers(self) -> None:
        for answer in self.bench.answers[self.seen :]:
            if isinstance(answer, Ticked):
                assert answer.clock > self.highest, "K1"
                assert answer.clock not in self.handed_out
                self.handed_out.add(answer.clock)
                self.highest = answer.clock
            elif isinstance(answer, Adjusted):
                assert answer.clock <= self.bench.bound, "K2"
                self.highest = max(self.highest, answer.clock)
        self.seen = len(self.bench.answers)

    @rule(count=st.sampled_from([1, 1, 1, 1, 1, 5, 5, clock_reserve_ticks + 10]))
    def tick(self, count: int) -> None:
        room = clock_waiting_max - len(self.bench.clock.waiting) - 1
        for _ in range(min(count, room)):
            self.bench.ask_tick()
            self.look_at_answers()

    @rule(offset_ms=offsets_ms, counter=counters)
    def adjust(self, offset_ms: int, counter: int) -> None:
        remote = Clock(max(0, self.bench.wall_ms + offset_ms), counter)
        answer = self.bench.ask_adjust(remote)
        if isinstance(answer, Adjusted):
            assert answer.clock >= remote
        self.look_at_answers()

    @rule(ahead_ms=st.integers(1, 10**6), counter=counters)
    def offer_too_much(self, ahead_ms: int, counter: int) -> None:
        remote = Clock(self.bench.wall_ms + clock_drift_ms_max + ahead_ms, counter)
        clock = self.bench.clock.reservation
        before = fingerprint(clock)
        answer = self.bench.ask_adjust(remote)
        assert isinstance(answer, ClockRefused) == (remote > clock.last)
        assert fingerprint(clock) == before
        self.look_at_answers()

    @rule(offset_ms=st.integers(-2000, 5000), counter=counters)
    def adopt(self, offset_ms: int, counter: int) -> None:
        self.bench.ask_adopt(Clock(max(0, self.bench.wall_ms + offset_ms), counter))
        self.look_at_answers()

    @rule()
    def read(self) -> None:
        before = self.bench.clock.fingerprint()
        reading = self.bench.read()
        assert reading.clock >= self.highest
        assert self.bench.clock.fingerprint() == before
        self.seen = len(self.bench.answers)

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
        self.look_at_answers()

    @precondition(lambda self: self.bench.in_flight is not None)
    @rule()
    def fail_to_write(self) -> None:
        waiting, seen = len(self.bench.clock.waiting), len(self.bench.answers)
        self.bench.write_failed()
        refusals = self.bench.answers[seen:]
        assert len(refusals) == waiting
        assert all(isinstance(answer, ClockRefused) for answer in refusals)
        self.look_at_answers()

    @rule(kept=st.booleans())
    def crash(self, kept: bool) -> None:
        self.bench.crash(kept=kept)

    @invariant()
    def a_copy_is_the_same(self) -> None:
        clock = self.bench.clock
        assert clock.clone().fingerprint() == clock.fingerprint()

    @invariant()
    def whoever_waits_is_waited_for(self) -> None:
        assert not self.bench.clock.waiting or self.bench.in_flight is not None

    def teardown(self) -> None:
        """With a disk that works, everybody who still waits is served."""
        if not hasattr(self, "bench"):
            return
        self.bench.finish_writes()
        self.look_at_answers()
        assert self.bench.clock.waiting == []


TestCrashingClock = CrashingClock.TestCase
TestCrashingClock.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
