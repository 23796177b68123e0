"""The machine that keeps a replica's ``ClusterTime``: pings its peers, answers theirs, lets time pass.

It trusts nobody: a ping is answered with the wall as it is, a pong from a stranger or from an earlier
incarnation is dropped, and what a peer claims counts for one source.
"""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core import fingerprint
from motet.core.clock.cluster_time import AskTime, ClusterTime, PingClock, PongClock, TimeIs
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Note,
    Now,
    Received,
    Send,
    SetTimer,
    Started,
    Violation,
)
from motet.ids import Address, NodeId, TimerName

PING_TIMER = TimerName("clock-ping")

ping_ms = 1_000
"""How often each peer is asked for its wall time."""


class TimePeer(msgspec.Struct):
    """One replica among those that agree on the time."""

    own: NodeId
    replicas: tuple[NodeId, ...]
    #: from the first event on
    time: ClusterTime | None = None

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Started):
            self.time = ClusterTime.begin(self.own, self.replicas, event.nonce, event.now)
            return self._ping(event.now)
        if isinstance(event, Fired) and event.timer == PING_TIMER:
            return self._let_time_pass(event.now)
        if isinstance(event, Received):
            return self._on_received(event)
        return []

    def clone(self) -> Self:
        return fingerprint.clone_plain(self)

    def fingerprint(self) -> bytes:
        return fingerprint.fingerprint(self)

    def invariants(self) -> list[Violation]:
        return [] if self.time is None else self.time.invariants()

    def _on_received(self, event: Received) -> list[Effect]:
        message = event.message
        if isinstance(message, PingClock):
            pong = PongClock(message.nonce, message.sent_monotonic_ns, event.now.wall_ns)
            return [Send(event.sender, pong)]
        if isinstance(message, AskTime):
            told = TimeIs(message.nonce, message.sent_monotonic_ns, event.now.wall_ns)
            return [Send(event.sender, told)]
        if isinstance(message, PongClock) and self.time is not None:
            self.time.learn(NodeId(event.sender), message, event.now)
        return []

    def _let_time_pass(self, now: Now) -> list[Effect]:
        assert self.time is not None, "no timer runs before the start"
        was_synchronized = self.time.epoch is not None
        self.time.advance(now)
        is_synchronized = self.time.epoch is not None
        notes: list[Effect] = []
        if is_synchronized != was_synchronized:
            notes.append(Note("time_synchronized" if is_synchronized else "time_unsynchronized"))
        return notes + self._ping(now)

    def _ping(self, now: Now) -> list[Effect]:
        if self.time is None or not self.time.peers:
            return []
        ping = self.time.ping(now)
        pings: list[Effect] = [Send(Address(peer), ping) for peer in self.time.peers]
        return [*pings, SetTimer(PING_TIMER, ping_ms, in_step=True)]
