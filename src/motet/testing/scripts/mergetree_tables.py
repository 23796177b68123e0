"""Golden scripts about whole tables: data nodes ``n1`` … without replicas at first, a keeper, and clients.

Tables that scripts create have the ids t1, t2, …; clients remember how tables were described to them.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import Note
from motet.core.mergetree.messages import (
    CreateTable,
    DescribeTables,
    DropPartitions,
    DropTable,
    InsertBlock,
    ListTables,
    RenameTable,
    TableAt,
    TableChanged,
    TableReady,
    TablesDescribed,
    TablesListed,
)
from motet.core.mergetree.names import PARTITION
from motet.core.mergetree.node import TableNode
from motet.core.mergetree.paths import TABLE_DATA, name_path
from motet.core.metadata.definitions import Column, TableDefinition
from motet.core.metadata.messages import METADATA
from motet.core.metadata.paths import DRAINS, NODES
from motet.errors import BadScenario
from motet.ids import Address, NodeId, TableId, TableName
from motet.testing.bench_network import InFlight, Line
from motet.testing.part import verb
from motet.testing.scripts.mergetree import MergeTreePart
from motet.testing.scripts.mergetree_bench import (
    MergeTreeBench,
    PartFolder,
    WatchedKeeper,
)
from motet.testing.scripts.mergetree_client import CLIENT, header_of

COLUMNS = (Column(1, "sku"), Column(2, "at"), Column(3, "qty"))


class TablesBench(MergeTreeBench):
    """It tells of tables by their names in scripts."""

    def _deliver(self, each: InFlight) -> list[Line]:
        message = each.send.message
        if each.send.to not in self.nodes and isinstance(
            message, TableReady | TableChanged | TablesListed | TablesDescribed
        ):
            self.received.setdefault(each.send.to, []).append(message)
            return [Line("send", f"{each.send.to} <- {_told(message)}")]
        return super()._deliver(each)

    def _noted(self, name: Address, note: Note) -> list[Line]:
        what = note.what.removeprefix("table_").replace("_", " ")
        return [Line("note", f"{name} {what}: {note.detail}")]


class TablesPart(MergeTreePart):
    """Commands for whole tables."""

    name = "tables"

    def __init__(self) -> None:
        super().__init__()
        self.bench = TablesBench()
        self.created = 0
        #: as clients were told
        self.described: dict[str, TableAt] = {}

    @verb
    def nodes(self, count: int, *, others: int = 0) -> list[str]:
        """Start data nodes of a cluster, and enter them; others are entered as nodes that hold no data."""
        self._begin()
        for number in range(1, count + others + 1):
            self.enter(f"n{number}", role="data" if number <= count else "keeper")
        for number in range(1, count + 1):
            self._add(f"n{number}", NodeId(f"n{number}"))
        return self._started()

    @verb
    def folder(self) -> list[str]:
        """Start the node of an embedded database, which is entered nowhere."""
        self._begin()
        self._add("n1", NodeId("n1"), is_embedded=True)
        return self._started()

    def _begin(self) -> None:
        self.bench.add(str(METADATA), WatchedKeeper)
        self.bench.start(str(METADATA))
        self.keeper().put(TABLE_DATA, b"")

    def _started(self) -> list[str]:
        lines = self.start()
        self.bench.show = ("send", "note")
        return [line for line in lines if " <- " in line]

    def _add(self, name: str, own: NodeId, *, is_embedded: bool = False) -> None:
        address = Address(name)
        self.bench.folders[address] = PartFolder({}, {}, {}, {}, {})
        endpoint = "" if is_embedded else f"{name}:7400"
        node = self.bench.add(
            name, lambda: TableNode(own, (), self.config, f"folder of {name}", endpoint)
        )
        node.workshop = lambda work, now: self.bench.work(address, work, now)

    @verb
    def enter(self, node: str, *, role: str = "data") -> list[str]:
        """A node is in the list of those that live."""
        entry = {"id": node, "roles": [role], "native": f"{node}:7400", "http": f"{node}:7403"}
        self.keeper().put(f"{NODES}/{node}", msgspec.json.encode(entry))
        return []

    @verb
    def leave(self, node: str) -> list[str]:
        """A node is no longer in that list."""
        self.keeper().delete(f"{NODES}/{node}")
        return []

    @verb
    def drain(self, node: str) -> list[str]:
        """A node is to be emptied."""
        self.keeper().put(f"{DRAINS}/{node}", b"")
        return []

    # Requests

    @verb
    def create(
        self,
        node: str,
        name: str,
        *,
        shards: int = 1,
        replicas: int | None = None,
        order: str = "sku",
        disk: str = "local",
        engine: str = "merge",
        wait: bool = True,
    ) -> list[str]:
        """Create a table, with an id of its own."""
        self.created += 1
        table = TableId(f"{self.created:016x}")
        self.bench.short[table] = f"t{self.created}"
        definition = TableDefinition(
            *(table, b"schema", COLUMNS, tuple(order.split(","))), shards=shards, disk=disk
        )
        definition = msgspec.structs.replace(definition, engine=engine)
        message = CreateTable(self.request(), TableName(name), definition, replicas)
        return self.ask(node, message, wait)

    @verb
    def drop_table(self, node: str, name: str, *, wait: bool = True) -> list[str]:
        """Drop a table."""
        return self.ask(node, DropTable(self.request(), TableName(name)), wait)

    @verb
    def rename(self, node: str, name: str, new_name: str, *, wait: bool = True) -> list[str]:
        """Rename a table."""
        message = RenameTable(self.request(), TableName(name), TableName(new_name))
        return self.ask(node, message, wait)

    @verb
    def tables(self, node: str, *, after: str = "") -> list[str]:
        """List tables."""
        return self.ask(node, ListTables(self.request(), after), wait=True)

    @verb
    def describe(self, node: str, *names: str, wait: bool = True) -> list[str]:
        """Describe tables at one moment, and remember it."""
        message = DescribeTables(self.request(), tuple(map(TableName, names)))
        return self.ask(node, message, wait)

    def _remembered(self, name: str) -> TableAt:
        for message in self.bench.received.get(CLIENT, []):
            if isinstance(message, TablesDescribed):
                self.described.update({table.name: table for table in message.tables})
        if name not in self.described:
            raise BadScenario(f"{name} has not been described")
        return self.described[name]

    @verb
    def insert_into(
        self, node: str, name: str, part: str, *, quorum: int = 1, wait: bool = True
    ) -> list[str]:
        """Insert a part into the table of a name, as that was described last."""
        table = self._remembered(name)
        header = header_of(part, None, PARTITION)
        self.bench.folders[Address(node)].arrived[header.id] = header
        message = InsertBlock(
            *(table.definition.id, 0, self.request(), header, quorum, f"token-of-{part}", part),
            name_path=name_path(table.name),
            name_version=table.name_version,
        )
        return self.ask(node, message, wait)

    @verb
    def drop_partitions_of(self, node: str, name: str) -> list[str]:
        """Drop all partitions of the table of a name, as that was described last."""
        table = self._remembered(name)
        named = name_path(table.name), table.name_version
        message = DropPartitions(table.definition.id, 0, self.request(), None, *named)
        return self.ask(node, message, wait=True)

    # Looking

    @verb
    def keeper_(self, path: str) -> list[str]:
        """Nodes of the keeper, below ``/motet``."""
        root = f"/motet/{path}"
        lines = self.below(root, len(root) + 1) or ["nothing"]
        return [self._shortened(line) for line in lines]

    @verb
    def set_(self, path: str, data: str) -> list[str]:
        """Somebody sets a node below ``/motet``."""
        for table, short in self.bench.short.items():
            path = path.replace(short, table)
        keeper, lines = self.keeper(), []
        keeper.put(f"/motet/{path}", data.encode())
        told = [send for send in keeper.news() if self.bench.node(send.to).machine is not None]
        for send in told:
            lines += self.bench.receive(str(send.to), str(METADATA), send.message)
        return [*lines, *self.bench.settle()]

    @verb
    def hosted(self) -> list[str]:
        """The replicas of all nodes that run."""
        lines = []
        for name in self.bench.folders:
            machine = self.bench.node(str(name)).machine
            if isinstance(machine, TableNode):
                replicas = (f"{t}/{n} {each.phase}" for (t, n), each in machine.replicas.items())
                lines.append(self._shortened(f"{name}: {', '.join(replicas) or 'nothing'}"))
        return lines

    def _shortened(self, line: str) -> str:
        for long, short in self.bench.short.items():
            line = line.replace(long, short)
        return line


def _told(message: TableReady | TableChanged | TablesListed | TablesDescribed) -> str:
    match message:
        case TableReady(definition=definition, is_new=is_new):
            return f"{definition.id} {'is made' if is_new else 'was there'}"
        case TableChanged(version=version):
            return f"changed at {version}"
        case TablesListed(tables=tables, more=more):
            listed = (f"{t.name}={t.definition.id} x{t.replicas} of {t.created_ms}" for t in tables)
            return f"{', '.join(listed) or 'no tables'}{', and more' if more else ''}"
        case TablesDescribed(version=version, tables=described):
            return f"at {version}: {'; '.join(map(_told_table, described))}"


def _told_table(table: TableAt) -> str:
    shards = []
    for shard in table.shards:
        replicas = [
            f"{each.node}{'' if each.is_active else ' down'}{' lost' if each.is_lost else ''}"
            for each in shard.replicas
        ]
        shards.append(f"{shard.head} on {', '.join(replicas)}")
    definition = f"{table.definition.id} v{table.definition_version}"
    return f"{table.name} v{table.name_version} is {definition}, {' | '.join(shards)}"
