"""What can go wrong, as data: one frozen struct of options per port, and named profiles of them.

Probabilities are per occasion (per message, per write in flight at a crash, per read); intervals are
mean virtual times between two faults of that kind, 0 for never. The default of every field is no fault.
"""

from __future__ import annotations

import msgspec

from motet.errors import BadInput
from motet.sim.dice import Dice


class NetworkFaults(msgspec.Struct, frozen=True):
    """How the network misbehaves."""

    delay_us_min: int = 50
    delay_us_max: int = 500
    #: a message lost on its way
    loss: float = 0.0
    #: a message that arrives twice
    duplication: float = 0.0
    #: a message that takes up to fifty times as long, so that others overtake it
    reordering: float = 0.0
    #: a message of which a copy is kept, and delivered at any time, restarts or not (``sim.late``)
    kept: float = 0.0
    kept_ms_max: int = 3_000
    #: links that hold everything back for a while
    clog_interval_ms: int = 0
    clog_ms_max: int = 400
    #: nodes cut off from each other for a while
    partition_interval_ms: int = 0
    partition_ms_max: int = 2_000
    #: a partition that lets one direction through
    one_way: float = 0.0


class DiskFaults(msgspec.Struct, frozen=True):
    """How the disk misbehaves."""

    latency_us_min: int = 20
    latency_us_max: int = 300
    #: an unsynced write that a crash loses whole; what is not lost may still be torn
    lost: float = 0.0
    #: an unsynced write of which a crash leaves some sectors and not others
    torn: float = 0.0
    #: durable sectors that turn to rubbish
    rot_interval_ms: int = 0
    #: a read that fails
    read_error: float = 0.0
    #: a while in which everything takes fifty times as long
    slow_interval_ms: int = 0
    slow_ms_max: int = 500
    #: a while in which nothing new fits
    full_interval_ms: int = 0
    full_ms_max: int = 500


class TimeFaults(msgspec.Struct, frozen=True):
    """How the clocks of the nodes misbehave."""

    #: how far a wall clock is off from the start, either way
    skew_ms_max: int = 0
    #: how fast a clock runs away, in millionths, either way
    rate_ppm_max: int = 0
    #: wall clocks that jump, either way
    jump_interval_ms: int = 0
    jump_ms_max: int = 0
    #: what the monotonic clock says when an incarnation begins, at most: its zero means nothing
    uptime_ms_max: int = 0


class ObjectFaults(msgspec.Struct, frozen=True):
    """How the object store misbehaves."""

    #: a call refused without effect
    error: float = 0.0
    #: a call whose answer is lost, half of them after it took effect
    unknown: float = 0.0


class NodeFaults(msgspec.Struct, frozen=True):
    """How processes misbehave."""

    crash_interval_ms: int = 0
    down_ms_max: int = 500
    #: a message on its way from a node that crashes, lost with it: a crash in the middle of a step
    unsent: float = 0.0
    #: a crash that takes every node at once
    all_at_once: float = 0.0
    #: a process that stands still and then goes on as if nothing had been
    pause_interval_ms: int = 0
    pause_ms_max: int = 500


class Faults(msgspec.Struct, frozen=True):
    """Everything that can go wrong in one run."""

    network: NetworkFaults = NetworkFaults()
    disk: DiskFaults = DiskFaults()
    time: TimeFaults = TimeFaults()
    objects: ObjectFaults = ObjectFaults()
    nodes: NodeFaults = NodeFaults()


LOSSY = NetworkFaults(
    loss=0.05,
    duplication=0.03,
    reordering=0.05,
    kept=0.02,
    clog_interval_ms=400,
    partition_interval_ms=600,
    one_way=0.4,
)
CRASHING = NodeFaults(
    crash_interval_ms=300,
    unsent=0.3,
    all_at_once=0.15,
    pause_interval_ms=500,
    pause_ms_max=700,
)
FORGETFUL = DiskFaults(lost=0.5, torn=0.4, slow_interval_ms=700, full_interval_ms=900)
ROTTEN = msgspec.structs.replace(FORGETFUL, rot_interval_ms=400, read_error=0.002)
UPTIME_MS_MAX = 30 * 24 * 3_600_000
REBOOTED = TimeFaults(uptime_ms_max=UPTIME_MS_MAX)
JUMPY = TimeFaults(
    skew_ms_max=200,
    rate_ppm_max=500,
    jump_interval_ms=300,
    jump_ms_max=5_000,
    uptime_ms_max=UPTIME_MS_MAX,
)
UNSURE = ObjectFaults(error=0.05, unknown=0.05)

PROFILES: dict[str, Faults] = {
    "none": Faults(),
    "network": Faults(network=LOSSY),
    "crash": Faults(disk=FORGETFUL, time=REBOOTED, nodes=CRASHING),
    "disk": Faults(disk=ROTTEN, time=REBOOTED, nodes=CRASHING),
    "clock": Faults(time=JUMPY, nodes=CRASHING),
    "all": Faults(network=LOSSY, disk=ROTTEN, time=JUMPY, objects=UNSURE, nodes=CRASHING),
}
SWARM = "swarm"
"""The profile that draws a different mixture for each seed: some kinds of fault off, others harsh.
Off matters as much as on: a bug after many messages is never reached while one in ten is lost."""


def faults_for(profile: str, dice: Dice) -> Faults:
    """The faults of a named profile; ``swarm`` draws them from the seed."""
    if profile == SWARM:
        return _swarm(dice)
    if profile not in PROFILES:
        known = ", ".join([*PROFILES, SWARM])
        raise BadInput(f"there is no fault profile {profile!r}", hint=f"choose one of {known}")
    return PROFILES[profile]


def _swarm(dice: Dice) -> Faults:
    network = NetworkFaults(
        delay_us_max=dice.pick([100, 500, 5_000, 20_000]),
        loss=dice.pick([0.0, 0.0, 0.01, 0.1, 0.3]),
        duplication=dice.pick([0.0, 0.0, 0.05, 0.2]),
        reordering=dice.pick([0.0, 0.0, 0.05, 0.2]),
        clog_interval_ms=dice.pick([0, 0, 200, 800]),
        partition_interval_ms=dice.pick([0, 0, 300, 1_000]),
        one_way=dice.pick([0.0, 0.5, 1.0]),
    )
    disk = DiskFaults(
        latency_us_max=dice.pick([100, 300, 5_000]),
        lost=dice.pick([0.0, 0.3, 0.7, 1.0]),
        torn=dice.pick([0.0, 0.3, 1.0]),
        rot_interval_ms=dice.pick([0, 0, 0, 500]),
        read_error=dice.pick([0.0, 0.0, 0.0, 0.01]),
        slow_interval_ms=dice.pick([0, 0, 500]),
        full_interval_ms=dice.pick([0, 0, 600]),
    )
    time = TimeFaults(
        skew_ms_max=dice.pick([0, 100, 1_000]),
        rate_ppm_max=dice.pick([0, 200, 2_000]),
        jump_interval_ms=dice.pick([0, 0, 300]),
        jump_ms_max=dice.pick([50, 5_000]),
        uptime_ms_max=UPTIME_MS_MAX,
    )
    nodes = NodeFaults(
        crash_interval_ms=dice.pick([0, 100, 300, 1_000]),
        unsent=dice.pick([0.0, 0.5]),
        all_at_once=dice.pick([0.0, 0.2, 1.0]),
        pause_interval_ms=dice.pick([0, 0, 400]),
    )
    objects = ObjectFaults(error=dice.pick([0.0, 0.1]), unknown=dice.pick([0.0, 0.1]))
    # Drawn last: what is drawn before stays what it was for a seed.
    network = msgspec.structs.replace(network, kept=dice.pick([0.0, 0.0, 0.01, 0.05]))
    return Faults(network=network, disk=disk, time=time, objects=objects, nodes=nodes)
