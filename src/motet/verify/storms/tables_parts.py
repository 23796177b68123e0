"""The parts on the disk of a simulated node, and the work that its table replicas have done with them.

A part's bytes are the ids of its rows, and so is its hash: bytes that are not what the hash says are rotten.
Work takes a while; what concerns one part is done in the order in which it was asked for. *Stored*, *staged*
and *detached* parts survive a crash, those that have *arrived* do not; of what is under way some is done.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import NS_PER_MS, Message, Received, Work
from motet.core.mergetree.context import ReplicaKey
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import PartArrived, PartBroken
from motet.core.mergetree.work import (
    Arrive,
    Clear,
    Detach,
    Fetch,
    Forget,
    Hold,
    Keep,
    LookAtDisk,
    LookAtParts,
    Looked,
    Release,
    Task,
)
from motet.ids import Address, NodeId, PartId, WorkId
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
    #: of the replica in whose folders it lies
    key: ReplicaKey

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
        #: detached parts that were stored again: whoever did that may remove them
        self.stored_again: dict[PartId, None] = {}
        #: stored parts of which the node knows the names: it has yet to find out that some are damaged
        self.unread: dict[PartId, None] = {}
        self._under_way: dict[WorkId, Message] = {}
        self._busy_until_ns: dict[PartId | None, int] = {}

    # The workshop

    def begin(self, work: Work) -> None:
        task, part = work.task, _part_of(work.task)
        self._under_way[work.id] = task
        looked = None
        if isinstance(task, LookAtDisk | LookAtParts) and self._dice.chance(0.5):
            looked = self._looked(task)
        now_ns = self._world.virtual.elapsed_ns
        done_ns = max(now_ns + self._takes_ns(task), self._busy_until_ns.get(part, 0))
        self._busy_until_ns[part] = done_ns
        self._world.at_node(self._host.node, done_ns - now_ns, self._end, (work, looked))

    def _takes_ns(self, task: Message) -> int:
        most_us = work_us_max * (5 if isinstance(task, LookAtDisk | LookAtParts) else 1)
        if isinstance(task, Fetch) and not self._world.fabric.healed and self._dice.chance(0.3):
            most_us = self._trouble.slow_ms_max * 1_000
        return self._dice.between(10, max(most_us, 10)) * NS_PER_US

    def _end(self, work: Work, looked: Looked | None) -> None:
        del self._under_way[work.id]
        if isinstance(work.task, LookAtDisk | LookAtParts):
            self._host.work_ended(work.id, looked or self._looked(work.task), None)
            for part in work.task.parts if isinstance(work.task, LookAtParts) else ():
                self.unread.pop(part, None)
        else:
            self._host.work_ended(work.id, None, self._do(work.task))

    def crash(self) -> None:
        under_way, self._under_way, self._busy_until_ns = self._under_way, {}, {}
        for task in under_way.values():
            if not isinstance(task, LookAtDisk | LookAtParts) and self._dice.chance(0.5):
                self._do(task)
        self.arrived.clear()

    # Tasks

    def _looked(self, task: LookAtDisk | LookAtParts) -> Looked:
        """By the names of stored parts alone, or by their manifests."""
        key = _key_of(task)
        stored = {part: each for part, each in self.stored.items() if each.key == key}
        if isinstance(task, LookAtParts):
            stored = {part: stored[part] for part in task.parts if part in stored}
            broken = tuple(part for part, each in stored.items() if not each.is_whole)
            return Looked(_whole(stored, key), (), broken=broken)
        aside = {**self.arrived, **self.detached}
        self.unread.update(dict.fromkeys(stored))
        return Looked((), _whole(aside, key), _whole(self.staged, key), named=tuple(stored))

    def _do(self, task: Message) -> str | None:
        """Carry it out; why it could not be done, or None."""
        assert isinstance(task, Task)
        key = _key_of(task)
        match task:
            case Keep(part=part, block=block):
                if block is not None and part.id not in self.stored:
                    self.take_in(part, key)
                return self._keep(part, key)
            case Hold(part=part, block=block, source=source):
                return self._hold(part, key, is_sent=block is not None, source=source)
            case Arrive(part=part):
                if self._host.disk.full:
                    return "disk full"
                if part.id not in self.stored:
                    self.take_in(part, key)
            case Fetch(part=part, source=source):
                return self._fetch(part, key, source)
            case _:
                self._put_away(task, key)
        return None

    def _put_away(self, task: Task, key: ReplicaKey) -> None:
        match task:
            case Release(part=part):
                self.staged.pop(part, None)
                self.arrived.pop(part, None)
            case Clear():
                self._clear(key)
            case Forget(part=part):
                self.stored.pop(part, None)
            case Detach(part=part):
                kept = self.stored.pop(part, None)
                if kept is not None:
                    self.detached[part] = kept

    def _clear(self, key: ReplicaKey) -> None:
        for folder in (self.stored, self.staged, self.arrived, self.detached):
            for part in [each for each, found in folder.items() if found.key == key]:
                del folder[part]
                self.taken.pop(part, None)

    def _keep(self, part: PartHeader, key: ReplicaKey) -> str | None:
        if part.id in self.stored and self.stored[part.id].is_whole:
            return None
        if self._host.disk.full:
            return "disk full"
        for folder in (self.arrived, self.staged, self.detached):
            found = folder.get(part.id)
            if found is not None and found.is_whole and found.content == part.hash:
                if folder is not self.arrived:
                    self._world.mark(KEPT_ASIDE)
                if folder is self.detached:
                    self.stored_again[part.id] = None
                del folder[part.id]
                self._store(part, key)
                return None
        return "no such bytes have arrived"

    def _hold(
        self, part: PartHeader, key: ReplicaKey, *, is_sent: bool, source: NodeId | None
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
        self.staged[part.id] = Bytes(part, part.hash, key)
        return None

    def _fetch(self, part: PartHeader, key: ReplicaKey, source: NodeId) -> str | None:
        if part.id in self.stored and self.stored[part.id].is_whole:
            return None
        if self._host.disk.full:
            return "disk full"
        why = self._get(part, source)
        if why is None:
            self._store(part, key)
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

    def _store(self, part: PartHeader, key: ReplicaKey) -> None:
        self.stored[part.id] = Bytes(part, part.hash, key)
        self.taken.pop(part.id, None)

    # What others put here, or take

    def take_in(self, header: PartHeader, key: ReplicaKey) -> None:
        """A client's bytes are here."""
        self.arrived[header.id] = Bytes(header, header.hash, key)

    def arrive(self, header: PartHeader, key: ReplicaKey, after_ms: int) -> None:
        """Bytes are streamed ahead: they are here by and by, and then the node is told."""
        node = self._host.node
        self._world.at_node(node, after_ms * NS_PER_MS, self._has_arrived, (header, key))

    def _has_arrived(self, header: PartHeader, key: ReplicaKey) -> None:
        if header.id not in self.stored:
            self.take_in(header, key)
            self._tell(header, key)

    def _tell(self, header: PartHeader, key: ReplicaKey) -> None:
        node = self._host.node
        message = PartArrived(*key, header, NodeId(node.address))
        if self._host.listening:
            self._host.step(Received(node.time.now(), node.address, message))

    def spoil(self, part: PartId, *, is_deleted: bool) -> None:
        """Somebody deletes a stored part, or its bytes rot."""
        found = self.stored.pop(part)
        self.taken[part] = None
        if not is_deleted:
            self.stored[part] = Bytes(found.header, ROTTEN, found.key)

    def find_broken(self, part: PartId) -> None:
        """The bytes of a stored part rot, and the node sees it at once."""
        key, node = self.stored[part].key, self._host.node
        self.spoil(part, is_deleted=False)
        message = PartBroken(*key, part)
        self._host.step(Received(node.time.now(), node.address, message))

    def is_whole(self, part: PartId) -> bool:
        """Whether it is stored as it was written, now."""
        found = self.stored.get(part)
        return found is not None and found.is_whole

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


def _whole(parts: dict[PartId, Bytes], key: ReplicaKey) -> tuple[PartHeader, ...]:
    return tuple(e.header for e in parts.values() if e.key == key and e.is_whole)


def _key_of(task: Task) -> ReplicaKey:
    return task.table, task.shard


def _part_of(task: Message) -> PartId | None:
    match task:
        case Keep(part=part) | Fetch(part=part) | Arrive(part=part) | Hold(part=part):
            return part.id
        case Forget(part=part_id) | Detach(part=part_id) | Release(part=part_id):
            return part_id
    return None
