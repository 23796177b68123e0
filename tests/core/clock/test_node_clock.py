"""The clock of one node: what it answers, when it waits, and what it survives."""

from __future__ import annotations

import pytest
from tests.core.clock.harness import CLIENT, NODE, Bench

from motet.core.clock import hlc
from motet.core.clock.bound_file import encode_bound
from motet.core.clock.hlc import END, ZERO, Clock
from motet.core.clock.messages import (
    Adjusted,
    Adopt,
    ClockRefused,
    PingClock,
    ReadClock,
    Tick,
    Ticked,
)
from motet.core.clock.node_clock import NodeClock, Waiting
from motet.core.machine import Now, Read, ReadBack, ReadFailed, Received, Send, Started
from motet.ids import RequestId
from motet.limits import (
    clock_counter_max,
    clock_drift_ms_max,
    clock_logical_max,
    clock_reserve_ms,
    clock_waiting_max,
)


def test_c04_a_fresh_clock_is_at_the_wall_and_ticks() -> None:
    """With the wall at 1000, a clock that has never ticked is (1000,0), and counts up from there."""
    bench = Bench(1000)
    assert bench.read().clock == Clock(1000, 0)
    assert [bench.tick() for _ in range(3)] == [Clock(1000, 1), Clock(1000, 2), Clock(1000, 3)]


def test_c06_the_clock_follows_the_wall() -> None:
    """When the wall has passed the clock, the next value is the wall's."""
    bench = Bench(1000)
    bench.tick()
    bench.wall_ms = 2000
    assert bench.tick() == Clock(2000, 0)


def test_c07_ticks_go_on_above_the_last_when_the_wall_steps_back() -> None:
    """A wall that steps back does not take the clock with it."""
    bench = Bench(1000)
    last = bench.tick()
    bench.wall_ms = 500
    assert [bench.tick() for _ in range(2)] == [Clock(1000, 2), Clock(1000, 3)]
    assert last == Clock(1000, 1)


def test_c08_a_restart_behind_the_bound_starts_above_it_and_says_so() -> None:
    """With 5000 used up and the wall at 4000, the first value is (5001,0), and a note is made."""
    bench = Bench(4000, encode_bound(Clock(5000, clock_counter_max)))
    assert [note.what for note in bench.notes] == ["clock_drifted_backwards"]
    assert "5000" in bench.notes[0].detail
    assert bench.tick() == Clock(5001, 0)


def test_c08_a_restart_with_the_wall_past_the_bound_says_nothing() -> None:
    """The usual case: the wall has moved on, and the clock starts at it."""
    bench = Bench(6000, encode_bound(Clock(5000, clock_counter_max)))
    assert bench.notes == []
    assert bench.read().clock == Clock(6000, 0)
    assert bench.tick() == Clock(6000, 1)


def test_c09_a_clock_that_never_ticked_starts_at_the_wall_again() -> None:
    """A restart before the first tick finds nothing, and has written nothing."""
    bench = Bench(1000)
    bench.wall_ms = 700
    bench.crash()
    assert bench.file == b""
    assert bench.read().clock == Clock(700, 0)
    assert bench.tick() == Clock(700, 1)


@pytest.mark.parametrize("kept", [True, False])
def test_c10_no_value_repeats_after_kill_9(kept: bool) -> None:
    """Whether or not the write in flight survives, everything is above what was handed out before."""
    bench = Bench(1000)
    handed_out = [bench.tick()]
    bench.wall_ms = 1000 + clock_reserve_ms // 2
    bench.ask_tick()
    assert bench.in_flight is not None, (
        "the next bound is on its way, and the tick did not wait for it"
    )
    answer = bench.answers[-1]
    assert isinstance(answer, Ticked)
    handed_out.append(answer.clock)
    bench.wall_ms = 300
    bench.crash(kept=kept)
    assert bench.tick() > max(handed_out)


def test_c10_a_tick_that_waits_for_its_bound_is_not_handed_out_before() -> None:
    """A crash before the bound is durable takes the unanswered tick with it."""
    bench = Bench(1000)
    assert bench.ask_tick() is None
    bench.crash()
    assert bench.answers == []


def test_c13_an_adjust_to_a_lower_or_equal_clock_writes_nothing() -> None:
    """The answer is the clock as it is, and the disk is left alone."""
    bench = Bench(1000)
    last = bench.tick()
    writes = bench.writes
    for remote in (ZERO, Clock(999, 9), last):
        answer = bench.ask_adjust(remote)
        assert isinstance(answer, Adjusted)
        assert answer.clock == last
    assert (bench.writes, bench.in_flight) == (writes, None)


def test_c17_a_value_thrown_away_is_not_handed_out_again() -> None:
    """A transaction that rolls back has used its clock: the next value is another one."""
    bench = Bench(1000)
    thrown_away = bench.tick()
    assert bench.tick() > thrown_away
    bench.crash()
    assert bench.tick() > thrown_away


def test_c28_at_the_end_of_the_range_ticks_are_refused() -> None:
    """The last clock can be reached, never passed."""
    bench = Bench(1000, encode_bound(END))
    refused = bench.refusal(bench.ask_tick())
    assert refused.code == "CLOCK_EXHAUSTED"
    assert bench.read().clock == END
    assert bench.in_flight is None


def test_a_wall_beyond_the_range_refuses_ticks_until_it_is_set_right() -> None:
    bench = Bench(1000)
    bench.tick()
    bench.wall_ms = clock_logical_max + 1
    assert bench.refusal(bench.ask_tick()).code == "CLOCK_EXHAUSTED"
    bench.wall_ms = 1000
    assert bench.tick() == Clock(1000, 2)


# Adjusting


def test_an_adjust_is_answered_when_a_bound_covers_it() -> None:
    bench = Bench(1000)
    bench.tick()
    remote = Clock(1000 + clock_drift_ms_max, 5)
    assert bench.ask_adjust(remote) is None
    assert bench.in_flight is not None
    bench.written()
    answer = bench.answers[-1]
    assert isinstance(answer, Adjusted)
    assert answer.clock == remote
    bench.wall_ms = 10
    bench.crash()
    assert bench.tick() > remote


def test_ticks_below_the_bound_do_not_wait_for_an_adjust() -> None:
    bench = Bench(1000)
    bench.tick()
    bench.ask_adjust(Clock(1000 + clock_drift_ms_max, 5))
    assert isinstance(bench.ask_tick(), Ticked)


def test_a_clock_too_far_ahead_is_refused_and_changes_nothing() -> None:
    bench = Bench(1000)
    bench.tick()
    before = bench.clock.fingerprint()
    refused = bench.refusal(bench.ask_adjust(Clock(1001 + clock_drift_ms_max, 0)))
    assert refused.code == "CLOCK_DRIFT"
    assert "wall clock" in refused.advice
    assert bench.clock.fingerprint() == before


def test_a_clock_outside_the_range_is_refused() -> None:
    bench = Bench(clock_logical_max)
    refused = bench.refusal(bench.ask_adjust(Clock(clock_logical_max + 1, 0)))
    assert refused.code == "BAD_CLOCK"


def test_a_clock_of_our_own_log_is_adopted_however_far_ahead() -> None:
    bench = Bench(1000)
    bench.ask_adopt(Clock(90_000, 0))
    bench.written()
    answer = bench.answers[-1]
    assert isinstance(answer, Adjusted)
    assert answer.clock == Clock(90_000, 0)
    assert bench.read().drift_ms == 89_000


def test_nobody_else_knows_what_is_in_our_log() -> None:
    bench = Bench(1000)
    refused = bench.refusal(bench.ask(Adopt(RequestId(1), Clock(90_000, 0)), CLIENT))
    assert refused.code == "BAD_INPUT"
    assert bench.in_flight is None


# Reading


def test_a_reading_shows_clock_drift_and_bound_and_moves_nothing() -> None:
    bench = Bench(1000)
    bench.tick()
    before = bench.clock.fingerprint()
    bench.wall_ms = 1300
    reading = bench.read()
    assert (reading.clock, reading.drift_ms, reading.bound) == (Clock(1000, 1), -300, bench.bound)
    assert bench.clock.fingerprint() == before


# The disk


def test_a_full_disk_refuses_those_that_wait_and_leaves_the_clock_where_it_is() -> None:
    bench = Bench(1000)
    last = bench.tick()
    bench.wall_ms = 5000
    assert bench.ask_tick() is None
    assert bench.ask_adjust(Clock(5100, 0)) is None
    bench.write_failed()
    for answer in bench.answers[-2:]:
        assert bench.refusal(answer).code == "DISK_FULL"
    assert bench.read().clock == last
    assert bench.tick() == Clock(5000, 0), "there is room again"


def test_a_disk_slower_than_the_reservation_delays_ticks_and_does_not_starve_them() -> None:
    bench = Bench(1000)
    ticked = 0
    for _ in range(10):
        bench.ask_tick()
        bench.wall_ms += 10 * clock_reserve_ms
        before = len(bench.answers)
        bench.written()
        ticked += len(bench.answers) - before
    bench.finish_writes()
    assert len(bench.answers) == 10
    assert ticked >= 9
    clocks = [answer.clock for answer in bench.answers if isinstance(answer, Ticked)]
    assert clocks == sorted(clocks)
    assert len(clocks) == 10


def test_a_full_queue_says_so() -> None:
    bench = Bench(1000)
    for _ in range(clock_waiting_max):
        assert bench.ask_tick() is None
    assert bench.refusal(bench.ask_tick()).code == "CLOCK_BUSY"
    assert bench.read().clock == Clock(1000, 0), "a reading never waits"
    bench.finish_writes()
    served = [answer for answer in bench.answers if isinstance(answer, Ticked)]
    assert len({answer.clock for answer in served}) == clock_waiting_max


@pytest.mark.parametrize("damage", ["flipped", "torn", "prolonged", "foreign", "unreadable"])
def test_a_damaged_bound_is_never_taken_for_a_clock_that_has_not_ticked(damage: str) -> None:
    """Such a clock hands out nothing, and says what is wrong and what to do."""
    good = encode_bound(Clock(5000, 7))
    files = {
        "flipped": good[:9] + bytes([good[9] ^ 1]) + good[10:],
        "torn": good[:11],
        "prolonged": good + b"\x00" * 1000,
        "foreign": b"hello",
    }
    bench = Bench(1000, files.get(damage, good)) if damage in files else Bench(1000)
    if damage == "unreadable":
        bench.file = good
        bench.start(readable=False)
    assert bench.clock.phase == "broken"
    assert [note.what for note in bench.notes] == ["clock_broken"]
    for answer in (
        bench.ask_tick(),
        bench.ask_adjust(Clock(1000, 5)),
        bench.ask(ReadClock(RequestId(9))),
    ):
        refused = bench.refusal(answer)
        assert refused.code == ("DISK_READ" if damage == "unreadable" else "BAD_RECORD")
        assert "clock-bound" in refused.what
        assert "keep the file" in refused.advice
    assert bench.in_flight is None


# Starting


def starting() -> tuple[NodeClock, Read]:
    clock = NodeClock(NODE)
    (read,) = clock.step(Started(Now(0, 0), nonce=1))
    assert isinstance(read, Read)
    return clock, read


def test_requests_that_come_before_the_bound_is_read_are_answered_after() -> None:
    clock, read = starting()
    now = Now(0, 1_000_000_000)
    assert clock.step(Received(now, CLIENT, ReadClock(RequestId(3)))) == []
    assert clock.invariants() == []
    effects = clock.step(ReadBack(now, read.id, encode_bound(Clock(1, 1))))
    (answer,) = [effect.message for effect in effects if isinstance(effect, Send)]
    assert (answer.request, answer.clock) == (3, Clock(1000, 0))  # type: ignore[attr-defined]


def test_requests_that_wait_for_an_unreadable_bound_are_refused() -> None:
    clock, read = starting()
    clock.step(Received(Now(0, 0), CLIENT, Tick(RequestId(3))))
    effects = clock.step(ReadFailed(Now(0, 0), read.id, "the disk is gone"))
    (answer,) = [effect.message for effect in effects if isinstance(effect, Send)]
    assert isinstance(answer, ClockRefused)
    assert clock.invariants() == []


def test_the_queue_is_bounded_before_the_bound_is_read_too() -> None:
    clock, _ = starting()
    for request in range(clock_waiting_max):
        assert clock.step(Received(Now(0, 0), CLIENT, Tick(RequestId(request)))) == []
    (refused,) = clock.step(Received(Now(0, 0), CLIENT, Tick(RequestId(9))))
    assert isinstance(refused, Send)
    assert isinstance(refused.message, ClockRefused)
    assert refused.message.code == "CLOCK_BUSY"


def test_a_message_that_is_no_request_is_noted_and_ignored() -> None:
    bench = Bench(1000)
    before = bench.clock.fingerprint()
    bench.step(Received(bench.now, CLIENT, PingClock(1, 1)))
    assert bench.notes[-1].what == "clock_ignored"
    assert bench.clock.fingerprint() == before


def test_1000_restarts_with_a_tick_each_stay_within_the_reservation() -> None:
    bench = Bench(1000)
    handed_out = [bench.tick()]
    for _ in range(1000):
        bench.crash()
        handed_out.append(bench.tick())
    assert handed_out == sorted(set(handed_out))
    assert bench.read().drift_ms <= clock_reserve_ms
    assert bench.bound.logical <= 1000 + clock_reserve_ms


# Plain state


def test_a_copy_goes_its_own_way() -> None:
    bench = Bench(1000)
    bench.ask_tick()
    copy, before = bench.clock.clone(), bench.clock.fingerprint()
    assert copy.fingerprint() == before
    copy.step(Received(bench.now, CLIENT, Tick(RequestId(77))))
    assert bench.clock.fingerprint() == before != copy.fingerprint()


def test_equal_histories_have_equal_fingerprints() -> None:
    def history() -> bytes:
        bench = Bench(1000)
        bench.tick()
        bench.adjust(Clock(1300, 1))
        return bench.clock.fingerprint()

    assert history() == history()


def named(clock: NodeClock) -> list[str]:
    return [violation.invariant for violation in clock.invariants()]


def test_broken_rules_are_named() -> None:
    bench = Bench(1000)
    bench.tick()
    fallen = bench.clock.clone()
    fallen.promised = hlc.plus(fallen.reservation.last, 1)
    assert named(fallen) == ["K1"]
    forgotten = bench.clock.clone()
    forgotten.waiting = [Waiting(CLIENT, Tick(RequestId(1)), 1000)]
    assert named(forgotten) == ["K5"]
    unwritten = bench.clock.clone()
    unwritten.reservation.wanted = END
    assert named(unwritten) == ["K6"]
    broken = Bench(1000, b"hello").clock
    broken.promised = Clock(1, 1)
    assert named(broken) == ["K7"]
