"""Replicas that keep the cluster's time by ping and pong, on a network worked by hand."""

from __future__ import annotations

import heapq

from motet.core.clock.cluster_time import PingClock, PongClock, epoch_ms_max, window_ms_min
from motet.core.clock.time_peer import PING_TIMER, TimePeer, ping_ms
from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Event,
    Fired,
    Note,
    Now,
    Received,
    Send,
    SetTimer,
    Started,
)
from motet.ids import Address, NodeId

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
REPLICAS = (A, B, C)
DELAY_MS = 5


class Cluster:
    """Three replicas whose walls are so far ahead of the true time, in milliseconds."""

    def __init__(self, walls_ahead_ms: dict[NodeId, int]) -> None:
        self.walls_ahead_ms = walls_ahead_ms
        self.peers = {node: TimePeer(node, REPLICAS) for node in REPLICAS}
        self.notes: dict[NodeId, list[str]] = {node: [] for node in REPLICAS}
        self.elapsed_ms = 0
        self.cut_off: NodeId | None = None
        #: when, in which order, whom it happens to, and what
        self.agenda: list[tuple[int, int, NodeId, Send | SetTimer]] = []
        self.planned = 0
        for number, node in enumerate(REPLICAS):
            self.step(node, Started(self.now(node), nonce=number))

    def now(self, node: NodeId) -> Now:
        # Each monotonic clock has a zero of its own.
        monotonic_ms = self.elapsed_ms + 1000 * REPLICAS.index(node)
        wall_ms = self.elapsed_ms + self.walls_ahead_ms[node]
        return Now(monotonic_ms * NS_PER_MS, wall_ms * NS_PER_MS)

    def step(self, node: NodeId, event: Event) -> None:
        for effect in self.peers[node].step(event):
            if isinstance(effect, Note):
                self.notes[node].append(effect.what)
            elif isinstance(effect, Send | SetTimer):
                self.plan(node, effect)
        assert self.peers[node].invariants() == []

    def plan(self, node: NodeId, effect: Send | SetTimer) -> None:
        if isinstance(effect, Send) and self.cut_off in (node, NodeId(effect.to)):
            return
        delay_ms = effect.after_ms if isinstance(effect, SetTimer) else DELAY_MS
        self.planned += 1
        heapq.heappush(self.agenda, (self.elapsed_ms + delay_ms, self.planned, node, effect))

    def run(self, until_ms: int) -> None:
        while self.agenda and self.agenda[0][0] <= until_ms:
            self.elapsed_ms, _, node, effect = heapq.heappop(self.agenda)
            if isinstance(effect, SetTimer):
                self.step(node, Fired(self.now(node), effect.timer))
            else:
                to = NodeId(effect.to)
                self.step(to, Received(self.now(to), Address(node), effect.message))
        self.elapsed_ms = until_ms

    def wall_ms(self, node: NodeId) -> int | None:
        time = self.peers[node].time
        assert time is not None
        wall_ns = time.wall_ns(self.now(node))
        return None if wall_ns is None else wall_ns // NS_PER_MS


def test_replicas_agree_and_the_one_that_is_wrong_follows() -> None:
    cluster = Cluster({A: 0, B: 20, C: 60_000})
    cluster.run(window_ms_min + 2 * ping_ms)
    for node in REPLICAS:
        wall_ms = cluster.wall_ms(node)
        assert wall_ms is not None
        assert abs(wall_ms - cluster.elapsed_ms) <= 150
        assert cluster.notes[node] == ["time_synchronized"]


def test_a_replica_cut_off_knows_after_a_while_that_it_is_not_synchronised() -> None:
    cluster = Cluster({A: 0, B: 0, C: 0})
    cluster.run(3 * window_ms_min)
    cluster.cut_off = A
    cluster.run(3 * window_ms_min + 2 * epoch_ms_max)
    assert cluster.wall_ms(A) is None
    assert cluster.wall_ms(B) is not None
    assert cluster.notes[A] == ["time_synchronized", "time_unsynchronized"]
    assert cluster.notes[B] == ["time_synchronized"]
    cluster.cut_off = None
    cluster.run(cluster.elapsed_ms + 2 * window_ms_min + 25_000)
    assert cluster.wall_ms(A) is not None


def test_a_ping_is_answered_with_our_wall_and_its_own_numbers() -> None:
    peer = TimePeer(A, REPLICAS)
    effects = peer.step(Received(Now(9, 77), Address(B), PingClock(4, 123)))
    assert effects == [Send(Address(B), PongClock(4, 123, 77))]


def test_a_pong_before_the_start_is_nothing_to_us() -> None:
    peer = TimePeer(A, REPLICAS)
    before = peer.fingerprint()
    assert peer.step(Received(Now(9, 77), Address(B), PongClock(4, 3, 77))) == []
    assert peer.fingerprint() == before


def test_a_replica_that_is_alone_asks_nobody() -> None:
    peer = TimePeer(A, (A,))
    assert peer.step(Started(Now(0, 0), nonce=1)) == []
    assert peer.time is not None
    assert peer.time.is_synchronized(Now(1, 1))


def test_each_peer_is_pinged_and_the_timer_set_again() -> None:
    peer = TimePeer(B, REPLICAS)
    effects: list[Effect] = peer.step(Started(Now(50, 60), nonce=8))
    ping = PingClock(8, 50)
    timer = SetTimer(PING_TIMER, ping_ms, in_step=True)
    assert effects == [Send(Address(A), ping), Send(Address(C), ping), timer]


def test_a_copy_goes_its_own_way() -> None:
    peer = TimePeer(A, REPLICAS)
    peer.step(Started(Now(0, 0), nonce=1))
    copy, before = peer.clone(), peer.fingerprint()
    assert copy.fingerprint() == before
    copy.step(Received(Now(10, 10), Address(B), PongClock(1, 5, 7)))
    assert peer.fingerprint() == before != copy.fingerprint()
