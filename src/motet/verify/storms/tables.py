"""Replicated tables in the storm: nodes crash, sessions end, and every version is what the log says.

Two to four nodes have replicas of tables with one or two shards, made by the services of the nodes; in some
runs names come to mean other tables, and tables are dropped (``tables_steward``). The keeper is a store with
the same promises (``tables_store``); parts lie in simulated folders, where work with them takes a while and
may fail (``tables_parts``); clients insert, stage, publish, drop and read (``tables_clients``,
``tables_publisher``). Files are deleted and damaged while their node is down, and damaged while it serves, as
long as another one has the part; replicas are marked as lost (``tables_cleaner``). What must hold is in
``tables_checks``; the planted bugs are in ``tables_plants``.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import NS_PER_MS, Message, Violation
from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.context import ReplicaKey, executed_file
from motet.core.mergetree.messages import CreateTable
from motet.core.mergetree.paths import (
    TABLE_DATA,
    TABLE_NODES,
    TABLES,
    WRITERS,
    ShardPaths,
    hosted_path,
)
from motet.core.mergetree.state import Phase
from motet.core.metadata.messages import Create, Written
from motet.core.metadata.paths import DRAINS, NODES
from motet.ids import Address, NodeId, PartId, TableId
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.network import LATE, LATE_AFTER_RESTART, LateMessages
from motet.sim.world import World
from motet.verify.plants import plants_of
from motet.verify.storms.tables_checks import Truth
from motet.verify.storms.tables_cleaner import LOST, Cleaner
from motet.verify.storms.tables_clients import (
    GIVEN_UP,
    READ_OLD,
    RETRIED,
    REUSED,
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
from motet.verify.storms.tables_publisher import (
    AGAIN,
    JOB_ENDED,
    LEFT_OUT,
    REPUBLISHED,
    RESTAGED,
    SILENT,
    Publisher,
)
from motet.verify.storms.tables_steward import CREATED, RENAMED, TABLE_DROPPED, Steward
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
    *(AGAIN, LEFT_OUT),
    *("published", "published_by_token", "published_by_step", RESTAGED, REPUBLISHED),
    *("published_manifests", JOB_ENDED, SILENT, "table_job_collected", REUSED, LOST),
    *(CREATED, RENAMED, TABLE_DROPPED, "refused_table_moved", "refused_no_such_table"),
    *("table_part_released", "table_not_held"),
    *("table_part_missing", "table_part_waits", "table_log_not_written", "table_quorum_failed"),
    *("refused_outcome_unknown", "refused_too_few_replicas", "refused_quorum_failed"),
)
look_every_ms = 50
patience_ms = 45_000


class TablesStorm:
    """``motet simulate tables``."""

    name = "tables"
    marks = MARKS
    plants = plants_of("tables")
    storm_ms = 4_000

    def prepare(self, world: World, plant: str | None) -> TablesRun:
        return TablesRun(world, plant)


def may_keep(message: Message) -> bool:
    """Whether copies of it may come late: one that creates a table, when that is dropped already, would make
    another of the same id, and what the first one has promised would be taken for its promises."""
    return not isinstance(message, CreateTable)


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
        jobs_look_ms=dice.pick([30, 200]),
        lease_ms=dice.pick([400, 900]),
        job_part_keep_ms=dice.pick([50, 300]),
        pull_ms=dice.pick([50, 1_000]),
        dropped_ms=dice.pick([10, 300]),
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


class Habits(msgspec.Struct, frozen=True):
    """What goes on in runs of one kind; figures are picked from for each of them."""

    drops: tuple[float, ...] = (0.0, 0.2, 0.5)
    changes: tuple[float, ...] = (0.0, 0.0, 0.2, 0.6)
    replaces: float = 0.1
    loses: bool = True
    spoils: bool = True


class TablesRun:
    """Tables, their replicas, and those who work with them."""

    habits = Habits()

    def __init__(self, world: World, plant: str | None) -> None:
        dice = self._dice = world.dice.fork("cluster")
        self._world = world
        is_faultless = world.faults == type(world.faults)()
        self.nodes = tuple(NodeId(f"n{n}") for n in range(1, dice.pick([2, 3, 3, 3, 4]) + 1))
        self.shards = dice.pick([1, 1, 1, 2])
        trouble = draw_trouble(dice, is_calm=is_faultless)
        self.truth = Truth(world)
        self.store = TableStore(world, trouble, self.truth.wrote)
        self.truth.look = self.store.tree.get
        self._found_keeper()
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
        self.told_by = dice.pick(["token", "token", "producer", "content", "content"])
        self.add_clients()
        if world.faults.network.kept:
            world.late = LateMessages(world, may_keep)
        losing_ms = dice.pick([0, 0, 100, 400])
        may_lose = len(self.nodes) > 2 and max(self._cluster.quorums) < len(self.nodes)
        if losing_ms and may_lose and self.habits.loses and not is_faultless:
            Cleaner(world, dice, self.store, self.truth, self.folders).begin(losing_ms)
        interval_ms = dice.pick([0, 60, 200])
        if interval_ms and self.habits.spoils and world.faults.nodes.crash_interval_ms:
            self._spoil_later(interval_ms)
        self._look_again_ns = 0
        self._calm_since_ns: int | None = None

    # Building the world

    def _found_keeper(self) -> None:
        roots = ("/motet", TABLES, TABLE_DATA, TABLE_NODES, WRITERS, NODES, DRAINS)
        nodes = [(path, b"") for path in roots]
        for node in self.nodes:
            entry = b'{"id":"%s","roles":["data"]}' % node.encode()
            nodes.append((f"{NODES}/{node}", entry))
        for path, data in nodes:
            written = self.store.write(Create(path, data))
            assert isinstance(written, Written), (path, written)

    def _add_node(self, name: NodeId, plant: str | None, trouble: FetchTrouble) -> None:
        make = table_node(plant)

        def machine() -> StoredNode:
            node = make(name, (), self.config, f"folder of {name}", f"{name}:7400")
            return StoredNode(node, self.store, lambda: host)

        host: Host = self._world.host(self._world.add_node(name), HOST, machine)
        address = host.node.address
        folder = self.folders[address] = Folder(self._world, host, self.folders, trouble)
        host.workshop = folder
        self.hosts[address] = host
        self.store.serve(host)

    def add_clients(self, *, second: bool = False) -> None:
        """Those who work with tables from now on; there may be a second generation of them."""
        world, dice, habits = self._world, self._dice, self.habits
        most = len(self.nodes)
        majority = most // 2 + 1
        cluster = self._cluster = Cluster(
            world,
            self.store,
            self.truth,
            self.folders,
            self.shards,
            ahead=dice.pick([0.0, 0.3, 1.0]),
            small=dice.pick([0.0, 0.5, 1.0]),
            quorums=tuple(dice.pick([(1,), (1, 2), (2,), (majority,), (1, 2, majority, most)])),
            told_by=self.told_by,
            jobs=dice.pick([0.0, 0.5, 1.0]),
            large=dice.pick([0.0, 0.0, 0.3]),
            replaces=habits.replaces,
        )
        pause_ms = dice.pick([40, 150])
        first, number = (5, 2) if second else (1, 1)
        inserters = [
            Inserter(cluster, f"w{n}", pause_ms) for n in range(first, first + dice.between(2, 4))
        ]
        drops = dice.pick(habits.drops)
        dropper = Dropper(cluster, f"c{number}", dice.pick([100, 400]), drops)
        publishers = [
            Publisher(cluster, f"p{number}", dice.pick([20, 100]), ordered=False),
            Publisher(cluster, f"o{number}", dice.pick([20, 100]), ordered=True),
        ]
        changes = dice.pick(habits.changes)
        steward = Steward(cluster, f"k{number}", dice.pick([20, 200]), changes)
        names = ("r3", "r4") if second else ("r1", "r2")
        self.readers = [Reader(cluster, name, dice.pick([20, 80])) for name in names]
        self.writers: list[TableClient] = [*inserters, dropper, *publishers, steward]
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
            spare = [part for part in folder.stored if self._is_spare(part, folder)]
            if not spare:
                continue
            if self._world.nodes[address].up:
                if self.hosts[address].listening and self._dice.chance(0.3):
                    part = self._dice.pick(spare)
                    self._world.record(address, "!", f"found broken {part}")
                    folder.find_broken(part)
                    self._world.mark(FOUND_BROKEN)
                continue
            for part in self._dice.subset(spare, 0.3):
                folder.spoil(part, is_deleted=self._dice.chance(0.6))
                self._world.mark(SPOILED)
                self._world.record(address, "!", f"spoiled {part}")

    def _is_spare(self, part: PartId, folder: Folder) -> bool:
        """Whether another replica, which is not lost, has it."""
        key = folder.stored[part].key
        return any(
            other is not folder and other.has_whole(part) and (key, node) not in self.truth.lost
            for node, other in self.folders.items()
        )

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
        for table in self._cluster.tables:
            for shard in range(self.shards):
                unrest = self._unrest_in((table, shard))
                if unrest is not None:
                    return f"{table}/{shard}: {unrest}"
        for table in self.truth.dropped:
            for host in self.hosts.values():
                unrest = self._left_of(table, host)
                if unrest is not None:
                    return f"{table}, which is dropped, on {host.node.address}: {unrest}"
        return None

    def _unrest_in(self, key: ReplicaKey) -> str | None:
        open_ = self.store.tree.names(ShardPaths(*key).statuses)
        if open_:
            return f"the quorum of {' '.join(open_)} is open"
        for address, host in self.hosts.items():
            unrest = None if (key, address) in self.truth.lost else self._unrest_of(key, host)
            if unrest is not None:
                return f"{address} {unrest}"
        return None

    def _unrest_of(self, key: ReplicaKey, host: Host) -> str | None:
        stored = host.machine
        assert isinstance(stored, StoredNode)
        replica = stored.node.replicas.get(key)
        if replica is None:
            return "does not serve it"
        state = replica.core.state
        truth, address = self.truth.shard(key), host.node.address
        if state.phase is not Phase.ACTIVE:
            return f"{state.phase}, {state.why}"
        waits = [f"{part}: {queued.reason}" for part, queued in state.queue.items()]
        waits += [*state.to_fail, *state.to_leave]
        own = ShardPaths(*key).replica(NodeId(address))
        waits += [f"queue {name}" for name in self.store.tree.names(own.queue)]
        if waits:
            return f"waits for {'; '.join(waits)}"
        pointer = int(self.store.tree.get(own.log_pointer) or b"0")
        if pointer != truth.next_number:
            return f"has pointer {pointer} of {truth.next_number}"
        registered = self.truth.registered(key, address)
        missing = [part for part in truth.wanted if part not in registered]
        unread = [part for part in truth.wanted if not self.folders[address].has_whole(part)]
        failed = [part for part in registered if truth.has_failed(part)]
        if missing or unread or failed:
            return f"lacks {missing}, cannot read {unread}, has failed {failed}"
        return None

    def _left_of(self, table: TableId, host: Host) -> str | None:
        """What a node still has of a dropped table."""
        stored, node = host.machine, NodeId(host.node.address)
        assert isinstance(stored, StoredNode)
        keys = [(table, shard) for shard in range(self.shards)]
        parts = [p for p, e in self.folders[host.node.address].stored.items() if e.key in keys]
        files = [key for key in keys if host.disk.durable(executed_file(key), 0, 1)]
        served = [key for key in keys if key in stored.node.replicas]
        is_listed = self.store.tree.get(hosted_path(node, table)) is not None
        if parts or files or served or is_listed:
            return f"parts {parts}, files {files}, serves {served}, listed {is_listed}"
        return None

    def check(self) -> list[Violation]:
        return []

    def permits(self, fault: str, _node: Address, /) -> bool:
        return fault not in ("rot", "read_error")
