"""The wall time that a node goes by: its own wall, kept within what a majority of the nodes agrees on.

Nodes ask each other for their walls (``AskTime``, ``TimeIs``), and :mod:`cluster_time` works out what a
majority agrees on. A node takes its own wall as long as that lies in the agreed interval, else the best
guess at the time inside it. So a node whose wall is wrong goes by the time of the others.

===========  ====================================================================================
alone        there are no other nodes: its own wall
starting     nothing is agreed on yet: the time is not known, and no clock is given out
agreed       its own wall if it lies in the agreed interval, else the best guess
held         no new agreement comes: the last one runs on by the monotonic clock, and widens slowly
on its own   there was none in ``agreement_ms_max``: the lowest of the walls that were heard, its own
             among them; it gives out clocks, and judges nobody
===========  ====================================================================================

Rules:

Y1  No clock is given out before the time is known.
Y2  An answer that took longer than ``round_trip_ms_max`` says too little, and is not used: else a slow answer
    would agree with every wall.
Y3  Who is on its own takes the lowest wall, since a clock that is behind hurts nobody: it counts on from what
    was seen. One that is ahead is refused by all others.

This is plain state. Its holder sends what ``start`` and ``on_timer`` return.
"""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core.clock.cluster_time import (
    AskTime,
    ClusterTime,
    Epoch,
    PongClock,
    TimeIs,
    rate_error_ns,
    timeline_ns,
)
from motet.core.clock.marzullo import Interval
from motet.core.machine import NS_PER_MS, Effect, Note, Now, Send, SetTimer, Violation
from motet.ids import Address, NodeId, TimerName

TIME_TIMER = TimerName("data-time")

ask_ms = 1_000
"""How often each peer is asked for its wall."""

first_ask_ms = 100
"""The same, until there is an agreement."""

agreement_ms_max = 5_000
"""So long a node waits for its first agreement."""

round_trip_ms_max = 300
"""An answer that took longer is not used. The time at its arrival is known to half of that, so an agreed
interval ends less than the drift bound from the true time."""

window_ms = 2_000
"""A window of later agreements collects samples at least this long."""


class NodeTime(msgspec.Struct):
    """What one node takes for the time."""

    own: NodeId
    #: all other nodes that can be asked
    peers: tuple[NodeId, ...] = ()
    #: None: alone, or not started
    time: ClusterTime | None = None
    #: what bounds the wall: the newest agreement, or what is used in its place
    held: Epoch | None = None
    #: ``held`` was agreed on
    is_agreed: bool = False
    started_ns: int = 0
    #: how far our own wall was ahead of what is agreed on, when it was last measured; None: nothing is
    drift_ms: int | None = None

    @classmethod
    def of(cls, own: NodeId, nodes: tuple[NodeId, ...]) -> Self:
        return cls(own, tuple(node for node in nodes if node != own))

    # Time

    @property
    def is_known(self) -> bool:
        """Whether clocks can be given out (Y1)."""
        return self.held is not None or not self.peers

    def corrected(self, now: Now) -> Now:
        """Our wall if it lies in the interval that holds the time, else the best guess at the time.

        As it is while nothing is known.
        """
        held = self.held
        if held is None:
            return now
        around_ns = timeline_ns(held.base, now)
        error_ns = rate_error_ns(now.monotonic_ns - held.agreed_monotonic_ns)
        lower_ns = around_ns + held.span.lower - error_ns
        upper_ns = around_ns + held.span.upper + error_ns
        if lower_ns <= now.wall_ns <= upper_ns:
            return now
        return Now(now.monotonic_ns, around_ns + held.guess_ns)

    def measure(self, now: Now) -> None:
        """Compare our own wall with what is agreed on."""
        held = self.held
        if held is not None and self.is_agreed:
            ahead_ns = now.wall_ns - timeline_ns(held.base, now) - held.guess_ns
            self.drift_ms = ahead_ns // NS_PER_MS

    @property
    def is_on_its_own(self) -> bool:
        """Clocks are given out, and nobody has agreed on the time."""
        return self.held is not None and not self.is_agreed

    @property
    def can_judge(self) -> bool:
        """Whether a clock of another node can be refused: nobody else is there, or somebody has agreed."""
        return bool(self.peers) and (self.is_agreed or self.held is None)

    # Events, with the wall as it is

    def start(self, now: Now, nonce: int) -> list[Effect]:
        """The first event of a life."""
        if not self.peers:
            return []
        self.started_ns = now.monotonic_ns
        nodes = (self.own, *self.peers)
        self.time = ClusterTime.begin(self.own, nodes, nonce, now, window_ms_min=0)
        return self._ask(now)

    def on_timer(self, now: Now) -> list[Effect]:
        """Let time pass, and ask again."""
        assert self.time is not None, "no timer runs before the start, or for who is alone"
        effects = self._advance(now)
        waited_ms = (now.monotonic_ns - self.started_ns) // NS_PER_MS
        if self.held is None and waited_ms >= agreement_ms_max:
            self.held = self._lowest(self.time, now)
            effects.append(
                Note("time_on_its_own", f"{len(self.time.samples)} of {len(self.peers)}")
            )
        return [*effects, *self._ask(now)]

    def on_answer(self, sender: Address, answer: TimeIs, now: Now) -> list[Effect]:
        """A peer has told its wall."""
        if self.time is None:
            return []
        if now.monotonic_ns - answer.sent_monotonic_ns > round_trip_ms_max * NS_PER_MS:  # Y2
            return []
        pong = PongClock(answer.nonce, answer.sent_monotonic_ns, answer.wall_ns)
        self.time.learn(NodeId(sender), pong, now)
        return [] if self.is_agreed else self._advance(now)

    def _advance(self, now: Now) -> list[Effect]:
        assert self.time is not None
        was_synchronized = self.time.epoch is not None
        notes: list[Effect] = []
        if self.time.advance(now):
            if not self.is_agreed:
                notes.append(Note("time_agreed"))
            self.held, self.is_agreed = self.time.epoch, True
            self.time.window_ms_min = window_ms
        elif was_synchronized and self.time.epoch is None:
            notes.append(Note("time_held"))
        return notes

    def _ask(self, now: Now) -> list[Effect]:
        assert self.time is not None
        ping = self.time.ping(now)
        message = AskTime(ping.nonce, ping.sent_monotonic_ns)
        asked: list[Effect] = [Send(Address(peer), message) for peer in self.peers]
        after_ms = ask_ms if self.is_agreed else first_ask_ms
        return [*asked, SetTimer(TIME_TIMER, after_ms, in_step=True)]

    @staticmethod
    def _lowest(time: ClusterTime, now: Now) -> Epoch:
        """Y3. Our own wall is 0 on its own timeline."""
        own_ns = now.wall_ns - timeline_ns(time.window, now)
        lowest_ns = min([own_ns, *(sample.offset_ns for sample in time.samples.values())])
        error_ns = time.wall_error_ms * NS_PER_MS
        span = Interval(lowest_ns - error_ns, lowest_ns + error_ns)
        return Epoch(time.window, now.monotonic_ns, span, lowest_ns, 1)

    def invariants(self) -> list[Violation]:
        return [] if self.time is None else self.time.invariants()
