"""The keeper as operators see it, in a simulation: linearizable, slow, unsure, and fickle in whom it elects.

In a process an operator reaches the keeper through a port of its own node, so nothing here goes over the
simulated network. A request takes effect at one moment between being asked and being answered. Now and then
its outcome is *unknown*: then it may have taken effect, or not, or may do so much later, even if the operator
that asked is long dead. Who is active is decided here as well: it changes when the active one dies, and at a
whim, and the one before may hear of that late, so that two operators are active at once.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.catalog.paths import DRAINS, NODES, SETTINGS, SHARDS, STREAMS
from motet.core.machine import NS_PER_MS, Effect, Event, Message, Received, Send, Violation
from motet.core.operator.metadata import ShardMetadata, decode_metadata
from motet.core.operator.operator import Operator
from motet.core.operator.state import NodeEntry
from motet.core.operator.store import (
    STORE,
    AllRead,
    Changed,
    Delete,
    Deposed,
    Done,
    Elected,
    OutcomeIsUnknown,
    Put,
    ReadAll,
    StoredNode,
    StoreFailed,
    StoreRequest,
    VersionConflict,
)
from motet.core.render import render
from motet.ids import NodeId, ShardName
from motet.sim.host import Host
from motet.sim.world import SimNode, World

delay_ms_max = 8
late_ms_max = 600
look_ms = 100
deaf_ms_max = 900

WATCHED = (DRAINS, NODES, SETTINGS, STREAMS)
_encode_entry = msgspec.json.Encoder().encode

Watcher = Callable[[ShardName, ShardMetadata | None, ShardMetadata | None], None]
"""Told what stood there before, and what stands there now."""


class Trouble(msgspec.Struct, frozen=True):
    """How the store misbehaves in one run; probabilities for each request, or each look at who is active."""

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
        self._nodes: dict[str, StoredNode] = {}
        self.metadata: dict[ShardName, ShardMetadata] = {}
        self._hosts: list[Host] = []
        self._data: list[SimNode] = []
        #: the active operator and the life of it that was elected
        self.active: tuple[Host, int] | None = None
        #: a planted bug: writes do not look at the version that they replace
        self.is_blind = False

    # Building it

    def enter(self, node: SimNode) -> None:
        """A data node is there."""
        self._data.append(node)
        self._put(self._entry_path(node), _entry_of(node))

    def serve(self, host: Host) -> None:
        """An operator stands for election."""
        self._hosts.append(host)
        if len(self._hosts) == 1:
            self._world.at(look_ms * NS_PER_MS // 4, self._look)

    def has(self, path: str) -> bool:
        return path in self._nodes

    def below(self, path: str) -> list[StoredNode]:
        """What stands below a path."""
        return [self._nodes[name] for name in sorted(self._nodes) if name.startswith(f"{path}/")]

    # Requests

    def ask(self, host: Host, request: StoreRequest) -> None:
        """Carry it out by and by, and answer this life of the operator."""
        trouble, dice = self._trouble, self._dice
        is_calm = self._world.fabric.healed
        self._world.record(host.label, ">", f"store {_told(request)}")
        before_ns, after_ns = self._delay_ns(), self._delay_ns()
        if not is_calm and dice.chance(trouble.failed):
            self._later(host, before_ns, lambda: StoreFailed(request.request, "not reached"))
        elif not is_calm and dice.chance(trouble.unknown):
            self._world.mark("store_unknown")
            self._later(host, before_ns, lambda: OutcomeIsUnknown(request.request))
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
        self, host: Host, incarnation: int, request: StoreRequest, after_ns: int
    ) -> None:
        """Its moment has come, whether whoever asked still lives or not."""
        if host.node.incarnation != incarnation and self._dice.chance(0.5):
            return  # the session is gone, too
        answer = self._answer(request)
        if host.node.incarnation == incarnation:
            self._later(host, after_ns, lambda: answer)

    def _carry_out_late(self, request: StoreRequest) -> None:
        self._answer(request)

    def _answer(self, request: StoreRequest) -> Message:
        if isinstance(request, ReadAll):
            found = [
                node
                for name, node in sorted(self._nodes.items())
                if any(name == path or name.startswith(f"{path}/") for path in request.paths)
            ]
            return AllRead(request.request, tuple(found))
        if isinstance(request, Delete):
            there = self._nodes.get(request.path)
            if there is None or (there.version != request.version and not self.is_blind):
                return self._conflict(request)
            self._remove(request.path)
            return Done(request.request, -1)
        assert isinstance(request, Put)
        there = self._nodes.get(request.path)
        version = None if there is None else there.version
        if version != request.version and not self.is_blind:
            return self._conflict(request)
        return Done(request.request, self._put(request.path, request.data))

    def _conflict(self, request: StoreRequest) -> Message:
        self._world.mark("store_conflict")
        return VersionConflict(request.request)

    # Changing it

    def _put(self, path: str, data: bytes) -> int:
        there = self._nodes.get(path)
        version = 0 if there is None else there.version + 1
        self._nodes[path] = StoredNode(path, data, version)
        self._world.record("store", "W", f"{path} version {version} {_short(data)}")
        self._changed(path, data)
        return version

    def _remove(self, path: str) -> None:
        del self._nodes[path]
        self._world.record("store", "W", f"{path} removed")
        self._changed(path, None)

    def _changed(self, path: str, data: bytes | None) -> None:
        if path.startswith(f"{SHARDS}/"):
            shard = ShardName(path.removeprefix(f"{SHARDS}/"))
            before = self.metadata.pop(shard, None)
            after = None if data is None else decode_metadata(data)
            if after is not None:
                self.metadata[shard] = after
            self._watcher(shard, before, after)
        for watched in WATCHED:
            if path.startswith(f"{watched}/"):
                self._tell_all(Changed(watched))

    def _tell_all(self, message: Message) -> None:
        for host in self._hosts:
            self._later(host, self._delay_ns(), lambda: message)

    def _later(self, host: Host, after_ns: int, message: Callable[[], Message]) -> None:
        if host.listening:
            self._world.at_node(host.node, after_ns, self._tell, (host, message))

    def _tell(self, host: Host, message: Callable[[], Message]) -> None:
        told = message()
        self._world.record(host.label, "<", f"store {_told(told)}")
        host.step(Received(host.node.time.now(), STORE, told))

    # Who is active

    def _look(self) -> None:
        """Is the active operator still there? And should it be?"""
        self._world.at(self._dice.between(1, 2 * look_ms) * NS_PER_MS, self._look)
        is_calm = self._world.fabric.healed
        self._look_at_nodes(is_calm=is_calm)
        up = [host for host in self._hosts if host.listening]
        active = self.active
        is_gone = active is None or active[0].node.incarnation != active[1] or active[0] not in up
        if not up:
            self.active = None
        elif is_gone or (not is_calm and self._dice.chance(self._trouble.whim)):
            self._elect(self._dice.pick(up))
        if is_calm:
            for host in up:
                if self.active is None or host is not self.active[0]:
                    self._depose(host, 0)

    def _elect(self, host: Host) -> None:
        before = self.active
        self.active = host, host.node.incarnation
        self._world.mark("operator_elected")
        self._later(host, self._delay_ns(), Elected)
        for other in self._hosts:
            if other is host or not other.listening:
                continue
            deaf_ms = 0
            if before is not None and before[0] is other and self._dice.chance(self._trouble.duel):
                deaf_ms = self._dice.between(1, deaf_ms_max)
                self._world.mark("operator_duel")
            self._depose(other, deaf_ms * NS_PER_MS)

    def _depose(self, host: Host, after_ns: int) -> None:
        operator = host.machine
        assert isinstance(operator, StoredOperator)
        if after_ns or operator.operator.core.state.is_active:
            self._world.at_node(host.node, after_ns + self._delay_ns(), self._tell_deposed, (host,))

    def _tell_deposed(self, host: Host) -> None:
        if self.active is None:
            self._tell(host, Deposed)
        elif self.active[0] is not host:  # else it has been elected again meanwhile
            active = NodeId(self.active[0].node.address)
            self._tell(host, lambda: Deposed(active))

    # Entries of nodes

    def _look_at_nodes(self, *, is_calm: bool) -> None:
        """An entry goes when its node is away for long, and comes back with it."""
        for node in self._data:
            path = self._entry_path(node)
            is_there = path in self._nodes
            if node.up and not is_there:
                self._put(path, _entry_of(node))
            elif node.up or not is_there or is_calm:
                continue
            elif self._dice.chance(self._trouble.forgets_nodes):
                self._world.mark("node_entry_gone")
                self._remove(path)

    @staticmethod
    def _entry_path(node: SimNode) -> str:
        return f"{NODES}/{node.address}"


class StoredOperator:
    """An operator with its port to the store: what it asks of the store does not go over the network."""

    def __init__(self, operator: Operator, store: Store, host: Callable[[], Host]) -> None:
        self.operator = operator
        self._store = store
        self._host = host

    def step(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        for effect in self.operator.step(event):
            if isinstance(effect, Send) and effect.to == STORE:
                assert isinstance(effect.message, StoreRequest)
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
    if isinstance(message, AllRead):
        return f"AllRead request={message.request} {len(message.nodes)} nodes"
    if isinstance(message, Put):
        what = f"{message.path} version={message.version} {_short(message.data)}"
        return f"Put request={message.request} {what}"
    return render(message)


def _short(data: bytes) -> str:
    return data[:400].decode(errors="replace")
