"""Which replicas this node has: those that the keeper lists for it, until their tables are dropped.

RH1  A table's shards are listed below ``/motet/table_nodes/<own>`` in the multi that gives the table its
     name, so a node starts replicas of whole tables alone, when it is told and after each of its starts.
RH2  A definition that cannot be read is noted with its table, and stops nobody: the replica serves.
RH3  A table whose definition says that it is dropped is removed from here after readers had their time: its
     replicas stop; when nothing of them is under way, their folders and files go; then their nodes in the
     keeper, and in one multi the last of those and the line in the list: as long as it is listed here nobody
     takes it for ended everywhere (RH4). Each step may be done twice, and a node that starts anew begins
     with the first.
RH4  Whoever ends the last replica of a dropped table removes what the keeper has of it; if it does not come
     to that, the collector does.
RH5  What is listed and has no definition is let alone: garbage before loss.
RH6  A watch that the keeper has not set is asked for again: without it a node serves what is dropped.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.machine import Remove
from motet.core.mergetree.context import NodeContext, ReplicaKey, executed_file
from motet.core.mergetree.paths import (
    ShardPaths,
    count_of,
    decode_shards,
    definition_path,
    hosted_path,
    node_path,
    table_of,
    table_root,
)
from motet.core.mergetree.removal import TreeRemoval
from motet.core.mergetree.service import NodeService
from motet.core.mergetree.work import Clear
from motet.core.metadata.definitions import decode_table_definition
from motet.core.metadata.messages import (
    Changed,
    Children,
    Delete,
    Found,
    Get,
    MetadataAnswer,
    Names,
    ReadDone,
    ReadResult,
    Set,
    Watching,
    WatchOf,
    WriteOperation,
    Written,
)
from motet.errors import BadRecord
from motet.ids import RequestId, TableId, WorkId, WriteId

tables_per_read = 100
"""Lines of the list, and definitions, in one read."""


class Leaving(StrEnum):
    """How far a dropped table is on its way."""

    #: it is not dropped
    SERVED = "served"
    #: readers finish
    DROPPED = "dropped"
    #: its replicas are stopped, and what they had under way ends
    STOPPED = "stopped"
    CLEARING = "clearing"
    #: nothing of it is on disk: own nodes in the keeper go
    CLEARED = "cleared"


class HostedTable(msgspec.Struct):
    """A table with replicas here."""

    shards: tuple[int, ...]
    leaving: Leaving = Leaving.SERVED
    #: DROPPED: until then
    due_ns: int = 0
    #: CLEARING: so many tasks and files have not ended
    waits: int = 0
    has_failed: bool = False
    #: CLEARED: the keeper has been asked
    is_asked: bool = False
    #: its definition as it was noted: it cannot be read
    bad: bytes | None = None


# Calls: what was asked of the keeper.


class WatchList(msgspec.Struct, frozen=True):
    """The watch on the list."""


class ReadList(msgspec.Struct, frozen=True):
    """The names in it."""


class WatchTable(msgspec.Struct, frozen=True):
    """The watch on a definition."""

    table: TableId


class ReadTables(msgspec.Struct, frozen=True):
    """Lines of the list, and definitions; so many at a time."""

    tables: tuple[TableId, ...]
    left: tuple[TableId, ...] = ()


class EndReplicas(msgspec.Struct):
    """Own nodes of a dropped table."""

    table: TableId
    removal: TreeRemoval


class ReadLine(msgspec.Struct, frozen=True):
    """The line of a dropped table, and how many replicas this node has."""

    table: TableId


class EndLine(msgspec.Struct, frozen=True):
    """The multi that removes the line."""

    table: TableId


class ReadOthers(msgspec.Struct, frozen=True):
    """The replicas that are left of a dropped table."""

    table: TableId


class EndTable(msgspec.Struct):
    """All that the keeper has of it."""

    table: TableId
    removal: TreeRemoval


HostingCall = (
    WatchList
    | ReadList
    | WatchTable
    | ReadTables
    | EndReplicas
    | ReadLine
    | EndLine
    | ReadOthers
    | EndTable
)


class HostingMemory(msgspec.Struct):
    """What this node hosts, and what is under way."""

    tables: dict[TableId, HostedTable] = msgspec.field(default_factory=dict)
    #: tables whose definition was read under this session
    read: dict[TableId, None] = msgspec.field(default_factory=dict)
    calls: dict[RequestId, HostingCall] = msgspec.field(default_factory=dict)
    #: the list is to be read with the next tick
    is_list_wanted: bool = False
    #: watches that the keeper has not set, to be asked for again with the next tick
    to_watch: list[WatchList | WatchTable] = msgspec.field(default_factory=list)
    works: dict[WorkId, TableId] = msgspec.field(default_factory=dict)
    writes: dict[WriteId, TableId] = msgspec.field(default_factory=dict)


class HostingService(NodeService):
    """Starts and ends replicas."""

    name = "hosting"

    def __init__(self, node: NodeContext) -> None:
        super().__init__(node)
        self.memory: HostingMemory = HostingMemory()

    # What happens

    def on_session(self) -> None:
        self._watch(WatchList())
        self._read_list()

    def on_session_end(self) -> None:
        memory = self.memory
        memory.calls.clear()
        memory.read.clear()
        memory.is_list_wanted = False
        memory.to_watch.clear()
        for hosted in memory.tables.values():
            hosted.is_asked = False

    def on_changed(self, changed: Changed) -> None:
        table = table_of(changed.path)
        if changed.path == node_path(self.node.memory.own):
            self._read_list()
        elif table in self.memory.tables and changed.path == definition_path(table):
            self._read_tables((table,))

    def on_tick(self) -> None:
        memory = self.memory
        if self.node.memory.incarnation:
            to_watch, memory.to_watch = memory.to_watch, []
            for call in to_watch:
                self._watch(call)
            if memory.is_list_wanted:
                self._read_list()
        for table, hosted in list(memory.tables.items()):
            if hosted.leaving is not Leaving.SERVED:
                self._leave(table, hosted)

    def on_answer(self, request: RequestId, answer: MetadataAnswer) -> None:
        call = self.memory.calls.pop(request, None)
        match call:
            case WatchList() if isinstance(answer, Watching):
                self._read_list()  # what came before the watch is told by nobody
            case WatchTable(table=table) if isinstance(answer, Watching):
                self._read_tables((table,))
            case WatchList() | WatchTable():
                self.memory.to_watch.append(call)  # RH6
            case ReadList():
                self._on_list(answer)
            case ReadTables():
                self._on_tables(call, answer)
            case EndReplicas() | EndTable():
                self._on_removed(call, answer)
            case ReadLine(table=table):
                self._on_line(table, answer)
            case EndLine(table=table):
                self._on_line_ended(table, answer)
            case ReadOthers(table=table):
                self._on_others(table, answer)

    # The list (RH1, RH2, RH5)

    def _read_list(self) -> None:
        self.memory.is_list_wanted = False
        request = self.read(Children(node_path(self.node.memory.own)))
        self.memory.calls[request] = ReadList()

    def _on_list(self, answer: MetadataAnswer) -> None:
        if not isinstance(answer, ReadDone):
            self.memory.is_list_wanted = True
            return
        names = answer.results[0]
        if isinstance(names, Names):
            listed = (TableId(name) for name in names.names)
            self._read_tables(tuple(table for table in listed if table not in self.memory.read))

    def _read_tables(self, tables: tuple[TableId, ...]) -> None:
        some, left = tables[:tables_per_read], tables[tables_per_read:]
        if some:
            own = self.node.memory.own
            nodes = [(hosted_path(own, each), definition_path(each)) for each in some]
            request = self.read(*(Get(path) for pair in nodes for path in pair))
            self.memory.calls[request] = ReadTables(some, left)

    def _on_tables(self, call: ReadTables, answer: MetadataAnswer) -> None:
        if not isinstance(answer, ReadDone):
            self.memory.is_list_wanted = True
            for table in (*call.tables, *call.left):
                self.memory.read.pop(table, None)
            return
        each = iter(answer.results)
        for table, line, definition in zip(call.tables, each, each, strict=True):
            self._take(table, line, definition)
        self._read_tables(call.left)

    def _take(self, table: TableId, line: ReadResult, definition: ReadResult) -> None:
        memory = self.memory
        is_new = table not in memory.read
        memory.read[table] = None
        if not isinstance(line, Found) or not isinstance(definition, Found):
            if table not in memory.tables:
                self.node.note("not_hosted", f"{table} is listed, and the keeper has no such table")
            return
        hosted = memory.tables.get(table)
        if hosted is None:
            try:
                hosted = HostedTable(decode_shards(line.data))
            except BadRecord as error:
                self.node.note("not_hosted", f"{table}: {error.what}")
                return
            memory.tables[table] = hosted
        is_dropped = self._is_dropped(table, hosted, definition)
        if is_new:
            self._watch(WatchTable(table))
        if not is_dropped:
            self.node.to_start += self._keys(table, hosted)
        elif hosted.leaving is Leaving.SERVED:
            self._drop(table, hosted, definition)

    def _is_dropped(self, table: TableId, hosted: HostedTable, found: Found) -> bool:
        try:
            return decode_table_definition(found.data).is_dropped
        except BadRecord as error:
            if hosted.bad != found.data:
                self.node.note("bad_definition", f"{table}: {error.what}")
            hosted.bad = found.data
            return False

    def _keys(self, table: TableId, hosted: HostedTable) -> list[ReplicaKey]:
        return [(table, shard) for shard in hosted.shards]

    def _watch(self, call: WatchList | WatchTable) -> None:
        path, of = node_path(self.node.memory.own), WatchOf.CHILDREN
        if isinstance(call, WatchTable):
            path, of = definition_path(call.table), WatchOf.NODE
        self.memory.calls[self.watch(path, of)] = call

    # Dropped tables (RH3)

    def _drop(self, table: TableId, hosted: HostedTable, found: Found) -> None:
        """Readers have their time since the drop, as far as the clocks of keeper and node agree."""
        since_ms = self.node.now.wall_ms - found.stat.mtime_ms
        readers_ms = self.node.config.dropped_ms
        hosted.leaving = Leaving.DROPPED
        hosted.due_ns = self.node.later_ns(min(max(readers_ms - since_ms, 0), readers_ms))
        self.node.note("dropped", table)

    def _leave(self, table: TableId, hosted: HostedTable) -> None:
        """The next step, if nothing is waited for."""
        if hosted.leaving is Leaving.DROPPED and self.node.now.monotonic_ns >= hosted.due_ns:
            self.node.to_stop += self._keys(table, hosted)
            hosted.leaving = Leaving.STOPPED
        if hosted.leaving is Leaving.STOPPED and not self._is_busy(table):
            self._clear(table, hosted)
        elif hosted.leaving is Leaving.CLEARED and not hosted.is_asked:
            self._end_replicas(table)

    def _is_busy(self, table: TableId) -> bool:
        """Whether something that a replica has begun has not ended."""
        memory = self.node.memory
        owners = (*memory.works.values(), *memory.writes.values(), *memory.reads.values())
        return any(not isinstance(owner, str) and owner[0] == table for owner in owners)

    def _clear(self, table: TableId, hosted: HostedTable) -> None:
        node, memory = self.node, self.memory
        hosted.leaving, hosted.has_failed = Leaving.CLEARING, False
        hosted.waits = 2 * len(hosted.shards)
        for key in self._keys(table, hosted):
            memory.works[node.begin_work(self.name, Clear(*key))] = table
            write = node.new_write(self.name)
            memory.writes[write] = table
            node.items.append(Remove(write, executed_file(key)))

    def on_work(self, work: WorkId, why: str | None) -> None:
        self._on_cleared(self.memory.works.pop(work), why)

    def on_written(self, write: WriteId, why: str | None) -> None:
        self._on_cleared(self.memory.writes.pop(write), why)

    def _on_cleared(self, table: TableId, why: str | None) -> None:
        hosted = self.memory.tables[table]
        hosted.waits -= 1
        if why is not None:
            self.node.note("not_cleared", f"{table}: {why}")
            hosted.has_failed = True
        if hosted.waits == 0:
            hosted.leaving = Leaving.STOPPED if hosted.has_failed else Leaving.CLEARED
            if hosted.leaving is Leaving.CLEARED:
                self._leave(table, hosted)

    # Its nodes in the keeper (RH3, RH4)

    def _end_replicas(self, table: TableId) -> None:
        if not self.node.memory.incarnation:
            return  # a tick under the next session begins with it
        roots = self._roots(table)
        self._remove(EndReplicas(table, TreeRemoval.of(*roots, kept=roots[0])))

    def _roots(self, table: TableId) -> list[str]:
        """Own nodes of a table's shards."""
        own, shards = self.node.memory.own, self.memory.tables[table].shards or (0,)
        return [ShardPaths(table, shard).replica(own).root for shard in shards]

    def _remove(self, call: EndReplicas | EndTable) -> None:
        removal = call.removal
        if reads := removal.reads:
            self._asked(call.table, self.read(*reads), call)
        elif writes := removal.writes:
            self._asked(call.table, self.write(*writes), call)
        elif isinstance(call, EndReplicas):
            own, (last, *_) = self.node.memory.own, self._roots(call.table)
            reads = (Get(node_path(own)), Get(hosted_path(own, call.table)), Get(last))
            self._asked(call.table, self.read(*reads), ReadLine(call.table))
        else:
            self._forget(call.table)

    def _asked(self, table: TableId, request: RequestId, call: HostingCall) -> None:
        self.memory.calls[request] = call
        self.memory.tables[table].is_asked = True

    def _on_removed(self, call: EndReplicas | EndTable, answer: MetadataAnswer) -> None:
        if call.removal.take(answer):
            self._remove(call)
        else:
            self._later(call.table)

    def _later(self, table: TableId) -> None:
        """With the next tick, from the first node of ours that is left."""
        self.memory.tables[table].is_asked = False

    def _on_line(self, table: TableId, answer: MetadataAnswer) -> None:
        if not isinstance(answer, ReadDone):
            self._later(table)
            return
        count, line, last = answer.results
        operations: list[WriteOperation] = []
        if isinstance(last, Found):
            operations.append(Delete(last.path, last.stat.version))
        if isinstance(line, Found):
            operations.append(Delete(line.path, line.stat.version))
            if isinstance(count, Found):
                left = count_of(count.data) - len(self.memory.tables[table].shards)
                data = str(max(left, 0)).encode()
                operations.append(Set(count.path, data, count.stat.version))
        if operations:
            self._asked(table, self.write(*operations), EndLine(table))
        else:
            self._read_others(table)

    def _on_line_ended(self, table: TableId, answer: MetadataAnswer) -> None:
        if isinstance(answer, Written):
            self._read_others(table)
        else:
            self._later(table)  # a table was created meanwhile, or nobody knows: it is read again

    def _read_others(self, table: TableId) -> None:
        self._asked(table, self.read(Children(f"{table_root(table)}/shards")), ReadOthers(table))

    def _on_others(self, table: TableId, answer: MetadataAnswer) -> None:
        """RH4: first the names of the shards, then the names of their replicas."""
        if not isinstance(answer, ReadDone):
            self._later(table)
            return
        shards = answer.results[0]
        is_list = len(answer.results) == 1 and shards.path.endswith("/shards")
        if is_list and isinstance(shards, Names) and shards.names:
            replicas = (Children(f"{shards.path}/{shard}/replicas") for shard in shards.names)
            self._asked(table, self.read(*replicas), ReadOthers(table))
        elif any(isinstance(each, Names) and each.names for each in answer.results):
            self._forget(table)
        else:
            self._remove(EndTable(table, TreeRemoval.of(table_root(table))))

    def _forget(self, table: TableId) -> None:
        del self.memory.tables[table]
        self.memory.read.pop(table, None)
        self.node.note("removed", table)
