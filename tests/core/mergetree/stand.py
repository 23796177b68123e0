"""One replica, a keeper and a folder of parts, moved by hand: the test says when each request is answered."""

from __future__ import annotations

from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Message,
    Note,
    Now,
    Read,
    ReadBack,
    Received,
    Replace,
    Send,
    Started,
    Work,
    WorkDone,
    WorkFailed,
    Written,
)
from motet.core.machine import Write as WriteFile
from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.database import DatabaseService
from motet.core.mergetree.entries import InsertEntry, PartHeader, encode_entry
from motet.core.mergetree.hosting import HostingService
from motet.core.mergetree.messages import InsertBlock, NodeAnswer, TableAnswer
from motet.core.mergetree.node import TICK, TableNode
from motet.core.mergetree.paths import TABLE_DATA, ReplicaPaths, ShardPaths, layout
from motet.core.mergetree.replica import TableReplica
from motet.core.mergetree.state import State
from motet.core.mergetree.work import Detach, Fetch, Forget, Hold, Keep, LookAtDisk, Looked, Release
from motet.core.metadata.messages import (
    METADATA,
    NO_SESSION,
    Create,
    MetadataRequest,
    SessionBegun,
    SessionEnded,
    Write,
    WriteOperation,
)
from motet.core.metadata.messages import Written as NodesWritten
from motet.ids import Address, NodeId, PartId, RequestId, SessionId, TableId, WorkId
from motet.sim.metadata_tree import MetadataTree

TABLE = TableId("t")
PATHS = ShardPaths(TABLE, 0)
N1, N2 = NodeId("n1"), NodeId("n2")
OWN: ReplicaPaths = PATHS.replica(N1)
CLIENT = Address("client")


def header(part: str, content: str | None = None, partition: str = "p") -> PartHeader:
    return PartHeader(PartId(part), partition, 1, 100, f"hash of {content or part}")


def insert(
    part: str, *, quorum: int = 1, token: str | None = None, request: int = 1
) -> InsertBlock:
    return InsertBlock(
        TABLE, 0, RequestId(request), header(part), quorum, token or f"token-of-{part}", part
    )


class Stand:
    """The replica ``n1`` of two, and what it has asked for."""

    def __init__(self, config: MergeTreeConfig | None = None) -> None:
        self.tree = MetadataTree()
        self.other = self.tree.begin_session()
        self.session = NO_SESSION
        self.node = TableNode(N1, ((TABLE, 0),), config, "folder of n1", "n1:7400")
        self.others = (N2,)
        self.is_checked = True
        self.now_ms = 0
        #: requests to the keeper that are not answered, work that has not ended
        self.asked: list[MetadataRequest] = []
        self.working: dict[WorkId, Message] = {}
        self.stored: dict[PartId, PartHeader] = {}
        self.aside: dict[PartId, PartHeader] = {}
        self.staged: dict[PartId, PartHeader] = {}
        self.told: list[TableAnswer] = []
        self.answers: list[NodeAnswer] = []
        #: what was said to other nodes
        self.sent: list[tuple[Address, Message]] = []
        self.notes: list[Note] = []
        self.file = b""
        nodes = ((TABLE_DATA, b""), *layout(TABLE, 1, (N1, N2)), (PATHS.definition, b"{}"))
        self.write(Create("/motet"))
        for path, data in nodes:
            self.write(Create(path, data))

    @property
    def replica(self) -> TableReplica:
        return self.node.replicas[TABLE, 0]

    @property
    def state(self) -> State:
        return self.replica.core.state

    # The keeper

    def write(self, *operations: WriteOperation) -> None:
        """Somebody else writes."""
        done = self.tree.answer(Write(RequestId(0), self.other, operations), self.now_ms)
        assert isinstance(done, NodesWritten), done

    def begin(self) -> None:
        self.session = self.tree.begin_session()
        self.receive(METADATA, SessionBegun(self.session))

    def end(self, *, told: SessionId | None = None) -> None:
        self.tree.end_session(self.session)
        self.receive(METADATA, SessionEnded(told or self.session))

    def answer(self, kind: type[MetadataRequest] | None = None) -> MetadataRequest:
        """Carry out the oldest request, or the oldest of a kind, and tell the replica."""
        request = self.take(kind)
        self.receive(METADATA, self.tree.answer(request, self.now_ms))
        return request

    def take(self, kind: type[MetadataRequest] | None = None) -> MetadataRequest:
        at = next(n for n, each in enumerate(self.asked) if kind is None or isinstance(each, kind))
        return self.asked.pop(at)

    # The replica

    def start(self) -> None:
        """Start it, and answer everything until it is quiet."""
        self.begin_quietly()
        self.settle()

    def begin_quietly(self) -> None:
        """Start it with a session, and answer nothing."""
        self.step(Started(self.now(), nonce=1))
        self.begin()

    def append_elsewhere(self, part: str, *, quorum: int = 1) -> None:
        """An insert through the other replica, of which nothing else is there."""
        entry = encode_entry(InsertEntry(header(part), N2, quorum))
        self.write(Create(PATHS.new_entry, entry, sequential=True))

    def settle(self) -> None:
        while self.asked or self.working:
            if self.asked:
                self.answer()
            else:
                self.work()

    def settle_quietly(self) -> None:
        """The same, without looking at the invariants, which look at every part."""
        self.is_checked = False
        self.settle()
        self.is_checked = True

    def work(self, *, fails: str = "") -> Message:
        """End the oldest work."""
        work, task = next(iter(self.working.items()))
        del self.working[work]
        if fails:
            self.step(WorkFailed(self.now(), work, fails))
        else:
            self.step(WorkDone(self.now(), work, self._done(task)))
        return task

    def _done(self, task: Message) -> Message | None:
        match task:
            case LookAtDisk():
                stored, aside = tuple(self.stored.values()), tuple(self.aside.values())
                return Looked(stored, aside, tuple(self.staged.values()))
            case Keep(part=part) | Fetch(part=part):
                self.stored[part.id] = part
            case Hold(part=part):
                self.staged[part.id] = part
            case Release(part=part_id):
                self.staged.pop(part_id, None)
            case Forget(part=part_id):
                self.stored.pop(part_id, None)
            case Detach(part=part_id):
                if part_id in self.stored:
                    self.aside[part_id] = self.stored.pop(part_id)
        return None

    def tick(self, ms: int = 1_000) -> None:
        self.now_ms += ms
        self.step(Fired(self.now(), TICK))

    def now(self) -> Now:
        return Now(self.now_ms * 1_000_000, 0)

    def receive(self, sender: str, message: Message) -> None:
        self.step(Received(self.now(), Address(sender), message))

    def step(self, event: Event) -> None:
        for effect in self.node.step(event):
            self._perform(effect)
        assert not self.is_checked or not self.node.invariants()

    def _ask(self, request: MetadataRequest) -> None:
        """What these services ask is answered at once: this stand is about others."""
        owner = self.node.node.memory.requests.get(request.request)
        if owner in (DatabaseService.name, HostingService.name):
            self.receive(METADATA, self.tree.answer(request, self.now_ms))
        else:
            self.asked.append(request)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(to=to, message=message):
                if to == METADATA:
                    assert isinstance(message, MetadataRequest)
                    self._ask(message)
                elif isinstance(message, TableAnswer):
                    self.told.append(message)
                elif isinstance(message, NodeAnswer):
                    self.answers.append(message)
                else:
                    self.sent.append((to, message))
            case Work(id=work, task=task):
                self.working[work] = task
            case Note():
                self.notes.append(effect)
            case Read(id=read):
                self.step(ReadBack(self.now(), read, self.file))
            case Replace(id=write, data=data):
                self.file = data
                self.step(Written(self.now(), write))
            case WriteFile(id=write, offset=offset, data=data):
                self.file = self.file[:offset] + data
                self.step(Written(self.now(), write))
