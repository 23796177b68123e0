"""A cluster's streams in the storm: operators duel, nodes crash and lose their disks, and no entry is lost.

Three to six data nodes hold the shards of a stream that stays and of others that come and go; one to three
operators elect their leaders and change their ensembles, as somebody asks for all the time. The keeper is a
store with the same promises (``streams_store``); clients append and read (``streams_clients``). What must
hold is in ``streams_checks`` and ``streams_promises``, whose disks may be lost in ``streams_atlas``, and the
way out of the storm in ``streams_calm``.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS, Effect, Event, Note, Violation
from motet.core.metadata.definitions import StreamDefinition
from motet.core.operator.context import OperatorConfig
from motet.core.shardlog.context import ShardlogConfig
from motet.core.streams.cluster_messages import ShardMetadata
from motet.ids import Address, NodeId, ShardName, StreamId
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.network import LATE, LATE_AFTER_RESTART, LateMessages
from motet.sim.world import SimNode, World
from motet.verify.plants import plants_of
from motet.verify.storms.streams_calm import Calm
from motet.verify.storms.streams_changes import STAYS, Changer
from motet.verify.storms.streams_checks import OLD_COMMITTED, Watch
from motet.verify.storms.streams_clients import DataClient, Reader, Site, Writer
from motet.verify.storms.streams_faults import Atlas, Moments, Strikes
from motet.verify.storms.streams_plants import BLIND_STORE, data_node, operator
from motet.verify.storms.streams_plays import Plays, Stage
from motet.verify.storms.streams_rules import STALL_MARKS, Promises
from motet.verify.storms.streams_store import Store, StoredOperator, Trouble

HOST = "streams"
SNAPSHOT_OF_THE_WIPED = "wiped_node_installed"
MARKS = (
    *("crash", "crash_writing", "lost_write", "torn_write", "partition", "partition_one_way"),
    *("rot", "full_disk", "operator_duel", "store_unknown", "store_conflict", "token_repeated"),
    *("operator_late_fence", "shard_truncation_by_epoch", "shard_truncation_by_offset"),
    *("shard_truncated", "wiped", SNAPSHOT_OF_THE_WIPED, OLD_COMMITTED),
    *(LATE, LATE_AFTER_RESTART),
    *STALL_MARKS,
)
steps_min = 10_000
"""A run goes on with its work until it has had so many events."""

wipe_down_ms_max = 400

OPERATOR_CONFIG = OperatorConfig(
    heartbeat_ms=60,
    dead_after_ms=300,
    tick_ms=20,
    grace_ms=20,
    retry_ms=60,
    retry_ms_max=500,
    election_ms=400,
    election_ms_max=2_000,
    step_ms=500,
    foreign_ms=300,
    snapshot_ms=1_500,
    unsafe_ms=1_200,
    store_ms=700,
    replace_after_ms=1_500,
    balance_after_ms=400,
    map_ms=10,
    map_again_ms=500,
    request_ms=3_000,
)


class StreamsStorm:
    """``motet simulate streams``."""

    name = "streams"
    marks = MARKS
    plants = plants_of("streams")
    storm_ms = 9_000

    def prepare(self, world: World, plant: str | None) -> StreamsRun:
        return StreamsRun(world, plant)


def draw_config(dice: Dice) -> ShardlogConfig:
    """Small figures: segments, snapshots and reads from disk come soon."""
    is_trimmed = dice.chance(0.25)
    return ShardlogConfig(
        segment_bytes=dice.pick([1_500, 4_000]),
        preallocate_bytes=dice.pick([0, 1_024]),
        index_step_bytes=400,
        tail_bytes_max=dice.pick([600, 2_000, 20_000]),
        message_bytes=dice.pick([500, 4_000]),
        in_flight_bytes_max=dice.pick([1_000, 8_000]),
        uncommitted_bytes_max=20_000,
        uncommitted_entries_max=64,
        read_bytes=dice.pick([700, 4_000]),
        snapshot_every_bytes=dice.pick([1_000, 5_000]),
        snapshots_given_max=2,
        beat_ms=dice.pick([20, 40]),
        resend_ms=100,
        snapshot_idle_ms=800,
        unreadable_max=6,
        keep_bytes=5_000 if is_trimmed else None,
    )


def draw_trouble(dice: Dice, *, is_calm: bool) -> Trouble:
    """How fickle the store is in this run."""
    if is_calm:
        return Trouble(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return Trouble(
        unknown=dice.pick([0.0, 0.02, 0.15]),
        failed=dice.pick([0.0, 0.02, 0.1]),
        slow=dice.pick([0.0, 0.05]),
        whim=dice.pick([0.0, 0.03, 0.15]),
        duel=dice.pick([0.0, 0.5, 1.0]),
        forgets_nodes=dice.pick([0.0, 0.2]),
    )


class StreamsRun:
    """One cluster, those who work with it, and the calm after the storm."""

    def __init__(self, world: World, plant: str | None) -> None:
        dice = self._dice = world.dice.fork("cluster")
        aim = world.dice.fork("aim")
        self._world = world
        self._is_faultless = world.faults.nodes.crash_interval_ms == 0 and dice.chance(0.5)
        self._is_faultless |= world.faults == type(world.faults)()
        self.watch = Watch(world)
        self.store = Store(world, draw_trouble(dice, is_calm=self._is_faultless), self._stored)
        self.store.is_blind = plant == BLIND_STORE
        self.config = draw_config(dice)
        count = self.draw_nodes(dice)
        self.hosts: dict[NodeId, Host] = {}
        self.atlas = Atlas(self.watch, self.hosts)
        for number in range(1, count + 1):
            self._add_data_node(NodeId(f"n{number}"), plant)
        operators = dice.pick([1, 2, 2, 3])
        self.operators = [
            self._add_operator(NodeId(f"o{number}"), plant) for number in range(1, operators + 1)
        ]
        self.stays = self.draw_stream(dice, count)
        self._add_clients()
        world.observe(self.watch.saw)
        self._promises = Promises(world, lambda node, shard: (node, shard) in self.atlas.rotten)
        world.observe(self._promises.saw)
        world.observe(self._follow)
        self.calm: Calm | None = None
        self._moments: Moments | None = None
        #: wiped, and nothing has been installed there since
        self._wiped: dict[NodeId, None] = {}
        if world.faults.nodes.crash_interval_ms and dice.chance(0.6):
            self._wipe_later(dice.pick([400, 1_200]))
        if not self._is_faultless and world.faults.network.kept:
            world.late = LateMessages(world)
        #: the nemesis leaves nodes and links to those who take aim
        self._is_aimed = not self._is_faultless and aim.chance(0.4)
        if not self._is_faultless:
            self._take_aim(aim)

    # Building the world

    changers: type[Changer] = Changer

    def draw_nodes(self, dice: Dice) -> int:
        """How many data nodes there are."""
        return dice.pick([3, 4, 4, 4, 5, 5, 6])

    def draw_stream(self, dice: Dice, nodes: int) -> StreamDefinition:
        """The stream that stays."""
        replicas = dice.pick([None, 3, 3, min(nodes, 5)])
        shards = dice.pick([1, 1, 2])
        return StreamDefinition(StreamId("f" * 16), STAYS, shards, replicas)

    def _add_data_node(self, name: NodeId, plant: str | None) -> None:
        node = self._world.add_node(name)
        host = self._world.host(node, HOST, data_node(plant, name, self.config))
        self.hosts[name] = host
        self.watch.add_host(host)
        self.store.enter(node)
        host.disk.damage = self.atlas.page(name)

    def _add_operator(self, name: NodeId, plant: str | None) -> Host:
        node = self._world.add_node(name)
        host: Host = self._world.host(
            node,
            HOST,
            lambda: StoredOperator(
                operator(plant, OPERATOR_CONFIG, name), self.store, lambda: host
            ),
        )
        self.store.serve(host)
        return host

    def _add_clients(self) -> None:
        world, dice = self._world, self._dice
        site = Site(world, self.watch, tuple(Address(name) for name in self.hosts))
        operators = tuple(host.node.address for host in self.operators)
        writers = dice.between(2, 4)
        self.writers = [
            Writer(site, f"w{number}", 120 // writers) for number in range(1, writers + 1)
        ]
        has_gaps = self.config.keep_bytes is not None
        self.readers = [Reader(site, f"r{number}", has_gaps=has_gaps) for number in (1, 2)]
        self.changer = self.changers(
            site,
            "c1",
            operators,
            self.stays,
            self.atlas.may_contract,
            between_ms_max=dice.pick([50, 200, 800]),
        )
        for client in (*self.writers, *self.readers, self.changer):
            world.host(world.add_node(client.name, immune=True), HOST, client.itself)

    def _take_aim(self, dice: Dice) -> None:
        """Moments of changes to strike at, and plays to perform, in some runs more than in others."""
        world = self._world
        strikes = Strikes(world, self.hosts, self.operators)
        share = dice.pick([0.6, 0.9] if self._is_aimed else [0.0, 0.5])
        self._moments = Moments(world, self.watch, self.store, strikes, share)
        world.observe(self._moments.saw)
        between_ms = dice.pick([0, 500, 1_500])
        if between_ms:
            plays = Plays(Stage(world, dice, self.watch, strikes, self._wipe_if_spared), between_ms)
            world.observe(plays.saw)

    def _stored(
        self, shard: ShardName, before: ShardMetadata | None, after: ShardMetadata | None
    ) -> None:
        late = self._world.late
        if late is not None and before is None and shard in self.watch.truths:
            # The second life of a shard: what was said in the first is not delivered in it.
            late.forget(lambda message: getattr(message, "shard", None) == shard)
        self.watch.stored(shard, before, after)
        if self._moments is not None:
            self._moments.stored(before, after)

    # Disks that are lost

    def _wipe_later(self, interval_ms: int) -> None:
        after_ms = self._dice.between(1, 2 * interval_ms)
        self._world.at(after_ms * NS_PER_MS, self._wipe, (interval_ms,))

    def _wipe(self, interval_ms: int) -> None:
        """A node comes back with an empty disk."""
        world = self._world
        if world.fabric.healed:
            return
        victims = [name for name in self.hosts if self.atlas.may_lose(name)]
        if victims and self.watch.metadata:
            self._wipe_now(self._dice.pick(victims))
        self._wipe_later(interval_ms)

    def _wipe_if_spared(self, name: NodeId) -> bool:
        is_spared = self.atlas.may_lose(name)
        if is_spared:
            self._wipe_now(name)
        return is_spared

    def _wipe_now(self, name: NodeId) -> None:
        world, host = self._world, self.hosts[name]
        if host.node.up:
            world.crash(host.node)
        host.disk.wipe()
        self.atlas.wiped(name)
        self._promises.wiped(name)
        self._wiped[name] = None
        world.mark("wiped")
        world.record(name, "!", "wiped")
        down_ms = self._dice.between(1, wipe_down_ms_max)
        world.at(down_ms * NS_PER_MS, self._restart, (host.node,))

    def _restart(self, node: SimNode) -> None:
        if not node.up:
            self._world.start(node)

    def _follow(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        """A snapshot repairs what was damaged, and what was lost."""
        if not self.atlas.rotten and not self._wiped:
            return
        for effect in effects:
            if isinstance(effect, Note) and effect.what in ("shard_installed", "shard_deleted"):
                node = NodeId(host.node.address)
                self.atlas.repaired(node, ShardName(effect.detail.partition(" ")[0]))
                if node in self._wiped and effect.what == "shard_installed":
                    del self._wiped[node]
                    self._world.mark(SNAPSHOT_OF_THE_WIPED)

    # The run

    def finished(self) -> bool:
        """The storm is over, clients are done, and everything is at rest."""
        world = self._world
        if not world.fabric.healed:
            return False
        if self.calm is None:
            self.calm = Calm(world, self.watch, self.store, self.atlas, self.hosts)
        calm = self.calm
        if not calm.is_time_to_look():
            return False
        if not self._are_clients_done() or calm.unrest() is not None:
            return calm.is_out_of_patience and self._give_up(calm)
        return True

    def _are_clients_done(self) -> bool:
        if self._world.events < steps_min:
            return False
        for writer in self.writers:
            writer.is_last_round = True
        if not all(writer.is_done for writer in self.writers) or not self.changer.is_done:
            return False
        for reader in self.readers:
            reader.is_last_round = True
        return all(reader.is_done for reader in self.readers)

    def _give_up(self, calm: Calm) -> bool:
        """True if there is a good reason."""
        excuse = calm.excuse()
        if excuse is not None:
            self._world.mark(excuse)
            return True
        clients: list[DataClient | Changer] = [*self.writers, *self.readers, self.changer]
        waiting = " ".join(client.name for client in clients if not client.is_done)
        what = f"waiting {waiting or 'nobody'}; {calm.unrest()}; {calm.describe()}"
        self._world.violated("Convergence", what)
        return False

    def check(self) -> list[Violation]:
        return []

    def permits(self, fault: str, node: Address, /) -> bool:
        if fault in ("rot", "read_error"):
            return NodeId(node) in self.hosts
        if fault in ("crash", "pause", "partition"):
            return not self._is_aimed
        return True
