"""The parts on the disk of a simulated node, and the work that its table replicas have done with them.

A part's bytes are the ids of its rows, and so is its hash: bytes that are not what the hash says are rotten.
Work takes a while; what concerns one part is done in the order in which it was asked for. *Stored*, *staged*
and *detached* parts survive a crash, those that have *arrived* do not; of what is under way some is done.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import NS_PER_MS, Message, Received, Work
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import PartArrived, PartBroken
from motet.core.mergetree.work import (
    Arrive,
    Detach,
    Fetch,
    Forget,
    Hold,
    Keep,
    LookAtDisk,
    Looked,
    Release,
)
from motet.ids import Address, NodeId, PartId, TableId, WorkId
from motet.sim.host import Host
from motet.sim.network import NS_PER_US
from motet.sim.world import World

ROTTEN = "rotten"
FETCHED_ROTTEN, FETCH_CUT, KEPT_ASIDE = "fetched_rotten", "fetch_cut", "kept_aside"
work_us_max = 4_000


class Bytes(msgspec.Struct, frozen=True):
    """One part as it is on disk."""

    header: PartHeader
    content: str
    shard: int

    @property
    def is_whole(self) -> bool:
        return self.content == self.header.hash


class FetchTrouble(msgspec.Struct, frozen=True):
    """How fetching goes wrong in one run."""

    rot: float
    slow_ms_max: int


def rows_of(header: PartHeader) -> tuple[str, ...]:
    """The rows of a part."""
    return tuple(header.hash.split(","))


class Folder:
    """The parts of one node, and its workshop."""

    def __init__(
        self, world: World, host: Host, others: dict[Address, Folder], trouble: FetchTrouble
    ) -> None:
        self._world = world
        self._host = host
        self._others = others
        self._trouble = trouble
        self._dice = world.dice.fork(f"parts.{host.node.address}")
        self.stored: dict[PartId, Bytes] = {}
        self.staged: dict[PartId, Bytes] = {}
        self.arrived: dict[PartId, Bytes] = {}
        self.detached: dict[PartId, Bytes] = {}
        #: what somebody deleted or damaged, until it is stored again
        self.taken: dict[PartId, None] = {}
        self._under_way: dict[WorkId, Message] = {}
        self._busy_until_ns: dict[PartId | None, int] = {}

    # The workshop

    def begin(self, work: Work) -> None:
        task, part = work.task, _part_of(work.task)
        self._under_way[work.id] = task
        looked = None
        if isinstance(task, LookAtDisk) and self._dice.chance(0.5):
            looked = self._look(task.shard)
        now_ns = self._world.virtual.elapsed_ns
        done_ns = max(now_ns + self._takes_ns(task), self._busy_until_ns.get(part, 0))
        self._busy_until_ns[part] = done_ns
        self._world.at_node(self._host.node, done_ns - now_ns, self._end, (work, looked))

    def _takes_ns(self, task: Message) -> int:
        most_us = work_us_max * (5 if isinstance(task, LookAtDisk) else 1)
        if isinstance(task, Fetch) and not self._world.fabric.healed and self._dice.chance(0.3):
            most_us = self._trouble.slow_ms_max * 1_000
        return self._dice.between(10, max(most_us, 10)) * NS_PER_US

    def _end(self, work: Work, looked: Looked | None) -> None:
        del self._under_way[work.id]
        if isinstance(work.task, LookAtDisk):
            self._host.work_ended(work.id, looked or self._look(work.task.shard), None)
        else:
            self._host.work_ended(work.id, None, self._do(work.task))

    def crash(self) -> None:
        under_way, self._under_way, self._busy_until_ns = self._under_way, {}, {}
        for task in under_way.values():
            if not isinstance(task, LookAtDisk) and self._dice.chance(0.5):
                self._do(task)
        self.arrived.clear()

    # Tasks

    def _look(self, shard: int) -> Looked:
        aside = {**self.arrived, **self.detached}
        broken = (p for p, e in self.stored.items() if e.shard == shard and not e.is_whole)
        staged = _whole(self.staged, shard)
        return Looked(_whole(self.stored, shard), _whole(aside, shard), staged, tuple(broken))

    def _do(self, task: Message) -> str | None:
        """Carry it out; why it could not be done, or None."""
        match task:
            case Keep(shard=shard, part=part, block=block):
                if block is not None and part.id not in self.stored:
                    self.take_in(part, shard)
                return self._keep(part, shard)
            case Hold(shard=shard, part=part, block=block, source=source):
                return self._hold(part, shard, is_sent=block is not None, source=source)
            case Arrive(shard=shard, part=part):
                if self._host.disk.full:
                    return "disk full"
                if part.id not in self.stored:
                    self.take_in(part, shard)
            case Release(part=part_id):
                self.staged.pop(part_id, None)
                self.arrived.pop(part_id, None)
            case Fetch(shard=shard, part=part, source=source):
                return self._fetch(part, shard, source)
            case Forget(part=part_id):
                self.stored.pop(part_id, None)
            case Detach(part=part_id):
                kept = self.stored.pop(part_id, None)
                if kept is not None:
                    self.detached[part_id] = kept
        return None

    def _keep(self, part: PartHeader, shard: int) -> str | None:
        if part.id in self.stored and self.stored[part.id].is_whole:
            return None
        if self._host.disk.full:
            return "disk full"
        for folder in (self.arrived, self.staged, self.detached):
            found = folder.get(part.id)
            if found is not None and found.is_whole and found.content == part.hash:
                if folder is not self.arrived:
                    self._world.mark(KEPT_ASIDE)
                del folder[part.id]
                self._store(part, shard)
                return None
        return "no such bytes have arrived"

    def _hold(
        self, part: PartHeader, shard: int, *, is_sent: bool, source: NodeId | None
    ) -> str | None:
        if self._host.disk.full:
            return "disk full"
        places = (self.staged, self.arrived, self.stored, self.detached)
        found = [each[part.id] for each in places if part.id in each]
        is_here = any(each.is_whole and each.content == part.hash for each in found)
        if not is_here and not is_sent:
            if source is None:
                return "no such bytes have arrived"
            why = self._get(part, source)
            if why is not None:
                return why
        self.arrived.pop(part.id, None)
        self.staged[part.id] = Bytes(part, part.hash, shard)
        return None

    def _fetch(self, part: PartHeader, shard: int, source: NodeId) -> str | None:
        if part.id in self.stored and self.stored[part.id].is_whole:
            return None
        if self._host.disk.full:
            return "disk full"
        why = self._get(part, source)
        if why is None:
            self._store(part, shard)
        return why

    def _get(self, part: PartHeader, source: NodeId) -> str | None:
        """Ask another replica for its bytes: why that failed, or None."""
        own, other, fabric = self._host.node, self._world.nodes[Address(source)], self._world.fabric
        links = ((own.address, other.address), (other.address, own.address))
        if not other.up or any(link in fabric.blocked for link in links):
            self._world.mark(FETCH_CUT)
            return f"{source} does not answer"
        folder = self._others[other.address]
        found = folder.stored.get(part.id) or folder.staged.get(part.id)
        if found is None:
            return f"{source} does not have it"
        is_rotten = not fabric.healed and self._dice.chance(self._trouble.rot)
        if is_rotten or found.content != part.hash:
            self._world.mark(FETCHED_ROTTEN)
            return f"{source} sent other bytes"
        return None

    def _store(self, part: PartHeader, shard: int) -> None:
        self.stored[part.id] = Bytes(part, part.hash, shard)
        self.taken.pop(part.id, None)

    # What others put here, or take

    def take_in(self, header: PartHeader, shard: int) -> None:
        """A client's bytes are here."""
        self.arrived[header.id] = Bytes(header, header.hash, shard)

    def arrive(self, header: PartHeader, table: TableId, shard: int, after_ms: int) -> None:
        """Bytes are streamed ahead: they are here by and by, and then the node is told."""
        node = self._host.node
        self._world.at_node(node, after_ms * NS_PER_MS, self._has_arrived, (header, table, shard))

    def _has_arrived(self, header: PartHeader, table: TableId, shard: int) -> None:
        if header.id not in self.stored:
            self.take_in(header, shard)
            self._tell(header, table, shard)

    def _tell(self, header: PartHeader, table: TableId, shard: int) -> None:
        node = self._host.node
        message = PartArrived(table, shard, header, NodeId(node.address))
        if self._host.listening:
            self._host.step(Received(node.time.now(), node.address, message))

    def spoil(self, part: PartId, *, is_deleted: bool) -> None:
        """Somebody deletes a stored part, or its bytes rot."""
        found = self.stored.pop(part)
        self.taken[part] = None
        if not is_deleted:
            self.stored[part] = Bytes(found.header, ROTTEN, found.shard)

    def find_broken(self, part: PartId, table: TableId) -> None:
        """The bytes of a stored part rot, and the node sees it at once."""
        shard, node = self.stored[part].shard, self._host.node
        self.spoil(part, is_deleted=False)
        message = PartBroken(table, shard, part)
        self._host.step(Received(node.time.now(), node.address, message))

    def has_whole(self, part: PartId) -> bool:
        """Whether it is stored, or staged, as it was written."""
        found = self.stored.get(part) or self.staged.get(part)
        return found is not None and found.is_whole

    def has_promised(self, part: PartId) -> bool:
        """Whether it is stored or staged as it was written, or was until somebody took it away."""
        return part in self.taken or self.has_whole(part)

    def is_stored(self, part: PartId) -> bool:
        """Whether it is stored as it was written, or was until somebody took it away."""
        found = self.stored.get(part)
        return part in self.taken or (found is not None and found.is_whole)


def _whole(parts: dict[PartId, Bytes], shard: int) -> tuple[PartHeader, ...]:
    return tuple(e.header for e in parts.values() if e.shard == shard and e.is_whole)


def _part_of(task: Message) -> PartId | None:
    match task:
        case Keep(part=part) | Fetch(part=part) | Arrive(part=part) | Hold(part=part):
            return part.id
        case Forget(part=part_id) | Detach(part=part_id) | Release(part=part_id):
            return part_id
    return None
