"""A replicated cluster in the storm: replicas crash, lag and have bad disks, and no operation is lost.

One to six replicas keep keys and values; clients work on few keys all the time. The rules K1 to K9 are those
of :mod:`motet.verify.storms.vsr_checks`, the way out of the storm is :mod:`motet.verify.storms.vsr_calm`, and
where disks may be damaged is drawn by :mod:`motet.verify.storms.vsr_atlas`.

Does the core of consensus do what its model does? Every step of every replica is followed in the model.

A cluster of three runs in the simulator with lost, late and repeated messages, partitions, pauses and slow
disks, and ``vsr-view-change`` runs beside it: each step of a replica is an action of the model, several, or
none (a *stutter*). R1: what no behaviour of the model explains is a violation, with the line that says it.
R2: what a replica then has is what the model has: view, log_view, status, log, and what is committed.

There are no crashes and no damage here, and no checkpoint is reached. What is not durable yet is not
looked at: a replica promises nothing in a view that is not on its disk.
"""

from __future__ import annotations

from typing import Any

import msgspec

from motet.core.machine import Effect, Event, Send, Started, Violation
from motet.core.vsr.config import Timeouts, VsrConfig
from motet.core.vsr.look import can_be_seen, observed
from motet.core.vsr.messages import DoViewChange
from motet.core.vsr.replica import Replica
from motet.ids import Address, ClusterId, Op, ReplicaIndex
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.history import Recorder, check_keyed
from motet.verify.models.view_change import ViewChange
from motet.verify.plants import plants_of
from motet.verify.storms.vsr_atlas import Atlas, ReplicaDamage
from motet.verify.storms.vsr_calm import Calm, Isolation, ReplicasRun, core_of
from motet.verify.storms.vsr_checks import Watch
from motet.verify.storms.vsr_clients import Worker, read_entry
from motet.verify.storms.vsr_plants import factory
from motet.verify.trace import TraceLine, Tracker
from motet.verify.trace.view_changes import ViewChangeSteps

HOST = "vsr"
REPLICA_COUNTS = (1, 2, 3, 3, 3, 3, 4, 5, 5, 6)
OPERATIONS = {1: 2_000, 2: 1_000, 3: 500}
"""Of all clients together, at least; a small cluster takes few steps for each."""

operations_default = 300
BUDGET_STEPS = 200_000

TIMEOUTS = Timeouts(
    ping_ms=100,
    idle_ping_ms=150,
    heartbeat_ms=30,
    idle_heartbeat_ms=60,
    abdicate_ms=400,
    silence_ms=250,
    start_view_change_ms=60,
    do_view_change_ms=60,
    view_change_ms=600,
    request_start_view_ms=60,
    repair_ms=20,
    stuck_ms=300,
    scrub_ms=100,
    clock_window_ms=200,
)


class VsrStorm:
    """``motet simulate vsr``."""

    name = "vsr"
    marks = (
        "crash",
        "crash_all",
        "crash_writing",
        "lost_write",
        "torn_write",
        "rot",
        "rot_of_newest",
        "partition",
        "partition_one_way",
        "primary_isolated",
        "pause",
        "client_evicted",
        "read_at_point",
        "calm_without_one",
        "vsr_truncated_by_nacks",
        "vsr_wal_case_L",
        "vsr_wal_case_R",
        "vsr_headers_repaired_through_break",
        "vsr_prepare_repaired",
        "vsr_reply_repaired",
        "vsr_block_repaired",
        "vsr_recovering_head",
        "vsr_forfeit",
        "vsr_session_evicted",
        "vsr_link_bypassed",
        "vsr_checkpoint_durable",
        "vsr_synced",
    )
    plants = plants_of("vsr")
    storm_ms = 8_000

    def prepare(self, world: World, plant: str | None) -> VsrRun:
        return VsrRun(world, plant)


def draw_config(dice: Dice) -> VsrConfig:
    """A small cluster: checkpoints, laps of the ring and evictions come soon."""
    count = dice.pick(REPLICA_COUNTS)
    return VsrConfig(
        cluster=ClusterId(7),
        replicas=tuple(Address(f"n{number}") for number in range(1, count + 1)),
        slots=32,
        pipeline_max=4,
        queue_max=8,
        checkpoint_ops=12,
        body_bytes_max=1_500,
        clients_max=dice.pick([4, 4, 5, 8]),
        reserved_max=1,
        block_bytes=dice.pick([192, 512, 1_024]),
        blocks_max=1 << 16,
        timeouts=TIMEOUTS,
    )


class VsrRun(ReplicasRun):
    """One cluster, its clients, and the calm after the storm."""

    done_rule = "K8"

    def __init__(self, world: World, plant: str | None) -> None:
        dice = world.dice.fork("cluster")
        self._world = world
        self.config = self.draw_config(dice)
        self._dice = dice
        self.recorder = Recorder()
        self.watch = Watch(world, self.config.cluster)
        self.atlas = Atlas(self.config, dice)
        self._is_clock_wild = dice.chance(0.1)
        indexes = [ReplicaIndex(number) for number in range(self.config.count)]
        self.hosts = [
            self._add_replica(HOST, own, factory(plant, self.config, own)) for own in indexes
        ]
        count = dice.between(3, 5)
        self.workers = [self._add_worker(number, count) for number in range(count)]
        world.observe(self.watch.saw)
        world.observe(self._follow)
        self.calm: Calm | None = None
        if world.faults.network.partition_interval_ms:
            Isolation(world, self.hosts, self._dice)

    def draw_config(self, dice: Dice) -> VsrConfig:
        """The cluster of this seed."""
        return draw_config(dice)

    def operations(self) -> int:
        """What all clients do together, at least."""
        return OPERATIONS.get(self.config.count, operations_default)

    def _add_worker(self, number: int, count: int) -> Worker:
        worker = Worker(
            self._world,
            self.config,
            f"c{number + 1}",
            self.watch,
            self.recorder,
            self._peek,
            operations=self.operations() // count + 1,
            # Who mostly reads may believe for long that the old primary is the primary.
            read_share=0.97 if number == 1 else 0.15,
            is_reserved=number == 0,
        )
        node = self._world.add_node(worker.name, immune=True)
        self._world.host(node, HOST, worker.itself)
        return worker

    def _peek(self, op: Op, body: bytes) -> bytes | None:
        """Read from the replica that has executed the op and is furthest behind: any of them will do."""
        cores = [core_of(host) for host in self.hosts if host.node.up]
        fit = [
            core
            for core in cores
            if core.state.is_started and core.state.restore is None and core.state.commit_min >= op
        ]
        if not fit:
            return None
        oldest = min(fit, key=lambda core: core.state.commit_min)
        return oldest.machine.apply(read_entry(op, body))

    def _follow(self, host: Host, event: Event, _effects: list[Effect]) -> None:
        """Keep the atlas up to date; and while a replica was down, its disk may have suffered."""
        damage = host.disk.damage
        if not isinstance(damage, ReplicaDamage):
            return
        faults = self._world.faults.disk
        if isinstance(event, Started) and faults.rot_interval_ms and self.atlas.permits_damage:
            damage.aim = damage.newest_slot(self._dice) if self._dice.chance(0.5) else None
            if damage.aim is not None and not self._world.fabric.healed:
                host.disk.rot()
                self._world.mark("rot")
                self._world.mark("rot_of_newest")
            damage.aim = None
        damage.core = core_of(host)

    # The run

    def finished(self) -> bool:
        """The storm is over, clients are done, and those who are left have come together."""
        world = self._world
        if not world.fabric.healed:
            return False
        if self.calm is None:
            expendable = [self.hosts[number] for number in self.atlas.expendable]
            self.calm = Calm(world, self.config, self.hosts, expendable, self.watch)
        calm = self.calm
        calm.keep_out()
        if all(worker.is_done for worker in self.workers) and calm.has_converged():
            return True
        return calm.is_out_of_patience() and self._give_up(calm)

    def _waiting(self) -> list[str]:
        return [worker.name for worker in self.workers if not worker.is_done]

    def check(self) -> list[Violation]:
        verdict = check_keyed(self.recorder.history(), budget_steps=BUDGET_STEPS)
        if verdict.status == "violated":
            return [Violation("K5", str(verdict))]
        if verdict.status == "unknown":
            self._world.mark("history_too_hard")
        return []


# Each step of each replica, followed in the model of view changes

REPLICAS = 3
OPS = 120
VIEWS = 200
FOLLOWED_OPERATIONS = 30
HARMLESS = ("partition", "partition_one_way", "clog", "pause", "slow_disk", "clock_jump")


class ViewChangeStorm:
    """``motet simulate view-change``."""

    name = "view-change"
    marks = ("partition", "primary_isolated", "pause", "followed", "vsr_truncated_by_nacks")
    plants = plants_of("view-change")
    storm_ms = 4_000

    def prepare(self, world: World, plant: str | None) -> ViewChangeRun:
        return ViewChangeRun(world, plant)


class ViewChangeRun(VsrRun):
    """A cluster whose every step is followed."""

    def __init__(self, world: World, plant: str | None) -> None:
        super().__init__(world, plant)
        self.tracker = Tracker(ViewChange(replicas=REPLICAS, ops=OPS, views=VIEWS, most_faults=0))
        #: the lines so far, as ``motet verify trace`` reads them
        self.lines: list[TraceLine] = []
        self._steps = ViewChangeSteps(REPLICAS)
        self._is_over = False
        world.observe(self._follow_in_model)

    def draw_config(self, dice: Dice) -> VsrConfig:
        names = tuple(Address(f"n{number}") for number in range(1, REPLICAS + 1))
        drawn = draw_config(dice)
        return msgspec.structs.replace(drawn, replicas=names, slots=512, checkpoint_ops=OPS + 50)

    def operations(self) -> int:
        return FOLLOWED_OPERATIONS

    def permits(self, fault: str, node: Address, /) -> bool:
        return fault in HARMLESS and super().permits(fault, node)

    def _follow_in_model(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        replica = host.machine
        if not isinstance(replica, Replica) or self._world.violations or self._is_over:
            return
        core = replica.core
        if not can_be_seen(core):
            return
        after = observed(core)
        if after.op > OPS or after.view > VIEWS:
            self._is_over = True  # the model ends here, and so does what can be said
            return
        sends = any(isinstance(e, Send) and isinstance(e.message, DoViewChange) for e in effects)
        for line in self._steps.saw(core.own, after, sends=sends):
            self._take(host.node.address, line)

    def _take(self, address: Address, line: dict[str, Any]) -> None:
        step = TraceLine(
            line["action"], line.get("with", {}), line.get("state", {}), len(self.lines) + 1
        )
        self.lines.append(step)
        why = None if self._world.violations else self.tracker.take(step)
        self._world.mark("followed")
        if why is not None:
            said = msgspec.json.encode(line).decode()
            self._world.violated("R1", f"{address} {said}: {'; '.join(why)}")
