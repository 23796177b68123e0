"""The wall time a cluster agrees on: each replica asks the others for theirs, and a quorum decides.

A replica reads its monotonic clock (m0) and sends a ping; the peer answers with its wall clock (t1); the
pong arrives at m2. The peer read its wall somewhere between m0 and m2, so at m2 its wall was between t1
and t1 + (m2 - m0): the middle of that, give or take half the round trip. Compared with our own wall this
is a *sample*, an offset and its error. The sample of the quickest round trip errs least, and is kept.

Samples are gathered in a *window*. Inside it our own wall counts only once, at its start, and runs on by
the monotonic clock, so a jump of our wall does not spoil the samples. When the window is old enough and a
majority of the replicas, ourselves among them, have a common point, it becomes the *epoch*: until it
expires, the cluster's time is known to lie in an interval around our wall, and ``wall_ns`` is our own
wall, moved into that interval if it has strayed. A window in which no quorum is found is thrown away
when it is too old, and without an epoch the replica is not synchronised, and says so.

Two answers are kept (see ``marzullo``): the interval that *holds* the true time as long as a majority of
the replicas is heard and right to within ``wall_error_ms``; and the best guess inside it, from which our
drift is measured. What bounds the wall is the first.

Rules:

T1  An epoch rests on a quorum: so many replicas, a majority unless said otherwise, have a point in common.
T2  A sample is of this window: its ping was sent after the window began, by this incarnation.
T3  A replica that is alone is always synchronised, and its time is its own wall.

This is plain state with no effects of its own; ``time_peer`` is a machine around it.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.marzullo import Interval, smallest_agreed, span_agreed
from motet.core.machine import NS_PER_MS, Message, Now, Violation
from motet.ids import NodeId


class ClockMessage(Message, frozen=True, tag=lambda name: f"clock.{name}"):
    """Above all messages about the time."""


class PingClock(ClockMessage, frozen=True):
    """Ask a replica for its wall time. The answer carries both numbers back as they were."""

    #: tells the pings of this incarnation from those of an earlier one
    nonce: int
    sent_monotonic_ns: int


class PongClock(ClockMessage, frozen=True):
    """A replica's wall time, read between the ping's sending and this pong's arrival."""

    nonce: int
    sent_monotonic_ns: int
    wall_ns: int


class AskTime(ClockMessage, frozen=True):
    """A data node asks another node for its wall. The answer carries both numbers back as they were."""

    nonce: int
    sent_monotonic_ns: int


class TimeIs(ClockMessage, frozen=True):
    """The wall of a node, as it is, read between the question and the arrival of this answer."""

    nonce: int
    sent_monotonic_ns: int
    wall_ns: int


window_ms_min = 2_000
"""A window collects samples at least this long: at one ping a second, two or three of each peer."""

window_ms_max = 20_000
"""A window without a quorum is thrown away after this."""

epoch_ms_max = 60_000
"""So long an agreement is good for. Several windows may fail before it ends."""

wall_error_ms = 100
"""How far from the true time the wall of an honest machine may be; any time daemon does better."""

monotonic_error_ppm = 200
"""How much faster or slower than true time a monotonic clock may run: twice what quartz does."""


class Sample(msgspec.Struct, frozen=True):
    """How far a peer's wall was ahead of our timeline."""

    offset_ns: int
    #: half the round trip, rounded up: the offset may be wrong by so much either way
    error_ns: int
    taken_monotonic_ns: int


class Epoch(msgspec.Struct, frozen=True):
    """An agreement, in nanoseconds ahead of the timeline that goes through ``base``."""

    #: where our timeline starts: our wall at one moment, carried on by the monotonic clock
    base: Now
    agreed_monotonic_ns: int
    #: holds the true time
    span: Interval
    #: the best guess at it
    guess_ns: int
    #: how many replicas have the best guess in common
    sources: int


class ClusterTime(msgspec.Struct):
    """What one replica knows of the time of its cluster. Make one with ``begin``."""

    own: NodeId
    #: all others
    peers: tuple[NodeId, ...]
    #: tells pings of this incarnation from those of an earlier one
    nonce: int
    #: our clocks at the beginning of the window
    window: Now
    #: the best of the window, by peer
    samples: dict[NodeId, Sample] = msgspec.field(default_factory=dict)
    epoch: Epoch | None = None
    #: how many replicas have to agree, ourselves included
    quorum: int = 1
    wall_error_ms: int = wall_error_ms
    window_ms_min: int = window_ms_min

    @staticmethod
    def begin(
        own: NodeId,
        replicas: tuple[NodeId, ...],
        nonce: int,
        now: Now,
        *,
        quorum: int | None = None,
        wall_error_ms: int = wall_error_ms,
        window_ms_min: int = window_ms_min,
    ) -> ClusterTime:
        """Begin to gather samples; without a ``quorum`` it is a majority that decides."""
        assert own in replicas, "a replica is one of its cluster"
        assert len(dict.fromkeys(replicas)) == len(replicas), "each replica is named once"
        peers = tuple(replica for replica in replicas if replica != own)
        return ClusterTime(
            own,
            peers,
            nonce,
            window=now,
            quorum=quorum or len(replicas) // 2 + 1,
            wall_error_ms=wall_error_ms,
            window_ms_min=window_ms_min,
        )

    def ping(self, now: Now) -> PingClock:
        """What to ask the peers now."""
        return PingClock(self.nonce, now.monotonic_ns)

    def learn(self, peer: NodeId, pong: PongClock, now: Now) -> bool:
        """Take a pong in; False if it says nothing about this window, or nothing better."""
        round_trip_ns = now.monotonic_ns - pong.sent_monotonic_ns
        is_ours = peer in self.peers and pong.nonce == self.nonce
        is_of_window = self.window.monotonic_ns <= pong.sent_monotonic_ns
        is_of_use = 0 <= round_trip_ns <= window_ms_max * NS_PER_MS
        if not (is_ours and is_of_window and is_of_use):
            return False
        error_ns = (round_trip_ns + 1) // 2
        known = self.samples.get(peer)
        if known is not None and known.error_ns <= error_ns:
            return False
        offset_ns = pong.wall_ns + error_ns - timeline_ns(self.window, now)
        self.samples[peer] = Sample(offset_ns, error_ns, now.monotonic_ns)
        return True

    def advance(self, now: Now) -> bool:
        """Let time pass: agree, start a new window, forget. True if a new agreement was found."""
        if self.epoch is not None and not self._is_fresh(self.epoch, now):
            self.epoch = None
        age_ms = (now.monotonic_ns - self.window.monotonic_ns) // NS_PER_MS
        if not self.peers or age_ms < self.window_ms_min:
            return False
        agreed = self._agree(now)
        if agreed is not None:
            self.epoch = agreed
        if agreed is not None or age_ms > window_ms_max:
            self.window = now
            self.samples = {}
        return agreed is not None

    def is_synchronized(self, now: Now) -> bool:
        if not self.peers:
            return True
        return self.epoch is not None and self._is_fresh(self.epoch, now)

    def bounds_ns(self, now: Now) -> Interval | None:
        """The interval that holds the true time; None when not synchronised."""
        if not self.peers:
            return Interval(now.wall_ns, now.wall_ns)
        if self.epoch is None or not self._is_fresh(self.epoch, now):
            return None
        around_ns = timeline_ns(self.epoch.base, now)
        error_ns = rate_error_ns(now.monotonic_ns - self.epoch.agreed_monotonic_ns)
        span = self.epoch.span
        return Interval(around_ns + span.lower - error_ns, around_ns + span.upper + error_ns)

    def wall_ns(self, now: Now) -> int | None:
        """The cluster's wall time: our own, moved into the agreed interval; None when not synchronised."""
        bounds = self.bounds_ns(now)
        if bounds is None:
            return None
        return min(max(now.wall_ns, bounds.lower), bounds.upper)

    def drift_ms(self, now: Now) -> int | None:
        """How far our wall is ahead of the cluster's best guess; None when not synchronised."""
        if not self.peers:
            return 0
        if self.epoch is None or not self._is_fresh(self.epoch, now):
            return None
        guess_ns = timeline_ns(self.epoch.base, now) + self.epoch.guess_ns
        return (now.wall_ns - guess_ns) // NS_PER_MS

    def invariants(self) -> list[Violation]:
        found = []
        if self.epoch is not None and self.epoch.sources < self.quorum:
            found.append(Violation("T1", f"{self.epoch.sources} of {self.quorum} sources agree"))
        for peer, sample in self.samples.items():
            sent_ns = sample.taken_monotonic_ns - 2 * sample.error_ns
            if peer not in self.peers or sent_ns < self.window.monotonic_ns - 1:
                found.append(Violation("T2", f"the sample of {peer} is not of this window"))
        if not self.peers and (self.samples or self.epoch is not None):
            found.append(Violation("T3", "a replica that is alone asks nobody"))
        return found

    def _agree(self, now: Now) -> Epoch | None:
        intervals = self._intervals(now)
        span = span_agreed(intervals, self.quorum)
        best = smallest_agreed(intervals)
        if span is None or best is None:
            return None
        return Epoch(self.window, now.monotonic_ns, span, best.interval.middle, best.sources)

    def _intervals(self, now: Now) -> list[Interval]:
        """Where the true time is, as each source has it, ahead of the window's timeline."""
        wall_error_ns = self.wall_error_ms * NS_PER_MS
        own_error_ns = wall_error_ns + rate_error_ns(now.monotonic_ns - self.window.monotonic_ns)
        intervals = [Interval(-own_error_ns, own_error_ns)]
        for sample in self.samples.values():
            since_ping_ns = now.monotonic_ns - sample.taken_monotonic_ns + 2 * sample.error_ns
            error_ns = sample.error_ns + wall_error_ns + rate_error_ns(since_ping_ns)
            intervals.append(Interval(sample.offset_ns - error_ns, sample.offset_ns + error_ns))
        return intervals

    @staticmethod
    def _is_fresh(epoch: Epoch, now: Now) -> bool:
        return now.monotonic_ns - epoch.agreed_monotonic_ns <= epoch_ms_max * NS_PER_MS


def timeline_ns(base: Now, now: Now) -> int:
    """Our wall as it was at one moment, carried on by the monotonic clock."""
    return base.wall_ns + now.monotonic_ns - base.monotonic_ns


def rate_error_ns(age_ns: int) -> int:
    """By how much the monotonic clock may have run wrong in this time, rounded up."""
    return (age_ns * monotonic_error_ppm + 999_999) // 1_000_000
