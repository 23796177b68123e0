"""The wall time a cluster agrees on: liars, uneven delays, jumps, silence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock.cluster_time import (
    ClusterTime,
    PongClock,
    epoch_ms_max,
    wall_error_ms,
    window_ms_max,
    window_ms_min,
)
from motet.core.clock.marzullo import Interval
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import NS_PER_MS, Now
from motet.ids import NodeId

NONCE = 5
REPLICAS = tuple(NodeId(f"n{number}") for number in range(1, 8))
OWN, PEER, OTHER = REPLICAS[:3]
#: when the true time and all honest walls of the plain cases begin
EPOCH_MS = 1_700_000_000_000


def at(elapsed_ms: int, wall_ahead_ms: int = 0) -> Now:
    """The clocks of a machine whose wall is so far ahead of the true time."""
    return Now(elapsed_ms * NS_PER_MS, (EPOCH_MS + elapsed_ms + wall_ahead_ms) * NS_PER_MS)


def cluster_of(replicas: int, wall_ahead_ms: int = 0) -> ClusterTime:
    return ClusterTime.begin(OWN, REPLICAS[:replicas], NONCE, at(0, wall_ahead_ms))


def exchange(
    time: ClusterTime,
    peer: NodeId,
    sent_ms: int,
    *,
    ahead_ms: int = 0,
    there_ms: int = 1,
    back_ms: int = 1,
) -> bool:
    """A ping and its pong; the peer's wall is so far ahead of the true time."""
    pong = PongClock(NONCE, sent_ms * NS_PER_MS, at(sent_ms + there_ms, ahead_ms).wall_ns)
    return time.learn(peer, pong, at(sent_ms + there_ms + back_ms))


def agreed(time: ClusterTime, elapsed_ms: int = window_ms_min) -> bool:
    found = time.advance(at(elapsed_ms))
    assert time.invariants() == []
    return found


# Agreement


def test_three_replicas_agree() -> None:
    time = cluster_of(3)
    assert not time.is_synchronized(at(0))
    assert exchange(time, PEER, 100)
    assert exchange(time, OTHER, 100)
    assert agreed(time)
    now = at(window_ms_min + 1)
    assert time.is_synchronized(now)
    assert time.wall_ns(now) == now.wall_ns
    assert time.drift_ms(now) == 0


@pytest.mark.parametrize(("replicas", "quorum"), [(2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)])
def test_a_quorum_is_a_majority_ourselves_included(replicas: int, quorum: int) -> None:
    for heard in range(replicas):
        time = cluster_of(replicas)
        for peer in time.peers[:heard]:
            exchange(time, peer, 100)
        assert agreed(time) == (heard + 1 >= quorum)


def test_a_liar_is_outvoted() -> None:
    time = cluster_of(3)
    exchange(time, PEER, 100, ahead_ms=0)
    exchange(time, OTHER, 100, ahead_ms=3_600_000)
    assert agreed(time)
    bounds = time.bounds_ns(at(window_ms_min))
    assert bounds is not None
    assert bounds.lower <= at(window_ms_min).wall_ns <= bounds.upper
    assert bounds.width < 4 * wall_error_ms * NS_PER_MS


def test_our_own_wall_is_outvoted_and_moved_into_the_interval() -> None:
    time = cluster_of(3, wall_ahead_ms=5_000)
    exchange(time, PEER, 100)
    exchange(time, OTHER, 100)
    assert agreed(time)
    ours = at(window_ms_min, wall_ahead_ms=5_000)
    cluster_ns = time.wall_ns(ours)
    assert cluster_ns is not None
    assert abs(cluster_ns - at(window_ms_min).wall_ns) <= 2 * wall_error_ms * NS_PER_MS
    assert time.drift_ms(ours) == pytest.approx(5_000, abs=wall_error_ms)


def test_walls_far_apart_do_not_agree() -> None:
    time = cluster_of(3)
    exchange(time, PEER, 100, ahead_ms=10_000)
    exchange(time, OTHER, 100, ahead_ms=-10_000)
    assert not agreed(time)
    assert not time.is_synchronized(at(window_ms_min))
    assert time.wall_ns(at(window_ms_min)) is None
    assert time.drift_ms(at(window_ms_min)) is None


def test_a_jump_of_our_wall_after_the_agreement_is_caught() -> None:
    time = cluster_of(3)
    exchange(time, PEER, 100)
    exchange(time, OTHER, 100)
    assert agreed(time)
    for jump_ms in (-1_000_000, 1_000_000):
        jumped = at(window_ms_min + 500, wall_ahead_ms=jump_ms)
        wall_ns = time.wall_ns(jumped)
        assert wall_ns is not None
        assert abs(wall_ns - at(window_ms_min + 500).wall_ns) <= 2 * wall_error_ms * NS_PER_MS
        assert time.drift_ms(jumped) == pytest.approx(jump_ms, abs=wall_error_ms)


def test_a_replica_that_is_alone_is_always_synchronised() -> None:
    time = cluster_of(1)
    for elapsed_ms in (0, window_ms_min, 10 * epoch_ms_max):
        now = at(elapsed_ms)
        assert not time.advance(now)
        assert time.is_synchronized(now)
        assert time.wall_ns(now) == now.wall_ns
        assert time.bounds_ns(now) == Interval(now.wall_ns, now.wall_ns)
        assert time.drift_ms(now) == 0
        assert time.invariants() == []


# Samples


def test_the_quickest_round_trip_is_kept() -> None:
    time = cluster_of(3)
    assert exchange(time, PEER, 100, there_ms=40, back_ms=10)
    assert exchange(time, PEER, 200, there_ms=3, back_ms=1)
    assert not exchange(time, PEER, 300, there_ms=20, back_ms=20)
    assert time.samples[PEER].error_ns == 2 * NS_PER_MS


def test_a_round_trip_of_no_time_is_taken() -> None:
    time = cluster_of(3)
    assert exchange(time, PEER, 100, there_ms=0, back_ms=0)
    assert (time.samples[PEER].error_ns, time.samples[PEER].offset_ns) == (0, 0)


def test_pongs_that_say_nothing_about_this_window_are_dropped() -> None:
    time = ClusterTime.begin(OWN, REPLICAS[:3], NONCE, at(10_000))
    before = fingerprint(time)
    assert not exchange(time, OWN, 10_100), "from ourselves"
    assert not exchange(time, REPLICAS[5], 10_100), "from a stranger"
    assert not exchange(time, PEER, 9_999), "sent before the window began"
    assert not exchange(time, PEER, 20_000, there_ms=0, back_ms=-1), "sent after it came back"
    assert not exchange(time, PEER, 10_100, back_ms=window_ms_max), "too slow to be of use"
    foreign = PongClock(NONCE + 1, at(10_100).monotonic_ns, at(10_100).wall_ns)
    assert not time.learn(PEER, foreign, at(10_101)), "of an earlier incarnation"
    assert fingerprint(time) == before


def test_a_pong_from_before_a_new_window_is_dropped() -> None:
    time = cluster_of(2)
    exchange(time, PEER, 100)
    assert agreed(time)
    assert not exchange(time, PEER, window_ms_min - 1, back_ms=500)
    assert time.samples == {}


# Time passes


def test_no_agreement_before_the_window_is_old_enough() -> None:
    time = cluster_of(2)
    exchange(time, PEER, 100)
    assert not agreed(time, window_ms_min - 1)
    assert agreed(time, window_ms_min)


def test_a_window_without_a_quorum_is_thrown_away() -> None:
    time = cluster_of(5)
    exchange(time, PEER, 100)
    assert not agreed(time, window_ms_max)
    assert time.samples != {}
    assert not agreed(time, window_ms_max + 1)
    assert (time.samples, time.window) == ({}, at(window_ms_max + 1))


def test_an_agreement_outlives_failed_windows_and_then_expires() -> None:
    time = cluster_of(2)
    exchange(time, PEER, 100)
    assert agreed(time)
    last_ms = window_ms_min + epoch_ms_max
    agreed(time, window_ms_min + window_ms_max + 1)
    assert time.is_synchronized(at(last_ms))
    assert not time.is_synchronized(at(last_ms + 1))
    assert time.wall_ns(at(last_ms + 1)) is None
    agreed(time, last_ms + 1)
    assert time.epoch is None


def test_the_interval_widens_with_age() -> None:
    time = cluster_of(2)
    exchange(time, PEER, 100)
    assert agreed(time)
    early, late = time.bounds_ns(at(window_ms_min)), time.bounds_ns(at(window_ms_min + 50_000))
    assert early is not None
    assert late is not None
    assert late.width > early.width


# The promise


@st.composite
def honest_majorities(draw: st.DrawFn) -> tuple[int, list[bool]]:
    """How many replicas, and which of them, ourselves first, are honest."""
    replicas = draw(st.integers(2, 7))
    honest = draw(st.lists(st.booleans(), min_size=replicas, max_size=replicas))
    for number in draw(st.permutations(range(replicas)))[: replicas // 2 + 1]:
        honest[number] = True
    return replicas, honest


delays_ns = st.integers(0, 3 * 10**9) | st.integers(0, 10**6)
errors_ns = st.integers(-wall_error_ms * NS_PER_MS, wall_error_ms * NS_PER_MS)
lies_ns = st.integers(-(10**10), 10**10) | st.integers(-3 * 10**8, 3 * 10**8)


@given(honest_majorities(), st.integers(-100, 100), st.data())
def test_the_interval_holds_the_true_time_while_a_majority_is_honest(
    cluster: tuple[int, list[bool]], rate_ppm: int, data: st.DataObject
) -> None:
    """Whatever delays, drifting clocks, a wall that jumps and a lying or silent minority do."""
    replicas, honest = cluster

    def our_clocks(true_ns: int, wall_ns: int) -> Now:
        return Now(true_ns + true_ns * rate_ppm // 1_000_000, wall_ns)

    start_error_ns = data.draw(errors_ns if honest[0] else lies_ns)
    time = ClusterTime.begin(OWN, REPLICAS[:replicas], NONCE, our_clocks(0, start_error_ns))
    for peer, is_honest in zip(time.peers, honest[1:], strict=True):
        for _ in range(data.draw(st.integers(1, 3) if is_honest else st.integers(0, 3))):
            sent_ns = data.draw(st.integers(0, 10 * 10**9))
            read_ns = sent_ns + data.draw(delays_ns)
            back_ns = read_ns + data.draw(delays_ns)
            wall_ns = read_ns + data.draw(errors_ns if is_honest else lies_ns)
            pong = PongClock(NONCE, our_clocks(sent_ns, 0).monotonic_ns, wall_ns)
            time.learn(peer, pong, our_clocks(back_ns, data.draw(lies_ns)))
    assert time.advance(our_clocks(17 * 10**9, data.draw(lies_ns)))
    assert time.invariants() == []
    for true_ns in (17 * 10**9, data.draw(st.integers(17 * 10**9, 76 * 10**9))):
        now = our_clocks(true_ns, true_ns + data.draw(lies_ns))
        bounds = time.bounds_ns(now)
        assert bounds is not None
        assert bounds.lower <= true_ns <= bounds.upper
        cluster_ns = time.wall_ns(now)
        assert cluster_ns is not None
        assert bounds.lower <= cluster_ns <= bounds.upper


@pytest.mark.parametrize("rate_ppm", [-150, 150])
@pytest.mark.parametrize("error_ms", [-wall_error_ms, wall_error_ms])
def test_the_interval_allows_for_a_monotonic_clock_that_runs_wrong(
    rate_ppm: int, error_ms: int
) -> None:
    """With both walls as wrong as they may be, a clock that is fast or slow would hide the truth."""

    def our_clocks(true_ms: int) -> Now:
        monotonic_ns = true_ms * NS_PER_MS * (1_000_000 + rate_ppm) // 1_000_000
        return Now(monotonic_ns, (true_ms + error_ms) * NS_PER_MS)

    time = ClusterTime.begin(OWN, REPLICAS[:2], NONCE, our_clocks(0))
    pong = PongClock(NONCE, our_clocks(1000).monotonic_ns, our_clocks(1000).wall_ns)
    assert time.learn(PEER, pong, our_clocks(1000))
    assert time.advance(our_clocks(17_000))
    for true_ms in (17_000, 70_000):
        bounds = time.bounds_ns(our_clocks(true_ms))
        assert bounds is not None
        assert bounds.lower <= true_ms * NS_PER_MS <= bounds.upper


# Plain state


def test_a_copy_goes_its_own_way() -> None:
    time = cluster_of(3)
    copy, before = clone_plain(time), fingerprint(time)
    exchange(copy, PEER, 100)
    assert fingerprint(time) == before != fingerprint(copy)


def test_broken_rules_are_named() -> None:
    time = cluster_of(3)
    exchange(time, PEER, 100)
    time.window = at(5_000)
    assert [violation.invariant for violation in time.invariants()] == ["T2"]
    time = cluster_of(2)
    exchange(time, PEER, 100)
    agreed(time)
    time.quorum = 3
    assert [violation.invariant for violation in time.invariants()] == ["T1"]
    time = cluster_of(2)
    agreed(time)
    exchange(time, PEER, 100)
    time.peers = ()
    assert [violation.invariant for violation in time.invariants()] == ["T2", "T3"]
