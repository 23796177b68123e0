"""Golden scripts about replicated tables: replicas ``n1`` … of one shard, a keeper, and a client.

``cluster`` makes the table and starts all of them. A part is named by a word, which is its id; its rows are
its content. Time stands still but for ``run`` and for commands that wait for an answer. Told are notes of the
replicas, answers to the client, and sends of the kinds that are traced.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.context import ReplicaKey
from motet.core.mergetree.entries import PublishEntry, encode_entry
from motet.core.mergetree.messages import (
    DropPartitions,
    InsertBlock,
    ListParts,
    PartArrived,
)
from motet.core.mergetree.names import PARTITION
from motet.core.mergetree.node import TableNode
from motet.core.mergetree.paths import TABLE_DATA, ShardPaths, layout
from motet.core.mergetree.pulling import head_of
from motet.core.metadata.messages import (
    METADATA,
    Create,
    Found,
    Get,
    Read,
    ReadDone,
    SessionBegun,
    SessionEnded,
    Write,
    Written,
)
from motet.errors import BadScenario
from motet.ids import Address, NodeId, PartId, RequestId, TableId, Zxid
from motet.testing.part import verb
from motet.testing.scripts.mergetree_bench import PartFolder, WatchedKeeper
from motet.testing.scripts.mergetree_client import (
    KEY,
    PATHS,
    TABLE,
    TABLES,
    block_of,
    header_of,
)
from motet.testing.scripts.mergetree_mishaps import MishapVerbs
from motet.testing.scripts.mergetree_publishing import PublishingPart
from motet.testing.workbench import Lost


class MergeTreePart(MishapVerbs, PublishingPart):
    """Commands for the replicas of a table's shard."""

    name = "mergetree"

    def __init__(self) -> None:
        super().__init__()
        self.config = MergeTreeConfig()
        self.keys: tuple[ReplicaKey, ...] = (KEY,)

    # The cluster

    @verb
    def cluster(
        self, *, replicas: int = 3, shards: int = 1, tables: int = 1, dedup: bool = False
    ) -> list[str]:
        """Make tables t, u, … with so many replicas of so many shards, and start them."""
        self.bench.add(str(METADATA), WatchedKeeper)
        self.bench.start(str(METADATA))
        nodes = tuple(NodeId(f"n{number}") for number in range(1, replicas + 1))
        keeper = self.keeper()
        definition = b"{}" if shards == 1 else b'{"shards":%d}' % shards
        keeper.put(TABLE_DATA, b"")
        for name in TABLES[:tables]:
            table = TableId(name)
            paths = ShardPaths(table, 0)
            tree = layout(table, shards, nodes, has_dedup=dedup)
            for path, data in (*tree, (paths.definition, definition)):
                keeper.put(path, data)
        self.keys = tuple((TableId(t), n) for t in TABLES[:tables] for n in range(shards))
        for node in nodes:
            self._add(node, node)
        self.bench.show = ()
        lines = [line for node in nodes for line in self.start(node)]
        self.bench.show = ("send", "note")
        return lines

    def _add(self, name: str, own: NodeId) -> None:
        address = Address(name)
        folder = self.bench.folders[address] = PartFolder({}, {}, {}, {}, {})
        node = self.bench.add(
            name,
            lambda: TableNode(own, self.keys, self.config, f"folder of {name}", f"{name}:7400"),
        )
        node.workshop = lambda work, now: self.bench.work(address, work, now)
        assert folder is self.bench.folders[address]

    @verb
    def twin(self, node: str, of: str) -> list[str]:
        """Another process that calls itself as a replica that is there."""
        self._add(node, NodeId(of))
        return self.start(node)

    @verb
    def config_(self, name: str, value: int) -> list[str]:
        """Change a setting of replicas that are started from now on."""
        self.config = msgspec.structs.replace(self.config, **{name: value})
        return []

    @verb
    def start(self, *nodes: str) -> list[str]:
        """Start replicas, each with a session of its own; without a name, all that are down."""
        down = [str(n.name) for n in self.bench.nodes.values() if n.machine is None]
        lines = []
        for node in nodes or down:
            lines += self.bench.start(node)
            lines += self.session(node)
        return lines

    @verb
    def crash(
        self, node: str | None = None, *, keep: str | None = None, torn: str | None = None
    ) -> list[str]:
        """Stop a replica dead. Its session goes on for the keeper; bytes that had arrived are gone."""
        name = self.named(node)
        self.bench.folders[Address(name)].arrived.clear()
        return super().crash(name, keep=keep, torn=torn)

    @verb
    def restart(self, node: str | None = None) -> list[str]:
        """Crash a replica, if it runs, and start it."""
        name = self.named(node)
        if self.bench.node(name).machine is not None:
            self.crash(name)
        return self.start(name)

    # The keeper

    @verb
    def session(self, node: str) -> list[str]:
        """A replica gets a session; one that it had goes on for the keeper."""
        keeper = self.keeper()
        session = keeper.tree.begin_session()
        keeper.sessions[session] = Address(node)
        lines = self.bench.receive(node, str(METADATA), SessionBegun(session))
        return [*lines, *self.bench.settle()]

    @verb
    def expire(self, node: str, *, told: bool = True) -> list[str]:
        """The keeper ends all sessions of a replica; it is told, or not yet."""
        keeper, lines = self.keeper(), []
        for session in [s for s, of in keeper.sessions.items() if of == node]:
            keeper.tree.end_session(session)
            del keeper.sessions[session]
            if told and self.bench.node(node).machine is not None:
                lines += self.bench.receive(node, str(METADATA), SessionEnded(session))
        for effect in keeper.news():
            lines += self.bench.receive(str(effect.to), str(METADATA), effect.message)
        return [*lines, *self.bench.settle()]

    @verb
    def mishap(self, *how: Literal["unknown", "lost", "fail", "ok"]) -> list[str]:
        """How the next writes of the keeper end: done and not told, neither, refused, or well."""
        self.keeper().mishaps += ["" if each == "ok" else each for each in how]
        return []

    @verb
    def trace(self, *kinds: str) -> list[str]:
        """Tell messages of these kinds from now on."""
        self.bench.traced = kinds
        return []

    @verb
    def lose(self, kind: str, *, from_: str | None = None, to: str | None = None) -> list[str]:
        """Lose messages of a kind, or all, until healed."""
        self.bench.lost.append(Lost(kind, from_, to))
        return []

    @verb
    def put(self, path: str, data: str) -> list[str]:
        """Somebody sets a node below the shard."""
        self.keeper().put(f"{PATHS.root}/{path}", data.encode())
        return []

    @verb
    def tree(self, path: str = "") -> list[str]:
        """The keeper's nodes below the shard, with their data."""
        root = f"{PATHS.root}/{path}" if path else PATHS.root
        return self.below(root.rstrip("/"), len(root) + 1) or ["nothing"]

    @verb
    def log(self, table: str = "t", shard: int = 0) -> list[str]:
        """The entries of the log."""
        keeper, path = self.keeper(), ShardPaths(TableId(table), shard).log
        return [
            f"{int(name[4:])} {(keeper.get(f'{path}/{name}') or (b'', 0))[0].decode()}"
            for name in keeper.tree.names(path)
        ] or ["no entries"]

    # Clients

    @verb
    def insert(
        self,
        node: str,
        part: str,
        *,
        rows: str | None = None,
        quorum: int = 1,
        token: str | None = None,
        producer: str = "",
        number: int = 0,
        partition: str = PARTITION,
        dedup: bool = False,
        arrived: bool = True,
        block: bool = False,
        wait: bool = True,
    ) -> list[str]:
        """Insert a part whose bytes have arrived at a replica, or come with it; its rows are its name, if
        not told."""
        content = part if rows is None else rows
        header = header_of(part, rows, partition)
        if arrived and not block:
            self.bench.folders[Address(node)].arrived[header.id] = header
        named = token or ("" if producer else f"token-of-{part}")
        message = InsertBlock(
            *(TABLE, 0, self.request(), header, quorum, named, content),
            producer=producer,
            number=number,
            block=block_of(header) if block else None,
            dedup_hash=header.hash.replace(" ", "-") if dedup else "",
        )
        return self.ask(node, message, wait)

    @verb
    def drop_partition(self, node: str, *partitions: str, wait: bool = True) -> list[str]:
        """Drop partitions, or all there are."""
        message = DropPartitions(TABLE, 0, self.request(), partitions or None)
        return self.ask(node, message, wait)

    @verb
    def select(
        self,
        node: str,
        *,
        version: int | None = None,
        eventual: bool = False,
        after: str = "",
        wait: bool = True,
    ) -> list[str]:
        """Read the head and the zxid from the keeper, then ask a replica for the parts of that version."""
        keeper = self.keeper()
        reader = keeper.tree.begin_session()
        read = keeper.tree.answer(Read(RequestId(0), reader, (Get(PATHS.log),)))
        keeper.tree.end_session(reader)
        assert isinstance(read, ReadDone)
        log = read.results[0]
        assert isinstance(log, Found)
        at = read.zxid if version is None else Zxid(version)
        message = ListParts(TABLE, 0, self.request(), head_of(log.stat), at, eventual, after)
        return self.ask(node, message, wait)

    @verb
    def run_(self, ms: int) -> list[str]:
        """Let time pass."""
        return self.bench.run_ms(ms)

    # Folders

    @verb
    def arrive(self, node: str, part: str, *, rows: str | None = None) -> list[str]:
        """The bytes of a part are streamed ahead to a replica."""
        header = header_of(part, rows, PARTITION)
        self.bench.folders[Address(node)].arrived[header.id] = header
        return self.bench.receive(node, node, PartArrived(TABLE, 0, header, NodeId(node)))

    @verb
    def append_publication(
        self, *parts: str, on: str = "n1", partition: str = PARTITION, replace: str | None = None
    ) -> list[str]:
        """Somebody appends the entry of a publication; some nodes have its bytes, by whatever way."""
        headers = tuple(header_of(part, None, partition) for part in parts)
        holders = tuple(NodeId(node) for node in on.split(","))
        for node in holders:
            folder = self.bench.folders[Address(node)]
            folder.arrived.update({header.id: header for header in headers})
            for header in headers:
                self.bench.receive(node, node, PartArrived(TABLE, 0, header, node))
        entry = PublishEntry(headers, holders, tuple(replace.split(",")) if replace else ())
        keeper = self.keeper()
        writer = keeper.tree.begin_session()
        create = Create(PATHS.new_entry, encode_entry(entry), sequential=True)
        done = keeper.tree.answer(Write(RequestId(0), writer, (create,)))
        keeper.tree.end_session(writer)
        assert isinstance(done, Written)
        lines = [f"published at {done.zxid}"]
        for send in keeper.news():
            lines += self.bench.receive(send.to, str(METADATA), send.message)
        return [*lines, *self.bench.settle()]

    @verb
    def damage(self, node: str, part: str) -> list[str]:
        """The bytes of a stored part rot."""
        folder = self.bench.folders[Address(node)]
        header, _ = folder.stored[PartId(part)]
        folder.stored[PartId(part)] = header, False
        return []

    @verb
    def remove(self, node: str, *parts: str) -> list[str]:
        """Somebody deletes parts of a replica; without a name, all."""
        stored = self.bench.folders[Address(node)].stored
        for part in [PartId(each) for each in parts] or list(stored):
            if part not in stored:
                raise BadScenario(f"{node} has no part {part}")
            del stored[part]
        return []

    @verb
    def wipe(self, *nodes: str) -> list[str]:
        """Somebody deletes all that these nodes have staged."""
        for node in nodes:
            self.bench.folders[Address(node)].staged.clear()
        return []

    @verb
    def parts(self, *nodes: str) -> list[str]:
        """What replicas hold on their disks, and what they wait for."""
        lines = []
        for name in nodes or [str(each) for each in self.bench.folders]:
            folder = self.bench.folders[Address(name)]
            held = " ".join(folder.stored) or "nothing"
            rotten = [f"damaged {part}" for part in folder.rotten]
            aside = [*folder.arrived, *folder.detached, *rotten]
            line = f"{name}: {held}" + (f"; aside {' '.join(aside)}" if aside else "")
            lines.append(line + (f"; staged {' '.join(folder.staged)}" if folder.staged else ""))
            machine = self.bench.node(name).machine
            for replica in machine.replicas.values() if isinstance(machine, TableNode) else ():
                state = replica.core.state
                lines += [f"  waits for {p}: {q.reason}" for p, q in state.queue.items()]
                if state.why:
                    lines.append(f"  {state.phase}: {state.why}")
        return lines
