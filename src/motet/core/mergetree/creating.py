"""Creating tables.

M1  The tree below the uuid is made first, in as many multis as it takes; the last multi makes the name, and
    with it the table, lists its replicas at their nodes and counts them (T28). So a table is there as a whole
    or not at all, and no node hears of one that has no name.
M2  That multi sets the root of the tree, by its version: the collector does so before it removes a tree that
    has no name, so one of the two comes first.
M3  A tree is made once. When the outcome of a multi before the last is unknown, or its id is taken, another
    tree is begun under an id of this node's own, and the collector has the former one.
M4  The same table once more is fine; another one of the name is refused.
M5  Replicas are placed on data nodes that live and are not to be emptied, on the least loaded ones; a node of
    an embedded database has no entry, and takes them itself.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

from motet.core.mergetree.definition_checks import check_table, check_table_name
from motet.core.mergetree.messages import CreateTable, NodeRequest, TableReady
from motet.core.mergetree.paths import (
    NAMED,
    TABLES,
    count_of,
    definition_path,
    encode_shards,
    hosted_path,
    layout_of,
    name_path,
    named_table,
    node_path,
    table_root,
)
from motet.core.mergetree.procedure import Procedure, ProcedureService, Stage, failure
from motet.core.metadata.definitions import (
    TableDefinition,
    encode_table_definition,
    read_table_definition,
)
from motet.core.metadata.messages import (
    Children,
    Conflict,
    Create,
    Failed,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    Refusal,
    Set,
    Unknown,
    WriteOperation,
    Written,
)
from motet.core.metadata.paths import DRAINS, NODES
from motet.core.placement.choosing import Load, new_ensemble
from motet.errors import BadInput, TableExists, TooLarge
from motet.errors.operator import NoNodeToPlaceOn
from motet.ids import Address, NodeId, TableId
from motet.limits import tables_max

nodes_per_multi = 64
"""Nodes of the tree that are made at a time: fewer than 32 KiB, which the keeper of a folder takes."""

replicas_default = 3
ROOT_SET, NAME_MADE = 0, 1
"""Where these are in the last multi."""


class CreateStep(StrEnum):
    """What is with the keeper."""

    #: the name, and how many tables there are
    NAME = "name"
    #: the definition of the table that has the name
    OTHER = "other"
    #: which nodes there are
    NODES = "nodes"
    #: their entries, and how many replicas they have
    ENTRIES = "entries"
    #: a multi of the tree
    TREE = "tree"
    #: how many replicas the chosen nodes have now
    COUNTS = "counts"
    #: the last multi
    LAST = "last"
    #: what became of it
    ROOT = "root"


class Creation(Procedure[CreateTable]):
    """A table that is being created."""

    #: of the tree that is being made
    table: TableId = TableId("")
    step: CreateStep = CreateStep.NAME
    nodes: tuple[NodeId, ...] = ()
    #: of each shard
    ensembles: tuple[tuple[NodeId, ...], ...] = ()
    #: nodes of the tree that have not been made
    left: tuple[tuple[str, bytes], ...] = ()

    @property
    def definition(self) -> TableDefinition:
        """With the id of that tree."""
        return msgspec.structs.replace(self.message.definition, id=self.table)

    @property
    def tree(self) -> tuple[tuple[str, bytes], ...]:
        """The nodes of that tree but its definition."""
        has_dedup = self.message.definition.dedup is not None
        return layout_of(self.table, self.ensembles, has_dedup=has_dedup)

    @property
    def hosts(self) -> dict[NodeId, tuple[int, ...]]:
        """The shards that each node gets."""
        hosts: dict[NodeId, tuple[int, ...]] = {}
        for shard, ensemble in enumerate(self.ensembles):
            for node in ensemble:
                hosts[node] = (*hosts.get(node, ()), shard)
        return dict(sorted(hosts.items()))


class _DataNode(msgspec.Struct, frozen=True):
    """What the entry of a node says that matters here."""

    id: NodeId
    roles: tuple[str, ...]


_decode_entry = msgspec.json.Decoder(_DataNode).decode


class CreatingService(ProcedureService[Creation]):
    """Answers ``CreateTable``."""

    name = "creating"
    takes = (CreateTable,)

    def begin(self, client: Address, message: NodeRequest) -> None:
        assert isinstance(message, CreateTable)
        check_table_name(message.name)
        check_table(message.definition, message.replicas)
        self._ask_name(Creation(client, message, table=message.definition.id))

    def look(self, procedure: Creation) -> None:
        """The root of the tree tells it, whatever has become of the name since."""
        procedure.step = CreateStep.ROOT
        self.ask(procedure, Get(table_root(procedure.table)))

    def go_on(self, procedure: Creation, answer: MetadataAnswer) -> None:
        match procedure.step:
            case CreateStep.TREE:
                self._on_tree(procedure, answer)
            case CreateStep.LAST:
                self._on_last(procedure, answer)
            case _ if not isinstance(answer, ReadDone):
                raise failure(answer)
            case CreateStep.NAME:
                self._on_name(procedure, answer)
            case CreateStep.OTHER:
                self._on_other(procedure, answer)
            case CreateStep.NODES:
                self._on_nodes(procedure, answer)
            case CreateStep.ENTRIES:
                self._on_entries(procedure, answer)
            case CreateStep.COUNTS:
                self._on_counts(procedure, answer)
            case CreateStep.ROOT:
                self._on_root(procedure, answer)

    # The name (M4)

    def _ask_name(self, creation: Creation) -> None:
        creation.step = CreateStep.NAME
        self.ask(creation, Get(name_path(creation.message.name)), Get(TABLES))

    def _on_name(self, creation: Creation, answer: ReadDone) -> None:
        found, tables = answer.results
        if isinstance(found, Found):
            creation.step = CreateStep.OTHER
            table = named_table(creation.message.name, found.data)
            self.ask(creation, Get(definition_path(table)))
        elif isinstance(tables, Found) and tables.stat.children >= tables_max:
            raise BadInput(f"another table exceeds the limit of {tables_max}")
        elif creation.ensembles:
            self._ask_counts(creation)  # its tree is there
        else:
            self._ask_nodes(creation)

    def _on_other(self, creation: Creation, answer: ReadDone) -> None:
        (found,) = answer.results
        name = creation.message.name
        other = read_table_definition(name, found.data) if isinstance(found, Found) else None
        if other is None or other.is_dropped:
            self.count_attempt(creation)  # it was dropped since its name was read
            self._ask_name(creation)
        elif other.is_same(creation.definition):
            self.reply(creation, TableReady(creation.message.request, other, is_new=False))
        else:
            raise TableExists(f"the table {name!r} exists already, and is another one")

    # The nodes (M5)

    def _ask_nodes(self, creation: Creation) -> None:
        memory = self.node.memory
        if memory.endpoint:
            creation.step = CreateStep.NODES
            self.ask(creation, Children(NODES), Children(DRAINS))
        else:
            self._ask_entries(creation, (memory.own,))

    def _on_nodes(self, creation: Creation, answer: ReadDone) -> None:
        entered, drained = (
            each.names if isinstance(each, Names) else () for each in answer.results
        )
        self._ask_entries(creation, tuple(NodeId(each) for each in entered if each not in drained))

    def _ask_entries(self, creation: Creation, nodes: tuple[NodeId, ...]) -> None:
        creation.step, creation.nodes = CreateStep.ENTRIES, nodes
        reads = [path for node in nodes for path in (f"{NODES}/{node}", node_path(node))]
        self.ask(creation, *map(Get, reads or [NODES]))

    def _on_entries(self, creation: Creation, answer: ReadDone) -> None:
        is_embedded = not self.node.memory.endpoint
        counts: dict[NodeId, int] = {}
        each = iter(answer.results if creation.nodes else ())
        for node, entry, count in zip(creation.nodes, each, each, strict=True):
            if is_embedded or (isinstance(entry, Found) and self._has_data(entry)):
                counts[node] = count_of(count.data) if isinstance(count, Found) else 0
        creation.ensembles = place(counts, creation.message)
        self._begin_tree(creation)

    def _has_data(self, entry: Found) -> bool:
        try:
            return "data" in _decode_entry(entry.data).roles
        except msgspec.MsgspecError:
            self.node.note("bad_entry", entry.path)
            return False

    # The tree (M1, M3)

    def _begin_tree(self, creation: Creation) -> None:
        root, *rest = creation.tree
        data = encode_table_definition(creation.definition)
        creation.left = (root, (definition_path(creation.table), data), *rest)
        self._make_nodes(creation, 2)

    def _make_nodes(self, creation: Creation, count: int) -> None:
        creation.step = CreateStep.TREE
        some, creation.left = creation.left[:count], creation.left[count:]
        self.put(creation, *(Create(path, data) for path, data in some))

    def _on_tree(self, creation: Creation, answer: MetadataAnswer) -> None:
        is_first = len(creation.left) == len(creation.tree) - 1
        if isinstance(answer, Written) and creation.left:
            self._make_nodes(creation, nodes_per_multi)
        elif isinstance(answer, Written):
            self._ask_counts(creation)
        elif isinstance(answer, Conflict | Unknown):
            self._begin_another_tree(creation)
        elif isinstance(answer, Failed) and answer.code == "KEEPER_TOO_LARGE" and is_first:
            raise TooLarge(
                f"the definition of {creation.message.name!r} is larger than a write of the keeper",
                hint="give it fewer columns, or shorter names",
            )
        else:
            raise failure(answer)

    def _begin_another_tree(self, creation: Creation) -> None:
        self.count_attempt(creation)
        seed = f"{self.node.memory.nonce} {self.node.memory.next_request}".encode()
        drawn = hashlib.blake2b(seed, digest_size=8, person=b"table id").hexdigest()
        creation.table = TableId(drawn)
        self._begin_tree(creation)

    # The last multi (M1, M2)

    def _ask_counts(self, creation: Creation) -> None:
        creation.step = CreateStep.COUNTS
        self.ask(creation, *(Get(node_path(node)) for node in creation.hosts))

    def _on_counts(self, creation: Creation, answer: ReadDone) -> None:
        table = creation.table
        operations: list[WriteOperation] = [
            Set(table_root(table), NAMED, 0),
            Create(name_path(creation.message.name), table.encode()),
        ]
        for (node, shards), found in zip(creation.hosts.items(), answer.results, strict=True):
            if isinstance(found, Found):
                count = count_of(found.data) + len(shards)
                operations.append(Set(found.path, str(count).encode(), found.stat.version))
            else:
                operations.append(Create(found.path, str(len(shards)).encode()))
            operations.append(Create(hosted_path(node, table), encode_shards(shards)))
        creation.step = CreateStep.LAST
        self.commit(creation, *operations)

    def _on_last(self, creation: Creation, answer: MetadataAnswer) -> None:
        if isinstance(answer, Written):
            self._done(creation)
        elif not isinstance(answer, Conflict):
            raise failure(answer)
        elif answer.index == ROOT_SET:
            self._begin_another_tree(creation)  # it was collected: this took an hour
        elif answer.index == NAME_MADE and answer.why is Refusal.NODE_EXISTS:
            self._ask_name(creation)
        else:
            self.count_attempt(creation)
            self._ask_counts(creation)

    def _on_root(self, creation: Creation, answer: ReadDone) -> None:
        (root,) = answer.results
        if not isinstance(root, Found):
            raise failure(answer)  # it was dropped, or collected: nobody knows
        if root.data == NAMED:
            self._done(creation)
        else:
            creation.stage = Stage.PREPARING
            self.count_attempt(creation)
            self._ask_name(creation)

    def _done(self, creation: Creation) -> None:
        self.node.note("created", f"{creation.message.name} {creation.table}")
        self.reply(creation, TableReady(creation.message.request, creation.definition, is_new=True))


def place(counts: dict[NodeId, int], message: CreateTable) -> tuple[tuple[NodeId, ...], ...]:
    """The replicas of each shard; the nodes may have some already."""
    there, wanted = len(counts), message.replicas
    if not there:
        raise NoNodeToPlaceOn("no data node of this cluster is there to take replicas")
    replicas = min(replicas_default, there) if wanted is None else wanted
    load = Load(dict(sorted(counts.items())), dict.fromkeys(counts, 0))
    ensembles: list[tuple[NodeId, ...]] = []
    for _ in range(message.definition.shards):
        ensemble = new_ensemble(load, replicas)
        if ensemble is None:
            what = f"replicas={replicas} exceeds the {there} data node{'s'[: there - 1]} of this database"
            raise NoNodeToPlaceOn(what, hint=f"add nodes or pass replicas={there}")
        load.place(ensemble)
        ensembles.append(ensemble)
    return tuple(ensembles)
