"""What the protocols of a replica share: its state, its node, and the effects of a step so far.

Each protocol is a module of functions over a ``Core``. All replicas of a node share one session with the
keeper and number their requests, writes and work together.
"""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Message,
    Note,
    Now,
    Replace,
    Send,
    SetTimer,
    Work,
    Write,
)
from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import LogHas, PartBytes, TableRefused, TableRequest
from motet.core.mergetree.paths import ReplicaPaths, ShardPaths
from motet.core.mergetree.queued import QueuedPart, Step
from motet.core.mergetree.state import Call, Insert, Phase, State, WatchLog
from motet.core.mergetree.version import Version
from motet.core.mergetree.work import Arrive, Detach, Forget, Hold, Keep, Release, Task
from motet.core.metadata.messages import (
    METADATA,
    NO_SESSION,
    MetadataRequest,
    Names,
    Read,
    ReadOperation,
    ReadResult,
    Watch,
    WatchOf,
    WriteOperation,
)
from motet.core.metadata.messages import Write as WriteNodes
from motet.errors import MotetError
from motet.ids import (
    Address,
    FileName,
    NodeId,
    PartId,
    RequestId,
    SessionId,
    TableId,
    TimerName,
    WorkId,
    WriteId,
    Zxid,
)

WRITE_TIMER = TimerName("tables-write")

ReplicaKey = tuple[TableId, int]
"""A table and the number of a shard: there is one replica of each on a node."""


def executed_file(key: ReplicaKey) -> FileName:
    """Holds every entry that a replica has executed."""
    return FileName(f"table-{key[0]}-{key[1]}-log")


class NodeMemory(msgspec.Struct):
    """What the replicas of a node share."""

    own: NodeId
    #: identifies the folder: a process with another one is another replica of the same name
    folder: str = ""
    #: where others reach this node, as people read it in ``host``
    endpoint: str = ""
    #: randomness of this process
    nonce: int = 0
    session: SessionId = NO_SESSION
    #: of the keeper, as read under this session; empty: it has not been read yet (T1)
    incarnation: str = ""
    next_request: int = 1
    next_work: int = 1
    next_write: int = 1
    next_read: int = 1
    #: who asked for what is under way: a replica, or a service of the node by its name
    requests: dict[RequestId, ReplicaKey | str] = msgspec.field(default_factory=dict)
    works: dict[WorkId, ReplicaKey | str] = msgspec.field(default_factory=dict)
    writes: dict[WriteId, ReplicaKey | str] = msgspec.field(default_factory=dict)
    reads: dict[int, ReplicaKey] = msgspec.field(default_factory=dict)
    #: the size of blocks that came within messages and are being written, by the work that does it
    blocks: dict[WorkId, int] = msgspec.field(default_factory=dict)
    blocks_bytes: int = 0
    #: replicas that have something to write soon: the timer for it runs
    to_write: dict[ReplicaKey, None] = msgspec.field(default_factory=dict)


class NodeContext:
    """The memory of a node, and the time and the effects of one step."""

    def __init__(
        self, own: NodeId, endpoint: str = "", config: MergeTreeConfig | None = None
    ) -> None:
        self.memory = NodeMemory(own, endpoint=endpoint)
        self.config = MergeTreeConfig() if config is None else config
        self.now = Now(0, 0)
        self.items: list[Effect] = []
        #: replicas that this step starts and stops
        self.to_start: list[ReplicaKey] = []
        self.to_stop: list[ReplicaKey] = []
        #: what a part of the node says to another one, within this step
        self.to_own: list[Message] = []

    def new_request(self, owner: ReplicaKey | str) -> RequestId:
        """The number of a request to the keeper; its owner is told of the answer."""
        request = RequestId(self.memory.next_request)
        self.memory.next_request += 1
        self.memory.requests[request] = owner
        return request

    def ask(self, message: MetadataRequest) -> RequestId:
        """Send it to the keeper."""
        self.items.append(Send(METADATA, message))
        return message.request

    def begin_work(self, owner: ReplicaKey | str, task: Task) -> WorkId:
        """Have something done with bytes; its owner is told when it has ended."""
        work = WorkId(self.memory.next_work)
        self.memory.next_work += 1
        self.memory.works[work] = owner
        self.items.append(Work(work, task))
        return work

    def new_write(self, owner: ReplicaKey | str) -> WriteId:
        """The number of a change of a file; its owner is told when it is durable."""
        write = WriteId(self.memory.next_write)
        self.memory.next_write += 1
        self.memory.writes[write] = owner
        return write

    def later_ns(self, after_ms: int) -> int:
        return self.now.monotonic_ns + after_ms * NS_PER_MS

    def write_soon(self, key: ReplicaKey) -> None:
        """A replica has something to write, and not at once."""
        if not self.memory.to_write:
            self.items.append(SetTimer(WRITE_TIMER, self.config.write_ms))
        self.memory.to_write[key] = None

    def begin_block(self, work: WorkId, block: PartBytes) -> None:
        """Its bytes are in memory until this work has ended."""
        self.memory.blocks[work] = size = len(block.manifest) + len(block.data)
        self.memory.blocks_bytes += size

    def end_block(self, work: WorkId) -> None:
        self.memory.blocks_bytes -= self.memory.blocks.pop(work, 0)

    def has_room(self, block: PartBytes, most: int) -> bool:
        """Whether one more may be written; those of replicas that have gone since do not count."""
        memory, size = self.memory, len(block.manifest) + len(block.data)
        if memory.blocks_bytes + size > most:
            memory.blocks = {w: b for w, b in memory.blocks.items() if w in memory.works}
            memory.blocks_bytes = sum(memory.blocks.values())
        return memory.blocks_bytes + size <= most

    def version(self, zxid: Zxid) -> Version:
        """A moment of the keeper, with its incarnation."""
        return Version(self.memory.incarnation, zxid)

    def send(self, to: Address | NodeId, message: Message) -> None:
        if to == self.memory.own:
            self.to_own.append(message)
        else:
            self.items.append(Send(Address(to), message))

    def note(self, what: str, detail: str = "") -> None:
        self.items.append(Note(f"table_{what}", detail))

    def take(self) -> list[Effect]:
        """What has to be done; the buffer is empty then."""
        items, self.items = self.items, []
        return items

    def clone(self) -> Self:
        twin = type(self)(self.memory.own, config=self.config)
        twin.memory, twin.now = clone_plain(self.memory), self.now
        return twin


class Core:
    """One replica while it takes a step."""

    def __init__(self, node: NodeContext, key: ReplicaKey, config: MergeTreeConfig) -> None:
        self.node = node
        self.key = key
        self.config = config
        self.paths = ShardPaths(*key)
        self.state = State()

    @property
    def own(self) -> NodeId:
        return self.node.memory.own

    @property
    def own_paths(self) -> ReplicaPaths:
        return self.paths.replica(self.own)

    @property
    def name(self) -> str:
        """As people know the replica's shard."""
        return f"{self.key[0]}/{self.key[1]}"

    @property
    def majority(self) -> int:
        """Of the shard's replicas, whether they are active or not."""
        return len(self.state.replicas) // 2 + 1

    @property
    def is_active(self) -> bool:
        return self.state.phase is Phase.ACTIVE

    @property
    def now_ns(self) -> int:
        return self.node.now.monotonic_ns

    def later_ns(self, after_ms: int) -> int:
        return self.node.later_ns(after_ms)

    @property
    def file(self) -> FileName:
        return executed_file(self.key)

    # Effects

    def read(self, call: Call, *operations: ReadOperation) -> RequestId:
        return self._ask(call, Read(self._new_request(), self.node.memory.session, operations))

    def write(self, call: Call, *operations: WriteOperation) -> RequestId:
        return self._ask(
            call, WriteNodes(self._new_request(), self.node.memory.session, operations)
        )

    def _new_request(self) -> RequestId:
        return self.node.new_request(self.key)

    def _ask(self, call: Call, message: Read | WriteNodes | Watch) -> RequestId:
        self.state.calls[message.request] = call
        return self.node.ask(message)

    def watch(self, path: str, of: WatchOf) -> None:
        self._ask(WatchLog(), Watch(self._new_request(), self.node.memory.session, path, of))

    def work(self, task: Task, part: PartId) -> WorkId:
        work = self.node.begin_work(self.key, task)
        self.state.works[work] = part
        return work

    def work_on_block(self, task: Keep | Hold | Arrive) -> WorkId:
        """Work with bytes that came within a message: they are counted until it has ended."""
        work = self.work(task, task.part.id)
        if task.block is not None:
            self.node.begin_block(work, task.block)
        return work

    def put_away(self, task: Forget | Detach | Release) -> None:
        """Until it has ended the part is neither here nor aside (E7)."""
        self.state.leaving[self.work(task, task.part)] = task.part

    def append_to_file(self, data: bytes) -> WriteId:
        write = self.node.new_write(self.key)
        offset = self.state.file_bytes
        self.node.items.append(
            Write(write, self.file, offset, data) if offset else Replace(write, self.file, data)
        )
        return write

    def send(self, to: Address | NodeId, message: Message) -> None:
        self.node.send(to, message)

    def note(self, what: str, detail: str = "") -> None:
        self.node.note(what, f"{self.name} {detail}".rstrip())

    def refuse(self, client: Address, request: TableRequest | RequestId, error: MotetError) -> None:
        number = request.request if isinstance(request, TableRequest) else request
        told = TableRefused(*self.key, number, error.code, error.what, error.advice)
        self.send(client, told)

    def step_back(self, why: str) -> None:
        """Something is not as this replica thought: it begins anew with the next tick."""
        self.state.phase, self.state.why = Phase.WAITING, why

    def wait(self, queued: QueuedPart, reason: str) -> None:
        """Look again with a later tick, each time somewhat later."""
        if queued.reason != reason:
            self.note("part_waits", f"{queued.header.id}: {reason}")
        queued.step, queued.reason = Step.WANTED, reason
        queued.tries += 1
        self.state.fetching.pop(queued.header.id, None)
        queued.again_ns = self.later_ns(self.config.tick_ms * min(queued.tries, 10))

    def tell_others(self, number: int) -> None:
        """A hint that the log has an entry, so that nobody waits for a watch."""
        self.state.head_heard = max(self.state.head_heard, number)
        table, shard = self.key
        for node in self.state.replicas:
            if node != self.own:
                self.send(node, LogHas(table, shard, number))

    # Looking

    def know_replicas(self, found: ReadResult) -> None:
        """Remember who the replicas of the shard are."""
        if isinstance(found, Names):
            self.state.replicas = tuple(NodeId(name) for name in found.names)

    def insert_of(self, part: PartId) -> Insert | None:
        """The insert that brings this part, while it is under way."""
        for insert in self.state.inserts.values():
            if insert.message.part.id == part and not insert.is_duplicate:
                return insert
        return None

    def header_of(self, part: PartId) -> PartHeader | None:
        own = self.state.parts.get(part)
        return None if own is None else own.header

    def fingerprint(self) -> bytes:
        return fingerprint((self.key, self.state))
