"""Agreeing on the time: replicas ping each other, and a quorum of clocks that fit together is believed.

The reckoning is that of ``core.clock.cluster_time``. A primary whose clock is not among a replication
quorum that agrees gives out no timestamps: it drops requests and stops its heartbeat, so that another
replica leads. A replica that is alone believes itself.

Samples are wanted quickly while there is no agreement; after that a ping now and then keeps it.
"""

from __future__ import annotations

from motet.core.clock.cluster_time import ClusterTime, PingClock, PongClock
from motet.core.vsr.context import Core
from motet.core.vsr.messages import Ping, Pong
from motet.ids import NodeId, ReplicaIndex, TimerName

PING = TimerName("ping")


def start_clock(core: Core, nonce: int) -> None:
    """Begin to gather samples."""
    timeouts = core.config.timeouts
    names = tuple(_name(ReplicaIndex(index)) for index in range(core.config.count))
    core.state.time = ClusterTime.begin(
        _name(core.own),
        names,
        nonce,
        core.now,
        quorum=core.quorums.replication,
        wall_error_ms=timeouts.clock_tolerance_ms,
        window_ms_min=timeouts.clock_window_ms,
    )
    if not core.is_solo:
        send_pings(core)


def send_pings(core: Core) -> None:
    """Ask all others for their time, and tell them about our checkpoint."""
    time, state = core.state.time, core.state
    assert time is not None
    if time.advance(core.now):
        core.note("clock_agreed")
    ping: PingClock = time.ping(core.now)
    core.broadcast(
        Ping(
            core.config.cluster,
            core.own,
            state.view,
            ping.nonce,
            ping.sent_monotonic_ns,
            core.checkpoint_op,
            core.checkpoint_id,
        )
    )
    timeouts = core.config.timeouts
    after_ms = timeouts.ping_ms if time.epoch is None else timeouts.idle_ping_ms
    core.timer(PING, after_ms, in_step=True)


def on_ping(core: Core, message: Ping) -> None:
    wall_ns = core.now.wall_ns
    own, view = core.own, core.state.view
    core.send(
        message.replica,
        Pong(core.config.cluster, own, view, message.nonce, message.sent_monotonic_ns, wall_ns),
    )


def on_pong(core: Core, message: Pong) -> None:
    time = core.state.time
    if time is None:
        return
    pong = PongClock(message.nonce, message.sent_monotonic_ns, message.wall_ns)
    time.learn(_name(message.replica), pong, core.now)
    if time.epoch is None and time.advance(core.now):
        core.note("clock_agreed")


def cluster_wall_ns(core: Core) -> int | None:
    """The cluster's time of day; None while it is not agreed on."""
    time = core.state.time
    return None if time is None else time.wall_ns(core.now)


def is_synchronized(core: Core) -> bool:
    time = core.state.time
    return time is not None and time.is_synchronized(core.now)


def _name(replica: ReplicaIndex) -> NodeId:
    return NodeId(f"replica-{replica}")
