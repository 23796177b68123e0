"""Collecting what is no table: trees of creations that were cut off, and of dropped tables without replicas.

Z1  A node looks now and then, whether there are more trees than names; as long as there are not, that is two
    stats. Several nodes may do all this at a time, it comes to the same.
Z2  A tree without a name is collected when it is an hour old, by the keeper's clock: the time of a write of
    this node against that of its root (T28). It is marked first, by the root's version, as whoever gives it a
    name does; so it has a name or goes, never both.
Z3  The tree of a dropped table is removed when no replica is left below it: whoever ended the last one was
    cut off, too. A tree whose definition cannot be read is let alone.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.mergetree.context import NodeContext
from motet.core.mergetree.paths import (
    COLLECTED,
    NAMED,
    TABLE_DATA,
    TABLES,
    ShardPaths,
    definition_path,
    table_of,
    table_root,
)
from motet.core.mergetree.removal import TreeRemoval
from motet.core.mergetree.service import NodeService
from motet.core.metadata.definitions import decode_table_definition
from motet.core.metadata.messages import (
    Children,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadOperation,
    ReadResult,
    Set,
    WriteOperation,
    Written,
)
from motet.errors import BadRecord
from motet.ids import RequestId, TableId

first_look_ms = 60_000
look_ms = 600_000
"""After the begin of a session, and from one look to the next."""

age_ms = 3_600_000
"""So old is a tree without a name when it is collected (Z2)."""

trees_per_read = 100


class CollectStep(StrEnum):
    """What is with the keeper."""

    #: how many trees and names there are
    COUNTS = "counts"
    TREES = "trees"
    #: roots and definitions, so many at a time
    ROOTS = "roots"
    #: the write that tells the keeper's time, and what it was
    STAMP = "stamp"
    TIME = "time"
    #: the replicas of a dropped table
    REPLICAS = "replicas"
    #: the mark at the root of a tree without a name
    MARK = "mark"
    REMOVAL = "removal"


class CollectingMemory(msgspec.Struct):
    """How far a look is."""

    #: 0: there is no session
    next_look_ns: int = 0
    step: CollectStep = CollectStep.COUNTS
    #: what was asked of the keeper; None: no look is under way
    asked: RequestId | None = None
    #: of the node above all trees
    stamp_version: int = -1
    #: whose roots have not been read
    left: tuple[TableId, ...] = ()
    #: trees without a name, and the version and the ctime of their roots
    unnamed: dict[TableId, tuple[int, int]] = msgspec.field(default_factory=dict)
    #: trees that somebody has marked, and dropped tables with the number of their shards
    marked: list[TableId] = msgspec.field(default_factory=list)
    dropped: dict[TableId, int] = msgspec.field(default_factory=dict)
    #: what is looked at or removed now
    table: TableId = TableId("")
    removal: TreeRemoval | None = None


class TreeCollectingService(NodeService):
    """Looks now and then."""

    name = "tree-collecting"

    def __init__(self, node: NodeContext) -> None:
        super().__init__(node)
        self.memory: CollectingMemory = CollectingMemory()

    # What happens

    def on_session(self) -> None:
        self.memory = CollectingMemory(self.node.later_ns(first_look_ms))

    def on_session_end(self) -> None:
        self.memory = CollectingMemory()

    def on_tick(self) -> None:
        memory = self.memory
        due_ns = memory.next_look_ns
        if due_ns and memory.asked is None and self.node.now.monotonic_ns >= due_ns:
            self.memory = CollectingMemory(self.node.later_ns(look_ms))
            self._read(CollectStep.COUNTS, Get(TABLES), Get(TABLE_DATA))

    def on_answer(self, request: RequestId, answer: MetadataAnswer) -> None:
        memory = self.memory
        if request != memory.asked:
            return
        memory.asked = None
        if memory.removal is not None:
            if memory.removal.take(answer):
                self._go_on_removing(memory.removal)
        elif isinstance(answer, Written):
            self._on_written()
        elif memory.step is CollectStep.MARK:
            self._go_on()  # somebody was first: it has a name now, or is marked
        elif isinstance(answer, ReadDone):
            self._on_read(answer.results)

    def _on_read(self, results: tuple[ReadResult, ...]) -> None:
        match self.memory.step:
            case CollectStep.COUNTS:
                self._on_counts(results)
            case CollectStep.TREES:
                trees = results[0]
                names = trees.names if isinstance(trees, Names) else ()
                self._read_roots(tuple(map(TableId, names)))
            case CollectStep.ROOTS:
                self._on_roots(results)
            case CollectStep.TIME:
                self._on_time(results[0])
            case _:
                self._on_replicas(results)

    # Looking (Z1, Z3)

    def _on_counts(self, results: tuple[ReadResult, ...]) -> None:
        names, trees = results
        if isinstance(names, Found) and isinstance(trees, Found):
            self.memory.stamp_version = trees.stat.version
            if trees.stat.children > names.stat.children:
                self._read(CollectStep.TREES, Children(TABLE_DATA))

    def _read_roots(self, tables: tuple[TableId, ...]) -> None:
        some, self.memory.left = tables[:trees_per_read], tables[trees_per_read:]
        if some:
            reads = [path for each in some for path in (table_root(each), definition_path(each))]
            self._read(CollectStep.ROOTS, *map(Get, reads))
        elif self.memory.unnamed:
            version = self.memory.stamp_version
            data = self.node.memory.own.encode()
            self._write(CollectStep.STAMP, Set(TABLE_DATA, data, version))
        else:
            self._go_on()

    def _on_roots(self, results: tuple[ReadResult, ...]) -> None:
        memory, each = self.memory, iter(results)
        for root, definition in zip(each, each, strict=True):
            if not isinstance(root, Found):
                continue
            table = table_of(root.path)
            if root.data == b"":
                memory.unnamed[table] = root.stat.version, root.stat.ctime_ms
            elif root.data == COLLECTED:
                memory.marked.append(table)
            elif root.data == NAMED and isinstance(definition, Found):
                self._take_if_dropped(table, definition)
        self._read_roots(memory.left)

    def _take_if_dropped(self, table: TableId, found: Found) -> None:
        try:
            definition = decode_table_definition(found.data)
        except BadRecord:
            return
        if definition.is_dropped:
            self.memory.dropped[table] = definition.shards

    # The keeper's time (Z2)

    def _on_written(self) -> None:
        if self.memory.step is CollectStep.STAMP:
            self._read(CollectStep.TIME, Get(TABLE_DATA))
        else:
            self._begin_removing()

    def _on_time(self, stamp: ReadResult) -> None:
        if isinstance(stamp, Found):
            memory, now_ms = self.memory, stamp.stat.mtime_ms
            for table, (_, created_ms) in list(memory.unnamed.items()):
                if now_ms - created_ms < age_ms:
                    del memory.unnamed[table]
        self._go_on()

    # Removing

    def _go_on(self) -> None:
        """The next tree."""
        memory = self.memory
        if memory.marked:
            memory.table = memory.marked.pop()
            self._begin_removing()
        elif memory.unnamed:
            memory.table, (version, _) = memory.unnamed.popitem()
            self._write(CollectStep.MARK, Set(table_root(memory.table), COLLECTED, version))
        elif memory.dropped:
            memory.table, shards = memory.dropped.popitem()
            paths = (ShardPaths(memory.table, shard) for shard in range(shards))
            self._read(CollectStep.REPLICAS, *(Children(each.replicas) for each in paths))

    def _on_replicas(self, results: tuple[ReadResult, ...]) -> None:
        if any(isinstance(each, Names) and each.names for each in results):
            self._go_on()
        else:
            self._begin_removing()

    def _begin_removing(self) -> None:
        self.node.note("collected", self.memory.table)
        self.memory.removal = TreeRemoval.of(table_root(self.memory.table))
        self._go_on_removing(self.memory.removal)

    def _go_on_removing(self, removal: TreeRemoval) -> None:
        if reads := removal.reads:
            self._read(CollectStep.REMOVAL, *reads)
        elif writes := removal.writes:
            self._write(CollectStep.REMOVAL, *writes)
        else:
            self.memory.removal = None
            self._go_on()

    def _read(self, step: CollectStep, *operations: ReadOperation) -> None:
        self.memory.step = step
        self.memory.asked = self.read(*operations)

    def _write(self, step: CollectStep, *operations: WriteOperation) -> None:
        self.memory.step = step
        self.memory.asked = self.write(*operations)
