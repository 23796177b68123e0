"""A keeper in the storm: nodes crash, lag and have bad disks, connections break, and clients see one tree.

Nodes are replicas with front ends. ZooKeeper clients have sessions on them, move from node to node, watch,
fall silent and come back. Of the replicas the rules K1 to K10 of :mod:`motet.verify.storms.vsr_checks` must
hold; of the log and the sessions Z1 to Z5 (:mod:`motet.verify.storms.keeper_ledger`); of what clients are
told Z5 to Z9 (:mod:`motet.verify.storms.keeper_answers`). Z10: when the storm is over, all clients get done.
"""

from __future__ import annotations

from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.front.connections import WAYS, Way
from motet.core.keeper.messages import Connected, FrontEndConfig, Hangup
from motet.core.machine import NS_PER_MS, Effect, Event, Note, Send, Violation
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.state import Status
from motet.ids import Address, ClusterId, Op, ReplicaIndex
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.plants import plants_of
from motet.verify.storms.keeper_answers import Listener
from motet.verify.storms.keeper_client import KeeperClient
from motet.verify.storms.keeper_ledger import Ledger
from motet.verify.storms.keeper_plants import SeenNode, factory
from motet.verify.storms.keeper_wires import Wires
from motet.verify.storms.vsr import TIMEOUTS
from motet.verify.storms.vsr_atlas import Atlas, ReplicaDamage
from motet.verify.storms.vsr_calm import Calm, Isolation, ReplicasRun, core_of
from motet.verify.storms.vsr_checks import Watch

HOST = "keeper"
REPLICA_COUNTS = (1, 3, 3, 3, 3, 3, 3, 3, 5)
OPERATIONS = 300
"""Of all clients together, at least."""

RESPITES_MS = (0, 500, 1_500, 3_000)
"""After a crash there is none for so long: a client needs a while to get anywhere."""

calm_patience_ms = 30_000

KEEPER = KeeperConfig(
    node_bytes_max=4_000,
    write_bytes_max=5_000,
    reply_bytes_max=1_500,
    timeout_ms_min=400,
    timeout_ms_max=10_000,
    grace_ms=100,
    pulse_ms_max=500,
    node_pages=8,
    session_pages=4,
)
HANGUPS = {
    "events were missed": "restored_gap",
    "what became of a request is not known": "lane_evicted",
    "this replica is cut off": "cut_off_noticed",
    "the session was attached again": "old_connection_hung_up",
    "the client has seen what is not here": "client_ahead",
}
"""Why a connection is hung up -> the mark of it."""


class KeeperStorm:
    """``motet simulate keeper``."""

    name = "keeper"
    marks = (
        "crash",
        "crash_all",
        "crash_writing",
        "lost_write",
        "torn_write",
        "rot",
        "partition",
        "partition_one_way",
        "primary_isolated",
        "pause",
        "clock_jump",
        "connection_reset",
        "session_expired",
        "session_closed",
        "session_moved",
        "client_silent",
        "client_told_expired",
        "client_lost_patience",
        "write_of_old_generation",
        "old_connection_hung_up",
        "watch_fired",
        "watch_after_move",
        "multi_done",
        "multi_failed",
        "read_waited",
        "lane_evicted",
        "piece",
        "view_change_with_sessions",
        "restored_gap",
        "cut_off_noticed",
        "calm_without_one",
        "vsr_checkpoint_durable",
        "vsr_synced",
    )
    plants = plants_of("keeper")
    storm_ms = 7_000

    def prepare(self, world: World, plant: str | None) -> KeeperRun:
        return KeeperRun(world, plant)


def draw_config(dice: Dice) -> VsrConfig:
    """A small cluster: checkpoints and evictions come soon."""
    count = dice.pick(REPLICA_COUNTS)
    reserved = dice.pick([1, count, 2 * count])
    return VsrConfig(
        cluster=ClusterId(7),
        replicas=tuple(Address(f"n{number}") for number in range(1, count + 1)),
        slots=dice.pick([32, 64]),
        pipeline_max=4,
        queue_max=8,
        checkpoint_ops=12,
        body_bytes_max=1_500,
        # Places that those keep for ever who are no more, the lanes of all front ends, and little else.
        clients_max=reserved + 2 * count + dice.pick([1, 2, 8]),
        reserved_max=reserved,
        block_bytes=dice.pick([512, 1_024]),
        blocks_max=1 << 16,
        timeouts=TIMEOUTS,
    )


class LaneWatch(Watch):
    """What must hold of replicas whose clients are lanes of front ends."""

    def saw(self, host: Host, event: Event, effects: list[Effect]) -> None:
        if isinstance(host.machine, SeenNode):
            lanes = host.machine.front.context.lanes
            if lanes.is_begun:
                self._note_requests(lanes.on_view(host.machine.core.state.view))
            super().saw(host, event, effects)


class KeeperRun(ReplicasRun):
    """One keeper, its clients, and the calm after the storm."""

    done_rule = "Z10"

    def __init__(self, world: World, plant: str | None) -> None:
        dice = world.dice.fork("cluster")
        self._world = world
        self._dice = dice
        self.config = draw_config(dice)
        self.front = FrontEndConfig(
            pulse_ms=100,
            reads_are_local=dice.chance(0.15),
            timeout_ms_min=KEEPER.timeout_ms_min,
            timeout_ms_max=KEEPER.timeout_ms_max,
        )
        self.watch = LaneWatch(world, self.config.cluster)
        self.ledger = Ledger(world, KEEPER, self.front.pulse_ms)
        self.listener = Listener(world, self.ledger, reads_are_local=self.front.reads_are_local)
        self.ledger.present_since = self._present_since
        self.atlas = Atlas(self.config, dice)
        self._is_clock_wild = dice.chance(0.1)
        self._respite_ns = dice.pick(RESPITES_MS) * NS_PER_MS
        self._struck_ns = 0
        self.hosts = [self._add_node(number, plant) for number in range(self.config.count)]
        self.wires = Wires(world)
        # A node on its own has little to do per operation: more clients make as long a run of it.
        count = dice.between(3, 5) * (5 if self.config.count == 1 else 1)
        self.clients = [self._add_client(number, count) for number in range(count)]
        world.observe(self.watch.saw)
        world.observe(self._follow)
        if world.faults.network.partition_interval_ms and len(self.hosts) > 1:
            Isolation(world, self.hosts, world.dice.fork("isolation"))
        self.calm: Calm | None = None

    def _add_node(self, number: int, plant: str | None) -> Host:
        own = ReplicaIndex(number)
        make = factory(plant, self.config, own, KEEPER, self.front, self.ledger)
        return self._add_replica(HOST, own, make)

    def _add_client(self, number: int, count: int) -> KeeperClient:
        operations = OPERATIONS // count + 1
        client = KeeperClient(
            self._world, f"c{number + 1}", self.wires, self.listener, operations=operations
        )
        node = self._world.add_node(client.name, immune=True)
        client.place(self._world.host(node, HOST, client.itself), self.hosts)
        return client

    def _present_since(self, session: int) -> int | None:
        for client in self.clients:
            if client.session == session:
                return client.present_since_ns
        return None

    # Following what nodes do

    def _follow(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        machine, damage = host.machine, host.disk.damage
        if not isinstance(machine, SeenNode) or not isinstance(damage, ReplicaDamage):
            return
        damage.core = machine.core
        connections = machine.front.context.state.connections
        if connections.waits:
            self._note_waits(machine)
        for effect in effects:
            if isinstance(effect, Note) and effect.what == "vsr_view_started":
                if self.ledger.model.sessions:
                    self._world.mark("view_change_with_sessions")
            elif isinstance(effect, Send) and isinstance(effect.message, Connected):
                self._note_speaker(machine, effect.to)
            elif isinstance(effect, Send) and isinstance(effect.message, Hangup):
                self._world.mark(HANGUPS.get(effect.message.why, "hung_up"))

    def _note_waits(self, machine: SeenNode) -> None:
        connections = machine.front.context.state.connections
        waiting = [connections.by_address.get(address) for _, address in connections.waits]
        heads = [each.entries[0] for each in waiting if each is not None and each.entries]
        if any(WAYS[type(head.request)] is Way.READ for head in heads):
            self._world.mark("read_waited")

    def _note_speaker(self, machine: SeenNode, address: Address) -> None:
        """Who was told that it has a session speaks for it in this generation."""
        connection = machine.front.context.state.connections.by_address.get(address)
        talks = [client.talk for client in self.clients if client.talk is not None]
        for talk in talks:
            if connection is not None and talk.address == address:
                talk.session, talk.generation = connection.session, connection.generation
                self.ledger.speakers[talk.session, talk.generation] = talk

    # The run

    def finished(self) -> bool:
        """The storm is over, clients are done, and those who are left have come together."""
        world = self._world
        if not world.fabric.healed:
            return False
        if self.calm is None:
            expendable = [self.hosts[number] for number in self.atlas.expendable]
            self.calm = Calm(world, self.config, self.hosts, expendable, self.watch)
            self.ledger.calm_since_ns = world.virtual.elapsed_ns
        self.watch.acknowledged = self.ledger.op_of.get(self.listener.told_zxid, Op(0))
        self.calm.keep_out()
        self._do_without_refused(self.calm)
        if all(client.is_done for client in self.clients) and self._has_settled(self.calm):
            return True
        return self._is_out_of_patience() and self._give_up(self.calm)

    def _has_settled(self, calm: Calm) -> bool:
        """Nothing is on its way to a client."""
        talks = [client.talk for client in self.clients if client.talk is not None]
        is_idle = all(self.wires.by_address[talk.address].is_idle for talk in talks)
        return is_idle and calm.has_converged()

    def _do_without_refused(self, calm: Calm) -> None:
        """Whoever refuses its damaged files is out, and nobody waits for it as long as a quorum is left."""
        able = [host for host in calm.core if core_of(host).state.status is not Status.REFUSED]
        if len(able) < len(calm.core) and len(able) >= self.config.quorums.view_change:
            calm.core = able
            self._world.mark("calm_without_refused")

    def _is_out_of_patience(self) -> bool:
        since_ns = self.ledger.calm_since_ns
        assert since_ns is not None
        return self._world.virtual.elapsed_ns - since_ns > calm_patience_ms * NS_PER_MS

    def _waiting(self) -> list[str]:
        return [client.name for client in self.clients if not client.is_done]

    def check(self) -> list[Violation]:
        """In the end every watch has fired that had something to hear."""
        for client in self.clients:
            wire = self.wires.live(client.talk.address) if client.talk is not None else None
            if client.talk is not None and wire is not None and client.is_done and wire.is_idle:
                machine = wire.node.machine
                assert isinstance(machine, SeenNode)
                self.listener.check_all_heard(client.talk, machine.node.keeper.zxid)
        return list(self._world.violations)

    def permits(self, fault: str, node: Address, /) -> bool:
        return self._may_strike() if fault == "crash" else super().permits(fault, node)

    def _may_strike(self) -> bool:
        """One crash may take several nodes."""
        now_ns = self._world.virtual.elapsed_ns
        if now_ns - self._struck_ns >= self._respite_ns:
            self._struck_ns = now_ns
        return now_ns == self._struck_ns
