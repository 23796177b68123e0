"""Describing tables at one moment: what a query or an insert has to know of them.

DS1  Names, definitions and the heads of all logs are of one read, whose zxid is the version (R3). Names are
     read before, to know which nodes these are; if they say something else in that read, it begins anew.
DS2  Places of replicas are hints. They are of the same read if there are few, else of reads before it.
DS3  What was learned of a table is kept, so that the next time one read is enough; it is not believed, but
     compared with that read.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from motet.core.mergetree.context import NodeContext
from motet.core.mergetree.messages import (
    DescribeTables,
    NodeRequest,
    ReplicaPlace,
    ShardAt,
    TableAt,
    TablesDescribed,
)
from motet.core.mergetree.paths import ShardPaths, definition_path, name_path, named_table
from motet.core.mergetree.procedure import Procedure, Procedures, ProcedureService, failure
from motet.core.mergetree.pulling import head_of
from motet.core.metadata.definitions import TableDefinition, check_name, read_table_definition
from motet.core.metadata.messages import (
    Absent,
    Children,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadOperation,
    ReadResult,
)
from motet.errors import BadInput, NodeError, NoSuchTable, TooLarge
from motet.ids import Address, NodeId, TableId, TableName
from motet.limits import described_tables_max, message_bytes_max, table_shards_max

reads_max = 500
"""Nodes in one read of what may be read apart."""

heads_max = 4_000
"""Nodes in the read that has to be one: the logs of fifteen tables of 256 shards."""

known_max = 1_000
"""Tables that a node keeps in mind."""


class KnownTable(msgspec.Struct, frozen=True):
    """What was learned of a table, and may have changed."""

    id: TableId
    #: of each shard
    replicas: tuple[tuple[NodeId, ...], ...]


class DescribeStep(StrEnum):
    """What is with the keeper."""

    NAMES = "names"
    DEFINITIONS = "definitions"
    #: the names of replicas
    REPLICAS = "replicas"
    #: where replicas are, page by page
    PLACES = "places"
    #: all that has to be of one moment
    HEADS = "heads"


class Description(Procedure[DescribeTables]):
    """Tables that are being described."""

    step: DescribeStep = DescribeStep.NAMES
    #: tables that are not known, by their names
    new: dict[TableName, TableId] = msgspec.field(default_factory=dict)
    #: how many shards they have
    shards: dict[TableName, int] = msgspec.field(default_factory=dict)
    #: what is read page by page: what is left, and what was found
    left: tuple[ReadOperation, ...] = ()
    found: tuple[ReadResult, ...] = ()
    #: as learned for this request
    tables: dict[TableName, KnownTable] = msgspec.field(default_factory=dict)
    are_places_apart: bool = False


class DescribingMemory(Procedures[Description]):
    """What was learned, the table that was used last at the end."""

    known: dict[TableName, KnownTable] = msgspec.field(default_factory=dict)


class DescribingService(ProcedureService[Description]):
    """Answers ``DescribeTables``."""

    name = "describing"
    takes = (DescribeTables,)

    def __init__(self, node: NodeContext) -> None:
        super().__init__(node)
        self.memory: DescribingMemory = DescribingMemory()

    def begin(self, client: Address, message: NodeRequest) -> None:
        assert isinstance(message, DescribeTables)
        names = message.names
        if not 0 < len(names) <= described_tables_max:
            raise BadInput(f"{len(names)} tables are not between 1 and {described_tables_max}")
        if len(set(names)) < len(names):
            raise BadInput("a table is named twice")
        for name in names:
            check_name(name, "a table")
        self._begin_anew(Description(client, message))

    def go_on(self, procedure: Description, answer: MetadataAnswer) -> None:
        if not isinstance(answer, ReadDone):
            raise failure(answer)
        match procedure.step:
            case DescribeStep.NAMES:
                self._on_names(procedure, answer)
            case DescribeStep.DEFINITIONS:
                self._on_definitions(procedure, answer)
            case DescribeStep.REPLICAS | DescribeStep.PLACES:
                procedure.found += answer.results
                self._read_page(procedure)
            case DescribeStep.HEADS:
                self._on_heads(procedure, answer)

    # Learning (DS3)

    def _begin_anew(self, description: Description) -> None:
        """Learn what is not known."""
        known = self.memory.known
        description.tables, description.new, description.shards = {}, {}, {}
        for name in description.message.names:
            if name in known:
                description.tables[name] = known[name]
            else:
                description.new[name] = TableId("")
        if description.new:
            description.step = DescribeStep.NAMES
            self.ask(description, *(Get(name_path(name)) for name in description.new))
        else:
            self._ask_places(description)

    def _on_names(self, description: Description, answer: ReadDone) -> None:
        for name, found in zip(description.new, answer.results, strict=True):
            if not isinstance(found, Found):
                raise NoSuchTable(f"there is no table {name!r}")
            description.new[name] = named_table(name, found.data)
        description.step = DescribeStep.DEFINITIONS
        self.ask(description, *(Get(definition_path(each)) for each in description.new.values()))

    def _on_definitions(self, description: Description, answer: ReadDone) -> None:
        reads: list[ReadOperation] = []
        for (name, table), found in zip(description.new.items(), answer.results, strict=True):
            shards = _definition(name, found).shards
            description.shards[name] = shards
            reads += [Children(ShardPaths(table, shard).replicas) for shard in range(shards)]
        self._read_pages(description, DescribeStep.REPLICAS, reads)

    def _on_replicas(self, description: Description) -> None:
        each = iter(description.found)
        for name, table in description.new.items():
            shards = (next(each) for _ in range(description.shards[name]))
            description.tables[name] = KnownTable(table, tuple(map(_replicas, shards)))
        self._ask_places(description)

    def _read_pages(
        self, description: Description, step: DescribeStep, reads: list[ReadOperation]
    ) -> None:
        description.step, description.left, description.found = step, tuple(reads), ()
        self._read_page(description)

    def _read_page(self, description: Description) -> None:
        some, description.left = description.left[:reads_max], description.left[reads_max:]
        if some:
            self.ask(description, *some)
        elif description.step is DescribeStep.REPLICAS:
            self._on_replicas(description)
        else:
            self._ask_heads(description)

    # At one moment (DS1, DS2)

    def _ask_places(self, description: Description) -> None:
        heads, places = _heads(description), _places(description)
        if len(heads) > heads_max:
            raise TooLarge(f"these tables have more than {heads_max} shards", hint="name fewer")
        description.are_places_apart = len(heads) + len(places) > reads_max
        if description.are_places_apart:
            self._read_pages(description, DescribeStep.PLACES, places)
        else:
            self._ask_heads(description)

    def _ask_heads(self, description: Description) -> None:
        description.step = DescribeStep.HEADS
        reads = _heads(description)
        if not description.are_places_apart:
            reads += _places(description)
        self.ask(description, *reads)

    def _on_heads(self, description: Description, answer: ReadDone) -> None:
        results = iter(answer.results)
        places = iter(description.found) if description.are_places_apart else None
        parts = [
            (name, table, [next(results) for _ in range(2 + len(table.replicas))])
            for name, table in description.tables.items()
        ]
        tables: dict[TableName, TableAt] = {}
        for name, table, found in parts:
            described = _describe(name, table, found, results if places is None else places)
            if described is None:
                self._forget(description, name)
                return
            tables[name] = described
        if sum(len(each.definition.schema) for each in tables.values()) > message_bytes_max // 2:
            raise TooLarge("the schemas of these tables exceed one message", hint="name fewer")
        self._keep(description)
        in_order = tuple(tables[name] for name in description.message.names)
        version = self.node.version(answer.zxid)
        self.reply(description, TablesDescribed(description.message.request, version, in_order))

    def _forget(self, description: Description, name: TableName) -> None:
        """The name points to another table now, or to none; or its replicas are others."""
        self.memory.known.pop(name, None)
        self.count_attempt(description)
        self._begin_anew(description)

    def _keep(self, description: Description) -> None:
        known = self.memory.known
        for name, table in description.tables.items():
            known.pop(name, None)
            known[name] = table
        while len(known) > known_max:
            del known[next(iter(known))]


def _heads(description: Description) -> list[ReadOperation]:
    reads: list[ReadOperation] = []
    for name, table in description.tables.items():
        reads += [Get(name_path(name)), Get(definition_path(table.id))]
        reads += [Get(ShardPaths(table.id, shard).log) for shard in range(len(table.replicas))]
    return reads


def _places(description: Description) -> list[ReadOperation]:
    reads: list[ReadOperation] = []
    for table in description.tables.values():
        for shard, replicas in enumerate(table.replicas):
            for node in replicas:
                own = ShardPaths(table.id, shard).replica(node)
                reads += [Get(own.host), Get(own.is_active), Get(own.is_lost)]
    return reads


def _describe(
    name: TableName, table: KnownTable, found: list[ReadResult], places: Iterator[ReadResult]
) -> TableAt | None:
    """A table as these reads have it; None: it is not the one that is known."""
    pointer, node, *logs = found
    if not isinstance(pointer, Found) or named_table(name, pointer.data) != table.id:
        return None
    definition = _definition(name, node)
    assert isinstance(node, Found), "a definition was found"
    if definition.shards != len(logs):
        return None
    shards: list[ShardAt] = []
    for log, replicas in zip(logs, table.replicas, strict=True):
        if not isinstance(log, Found):
            raise NodeError(f"the keeper lacks a log of the table {name!r}")
        listed = [_place(replica, places) for replica in replicas]
        if any(each is None for each in listed):
            return None
        there = tuple(each for each in listed if each is not None)
        shards.append(ShardAt(head_of(log.stat), there))
    return TableAt(name, pointer.stat.version, definition, node.stat.version, tuple(shards))


def _place(node: NodeId, places: Iterator[ReadResult]) -> ReplicaPlace | None:
    host, is_active, is_lost = next(places), next(places), next(places)
    if not isinstance(host, Found):
        return None
    endpoint = host.data.decode(errors="replace")
    lost = not isinstance(is_lost, Found) or is_lost.data == b"1"
    return ReplicaPlace(node, endpoint, not isinstance(is_active, Absent), lost)


def _definition(name: TableName, found: ReadResult) -> TableDefinition:
    if not isinstance(found, Found):
        raise NodeError(f"the keeper has no definition of the table {name!r}", hint="try again")
    definition = read_table_definition(name, found.data)
    if not 0 < definition.shards <= table_shards_max:
        raise NodeError(f"the definition of the table {name!r} says {definition.shards} shards")
    return definition


def _replicas(found: ReadResult) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, found.names)) if isinstance(found, Names) else ()
