"""What must hold of replicated tables, checked while a storm goes on.

Truth is the log as the keeper has it (``tables_log``), and the names and jobs that are there with it.

AckedOnce         the rows of an acknowledged insert are in every read at its version or later, until an entry
                  above it drops them; when it is acknowledged, its block is visible at its version,
                  and one that is known by its content is not dropped at it
NothingTwice      no read has a row twice
OnlyInserted      a read has nothing that nobody inserted; an insert whose outcome was unknown is there once
                  or not at all, for ever: of the blocks of a table under one token one at most has not failed
Quorum            at the moment of ``done n`` the block is registered and stored on as many replicas as
                  wanted, lost ones not counted; it ends once
Registered        at the moment when a multi registers a part its bytes are stored there, and the replica is
                  not lost
SameVersion       a version is what the log says at it, on any replica, however often it is read
Linearizable      a read that begins after an acknowledgement has a version at or above its version
Held              at the moment when a part is published it is synced on as many replicas as it was staged for
PublicationWhole  a publication is whole or absent in every read
Readable          a part that a replica names to a reader is on its disk, whole
ExecutedOnce      no replica fetches or stores a part that is registered there and on its disk, whole
Named             what is inserted or published by a name is in the table that has the name at that moment
Dropped           nothing is committed into a table that is dropped
Incarnation       a version of a keeper that was restored since is as it was there, or is refused
JobOnce           a staging job is open, then published or collected
L2                at the moment when ``log_pointer`` moves the replica's file has all entries below it
OneSession        a request is sent once, under the session that its node has (``tables_store``)
Converged         when all is healed and quiet every replica has what the log says, and waits for nothing;
                  nothing is left of tables that are dropped

What somebody deletes or damages on the disk of a node that is down counts as stored until it is stored again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from motet.core.machine import Effect, Event, Send, Work
from motet.core.mergetree import manifests
from motet.core.mergetree.context import ReplicaKey
from motet.core.mergetree.entries import (
    DoneEntry,
    FailedEntry,
    InsertEntry,
    PublishEntry,
    decode_entry,
)
from motet.core.mergetree.jobs import OPEN
from motet.core.mergetree.messages import BlockInserted, PartsListed
from motet.core.mergetree.names import parse_part_name
from motet.core.mergetree.paths import TABLE_DATA, TABLES, ShardPaths
from motet.core.mergetree.work import Fetch, Keep
from motet.core.metadata.definitions import decode_table_definition
from motet.core.metadata.messages import Check, Create, Delete, Set, Write, WriteOperation, Written
from motet.format.record import parse_body, parse_header
from motet.ids import Address, FileName, NodeId, PartId, TableId, Zxid
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.storms.tables_log import Acknowledged, BlockTruth, ShardTruth
from motet.verify.storms.tables_parts import Folder

_SHARD = rf"{TABLE_DATA}/([^/]+)/shards/(\d+)"
_ENTRY = re.compile(rf"{_SHARD}/log/log-(\d+)")
_PART = re.compile(rf"{_SHARD}/replicas/([^/]+)/parts/([^/]+)")
_REPLICA = re.compile(rf"{_SHARD}/replicas/([^/]+)/(log_pointer|is_lost)")
_DEFINITION = re.compile(rf"{TABLE_DATA}/([^/]+)/definition")
_JOB = re.compile(rf"{TABLE_DATA}/[^/]+/staging/[^/]+")
_NAME = re.compile(rf"{TABLES}/([^/]+)")


SavedTruth = tuple[Any, ...]
"""All that follows from what the keeper has."""


class Truth:
    """All checks of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: the data of a node of the keeper, now
        self.look: Callable[[str], bytes | None] = dict[str, bytes]().get
        self.shards: dict[ReplicaKey, ShardTruth] = {}
        #: as they were when the keeper was restored
        self._former: dict[ReplicaKey, ShardTruth] = {}
        self.folders: Mapping[Address, Folder] = {}
        self.hosts: Mapping[Address, Host] = {}
        #: on how many replicas a part is to be when it is published
        self.wanted: dict[PartId, int] = {}
        #: rows that somebody has asked to insert
        self.asked: dict[str, None] = {}
        #: by which name a table was addressed, for the parts that were meant for it
        self.named: dict[PartId, str] = {}
        #: table and token -> the newest block under it
        self._by_token: dict[tuple[TableId, str], BlockTruth] = {}
        #: replica and part -> it is registered
        self._registered: dict[tuple[ReplicaKey, str, PartId], None] = {}
        self.lost: dict[tuple[ReplicaKey, str], None] = {}
        self.names: dict[str, TableId] = {}
        self.dropped: dict[TableId, None] = {}
        self._jobs: dict[str, bytes] = {}

    def shard(self, key: ReplicaKey) -> ShardTruth:
        """What is known of a shard."""
        return self.shards.setdefault(key, ShardTruth(key))

    # The keeper is restored

    def save(self) -> SavedTruth:
        """What there is now."""
        saved = (
            *(self.shards, self._by_token, self._registered, self.lost),
            *(self.names, self.dropped, self._jobs),
        )
        return deepcopy(saved)

    def put_back(self, saved: SavedTruth) -> None:
        """The keeper is as it was then."""
        self._former = self.shards
        self.shards, self._by_token, self._registered, self.lost, *rest = saved
        self.names, self.dropped, self._jobs = rest

    # What the keeper has done

    def wrote(self, write: Write, written: Written) -> None:
        """A multi was done: parts and names first, so that an entry meets what was done with it."""
        for operation in write.operations:
            if not isinstance(operation, Check):
                self._wrote_part(operation)
                self._wrote_name(operation)
        for operation, result in zip(write.operations, written.results, strict=True):
            found = _ENTRY.fullmatch(result) if isinstance(result, str) else None
            if found is not None and isinstance(operation, Create):
                key = TableId(found[1]), int(found[2])
                self._appended(key, int(found[3]), written.zxid, operation.data)

    def _wrote_part(self, operation: WriteOperation) -> None:
        found = _PART.fullmatch(operation.path)
        if found is not None:
            key, node = (TableId(found[1]), int(found[2])), found[3]
            part = PartId(found[4])
            if not isinstance(operation, Create):
                self._registered.pop((key, node, part), None)
                return
            self._registered[key, node, part] = None
            if key[0] in self.dropped:
                return  # its folders and files go
            if (key, node) in self.lost:
                self._world.violated("Registered", f"{part} on {node}, which is lost")
            if not self.folders[Address(node)].is_stored(part):
                self._world.violated("Registered", f"{part} on {node}, which has it not")
        own = _REPLICA.fullmatch(operation.path)
        if own is not None and isinstance(operation, Set):
            key, node = (TableId(own[1]), int(own[2])), own[3]
            if own[4] == "log_pointer" and key[0] not in self.dropped:
                self._moved_pointer(key, Address(node), int(operation.data))
            elif own[4] == "is_lost" and operation.data == b"1":
                self.lost[key, node] = None

    def _wrote_name(self, operation: WriteOperation) -> None:
        path = operation.path
        name, definition = _NAME.fullmatch(path), _DEFINITION.fullmatch(path)
        if name is not None and isinstance(operation, Create):
            self.names[name[1]] = TableId(operation.data.decode())
        elif name is not None and isinstance(operation, Delete):
            self.names.pop(name[1], None)
        elif definition is not None and isinstance(operation, Set):
            if decode_table_definition(operation.data).is_dropped:
                self.dropped[TableId(definition[1])] = None
        elif _JOB.fullmatch(path) is not None and isinstance(operation, Create | Set):
            before = self._jobs.get(path)
            if isinstance(operation, Set) and before != OPEN:
                self._world.violated("JobOnce", f"{path} was {before!r}: {operation.data!r}")
            self._jobs[path] = operation.data

    def _moved_pointer(self, key: ReplicaKey, node: Address, pointer: int) -> None:
        file = FileName(f"table-{key[0]}-{key[1]}-log")
        data, at, count = self.hosts[node].disk.durable(file, 0, 1 << 30), 0, 0
        while (header := parse_header(data, at)) is not None and parse_body(data, at, header):
            at, count = at + header.record_bytes, count + 1
        if count < pointer:
            self._world.violated("L2", f"{node}: pointer {pointer}, and its file has {count}")

    def _appended(self, key: ReplicaKey, number: int, zxid: Zxid, data: bytes) -> None:
        truth, entry, world = self.shard(key), decode_entry(data), self._world
        if isinstance(entry, PublishEntry) and entry.manifests:
            found = map(self.look, manifests.paths_of(ShardPaths(*key), entry))
            entry = manifests.whole(entry, [each or b"" for each in found])
            world.mark("published_manifests")
        open_before = [b for b in truth.blocks if b.visible is None and not b.has_failed]
        for wrong in truth.append(number, zxid, entry):
            world.violated("Quorum", wrong)
        if any(block.dropped == zxid for block in open_before):
            world.mark("dropped_open")
        if isinstance(entry, InsertEntry | PublishEntry):
            self._check_place(key, number)
        if isinstance(entry, InsertEntry):
            self._check_new(truth, truth.by_number[number, 0])
        elif isinstance(entry, PublishEntry):
            world.mark("published")
            for part in entry.parts:
                self._check_held(key, part.id, entry.holders)
        elif isinstance(entry, DoneEntry):
            self._check_done(truth.by_number[entry.number, 0], key)
        elif isinstance(entry, FailedEntry):
            world.mark("quorum_failed")

    def _check_place(self, key: ReplicaKey, number: int) -> None:
        """Whether a block is committed where its client means it to be."""
        if key[0] in self.dropped:
            self._world.violated("Dropped", f"entry {number} of {key[0]}")
        for block in self.shard(key).of_entry(number):
            name = self.named.get(block.header.id)
            if name is not None and self.names.get(name) != key[0]:
                what = f"{block.header.id} is in {key[0]}, and {name} is {self.names.get(name)}"
                self._world.violated("Named", what)

    def _check_held(self, key: ReplicaKey, part: PartId, holders: tuple[NodeId, ...]) -> None:
        wanted = self.wanted.get(part, 0)
        having = [node for node in holders if self.folders[Address(node)].has_promised(part)]
        if len(having) < wanted:
            what = (
                f"{part} is on {' '.join(having) or 'none'} of {' '.join(holders)}, wanted {wanted}"
            )
            self._world.violated("Held", f"shard {key[1]}: {what}")

    def _check_new(self, truth: ShardTruth, block: BlockTruth) -> None:
        if block.content is not None:
            for other in truth.same_rows(block):
                what = f"{block.number} and {other.number} have the same rows"
                self._world.violated("OnlyInserted", what)
        if block.token is None:
            return
        used = truth.key[0], block.token
        before = self._by_token.get(used)
        if before is not None and not before.has_failed:
            what = f"{block.number} and {before.number} are both under token {block.token}"
            self._world.violated("OnlyInserted", what)
        self._by_token[used] = block

    def _check_done(self, block: BlockTruth, key: ReplicaKey) -> None:
        part = block.header.id
        if key[0] in self.dropped:
            return
        having = [
            node
            for node, folder in self.folders.items()
            if (key, node, part) in self._registered
            and (key, node) not in self.lost
            and folder.is_stored(part)
        ]
        if len(having) < block.quorum:
            what = f"done {block.number} on {' '.join(having) or 'none'}, wanted {block.quorum}"
            self._world.violated("Quorum", what)

    def registered(self, key: ReplicaKey, node: Address) -> list[PartId]:
        """The parts that are registered on a replica."""
        return [part for k, n, part in self._registered if (k, n) == (key, node)]

    # What clients are told

    def acknowledge(self, told: BlockInserted, rows: tuple[str, ...]) -> None:
        """An insert of these rows was acknowledged."""
        truth, name = self.shard((told.table, told.shard)), parse_part_name(told.name)
        block = truth.by_number.get((name.low.entry, name.low.index))
        if block is None or sorted(block.rows) != sorted(rows):
            self._world.violated("AckedOnce", f"{told.name} is not what was inserted")
        elif block.visible is None or block.visible > told.version:
            what = f"{told.name} at {told.version}, and it is visible at {block.visible}"
            self._world.violated("AckedOnce", what)
        elif told.is_duplicate and block.content and block.is_dropped(told.version):
            what = f"{told.name} at {told.version} by its content, and it was dropped before"
            self._world.violated("AckedOnce", what)
        else:
            self._remember(truth, block, told.version)
            if told.is_duplicate:
                self._world.mark("duplicate_acknowledged")

    def acknowledge_part(self, key: ReplicaKey, rows: str, version: Zxid, *, is_new: bool) -> None:
        """A publication with these rows for a shard was acknowledged; one that ``is_new`` shows them."""
        for truth in (self.shard(key), *self.shards.values()):
            # An earlier attempt may have been done in another table.
            for block in truth.blocks:
                is_visible = block.visible is not None and block.visible <= version
                is_there = is_visible and not (is_new and block.is_dropped(version))
                if block.header.hash == rows and is_there:
                    self._remember(truth, block, version)
                    return
        self._world.violated("AckedOnce", f"{rows} at {version} is not published")

    def _remember(self, truth: ShardTruth, block: BlockTruth, version: Zxid) -> None:
        truth.acknowledged.append(Acknowledged(block, version))
        truth.newest_acknowledged = max(truth.newest_acknowledged, version)

    def read(
        self, key: ReplicaKey, version: Zxid, rows: list[str], who: str, acknowledged: Zxid | None
    ) -> None:
        """A read at a version had these rows; ``acknowledged``: the newest version when it began."""
        truth, violated, at = self.shard(key), self._world.violated, f"at {version} by {who}"
        seen = dict.fromkeys(rows)
        if len(seen) < len(rows):
            twice = sorted(row for row in seen if rows.count(row) > 1)
            violated("NothingTwice", f"{' '.join(twice)} {at}")
        foreign = [row for row in seen if row not in self.asked]
        if foreign:
            violated("OnlyInserted", f"{' '.join(foreign)} {at}")
        if acknowledged is not None and version < acknowledged:
            violated("Linearizable", f"{at}, and {acknowledged} was acknowledged")
        for each in truth.acknowledged:
            is_due = each.version <= version and not each.block.is_dropped(version)
            if is_due and not all(row in seen for row in each.block.rows):
                violated("AckedOnce", f"{' '.join(each.block.rows)} is missing {at}")
        self._check_publications(truth, version, seen, at)
        expected = sorted(row for b in truth.blocks if b.is_seen(version) for row in b.rows)
        if sorted(rows) != expected:
            differ = sorted({*seen} ^ {*expected})
            violated("SameVersion", f"{' '.join(differ)} {at} is not as the log says")

    def read_former(self, key: ReplicaKey, version: Zxid, rows: list[str], who: str) -> None:
        """A read at a version of the incarnation before had these rows."""
        truth = self._former.get(key)
        blocks = [] if truth is None else truth.blocks
        expected = sorted(row for b in blocks if b.is_seen(version) for row in b.rows)
        if sorted(rows) != expected:
            differ = sorted({*rows} ^ {*expected})
            self._world.violated("Incarnation", f"{' '.join(differ)} at {version} by {who}")

    def _check_publications(
        self, truth: ShardTruth, version: Zxid, seen: dict[str, None], at: str
    ) -> None:
        there: dict[int, list[bool]] = {}
        # Rows that have come with several blocks, one after the other, do not tell which one is there.
        counts = Counter(row for block in truth.blocks for row in block.rows)
        for block in truth.blocks:
            if block.publication is not None and not block.is_dropped(version):
                is_there = [row in seen for row in block.rows if counts[row] == 1]
                there.setdefault(block.publication, []).extend(is_there)
        for number, each in there.items():
            if any(each) and not all(each):
                self._world.violated("PublicationWhole", f"{number} is there in part {at}")

    def saw(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        """What a replica names to a reader is on its disk, and what is there is not stored again."""
        for effect in effects:
            if isinstance(effect, Work) and isinstance(effect.task, Keep | Fetch):
                self._check_once(host.node.address, effect.task)
            if not isinstance(effect, Send) or not isinstance(effect.message, PartsListed):
                continue
            folder = self.folders[host.node.address]
            for listed in effect.message.parts:
                found = folder.stored.get(listed.header.id)
                is_whole = found is not None and found.content == listed.header.hash
                if not is_whole and (found is None or listed.header.id not in folder.unread):
                    self._world.violated("Readable", f"{listed.header.id} on {host.node.address}")

    def _check_once(self, node: Address, task: Keep | Fetch) -> None:
        found = self.folders[node].stored.get(task.part.id)
        key = task.table, task.shard
        is_registered = (key, node, task.part.id) in self._registered
        if is_registered and found is not None and found.is_whole:
            self._world.violated("ExecutedOnce", f"{task.part.id} on {node}, which has it")
