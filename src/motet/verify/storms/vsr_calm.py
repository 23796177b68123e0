"""After the storm: a core of replicas is whole again, the rest is gone for good, and the core must recover.

The core is drawn from the seed: at least as many replicas as a view change takes. The others are down for
ever, cut off, or can speak and not hear. K8: the core comes to one view, executes everything that was
committed, and its clients get done.

There are excuses, and only where disks were damaged: the atlas leaves one good copy of everything, and it
may be on a replica that is not of the core; and a replica that is not sure of its head, or that refuses its
files, has no vote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from motet.core.machine import NS_PER_MS
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.context import Core
from motet.core.vsr.formatting import file_sizes, format_files
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.ids import Address, Op, ReplicaIndex
from motet.sim import trace as glyph
from motet.sim.dice import Dice
from motet.sim.host import Host, Stepper
from motet.sim.world import World
from motet.verify.storms.vsr_atlas import Atlas
from motet.verify.storms.vsr_checks import Watch

patience_ms = 12_000
"""Without a new op, and without an end."""

expendable_last_share = 0.7
"""Without those that may have lost their vote there are fewer excuses."""

DOWN, CUT_OFF, DEAF = "down", "cut off", "deaf"


class Calm:
    """The second half of a run."""

    def __init__(
        self,
        world: World,
        config: VsrConfig,
        hosts: Sequence[Host],
        expendable: Sequence[Host],
        watch: Watch,
    ) -> None:
        self._world = world
        self._config = config
        self._watch = watch
        dice = world.dice.fork("calm")
        count = dice.between(config.quorums.view_change, config.count)
        shuffled = dice.shuffled(hosts)
        if dice.chance(expendable_last_share):
            shuffled.sort(key=lambda host: host in expendable)
        self.core, rest = shuffled[:count], shuffled[count:]
        self._rest = {host.label: (host, dice.pick([DOWN, CUT_OFF, DEAF])) for host in rest}
        self._ops = 0
        self._moved_ns = 0
        for host in hosts:
            host.node.time.skew_ns = 0
        for host, how in self._rest.values():
            world.mark("calm_without_one")
            world.record(host.label, "!", f"{how} for good")
        self.keep_out()

    def keep_out(self) -> None:
        """Whatever was still to come of the storm, those who are gone stay gone."""
        fabric = self._world.fabric
        for host, how in self._rest.values():
            if how == DOWN and host.node.up:
                self._world.crash(host.node)
            elif how == DEAF:
                host.listening = False
            elif how == CUT_OFF and not fabric.blocked:
                others = [address for address in self._world.nodes if address != host.node.address]
                fabric.cut([host.node.address], others, one_way=False)

    def is_out_of_patience(self) -> bool:
        now_ns, ops = self._world.virtual.elapsed_ns, len(self._watch.order)
        if ops > self._ops:
            self._ops, self._moved_ns = ops, now_ns
        return now_ns - self._moved_ns > patience_ms * NS_PER_MS

    def cores(self) -> list[Core]:
        return [core_of(host) for host in self.core]

    def has_converged(self) -> bool:
        """All of the core are in one view and have executed the same, all that was acknowledged."""
        cores = self.cores()
        first = cores[0].state
        if first.commit_min < self._watch.acknowledged:
            return False
        return all(
            core.state.status is Status.NORMAL
            and core.state.restore is None
            and not core.is_syncing
            and core.state.view == first.view
            and core.state.commit_min == core.state.commit_max == core.state.op == first.op
            for core in cores
        )

    # Excuses

    def excuse(self) -> str | None:
        """Why this core cannot be expected to recover; None if it can."""
        if not any(mark in self._world.marks for mark in ("rot", "vsr_prepare_corrupt")):
            return None
        able = [core for core in self.cores() if _can_vote(core)]
        if len(able) < self._config.quorums.view_change:
            return "calm_without_quorum"
        if self._misses_block():
            return "calm_without_block"
        return "calm_without_prepare" if _misses_prepare(able) else None

    def _misses_block(self) -> bool:
        return any(
            core.state.restore is not None and core.state.blocks_faulty for core in self.cores()
        )

    def describe(self) -> str:
        """Where everybody stands."""
        return "; ".join(_describe(host) for host in self.core)


def core_of(host: Host) -> Core:
    assert isinstance(host.machine, Replica)
    return host.machine.core


def _can_vote(core: Core) -> bool:
    return core.state.status in (Status.NORMAL, Status.VIEW_CHANGE)


def _misses_prepare(voters: Sequence[Core]) -> bool:
    """An op that some log has, or that was committed, and no replica with a vote can give."""
    lowest = min(core.state.commit_min for core in voters) + 1
    highest = max(max(core.state.op, core.state.commit_max) for core in voters)
    return any(not _is_at_hand(voters, Op(op)) for op in range(lowest, highest + 1))


def _is_at_hand(cores: Sequence[Core], op: Op) -> bool:
    headers = [core.state.journal.header(op) for core in cores]
    return any(
        header is not None and core.state.journal.can_serve(header)
        for core, header in zip(cores, headers, strict=True)
    )


def _describe(host: Host) -> str:
    core = core_of(host)
    state = core.state
    words = [host.label, state.status.value, f"view {state.view}/{state.log_view}"]
    words += [f"checkpoint {core.checkpoint_op}", f"commit {state.commit_min}/{state.commit_max}"]
    words += [f"op {state.op}", f"connected {state.connected_op}"]
    flags = {
        "syncing": core.is_syncing,
        "restoring": state.restore is not None,
        "leading": state.leading,
        "catching up": state.catching_up,
        "checkpointing": state.checkpointing is not None,
        state.refusal: bool(state.refusal),
    }
    return " ".join([*words, *(flag for flag, is_set in flags.items() if is_set)])


# What all storms over replicas have in common

isolation_interval_ms = 1_500
isolation_ms_max = 1_500


class Isolation:
    """Cuts a primary off from the others now and then, but not from clients, until another leads."""

    def __init__(self, world: World, hosts: Sequence[Host], dice: Dice) -> None:
        self._world = world
        self._hosts = hosts
        self._dice = dice
        self._later()

    def _later(self) -> None:
        after_ms = self._dice.between(1, 2 * isolation_interval_ms)
        self._world.at(after_ms * NS_PER_MS, self._strike)

    def _strike(self) -> None:
        world = self._world
        if world.fabric.healed:
            return
        leading = [each.node.address for each in self._hosts if core_of(each).is_primary]
        if leading and len(self._hosts) > 1:
            alone = self._dice.pick(leading)
            others = [each.node.address for each in self._hosts if each.node.address != alone]
            world.fabric.cut([alone], others, one_way=False)
            world.mark("primary_isolated")
            world.record(alone, glyph.FAULT, "primary isolated")
            isolation_ms = self._dice.between(200, isolation_ms_max)
            world.at(isolation_ms * NS_PER_MS, world.fabric.heal)
        self._later()


class ReplicasRun:
    """A run over replicas of consensus, whatever their clients are."""

    #: the rule that all clients get done
    done_rule: str
    _world: World
    config: VsrConfig
    atlas: Atlas
    _is_clock_wild: bool

    def _add_replica(self, service: str, own: ReplicaIndex, make: Callable[[], Stepper]) -> Host:
        """A node with the formatted files of a replica."""
        host = self._world.host(self._world.add_node(self.config.replicas[own]), service, make)
        for file, size_bytes in file_sizes(self.config):
            host.disk.preallocate(file, size_bytes)
        for file, offset, data in format_files(self.config, own):
            host.disk.write(file, offset, data)
        for file in host.disk.files():
            host.disk.sync(file)
        host.disk.damage = self.atlas.disk_of(own)
        return host

    def _waiting(self) -> list[str]:
        """The clients that are not done."""
        raise NotImplementedError

    def _give_up(self, calm: Calm) -> bool:
        """True if there is a good reason."""
        excuse = calm.excuse()
        if excuse is not None:
            self._world.mark(excuse)
            return True
        waiting = " ".join(self._waiting())
        self._world.violated(self.done_rule, f"waiting {waiting}; {calm.describe()}")
        return False

    def permits(self, fault: str, node: Address, /) -> bool:
        if fault in ("rot", "read_error"):
            return self.atlas.permits_damage
        if fault == "clock_jump" and not self._is_clock_wild:
            # A clock that is off by less than it may be is honest, and then all must go on.
            tolerance_ns = self.config.timeouts.clock_tolerance_ms * NS_PER_MS
            return abs(self._world.nodes[node].time.skew_ns) < tolerance_ns // 3
        return True
