"""A replicated table in the storm: nodes crash, sessions end, and every version is what the log says.

Two to four nodes have replicas of one or two shards. The keeper is a store with the same promises
(``tables_store``); parts lie in simulated folders, where work with them takes a while and may fail
(``tables_parts``); clients insert, publish, drop and read (``tables_clients``). Files are deleted and damaged
while their node is down, and damaged while it serves, as long as another one has the part. What must hold is
in ``tables_checks``; the planted bugs are in ``tables_plants``.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS, Violation
from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.paths import TABLE_DATA, WRITERS, ShardPaths, layout
from motet.core.mergetree.state import Phase
from motet.core.metadata.messages import Create, Written
from motet.ids import Address, NodeId
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.network import LATE, LATE_AFTER_RESTART, LateMessages
from motet.sim.world import World
from motet.verify.plants import plants_of
from motet.verify.storms.tables_checks import Truth
from motet.verify.storms.tables_clients import (
    GIVEN_UP,
    READ_OLD,
    RETRIED,
    TABLE,
    Cluster,
    Dropper,
    Inserter,
    Reader,
    TableClient,
)
from motet.verify.storms.tables_parts import (
    FETCH_CUT,
    FETCHED_ROTTEN,
    KEPT_ASIDE,
    FetchTrouble,
    Folder,
)
from motet.verify.storms.tables_plants import table_node
from motet.verify.storms.tables_publisher import REPUBLISHED, RESTAGED, Publisher
from motet.verify.storms.tables_store import (
    CONFLICT,
    LATE_WRITE,
    OLD_SESSION,
    ORPHAN,
    UNKNOWN,
    WHIM,
    StoredNode,
    TableStore,
    Trouble,
)

HOST = "tables"
SPOILED, FOUND_BROKEN = "part_spoiled", "part_found_broken"
MARKS = (
    *("crash", "crash_all", "crash_writing", "lost_write", "torn_write", "full_disk", "pause"),
    *("partition", "partition_one_way", LATE, LATE_AFTER_RESTART),
    *(UNKNOWN, LATE_WRITE, ORPHAN, OLD_SESSION, CONFLICT, WHIM),
    *(FOUND_BROKEN, FETCHED_ROTTEN, FETCH_CUT, KEPT_ASIDE, SPOILED, GIVEN_UP, RETRIED, READ_OLD),
    *("quorum_failed", "dropped", "dropped_open", "duplicate_acknowledged"),
    *("published", "published_by_token", "published_by_step", RESTAGED, REPUBLISHED),
    *("table_part_released", "table_not_held"),
    *("table_part_missing", "table_part_waits", "table_log_not_written", "table_quorum_failed"),
    *("refused_outcome_unknown", "refused_too_few_replicas", "refused_quorum_failed"),
)
look_every_ms = 50
patience_ms = 30_000


class TablesStorm:
    """``motet simulate tables``."""

    name = "tables"
    marks = MARKS
    plants = plants_of("tables")
    storm_ms = 4_000

    def prepare(self, world: World, plant: str | None) -> TablesRun:
        return TablesRun(world, plant)


def draw_config(dice: Dice) -> MergeTreeConfig:
    """Small figures: everything that is late is looked at soon."""
    return MergeTreeConfig(
        tick_ms=dice.pick([20, 60]),
        wait_ms=dice.pick([200, 600]),
        entries_max=dice.pick([2, 64]),
        fetches_max=dice.pick([1, 4]),
        pointer_ms=dice.pick([10, 50]),
        windows_ms=dice.pick([50, 2_000]),
        pushed_ms=dice.pick([30, 300]),
        staged_look_ms=dice.pick([50, 400]),
        staged_keep_ms=dice.pick([1_000, 3_000]),
        jobs_look_ms=1_000,
    )


def draw_trouble(dice: Dice, *, is_calm: bool) -> Trouble:
    """How fickle the store is in this run."""
    if is_calm:
        return Trouble(0.0, 0.0, 0.0, 0.0)
    return Trouble(
        unknown=dice.pick([0.0, 0.03, 0.15]),
        failed=dice.pick([0.0, 0.02, 0.1]),
        slow=dice.pick([0.0, 0.05]),
        whim=dice.pick([0.0, 0.02, 0.1]),
    )


class TablesRun:
    """One table, its replicas, and those who work with it."""

    def __init__(self, world: World, plant: str | None) -> None:
        dice = self._dice = world.dice.fork("cluster")
        self._world = world
        is_faultless = world.faults == type(world.faults)()
        self.nodes = tuple(NodeId(f"n{n}") for n in range(1, dice.pick([2, 3, 3, 3, 4]) + 1))
        self.shards = dice.pick([1, 1, 1, 2])
        self.truth = Truth(world, TABLE, self.shards)
        trouble = draw_trouble(dice, is_calm=is_faultless)
        self.store = TableStore(world, trouble, self.truth.wrote)
        self._told_by = dice.pick(["token", "token", "producer", "content"])
        self._make_table()
        self.config = draw_config(dice)
        fetching = FetchTrouble(dice.pick([0.0, 0.05, 0.2]), dice.pick([5, 100, 400]))
        if is_faultless:
            fetching = FetchTrouble(0.0, 5)
        self.folders: dict[Address, Folder] = {}
        self.hosts: dict[Address, Host] = {}
        for node in self.nodes:
            self._add_node(node, plant, fetching)
        self.truth.folders, self.truth.hosts = self.folders, self.hosts
        world.observe(self.truth.saw)
        self._add_clients()
        if world.faults.network.kept:
            world.late = LateMessages(world)
        interval_ms = dice.pick([0, 60, 200])
        if interval_ms and world.faults.nodes.crash_interval_ms:
            self._spoil_later(interval_ms)
        self._look_again_ns = 0
        self._calm_since_ns: int | None = None

    # Building the world

    def _make_table(self) -> None:
        paths = ShardPaths(TABLE, 0)
        definition = b'{"shards":%d}' % self.shards
        nodes = [(TABLE_DATA, b""), *self._layout()]
        for path, data in (("/motet", b""), *nodes, (WRITERS, b""), (paths.definition, definition)):
            written = self.store.write(Create(path, data))
            assert isinstance(written, Written), (path, written)

    def _layout(self) -> tuple[tuple[str, bytes], ...]:
        has_dedup = self._told_by == "content"
        return layout(TABLE, self.shards, self.nodes, has_dedup=has_dedup)

    def _add_node(self, name: NodeId, plant: str | None, trouble: FetchTrouble) -> None:
        keys = tuple((TABLE, shard) for shard in range(self.shards))
        make = table_node(plant)

        def machine() -> StoredNode:
            node = make(name, keys, self.config, f"folder of {name}", f"{name}:7400")
            return StoredNode(node, self.store, lambda: host)

        host: Host = self._world.host(self._world.add_node(name), HOST, machine)
        address = host.node.address
        folder = self.folders[address] = Folder(self._world, host, self.folders, trouble)
        host.workshop = folder
        self.hosts[address] = host
        self.store.serve(host)

    def _add_clients(self) -> None:
        world, dice = self._world, self._dice
        most = len(self.nodes)
        majority = most // 2 + 1
        cluster = Cluster(
            world,
            self.store,
            self.truth,
            self.folders,
            self.shards,
            ahead=dice.pick([0.0, 0.3, 1.0]),
            small=dice.pick([0.0, 0.5, 1.0]),
            quorums=tuple(dice.pick([(1,), (1, 2), (2,), (majority,), (1, 2, majority, most)])),
            told_by=self._told_by,
        )
        pause_ms = dice.pick([40, 150])
        inserters = [Inserter(cluster, f"w{n}", pause_ms) for n in range(1, dice.between(2, 4) + 1)]
        dropper = Dropper(cluster, "c1", dice.pick([100, 400]), dice.pick([0.0, 0.2, 0.5]))
        publishers = [
            Publisher(cluster, "p1", dice.pick([20, 100]), ordered=False),
            Publisher(cluster, "o1", dice.pick([20, 100]), ordered=True),
        ]
        self.readers = [Reader(cluster, f"r{number}", dice.pick([20, 80])) for number in (1, 2)]
        self.writers: list[TableClient] = [*inserters, dropper, *publishers]
        for client in (*self.writers, *self.readers):
            world.host(world.add_node(client.name, immune=True), HOST, client.itself)

    # Files that somebody deletes or damages

    def _spoil_later(self, interval_ms: int) -> None:
        self._world.at(
            self._dice.between(1, 2 * interval_ms) * NS_PER_MS, self._spoil, (interval_ms,)
        )

    def _spoil(self, interval_ms: int) -> None:
        if self._world.fabric.healed:
            return
        self._spoil_later(interval_ms)
        for address, folder in self.folders.items():
            others = [each for each in self.folders.values() if each is not folder]
            spare = [p for p in folder.stored if any(each.has_whole(p) for each in others)]
            if not spare:
                continue
            if self._world.nodes[address].up:
                if self.hosts[address].listening and self._dice.chance(0.3):
                    part = self._dice.pick(spare)
                    self._world.record(address, "!", f"found broken {part}")
                    folder.find_broken(part, TABLE)
                    self._world.mark(FOUND_BROKEN)
                continue
            for part in self._dice.subset(spare, 0.3):
                folder.spoil(part, is_deleted=self._dice.chance(0.6))
                self._world.mark(SPOILED)
                self._world.record(address, "!", f"spoiled {part}")

    # The run

    def finished(self) -> bool:
        """The storm is over, clients are done, and replicas have what the log says."""
        world = self._world
        if not world.fabric.healed:
            return False
        now_ns = world.virtual.elapsed_ns
        if self._calm_since_ns is None:
            self._calm_since_ns = now_ns
        if now_ns < self._look_again_ns:
            return False
        self._look_again_ns = now_ns + look_every_ms * NS_PER_MS
        unrest = self._unrest()
        if unrest is not None and now_ns - self._calm_since_ns > patience_ms * NS_PER_MS:
            world.violated("Converged", unrest)
        return unrest is None

    def _unrest(self) -> str | None:
        """What is still to be done; None: nothing."""
        for clients in (self.writers, self.readers):
            for client in clients:
                client.is_last_round = True
            waiting = [client.name for client in clients if not client.is_done]
            if waiting:
                return f"waiting {' '.join(waiting)}; {self._behind() or 'replicas are as the log'}"
        return self._behind()

    def _behind(self) -> str | None:
        """What a replica lacks, or waits for; None: all have what the log says."""
        for shard in range(self.shards):
            paths = ShardPaths(TABLE, shard)
            open_ = self.store.tree.names(f"{paths.root}/quorum/status")
            if open_:
                return f"shard {shard}: the quorum of {' '.join(open_)} is open"
            for host in self.hosts.values():
                unrest = self._unrest_of(shard, host)
                if unrest is not None:
                    return f"shard {shard} on {host.node.address}: {unrest}"
        return None

    def _unrest_of(self, shard: int, host: Host) -> str | None:
        stored = host.machine
        assert isinstance(stored, StoredNode)
        state = stored.node.replicas[TABLE, shard].core.state
        truth, address = self.truth.shards[shard], host.node.address
        if state.phase is not Phase.ACTIVE:
            return f"{state.phase}, {state.why}"
        waits = [f"{part}: {queued.reason}" for part, queued in state.queue.items()]
        waits += [*state.to_fail, *state.to_leave]
        own = ShardPaths(TABLE, shard).replica(NodeId(address))
        waits += [f"queue {name}" for name in self.store.tree.names(own.queue)]
        if waits:
            return f"waits for {'; '.join(waits)}"
        pointer = int(self.store.tree.get(own.log_pointer) or b"0")
        if pointer != truth.next_number:
            return f"its pointer is {pointer} of {truth.next_number}"
        registered = self.truth.registered(shard, address)
        seen = [block.header.id for block in truth.blocks if block.visible and not block.dropped]
        missing = [part for part in seen if part not in registered]
        unread = [part for part in seen if not self.folders[address].has_whole(part)]
        failed = [part for part in registered if self._is_failed(shard, part)]
        if missing or unread or failed:
            return f"lacks {missing}, cannot read {unread}, has failed {failed}"
        return None

    def _is_failed(self, shard: int, part: str) -> bool:
        block = next((b for p, b in self.truth.shards[shard].by_part.items() if p == part), None)
        return block is None or block.has_failed

    def check(self) -> list[Violation]:
        return []

    def permits(self, fault: str, _node: Address, /) -> bool:
        return fault not in ("rot", "read_error")
