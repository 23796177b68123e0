"""A node without replicas of its own, and a keeper that answers at once, unless a test says otherwise."""

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
    Remove,
    Replace,
    Send,
    Started,
    Work,
    WorkDone,
    WorkFailed,
    Write,
    Written,
)
from motet.core.mergetree.messages import NodeAnswer, NodeRefused, NodeRequest
from motet.core.mergetree.node import TICK, TableNode
from motet.core.mergetree.paths import ROOTS
from motet.core.mergetree.work import LookAtDisk, Looked, Task
from motet.core.metadata.messages import (
    METADATA,
    NO_SESSION,
    Create,
    Delete,
    Found,
    Get,
    MetadataRequest,
    ReadDone,
    SessionBegun,
    SessionEnded,
    Set,
    WriteOperation,
)
from motet.core.metadata.messages import Read as ReadNodes
from motet.core.metadata.messages import Write as WriteNodes
from motet.core.metadata.messages import Written as NodesWritten
from motet.core.metadata.paths import DRAINS, NODES
from motet.ids import Address, NodeId, RequestId
from motet.sim.metadata_tree import MetadataTree

N1 = NodeId("n1")
CLIENT = Address("client")


class ServiceStand:
    """The node ``n1``, which is embedded unless it has an endpoint."""

    def __init__(self, endpoint: str = "", nonce: int = 0xA1B2) -> None:
        self.tree = MetadataTree()
        self.other = self.tree.begin_session()
        self.session = NO_SESSION
        self.now_ms = 0
        self.keeper_ms = 0
        self.node = TableNode(N1, (), None, "folder of n1", endpoint)
        #: requests to the keeper that are not answered, while ``is_held``
        self.asked: list[MetadataRequest] = []
        self.is_held = False
        #: look at clones and invariants with each step, which looks at everything
        self.is_checked = True
        self.told: list[NodeAnswer] = []
        self.notes: list[Note] = []
        self.tasks: list[Task] = []
        #: why the next tasks fail
        self.fails: list[str] = []
        self.removed: list[str] = []
        for path in ("/motet", NODES, DRAINS, *ROOTS):
            self.write(Create(path))
        self.step(Started(self.now(), nonce))

    # The keeper

    def write(self, *operations: WriteOperation) -> None:
        """Somebody else writes; who watches is told."""
        request = WriteNodes(RequestId(0), self.other, operations)
        done = self.tree.answer(request, self.keeper_ms)
        assert isinstance(done, NodesWritten), done
        self.tell()

    def put(self, path: str, data: bytes) -> None:
        found = self.find(path)
        self.write(Create(path, data) if found is None else Set(path, data, found.stat.version))

    def delete(self, path: str) -> None:
        self.write(Delete(path, -1))

    def find(self, path: str) -> Found | None:
        read = self.tree.answer(ReadNodes(RequestId(0), self.other, (Get(path),)))
        assert isinstance(read, ReadDone)
        found = read.results[0]
        return found if isinstance(found, Found) else None

    def below(self, path: str) -> list[str]:
        """All paths below one."""
        found = []
        for name in self.tree.names(path):
            found += [f"{path}/{name}", *self.below(f"{path}/{name}")]
        return found

    def begin(self) -> None:
        self.session = self.tree.begin_session()
        self.receive(METADATA, SessionBegun(self.session))

    def end(self) -> None:
        self.tree.end_session(self.session)
        self.asked.clear()
        self.receive(METADATA, SessionEnded(self.session))

    def answer(self, answer: Message | None = None) -> MetadataRequest:
        """Carry out the oldest request that is held, or say something else instead."""
        request = self.asked.pop(0)
        told = self.tree.answer(request, self.keeper_ms)
        self.receive(METADATA, told if answer is None else answer)
        self.tell()
        return request

    def tell(self) -> None:
        for session, message in self.tree.take_news():
            if session == self.session:
                self.receive(METADATA, message)

    # The node

    def ask(self, message: NodeRequest) -> NodeAnswer | None:
        """The answer of the node, if it has one at once."""
        self.receive(CLIENT, message)
        return self.told.pop() if self.told else None

    def refusal(self, message: NodeRequest) -> NodeRefused:
        told = self.ask(message)
        assert isinstance(told, NodeRefused), told
        return told

    def tick(self, ms: int = 1_000) -> None:
        self.now_ms += ms
        self.keeper_ms += ms
        self.step(Fired(self.now(), TICK))

    def now(self) -> Now:
        return Now(self.now_ms * 1_000_000, self.keeper_ms * 1_000_000)

    def receive(self, sender: str, message: Message) -> None:
        self.step(Received(self.now(), Address(sender), message))

    def step(self, event: Event) -> None:
        if self.is_checked:
            assert self.node.clone().fingerprint() == self.node.fingerprint()
            assert not self.node.invariants()
        for effect in self.node.step(event):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(to=to, message=message):
                self._send(to, message)
            case Note():
                self.notes.append(effect)
            case Work(id=work, task=task):
                assert isinstance(task, Task)
                self.tasks.append(task)
                if self.fails and not isinstance(task, LookAtDisk):
                    self.step(WorkFailed(self.now(), work, self.fails.pop(0)))
                    return
                result = Looked((), ()) if isinstance(task, LookAtDisk) else None
                self.step(WorkDone(self.now(), work, result))
            case Read(id=read):
                self.step(ReadBack(self.now(), read, b""))
            case Remove(id=removal, file=file):
                self.removed.append(file)
                self.step(Written(self.now(), removal))
            case Replace(id=replacement) | Write(id=replacement):
                self.step(Written(self.now(), replacement))

    def _send(self, to: Address, message: Message) -> None:
        if to == METADATA:
            assert isinstance(message, MetadataRequest)
            self.asked.append(message)
            while self.asked and not self.is_held:
                self.answer()
        elif isinstance(message, NodeAnswer):
            self.told.append(message)
