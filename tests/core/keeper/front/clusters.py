"""Three nodes of a keeper on the workbench, and ZooKeeper's clients that do what a test has them do.

A message takes no time, a write is durable at once, and time moves only when a test lets it. Every step is
checked as on any workbench: invariants hold, and now and then that a copy does the same.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.front.node import KeeperNode
from motet.core.keeper.messages import (
    Answer,
    Ask,
    Connect,
    Connected,
    FrontEndConfig,
    Gone,
    Hangup,
    Happened,
    is_connection,
)
from motet.core.machine import Message, Send
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.formatting import file_sizes, format_files
from motet.core.vsr.messages import command_name
from motet.format.zookeeper.messages import Acl, AnyResult, Create, Created, Data, Failed, GetData
from motet.format.zookeeper.records import AnyRequest
from motet.ids import Address, ClusterId, ReplicaIndex
from motet.testing.bench_network import InFlight, Line
from motet.testing.scripts.vsr_bench import VsrBench
from motet.testing.workbench import Lost

OPEN = (Acl(31, "world", "anyone"),)
START_WALL_MS = 1_000_000
NAMES = ("r0", "r1", "r2")
patience_ms = 10_000

VSR = VsrConfig(
    cluster=ClusterId(7),
    replicas=tuple(map(Address, NAMES)),
    slots=128,
    pipeline_max=4,
    queue_max=16,
    checkpoint_ops=48,
    body_bytes_max=4_000,
    clients_max=16,
    reserved_max=8,
    block_bytes=512,
    blocks_max=1 << 16,
)
KEEPER = KeeperConfig(
    node_pages=8, session_pages=4, reply_bytes_max=4_000, timeout_ms_min=1_000, node_bytes_max=2_500
)
FRONT = FrontEndConfig(timeout_ms_min=1_000)


class KeeperBench(VsrBench):
    """Nodes, and the mailboxes of connections."""

    def __init__(self) -> None:
        super().__init__()
        self._steps_max = 20_000
        #: commands that are under way for as long as a test wants
        self.held: tuple[str, ...] = ()
        self._held_back: list[InFlight] = []

    def release(self) -> None:
        """Let arrive what was held back."""
        self.held = ()
        self.network.in_flight += self._held_back
        self._held_back = []
        self.settle()

    def _sent(self, sender: Address, send: Send) -> list[Line]:
        if command_name(type(send.message)) in self.held:
            self._held_back.append(InFlight(sender, send))
            return []
        return super()._sent(sender, send)

    def _deliver(self, each: InFlight) -> list[Line]:
        if is_connection(each.send.to):
            self.received.setdefault(each.send.to, []).append(each.send.message)
            return []
        return super()._deliver(each)


class Cluster:
    """It runs, all have registered, and the first view is under way."""

    def __init__(
        self,
        front: FrontEndConfig = FRONT,
        *,
        vsr: VsrConfig = VSR,
        keeper: KeeperConfig = KEEPER,
        start: bool = True,
    ) -> None:
        self.bench = KeeperBench()
        self.connections = 0
        for own, name in enumerate(vsr.replicas):
            self._add(name, vsr, ReplicaIndex(own), keeper, front)
        if start:
            for name in vsr.replicas:
                self.bench.start(name)
            self.bench.run_ms(2_000)

    def _add(
        self,
        name: str,
        vsr: VsrConfig,
        own: ReplicaIndex,
        keeper: KeeperConfig,
        front: FrontEndConfig,
    ) -> None:
        node = self.bench.add(
            name, lambda: KeeperNode(vsr, own, keeper, front), wall_ms=START_WALL_MS
        )
        for file, size_bytes in file_sizes(vsr):
            node.disk.durable[file] = bytes(size_bytes)
        for file, offset, data in format_files(vsr, own):
            content = node.disk.durable.get(file, b"").ljust(offset + len(data), b"\0")
            node.disk.durable[file] = content[:offset] + data + content[offset + len(data) :]

    def node(self, name: str) -> KeeperNode:
        machine = self.bench.node(name).machine
        assert isinstance(machine, KeeperNode)
        return machine

    @property
    def primary(self) -> str:
        """Of the newest view; nobody in between."""
        leading = [name for name in self._running() if self.node(name).replica.core.is_primary]
        return max(leading, key=self._view, default="")

    def _view(self, name: str) -> int:
        return self.node(name).replica.core.state.view

    @property
    def backups(self) -> list[str]:
        return [name for name in self._running() if name != self.primary]

    def _running(self) -> list[str]:
        return [name for name, node in self.bench.nodes.items() if node.machine is not None]

    # Time and trouble

    def run(self, ms: int) -> None:
        self.bench.run_ms(ms)

    def until(self, is_so: Callable[[], bool], ms: int = patience_ms) -> None:
        self.bench.run_ms(ms, until=is_so)
        assert is_so(), f"not within {ms} ms"

    def lose(self, command: str, *, sender: str | None = None, to: str | None = None) -> None:
        self.bench.lost.append(Lost(command, sender, to))

    def let_lag(self, name: str) -> None:
        """It does not hear what is committed, but its lanes are answered."""
        for command in ("prepare", "commit", "confirm_view", "start_view", "headers"):
            self.lose(command, to=name)

    def let_hear_late(self, name: str) -> None:
        """It hears that something is committed with the prepare behind it."""
        for command in ("commit", "confirm_view"):
            self.lose(command, to=name)

    # Clients

    def client(self, node: str) -> Client:
        """A connection that has said nothing yet."""
        self.connections += 1
        return Client(self, node, Address(f"zk/{self.connections}"))

    def connected(self, node: str, timeout_ms: int = 4_000) -> Client:
        client = self.client(node)
        client.connect(timeout_ms)
        return client


class Client:
    """One connection."""

    def __init__(self, cluster: Cluster, node: str, address: Address) -> None:
        self.cluster = cluster
        self.node = node
        self.address = address
        self.xid = 0

    # Saying

    def say(self, message: Message) -> None:
        bench = self.cluster.bench
        bench.hand(self.node, self.address, message)

    def say_connect(
        self,
        timeout_ms: int = 4_000,
        session: int = 0,
        password: bytes = bytes(16),
        last_zxid: int = 0,
    ) -> None:
        self.say(Connect(last_zxid, timeout_ms, session, password))

    def send(self, request: AnyRequest) -> int:
        """Ask, and wait for nothing."""
        self.xid += 1
        self.say(Ask(self.xid, request))
        return self.xid

    def gone(self) -> None:
        self.say(Gone())

    # Hearing

    @property
    def inbox(self) -> list[Message]:
        return self.cluster.bench.received.setdefault(self.address, [])

    def clear(self) -> None:
        self.inbox.clear()

    @property
    def answers(self) -> list[Answer]:
        return [message for message in self.inbox if isinstance(message, Answer)]

    @property
    def events(self) -> list[tuple[int, str]]:
        return [(m.event.type, m.event.path) for m in self.inbox if isinstance(m, Happened)]

    @property
    def is_hung_up(self) -> bool:
        return any(isinstance(message, Hangup) for message in self.inbox)

    @property
    def kinds(self) -> list[str]:
        return [type(message).__name__ for message in self.inbox]

    def has_answer(self, xid: int) -> bool:
        return any(answer.xid == xid for answer in self.answers)

    def answer(self, xid: int) -> Answer:
        (answer,) = [answer for answer in self.answers if answer.xid == xid]
        return answer

    # Both

    def connect(
        self,
        timeout_ms: int = 4_000,
        session: int = 0,
        password: bytes = bytes(16),
        last_zxid: int = 0,
    ) -> Connected:
        self.say_connect(timeout_ms, session, password, last_zxid)
        self.cluster.until(lambda: bool(self.inbox))
        connected = self.inbox[0]
        assert isinstance(connected, Connected), connected
        self.connected = connected
        return connected

    def reconnected(self, node: str) -> Client:
        """The same session, over another connection."""
        other = self.cluster.client(node)
        other.connect(session=self.connected.session, password=self.connected.password)
        return other

    def ask(self, request: AnyRequest) -> Answer:
        """Ask, and wait for the answer."""
        xid = self.send(request)
        self.cluster.until(lambda: self.has_answer(xid))
        return self.answer(xid)

    def result(self, request: AnyRequest) -> AnyResult:
        return self.ask(request).result

    def error(self, request: AnyRequest) -> int:
        result = self.result(request)
        return result.error if isinstance(result, Failed) else 0

    def create(self, path: str, data: bytes = b"", flags: int = 0) -> str:
        result = self.result(Create(path, data, OPEN, flags))
        assert isinstance(result, Created), result
        return result.path

    def get(self, path: str, *, watch: bool = False) -> bytes | None:
        result = self.result(GetData(path, watch))
        return result.data if isinstance(result, Data) else None
