"""The keeper as operators see it, in a simulation: linearizable, slow, unsure, and fickle in whom it elects.

In a process an operator reaches the keeper through a port of its own node, so nothing here goes over the
simulated network. A request takes effect at one moment between being asked and being answered. Now and then
its outcome is *unknown*: then it may have taken effect, or not, or may do so much later, even if the operator
that asked is long dead, as long as the keeper has not heard that its session is over. Sessions end when their
operator dies, and at a whim; entries of candidates are deleted at a whim, and then the one before may hear of
that late, so that two operators are active at once.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.machine import NS_PER_MS, Effect, Event, Message, Received, Send, Violation
from motet.core.metadata.messages import (
    ANY_VERSION,
    METADATA,
    Conflict,
    Create,
    Delete,
    Deposed,
    Elected,
    Failed,
    MetadataMessage,
    MetadataRequest,
    ReadDone,
    SessionBegun,
    SessionEnded,
    Set,
    Unknown,
    Write,
    WriteOperation,
    Written,
)
from motet.core.metadata.paths import (
    DRAINS,
    MAPS,
    NODES,
    OPERATORS,
    ROOT,
    SETTINGS,
    SHARDS,
    STREAMS,
)
from motet.core.operator.operator import Operator
from motet.core.operator.state import NodeEntry
from motet.core.render import render
from motet.core.streams.cluster_messages import ShardMetadata, decode_metadata
from motet.ids import NodeId, RequestId, SessionId, ShardName
from motet.sim.host import Host
from motet.sim.metadata_tree import MetadataTree
from motet.sim.world import SimNode, World

delay_ms_max = 8
late_ms_max = 600
look_ms = 100
deaf_ms_max = 900
expiry_chance = 0.4
"""That a session whose operator has died is found to be over, each time when somebody looks."""

_encode_entry = msgspec.json.Encoder().encode

Watcher = Callable[[ShardName, ShardMetadata | None, ShardMetadata | None], None]
"""Told what stood there before, and what stands there now."""


class Trouble(msgspec.Struct, frozen=True):
    """How the keeper misbehaves in one run; probabilities for each request, or each look at who is active."""

    unknown: float
    failed: float
    slow: float
    whim: float
    duel: float
    forgets_nodes: float


class Store:
    """All that is in the keeper, and who is the active operator."""

    def __init__(self, world: World, trouble: Trouble, watcher: Watcher) -> None:
        self._world = world
        self._trouble = trouble
        self._watcher = watcher
        self._dice = world.dice.fork("store")
        self._tree = MetadataTree()
        #: of those who are not simulated: data nodes, and whoever deletes an entry
        self._session = self._tree.begin_session()
        self.metadata: dict[ShardName, ShardMetadata] = {}
        self._hosts: list[Host] = []
        self._data: list[SimNode] = []
        #: session -> the operator and the life of it that it belongs to
        self._sessions: dict[SessionId, tuple[Host, int]] = {}
        #: the operator that was elected last, and its life
        self.active: tuple[Host, int] | None = None
        #: path of a stream -> what was written when it was created; and those that are gone
        self._definitions: dict[str, bytes] = {}
        self._deleted: dict[tuple[str, bytes], None] = {}
        #: a planted bug: writes do not look at the version that they replace
        self.is_blind = False
        for path in (ROOT, DRAINS, MAPS, NODES, OPERATORS, SETTINGS, SHARDS, STREAMS):
            self._write(Create(path))

    # Building it

    def enter(self, node: SimNode) -> None:
        """A data node is there."""
        self._data.append(node)
        self._write(Create(self._entry_path(node), _entry_of(node)))

    def serve(self, host: Host) -> None:
        """An operator stands for election."""
        self._hosts.append(host)
        if len(self._hosts) == 1:
            self._world.at(look_ms * NS_PER_MS // 4, self._look)

    def below(self, path: str) -> list[bytes]:
        """The data of what stands below a path."""
        names = [f"{path}/{name}" for name in self._tree.names(path)]
        return [data for data in map(self._tree.get, names) if data is not None]

    # Requests

    def ask(self, host: Host, request: MetadataRequest) -> None:
        """Carry it out by and by, and answer this life of the operator."""
        trouble, dice = self._trouble, self._dice
        is_calm = self._world.fabric.healed
        self._world.record(host.label, ">", f"keeper {_told(request)}")
        before_ns, after_ns = self._delay_ns(), self._delay_ns()
        number = request.request
        if not is_calm and dice.chance(trouble.failed):
            failed = Failed(number, "NODE", "not reached", "try again")
            self._later(host, before_ns, failed)
        elif not is_calm and isinstance(request, Write) and dice.chance(trouble.unknown):
            self._world.mark("store_unknown")
            self._later(host, before_ns, Unknown(number))
            if dice.chance(0.7):
                late_ns = dice.between(0, late_ms_max) * NS_PER_MS if dice.chance(0.3) else 0
                self._world.at(before_ns // 2 + late_ns, self._carry_out_late, (request,))
        else:
            self._world.at(
                before_ns, self._carry_out, (host, host.node.incarnation, request, after_ns)
            )

    def _delay_ns(self) -> int:
        most_ms = delay_ms_max
        if not self._world.fabric.healed and self._dice.chance(self._trouble.slow):
            most_ms = late_ms_max
        return self._dice.between(10_000, most_ms * NS_PER_MS)

    def _carry_out(
        self, host: Host, incarnation: int, request: MetadataRequest, after_ns: int
    ) -> None:
        """Its moment has come, whether whoever asked still lives or not."""
        answer = self._answer(request)
        if host.node.incarnation == incarnation:
            self._later(host, after_ns, answer)
        self._tell_news()

    def _carry_out_late(self, request: MetadataRequest) -> None:
        self._answer(request)
        self._tell_news()

    def _answer(self, request: MetadataRequest) -> MetadataMessage:
        if self.is_blind and isinstance(request, Write):
            blind = tuple(map(self._blinded, request.operations))
            request = msgspec.structs.replace(request, operations=blind)
        answer = self._tree.answer(request, self._now_ms())
        if isinstance(answer, Conflict):
            self._world.mark("store_conflict")
        if isinstance(request, Write) and isinstance(answer, Written):
            for operation in request.operations:
                self._wrote(operation)
        return answer

    def _blinded(self, operation: WriteOperation) -> WriteOperation:
        if isinstance(operation, Create) and self._tree.get(operation.path) is not None:
            return Set(operation.path, operation.data, ANY_VERSION)
        if isinstance(operation, Create):
            return operation
        return msgspec.structs.replace(operation, version=ANY_VERSION)

    def _now_ms(self) -> int:
        return self._world.virtual.elapsed_ns // NS_PER_MS

    # Changing it

    def _write(self, operation: WriteOperation) -> None:
        """By somebody who is not simulated."""
        written = self._answer(Write(RequestId(0), self._session, (operation,)))
        assert isinstance(written, Written), written
        self._tell_news()

    def _check_streams(self, operation: WriteOperation) -> None:
        """A stream is never created again once its definition is gone."""
        path = operation.path
        if isinstance(operation, Create) and (path, operation.data) in self._deleted:
            self._world.violated("Deleted", f"{path} is created again")
        data = self._definitions.pop(path, None)
        if isinstance(operation, Delete) and data is not None:
            self._deleted[path, data] = None
        elif not isinstance(operation, Delete):
            self._definitions[path] = (
                operation.data if isinstance(operation, Create) else data or b""
            )

    def _wrote(self, operation: WriteOperation) -> None:
        if operation.path.startswith(f"{STREAMS}/") and not self.is_blind:
            self._check_streams(operation)
        path, data = operation.path, self._tree.get(operation.path)
        self._world.record("keeper", "W", f"{path} {'removed' if data is None else _short(data)}")
        if path.startswith(f"{SHARDS}/"):
            shard = ShardName(path.removeprefix(f"{SHARDS}/"))
            before = self.metadata.pop(shard, None)
            after = None if data is None else decode_metadata(data)
            if after is not None:
                self.metadata[shard] = after
            self._watcher(shard, before, after)

    def _tell_news(self) -> None:
        for session, message in self._tree.take_news():
            host, incarnation = self._sessions[session]
            deaf_ns = 0
            if isinstance(message, Elected):
                self.active = host, incarnation
                self._world.mark("operator_elected")
            elif isinstance(message, Deposed):
                deaf_ns = self._deaf_ns()
            if host.node.incarnation == incarnation:
                self._later(host, deaf_ns + self._delay_ns(), message)

    def _deaf_ns(self) -> int:
        """How much later somebody hears that it is no longer the active one."""
        if self._world.fabric.healed or not self._dice.chance(self._trouble.duel):
            return 0
        self._world.mark("operator_duel")
        return self._dice.between(1, deaf_ms_max) * NS_PER_MS

    def _later(self, host: Host, after_ns: int, message: Message) -> None:
        if host.listening:
            self._world.at_node(host.node, after_ns, self._tell, (host, message))

    def _tell(self, host: Host, message: Message) -> None:
        self._world.record(host.label, "<", f"keeper {_told(message)}")
        host.step(Received(host.node.time.now(), METADATA, message))

    # Sessions, and who is active

    def _look(self) -> None:
        """Which sessions are over? And should somebody else be active?"""
        self._world.at(self._dice.between(1, 2 * look_ms) * NS_PER_MS, self._look)
        is_calm = self._world.fabric.healed
        self._look_at_nodes(is_calm=is_calm)
        for session, (host, incarnation) in list(self._sessions.items()):
            is_dead = host.node.incarnation != incarnation or not host.listening
            if is_dead and self._dice.chance(expiry_chance):
                self._end_session(session)
        if not is_calm and self.active is not None and self._dice.chance(self._trouble.whim):
            self._depose()
        for host in self._hosts:
            if host.listening and (host, host.node.incarnation) not in self._sessions.values():
                session = self._tree.begin_session(self._now_ms())
                self._sessions[session] = host, host.node.incarnation
                self._later(host, self._delay_ns(), SessionBegun(session))

    def _depose(self) -> None:
        """The session of the active operator expires, or somebody who does not hear it deletes its entry."""
        session = next((each for each, who in self._sessions.items() if who == self.active), None)
        if session is None:
            return
        entries = sorted(self._tree.names(OPERATORS), key=lambda name: int(name.rpartition("-")[2]))
        if entries and self._dice.chance(0.5):
            self._write(Delete(f"{OPERATORS}/{entries[0]}", ANY_VERSION))
        else:
            self._end_session(session)

    def _end_session(self, session: SessionId) -> None:
        host, incarnation = self._sessions.pop(session)
        if self.active == (host, incarnation):
            self.active = None
        self._tree.end_session(session, self._now_ms())
        self._tell_news()
        if host.node.incarnation == incarnation:
            self._later(host, self._deaf_ns() + self._delay_ns(), SessionEnded(session))

    # Entries of nodes

    def _look_at_nodes(self, *, is_calm: bool) -> None:
        """An entry goes when its node is away for long, and comes back with it."""
        for node in self._data:
            path = self._entry_path(node)
            is_there = self._tree.get(path) is not None
            if node.up and not is_there:
                self._write(Create(path, _entry_of(node)))
            elif node.up or not is_there or is_calm:
                continue
            elif self._dice.chance(self._trouble.forgets_nodes):
                self._world.mark("node_entry_gone")
                self._write(Delete(path, ANY_VERSION))

    @staticmethod
    def _entry_path(node: SimNode) -> str:
        return f"{NODES}/{node.address}"


class StoredOperator:
    """An operator with its port to the keeper: what it asks of the keeper does not go over the network."""

    def __init__(self, operator: Operator, store: Store, host: Callable[[], Host]) -> None:
        self.operator = operator
        self._store = store
        self._host = host

    def step(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        for effect in self.operator.step(event):
            if isinstance(effect, Send) and effect.to == METADATA:
                assert isinstance(effect.message, MetadataRequest)
                self._store.ask(self._host(), effect.message)
            else:
                effects.append(effect)
        return effects

    def invariants(self) -> list[Violation]:
        return self.operator.invariants()


def _entry_of(node: SimNode) -> bytes:
    name = str(node.address)
    return _encode_entry(NodeEntry(NodeId(name), ("data",), f"{name}:1", f"{name}:3"))


def _told(message: Message) -> str:
    if isinstance(message, ReadDone):
        return (
            f"ReadDone request={message.request} zxid={message.zxid} {len(message.results)} nodes"
        )
    if isinstance(message, Write):
        what = "; ".join(
            f"{type(each).__name__} {each.path} {_short(getattr(each, 'data', b''))}"
            for each in message.operations
        )
        return f"Write request={message.request} session={message.session} {what}"
    return render(message)


def _short(data: bytes) -> str:
    return data[:400].decode(errors="replace")
