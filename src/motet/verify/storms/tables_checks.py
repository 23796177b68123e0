"""What must hold of replicated tables, checked while a storm goes on.

Truth is the log as the keeper has it, folded once more here and not by the code of the replicas.

AckedOnce         the rows of an acknowledged insert are in every read at its version or later, until an entry
                  above it drops them; when it is acknowledged, its block is visible at its version,
                  and one that is known by its content is not dropped at it
NothingTwice      no read has a row twice
OnlyInserted      a read has nothing that nobody inserted; an insert whose outcome was unknown is there once
                  or not at all, for ever: of the blocks under one token one at most has not failed
Quorum            at the moment of ``done n`` the block is registered and stored on as many replicas as wanted
Registered        at the moment when a multi registers a part its bytes are stored there
SameVersion       a version is what the log says at it, on any replica, however often it is read
Linearizable      a read that begins after an acknowledgement has a version at or above its version
Held              at the moment when a part is published it is synced on as many replicas as it was staged for
PublicationWhole  a publication is whole or absent in every read
Readable          a part that a replica names to a reader is on its disk, whole
ExecutedOnce      no replica fetches or stores a part that is registered there and on its disk, whole
L2                at the moment when ``log_pointer`` moves the replica's file has all entries below it
Converged         when all is healed and quiet every replica has what the log says, and waits for nothing

What somebody deletes or damages on the disk of a node that is down counts as stored until it is stored again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from motet.core.machine import Effect, Event, Send, Work
from motet.core.mergetree.entries import (
    DoneEntry,
    DropEntry,
    FailedEntry,
    InsertEntry,
    PartHeader,
    PublishEntry,
    decode_entry,
)
from motet.core.mergetree.messages import BlockInserted, PartsListed
from motet.core.mergetree.names import parse_part_name
from motet.core.mergetree.work import Fetch, Keep
from motet.core.metadata.messages import Check, Create, Set, Write, Written
from motet.format.record import parse_body, parse_header
from motet.ids import Address, FileName, NodeId, PartId, TableId, Zxid
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.storms.tables_parts import Folder, rows_of

_ENTRY = re.compile(r".*/shards/(\d+)/log/log-(\d+)")
_PART = re.compile(r".*/shards/(\d+)/replicas/([^/]+)/parts/([^/]+)")
_POINTER = re.compile(r".*/shards/(\d+)/replicas/([^/]+)/log_pointer")


class BlockTruth(msgspec.Struct):
    """One block, as the log tells it."""

    number: int
    index: int
    header: PartHeader
    zxid: Zxid
    quorum: int
    #: or the number of its producer
    token: str | None = None
    content: str | None = None
    #: of a publication: the first rows of it, which tell it from others
    publication: int | None = None
    visible: Zxid | None = None
    has_failed: bool = False
    dropped: Zxid | None = None

    @property
    def rows(self) -> tuple[str, ...]:
        return rows_of(self.header)

    def is_seen(self, version: Zxid) -> bool:
        is_visible = self.visible is not None and self.visible <= version
        return is_visible and not self.is_dropped(version)

    def is_dropped(self, version: Zxid) -> bool:
        return self.dropped is not None and self.dropped <= version


class Acknowledged(msgspec.Struct, frozen=True):
    """An insert, as its client was told."""

    block: BlockTruth
    version: Zxid


class ShardTruth:
    """One shard: what the log says, and what clients were told."""

    def __init__(self) -> None:
        self.blocks: list[BlockTruth] = []
        self.by_number: dict[tuple[int, int], BlockTruth] = {}
        self.by_part: dict[PartId, BlockTruth] = {}
        self.by_token: dict[str, BlockTruth] = {}
        self.next_number = 0
        self.acknowledged: list[Acknowledged] = []
        self.newest_acknowledged = Zxid(0)


class Truth:
    """All checks of a run."""

    def __init__(self, world: World, table: TableId, shards: int) -> None:
        self._world = world
        self._table = table
        self.shards = [ShardTruth() for _ in range(shards)]
        self.folders: Mapping[Address, Folder] = {}
        self.hosts: Mapping[Address, Host] = {}
        #: on how many replicas a part is to be when it is published
        self.wanted: dict[PartId, int] = {}
        #: rows that somebody has asked to insert
        self.asked: dict[str, None] = {}
        #: replica and part -> it is registered
        self._registered: dict[tuple[int, str, PartId], None] = {}

    # What the keeper has done

    def wrote(self, write: Write, written: Written) -> None:
        """A multi was done: parts first, so that an entry meets what was registered with it."""
        for operation in write.operations:
            self._wrote_part(operation)
        for operation, result in zip(write.operations, written.results, strict=True):
            found = _ENTRY.fullmatch(result) if isinstance(result, str) else None
            if found is not None and isinstance(operation, Create):
                self._appended(int(found[1]), int(found[2]), written.zxid, operation.data)

    def _wrote_part(self, operation: object) -> None:
        path = getattr(operation, "path", "")
        found = _PART.fullmatch(path)
        if found is not None and not isinstance(operation, Check):
            key = int(found[1]), found[2], PartId(found[3])
            if not isinstance(operation, Create):
                self._registered.pop(key, None)
                return
            self._registered[key] = None
            if not self.folders[Address(found[2])].is_stored(key[2]):
                self._world.violated("Registered", f"{key[2]} on {found[2]}, which has it not")
        pointer = _POINTER.fullmatch(path)
        if pointer is not None and isinstance(operation, Set):
            self._moved_pointer(int(pointer[1]), Address(pointer[2]), int(operation.data))

    def _moved_pointer(self, shard: int, node: Address, pointer: int) -> None:
        file = FileName(f"table-{self._table}-{shard}-log")
        data, at, count = self.hosts[node].disk.durable(file, 0, 1 << 30), 0, 0
        while (header := parse_header(data, at)) is not None and parse_body(data, at, header):
            at, count = at + header.record_bytes, count + 1
        if count < pointer:
            self._world.violated("L2", f"{node}: pointer {pointer}, and its file has {count}")

    def _appended(self, shard: int, number: int, zxid: Zxid, data: bytes) -> None:
        truth, entry = self.shards[shard], decode_entry(data)
        assert number == truth.next_number, "numbers rise by one"
        truth.next_number += 1
        match entry:
            case InsertEntry(part=part, quorum=quorum, token=token, number=counted):
                told = token if counted is None else f"number {counted}"
                block = BlockTruth(number, 0, part, zxid, quorum, told, entry.dedup)
                self._inserted(truth, block)
            case PublishEntry(parts=parts, replace=replace, holders=holders):
                self._world.mark("published")
                self._drop(truth, replace, number, zxid)
                for index, part in enumerate(parts):
                    self._check_held(shard, part, holders)
                    block = BlockTruth(number, index, part, zxid, 1, publication=number)
                    self._inserted(truth, block)
            case DoneEntry(number=ended):
                self._ended(shard, truth, ended, zxid)
            case FailedEntry(number=ended):
                block = truth.by_number[ended, 0]
                if block.visible is not None or block.has_failed:
                    self._world.violated("Quorum", f"{ended} has ended, and fails")
                block.has_failed = True
                self._world.mark("quorum_failed")
            case DropEntry(partitions=partitions):
                self._drop(truth, partitions, number, zxid)

    def _check_held(self, shard: int, part: PartHeader, holders: tuple[NodeId, ...]) -> None:
        wanted = self.wanted.get(part.id, 0)
        having = [node for node in holders if self.folders[Address(node)].has_promised(part.id)]
        if len(having) < wanted:
            what = f"{part.id} is on {' '.join(having) or 'none'} of {' '.join(holders)}, wanted {wanted}"
            self._world.violated("Held", f"shard {shard}: {what}")

    def _inserted(self, truth: ShardTruth, block: BlockTruth) -> None:
        if block.quorum == 1:
            block.visible = block.zxid
        before = truth.by_token.get(block.token) if block.token is not None else None
        if before is not None and not before.has_failed:
            what = f"{block.number} and {before.number} are both under token {block.token}"
            self._world.violated("OnlyInserted", what)
        for other in truth.blocks if block.content is not None else ():
            is_same = (other.content, other.header.partition) == (
                block.content,
                block.header.partition,
            )
            if is_same and not other.has_failed and other.dropped is None:
                what = f"{block.number} and {other.number} have the same rows"
                self._world.violated("OnlyInserted", what)
        if block.token is not None:
            truth.by_token[block.token] = block
        truth.blocks.append(block)
        truth.by_number[block.number, block.index] = block
        truth.by_part[block.header.id] = block

    def _drop(
        self, truth: ShardTruth, partitions: tuple[str, ...] | None, number: int, zxid: Zxid
    ) -> None:
        for block in truth.blocks:
            is_meant = partitions is None or block.header.partition in partitions
            if is_meant and block.number < number and block.dropped is None:
                block.dropped = zxid
                if block.visible is None and not block.has_failed:
                    self._world.mark("dropped_open")

    def _ended(self, shard: int, truth: ShardTruth, number: int, zxid: Zxid) -> None:
        block = truth.by_number[number, 0]
        if block.visible is not None or block.has_failed:
            self._world.violated("Quorum", f"{number} has ended, and is done")
        block.visible = zxid
        part = block.header.id
        having = [
            node
            for node, folder in self.folders.items()
            if (shard, node, part) in self._registered and folder.is_stored(part)
        ]
        if len(having) < block.quorum:
            what = f"done {number} on {' '.join(having) or 'none'}, wanted {block.quorum}"
            self._world.violated("Quorum", what)

    def registered(self, shard: int, node: Address) -> list[PartId]:
        """The parts that are registered on a replica."""
        return [part for s, n, part in self._registered if (s, n) == (shard, node)]

    # What clients are told

    def acknowledge(self, told: BlockInserted, rows: tuple[str, ...]) -> None:
        """An insert of these rows was acknowledged."""
        truth, name = self.shards[told.shard], parse_part_name(told.name)
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
            truth.acknowledged.append(Acknowledged(block, told.version))
            truth.newest_acknowledged = max(truth.newest_acknowledged, told.version)
            if told.is_duplicate:
                self._world.mark("duplicate_acknowledged")

    def acknowledge_part(self, shard: int, rows: str, version: Zxid) -> None:
        """A publication was acknowledged, in which a shard gets these rows."""
        truth = self.shards[shard]
        block = next((each for each in truth.blocks if each.header.hash == rows), None)
        if block is None or block.visible is None or block.visible > version:
            self._world.violated("AckedOnce", f"{rows} at {version} is not published")
        else:
            truth.acknowledged.append(Acknowledged(block, version))
            truth.newest_acknowledged = max(truth.newest_acknowledged, version)

    def read(
        self, shard: int, version: Zxid, rows: list[str], who: str, acknowledged: Zxid | None
    ) -> None:
        """A read at a version had these rows; ``acknowledged``: the newest version when it began."""
        truth, violated, at = self.shards[shard], self._world.violated, f"at {version} by {who}"
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

    def _check_publications(
        self, truth: ShardTruth, version: Zxid, seen: dict[str, None], at: str
    ) -> None:
        there: dict[int, list[bool]] = {}
        for block in truth.blocks:
            if block.publication is not None and not block.is_dropped(version):
                is_there = [row in seen for row in block.rows]
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
                if found is None or found.content != listed.header.hash:
                    self._world.violated("Readable", f"{listed.header.id} on {host.node.address}")

    def _check_once(self, node: Address, task: Keep | Fetch) -> None:
        found = self.folders[node].stored.get(task.part.id)
        is_registered = (task.shard, node, task.part.id) in self._registered
        if is_registered and found is not None and found.is_whole:
            self._world.violated("ExecutedOnce", f"{task.part.id} on {node}, which has it")
