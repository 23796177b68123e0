"""The keeper as table replicas see it, in a simulation: linearizable, slow, unsure, and its sessions end.

It keeps the promises of :mod:`motet.core.metadata.messages` and no others. Requests of a session take effect
in their order, each at a moment after it was sent; the outcome of a write may be *unknown*, and then it is
done, or not, or late, even when the node that asked is long dead, as long as its session is not over. A
session ends at a whim: the node hears of that late, or the keeper does, and the node has another one already
while what it asked under the old one still takes effect. What a node is told comes in order.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.machine import NS_PER_MS, Effect, Event, Message, Received, Send, Violation
from motet.core.mergetree.node import TableNode
from motet.core.mergetree.paths import ShardPaths
from motet.core.mergetree.pulling import head_of
from motet.core.metadata.messages import (
    METADATA,
    Conflict,
    Create,
    Failed,
    Found,
    Get,
    MetadataMessage,
    MetadataRequest,
    Read,
    ReadDone,
    ReadResult,
    SessionBegun,
    SessionEnded,
    SessionOver,
    Unknown,
    Write,
    WriteOperation,
    Written,
)
from motet.core.render import render
from motet.ids import RequestId, SessionId, Zxid
from motet.sim.host import Host
from motet.sim.metadata_tree import MetadataTree
from motet.sim.world import World

UNKNOWN, LATE_WRITE, ORPHAN = "store_unknown", "store_late_write", "store_write_of_the_dead"
OLD_SESSION, CONFLICT, WHIM = "store_write_in_old_session", "store_conflict", "session_whim"
delay_ms_max = 6
late_ms_max = 600
look_ms = 100
deaf_ms_max = 700
expiry_chance = 0.4
"""That a session whose node has died is found to be over, each time when somebody looks."""

Watcher = Callable[[Write, Written], None]
"""Told of each write that was done, right then."""


class Trouble(msgspec.Struct, frozen=True):
    """How the keeper misbehaves in one run; probabilities for each request, or each look at a session."""

    unknown: float
    failed: float
    slow: float
    whim: float


class Life(msgspec.Struct):
    """A session, and the node and the life of it that it belongs to."""

    host: Host
    incarnation: int
    #: when the last request that was sent under it takes effect
    busy_ns: int = 0
    #: the node takes it for over
    is_left: bool = False


class TableStore:
    """All that is in the keeper, and whose sessions there are."""

    def __init__(self, world: World, trouble: Trouble, watcher: Watcher) -> None:
        self._world = world
        self._trouble = trouble
        self._watcher = watcher
        self._dice = world.dice.fork("store")
        self.tree = MetadataTree()
        #: of clients, and of whoever makes the table
        self._session = self.tree.begin_session()
        self._hosts: list[Host] = []
        self._lives: dict[SessionId, Life] = {}
        #: when the last thing reaches the node that it was told
        self._told_ns: dict[tuple[str, int], int] = {}
        #: how often the keeper was restored
        self._restored = 0
        #: the newest request of a life of a node, and the place of its session among all
        self._asked: dict[tuple[str, int], tuple[RequestId, int]] = {}
        self._places: dict[SessionId, int] = {}
        self._begun = 0

    def serve(self, host: Host) -> None:
        """A node has replicas."""
        self._hosts.append(host)
        if len(self._hosts) == 1:
            self._world.at(NS_PER_MS, self._look)

    # Clients

    def moment(self, paths: ShardPaths) -> tuple[int, Zxid] | None:
        """The head of the log and the zxid, both of now; None: there is no such shard."""
        read = self._read(paths.log)
        log = read.results[0]
        return (head_of(log.stat), read.zxid) if isinstance(log, Found) else None

    def look(self, *paths: str) -> tuple[ReadResult, ...]:
        """Nodes as they are now."""
        return self._read(*paths).results

    def _read(self, *paths: str) -> ReadDone:
        operations = tuple(Get(path) for path in paths)
        read = self.tree.answer(Read(RequestId(0), self._session, operations))
        assert isinstance(read, ReadDone)
        return read

    def write(self, *operations: WriteOperation) -> MetadataMessage:
        """By a client, or by somebody who is not simulated."""
        return self._carry_out(Write(RequestId(0), self._session, operations))

    def restore(self, tree: MetadataTree) -> None:
        """The keeper has an older copy of its files: all sessions are over, what was asked is not done."""
        lives, self._lives = self._lives, {}
        self._restored += 1
        self.tree = tree
        for session in tree.sessions:
            tree.end_session(session, self._now_ms())
        tree.take_news()
        self._session = tree.begin_session(self._now_ms())
        for session, life in lives.items():
            self._tell(life.host, life.incarnation, SessionEnded(session), self._delay_ns())

    # Requests of nodes

    def ask(self, host: Host, request: MetadataRequest) -> None:
        """Carry it out by and by, and answer this life of the node."""
        trouble, dice, world = self._trouble, self._dice, self._world
        world.record(host.label, ">", f"keeper {_told(request)}")
        self._check_session(host, request)
        life = self._lives.get(request.session)
        if life is None:
            self._tell(host, host.node.incarnation, SessionOver(request.request), 0)
            return
        now_ns = world.virtual.elapsed_ns
        at_ns = max(now_ns + self._delay_ns(), life.busy_ns)
        is_calm = world.fabric.healed
        answer: MetadataMessage | None = None
        is_done = True
        if not is_calm and dice.chance(trouble.failed):
            answer = Failed(request.request, "NODE", "not reached", "try again")
            is_done = False
        elif not is_calm and isinstance(request, Write) and dice.chance(trouble.unknown):
            world.mark(UNKNOWN)
            answer = Unknown(request.request)
            is_done = dice.chance(0.7)
            if is_done and dice.chance(0.4):
                world.mark(LATE_WRITE)
                at_ns += dice.between(20, late_ms_max) * NS_PER_MS
                if trouble.whim and dice.chance(0.5):
                    # The connection is gone with the answer, and with it the session, for the node.
                    world.at(self._delay_ns(), self._leave, (request.session, life))
        if answer is not None:
            self._tell(host, life.incarnation, answer, self._delay_ns())
        if is_done:
            life.busy_ns = at_ns
            world.at(
                at_ns - now_ns, self._take_effect, (life, request, answer is None, self._restored)
            )

    def _check_session(self, host: Host, request: MetadataRequest) -> None:
        """Requests count up, and none is sent again: not under the session it was sent under, nor another."""
        life = host.label, host.node.incarnation
        newest, newest_place = self._asked.get(life, (RequestId(-1), 0))
        # A keeper that was restored begins sessions under numbers that others had.
        place = 0 if self._restored else self._places.get(request.session, 0)
        if request.request <= newest or (place < newest_place and not self._restored):
            self._world.violated("OneSession", f"{host.label} asks {_told(request)} after {newest}")
        self._asked[life] = request.request, place

    def _delay_ns(self) -> int:
        most_ms = delay_ms_max
        if not self._world.fabric.healed and self._dice.chance(self._trouble.slow):
            most_ms = late_ms_max
        return self._dice.between(10_000, most_ms * NS_PER_MS)

    def _take_effect(
        self, life: Life, request: MetadataRequest, is_answered: bool, restored: int
    ) -> None:
        if restored != self._restored:
            return
        answer = self._carry_out(request)
        if isinstance(request, Write) and isinstance(answer, Written):
            if life.host.node.incarnation != life.incarnation:
                self._world.mark(ORPHAN)
            elif life.is_left:
                self._world.mark(OLD_SESSION)
        if is_answered:
            self._tell(life.host, life.incarnation, answer, self._delay_ns())

    def _carry_out(self, request: MetadataRequest) -> MetadataMessage:
        answer = self.tree.answer(request, self._now_ms())
        if isinstance(answer, Conflict):
            self._world.mark(CONFLICT)
        if isinstance(request, Write) and isinstance(answer, Written):
            self._world.record("keeper", "W", f"{answer.zxid} {_told(request)}")
            self._watcher(request, answer)
        self._tell_news()
        return answer

    def _now_ms(self) -> int:
        return self._world.virtual.elapsed_ns // NS_PER_MS

    # What nodes are told

    def _tell_news(self) -> None:
        for session, message in self.tree.take_news():
            life = self._lives.get(session)
            if life is not None and not life.is_left:
                self._tell(life.host, life.incarnation, message, self._delay_ns())

    def _tell(self, host: Host, incarnation: int, message: Message, after_ns: int) -> None:
        """So much later, and not before what it was told already."""
        if host.node.incarnation != incarnation:
            return
        key, now_ns = (host.label, incarnation), self._world.virtual.elapsed_ns
        at_ns = max(now_ns + after_ns, self._told_ns.get(key, 0) + 1)
        self._told_ns[key] = at_ns
        self._world.at_node(host.node, at_ns - now_ns, self._reach, (host, message))

    def _reach(self, host: Host, message: Message) -> None:
        self._world.record(host.label, "<", f"keeper {_told(message)}")
        host.step(Received(host.node.time.now(), METADATA, message))

    # Sessions

    def _look(self) -> None:
        """Which sessions are over? And who has none?"""
        self._world.at(self._dice.between(1, 2 * look_ms) * NS_PER_MS, self._look)
        is_calm = self._world.fabric.healed
        for session, life in list(self._lives.items()):
            is_dead = life.host.node.incarnation != life.incarnation or not life.host.listening
            if is_dead:
                if self._dice.chance(expiry_chance):
                    self._end(session)
            elif life.is_left:
                if is_calm or self._dice.chance(expiry_chance / 4):
                    self._end(session)
            elif not is_calm and self._dice.chance(self._trouble.whim):
                self._part(session, life)
        served = {
            (life.host.label, life.incarnation) for life in self._lives.values() if not life.is_left
        }
        for host in self._hosts:
            if host.listening and (host.label, host.node.incarnation) not in served:
                session = self.tree.begin_session(self._now_ms())
                self._lives[session] = Life(host, host.node.incarnation)
                self._begun += 1
                self._places[session] = self._begun
                self._tell(host, host.node.incarnation, SessionBegun(session), self._delay_ns())

    def _part(self, session: SessionId, life: Life) -> None:
        """A session is over for the keeper, and the node hears of that late; or the other way round."""
        self._world.mark(WHIM)
        if self._dice.chance(0.5):
            self._end(session)
            deaf_ns = self._dice.between(1, deaf_ms_max) * NS_PER_MS
            self._tell(life.host, life.incarnation, SessionEnded(session), deaf_ns)
        else:
            self._leave(session, life)

    def _leave(self, session: SessionId, life: Life) -> None:
        """The node takes its session for over, and the keeper does not know that yet."""
        if session in self._lives and not life.is_left:
            life.is_left = True
            self._tell(life.host, life.incarnation, SessionEnded(session), self._delay_ns())

    def _end(self, session: SessionId) -> None:
        del self._lives[session]
        self.tree.end_session(session, self._now_ms())
        self._tell_news()


class StoredNode:
    """A node with its port to the keeper: what it asks of the keeper does not go over the network."""

    def __init__(self, node: TableNode, store: TableStore, host: Callable[[], Host]) -> None:
        self.node = node
        self._store = store
        self._host = host

    def step(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        for effect in self.node.step(event):
            if isinstance(effect, Send) and effect.to == METADATA:
                assert isinstance(effect.message, MetadataRequest)
                self._store.ask(self._host(), effect.message)
            else:
                effects.append(effect)
        return effects

    def invariants(self) -> list[Violation]:
        return self.node.invariants()


def _told(message: Message) -> str:
    if isinstance(message, ReadDone):
        return f"ReadDone request={message.request} zxid={message.zxid} {len(message.results)}"
    if isinstance(message, Read):
        paths = " ".join(_short(each.path) for each in message.operations[:8])
        return f"Read request={message.request} session={message.session} {paths}"
    if isinstance(message, Write):
        what = "; ".join(map(_operation, message.operations))
        return f"Write request={message.request} session={message.session} {what}"
    return render(message)


def _operation(operation: WriteOperation) -> str:
    data = operation.data.decode() if isinstance(operation, Create) else ""
    return f"{type(operation).__name__} {_short(operation.path)} {data}".rstrip()


def _short(path: str) -> str:
    return path.removeprefix("/motet/table_data/")
