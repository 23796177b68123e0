"""A ZooKeeper client in a simulation: it keeps its session alive, and moves on when a connection breaks.

It connects to one node after the other with the session it has. What was not answered when a connection
breaks it never hears of. If nothing comes back for two thirds of its timeout it gives the connection up, as
real clients do; now and then it does so for no reason, with requests under way, or says nothing for so long
that its session ends, or closes it. When its session is over it begins another.

Faults leave it alone; what it is told is checked by :mod:`motet.verify.storms.keeper_answers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from motet.core.keeper.messages import (
    Answer,
    AnswersSent,
    Ask,
    Connect,
    Connected,
    Gone,
    Hangup,
    Happened,
    answer_bytes,
)
from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Event,
    Fired,
    Message,
    Received,
    Send,
    SetTimer,
    Started,
)
from motet.format.zookeeper.messages import CloseSession, Ping, SetWatches, WriteRequest
from motet.format.zookeeper.records import PING_XID, SET_WATCHES_XID, AnyRequest
from motet.ids import TimerName
from motet.limits import keeper_unsent_bytes_free
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.storms.keeper_answers import Listener
from motet.verify.storms.keeper_ledger import Asked, Conversation
from motet.verify.storms.keeper_model import CHILD, DATA
from motet.verify.storms.keeper_requests import PendingRequests
from motet.verify.storms.keeper_wires import Lost, Wires

NEXT = TimerName("next")
TICK = TimerName("tick")
TIMEOUTS_MS = (600, 1_000, 1_000, 2_000, 4_000)
tick_ms = 40
leave_share = 0.01
silent_share = 0.004
idle_share = 0.03
NO_PASSWORD = bytes(16)


class KeeperClient:
    """One client; it has one session after the other, and one connection after the other."""

    def __init__(
        self, world: World, name: str, wires: Wires, listener: Listener, *, operations: int
    ) -> None:
        self.name = name
        #: operations to be done at least; it goes on while the storm does
        self.left = operations
        self.answers = 0
        self.session = 0
        #: since when it has been connected, by the world's time; None while it is not, or is silent
        self.present_since_ns: int | None = None
        self.talk: Conversation | None = None
        self._world = world
        self._wires = wires
        self._listener = listener
        self._dice = world.dice.fork(f"client.{name}")
        self.requests = PendingRequests(self._dice, name, large_bytes=(1_600, 3_600))
        self._timeout_ms = self._dice.pick(TIMEOUTS_MS)
        self._handshake_ms_max = self._dice.pick([300, 600, 1_500])
        self._depth = self._dice.pick([1, 1, 2, 4])
        self._between_ms_max = self._dice.pick([10, 30, 60])
        self._nodes: Sequence[Host] = ()
        self._host: Host | None = None
        self._password = NO_PASSWORD
        self._last_zxid = 0
        self._xid = 0
        self._is_connected = False
        #: when it last said, and last heard, something
        self._said_ns = self._heard_ns = 0
        self._silent_until_ns = 0
        #: watches of the connection before, to be set again
        self._kept: dict[tuple[str, str], int] = {}

    def place(self, host: Host, nodes: Sequence[Host]) -> None:
        """Where it is, and where it can go."""
        self._host, self._nodes = host, nodes

    def itself(self) -> Self:
        """A client is never restarted, so its factory may hand out the one there is."""
        return self

    @property
    def is_done(self) -> bool:
        """All has been done, and it is connected with nothing left to hear."""
        is_waiting = self.talk is None or bool(self.talk.asked) or not self._is_connected
        return self.left <= 0 and not is_waiting

    @property
    def _now_ns(self) -> int:
        return self._world.virtual.elapsed_ns

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            if self.talk is None or event.sender != self.talk.address:
                return []  # of a connection that was given up
            return self._on_message(self.talk, event.message)
        if isinstance(event, Started):
            return [SetTimer(NEXT, 0), SetTimer(TICK, tick_ms)]
        assert isinstance(event, Fired)
        if event.timer == TICK:
            return [*self._on_tick(), SetTimer(TICK, tick_ms)]
        return self._act()

    # Connections

    def _connect(self) -> list[Effect]:
        assert self._host is not None
        wire = self._wires.open(self._host, self._dice.pick(self._nodes))
        if wire is None:
            return self._pause()
        known = self._listener.told_zxid
        self.talk = Conversation(wire.address, self.name, known, self._now_ns)
        self._is_connected = False
        self._said_ns = self._heard_ns = self._now_ns
        greeting = Connect(self._last_zxid, self._timeout_ms, self.session, self._password)
        return [Send(wire.address, greeting), *self._pause()]

    def _on_connected(self, talk: Conversation, message: Connected) -> list[Effect]:
        self._listener.connected(talk, self.session, message)
        if not message.timeout_ms:
            self._world.mark("client_told_expired")
            self._begin_anew()
            return []
        self._is_connected = True
        self.present_since_ns = self._now_ns
        talk.session = self.session = message.session
        self._password = message.password
        kept, self._kept = self._kept, {}
        if not kept:
            return []
        return self._ask(talk, SET_WATCHES_XID, self._watches_again(kept))

    def _watches_again(self, kept: dict[tuple[str, str], int]) -> SetWatches:
        """A watch on what was not there when it was last seen waits for it to come."""
        there: list[str] = []
        absent: list[str] = []
        for (kind, path), zxid in kept.items():
            if kind == DATA:
                (there if self._listener.was_there(path, zxid) else absent).append(path)
        children = [path for kind, path in kept if kind == CHILD]
        return SetWatches(self._last_zxid, tuple(there), tuple(absent), tuple(children))

    def _begin_anew(self) -> None:
        self.session, self._password, self._last_zxid = 0, NO_PASSWORD, 0
        self._kept = {}

    def _part(self) -> list[Effect]:
        """There is no connection any more, for us."""
        talk, self.talk = self.talk, None
        assert talk is not None
        self._is_connected, self.present_since_ns = False, None
        if self.session and self._dice.chance(0.7):
            self._kept = dict(talk.watches)
        return self._pause()

    def _leave(self) -> list[Effect]:
        """Give the connection up; not every client says goodbye."""
        assert self.talk is not None
        wire = self._wires.by_address[self.talk.address]
        effects: list[Effect] = []
        if self._dice.chance(0.3):
            effects.append(Send(wire.address, Gone()))
            wire.has_client = False
        else:
            self._wires.leave(wire)
        return [*effects, *self._part()]

    # Time

    def _on_tick(self) -> list[Effect]:
        talk = self.talk
        if talk is None:
            return []
        if self._wires.live(talk.address) is None and self._dice.chance(0.3):
            return self._part()
        waiting_ms = (self._now_ns - self._heard_ns) // NS_PER_MS
        if not self._is_connected:
            return self._leave() if waiting_ms > self._handshake_ms_max else []
        if self._is_silent:
            return []
        if talk.asked and 3 * waiting_ms > 2 * self._timeout_ms:
            self._world.mark("client_lost_patience")
            return self._leave()
        if (self._now_ns - self._said_ns) // NS_PER_MS > self._timeout_ms // 5:
            return self._ask(talk, PING_XID, Ping())
        return []

    @property
    def _is_silent(self) -> bool:
        return self._now_ns < self._silent_until_ns and not self._world.fabric.healed

    def _pause(self) -> list[Effect]:
        if self._dice.chance(idle_share) and not self._world.fabric.healed:
            return [SetTimer(NEXT, self._dice.between(100, 800))]
        return [SetTimer(NEXT, self._dice.between(1, self._between_ms_max))]

    # Asking

    def _act(self) -> list[Effect]:
        talk = self.talk
        if self._is_silent:
            return self._pause()
        if talk is None:
            return self._connect()
        if not self._is_connected or len(talk.asked) >= self._depth:
            return self._pause()
        if self._world.fabric.healed:
            if self.left <= 0:
                return self._pause()
        elif self._dice.chance(leave_share):
            return self._leave()
        elif self._dice.chance(silent_share):
            return self._fall_silent()
        return [*self._ask_next(talk), *self._pause()]

    def _fall_silent(self) -> list[Effect]:
        silent_ms = self._timeout_ms * self._dice.pick([1, 2, 3])
        self._silent_until_ns = self._now_ns + silent_ms * NS_PER_MS
        self.present_since_ns = None
        self._world.mark("client_silent")
        return self._pause()

    def _ask_next(self, talk: Conversation) -> list[Effect]:
        if any(isinstance(each.request, CloseSession) for each in talk.asked):
            return []
        self._xid += 1
        may_close = not self._world.fabric.healed
        return self._ask(talk, self._xid, self.requests.next(may_close=may_close))

    def _ask(self, talk: Conversation, xid: int, request: AnyRequest) -> list[Effect]:
        if not talk.asked:
            self._heard_ns = self._now_ns
        self._said_ns = self._now_ns
        talk.asked.append(Asked(xid, request, self._listener.told_zxid, self._now_ns))
        if isinstance(request, WriteRequest):
            talk.writes.append(request)
        return [Send(talk.address, Ask(xid, request))]

    # Hearing

    def _on_message(self, talk: Conversation, message: Message) -> list[Effect]:
        self._heard_ns = self._now_ns
        if isinstance(message, Lost | Hangup):
            talk.is_hung_up = True
            return self._part()
        if isinstance(message, Connected):
            return self._on_connected(talk, message)
        if isinstance(message, Happened):
            self._listener.happened(talk, message)
            return []
        assert isinstance(message, Answer)
        asked = self._listener.answered(talk, message)
        if asked is not None:
            self._on_answer(asked, message)
        talk.taken_bytes += answer_bytes(message.result)
        if talk.taken_bytes < keeper_unsent_bytes_free:
            return []
        taken_bytes, talk.taken_bytes = talk.taken_bytes, 0
        return [Send(talk.address, AnswersSent(taken_bytes))]

    def _on_answer(self, asked: Asked, answer: Answer) -> None:
        self._last_zxid = max(self._last_zxid, answer.zxid)
        if isinstance(asked.request, Ping):
            return
        self.left -= 1
        self.answers += 1
        self.requests.learn(asked.request, answer)
        if isinstance(asked.request, CloseSession) and not answer.error:
            self._begin_anew()
