"""The cluster clock in the storm: nodes crash, disks forget, walls jump, and no value comes twice.

Clients play the transaction clock of the source text: a tick from each participant, the maximum, and an
adjust of all of them; afterwards a tick from any participant must be above it. What is watched:

K1   values of one node only rise, over all its incarnations; after an adjust they are above it
K8   no clock runs further ahead than the highest wall any node ever saw, plus the reservation
K9   a client that saw a clock and had it adjusted everywhere sees only higher ones from then on
"""

from __future__ import annotations

from collections.abc import Callable

from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.messages import (
    Adjust,
    Adjusted,
    ClockRefused,
    Tick,
    Ticked,
)
from motet.core.clock.node_clock import NodeClock
from motet.core.clock.transaction_clock import (
    AdjustAnswered,
    Answer,
    Ask,
    AskTick,
    ParticipantFailed,
    TickAnswered,
    TransactionClock,
)
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Message,
    ReadBack,
    Received,
    Replace,
    Send,
    SetTimer,
    Started,
    Violation,
)
from motet.errors import ClockDrift
from motet.ids import Address, NodeId, RequestId, TimerName
from motet.limits import clock_reserve_ms
from motet.sim.host import Host, Stepper
from motet.sim.world import World
from motet.verify.parts.hurried import Hurried
from motet.verify.plants import plants_of

NODES = (Address("n1"), Address("n2"), Address("n3"))
CLIENTS = 3
TRANSACTIONS = 12
TIMEOUT_MS = 150
BETWEEN_MS_MAX = 150
CARRY_MS = 10
"""Counters that overflow push a clock ahead by whole milliseconds; far fewer than this in one run."""

FORGETS = "forget-the-bound"
"""A restarted clock starts from its wall, as if it had never ticked."""

HURRIES = "trust-an-unsynced-bound"
"""A bound counts as durable as soon as its write has begun."""

_NEXT = TimerName("next")
_TIMEOUT = TimerName("timeout")


class ClockPart:
    """``motet simulate clock``."""

    name = "clock"
    marks = (
        "crash",
        "crash_all",
        "crash_writing",
        "clock_jump",
        "clock_drifted_backwards",
        "drift_refused",
        "full_disk",
        "partition_one_way",
        "transaction_clock",
        "transaction_failed",
    )
    plants = plants_of("clock")
    storm_ms = 4_000

    def prepare(self, world: World, plant: str | None) -> ClockRun:
        return ClockRun(world, plant)


class ClockRun:
    """Three nodes with a clock each, and clients that time transactions over them."""

    def __init__(self, world: World, plant: str | None) -> None:
        for address in NODES:
            world.host(world.add_node(address), "clock", _factory(address, plant))
        self.clients: list[Client] = []
        for number in range(1, CLIENTS + 1):
            client = Client(world, f"c{number}")
            world.host(world.add_node(f"c{number}", immune=True), "clock", client.itself)
            self.clients.append(client)
        world.observe(Watch(world).saw)

    def finished(self) -> bool:
        return not any(client.left for client in self.clients)

    def check(self) -> list[Violation]:
        return []  # everything is watched while it happens

    def permits(self, fault: str, _node: Address, /) -> bool:
        return fault != "rot"  # a damaged bound stops the clock until a person looks at it


def _factory(address: Address, plant: str | None) -> Callable[[], Stepper]:
    if plant == FORGETS:
        return lambda: Forgetful(NodeClock(NodeId(address)))
    if plant == HURRIES:
        return lambda: Hurried(NodeClock(NodeId(address)), Replace)
    return lambda: NodeClock(NodeId(address))


class Forgetful:
    """A clock with a planted bug: it takes its bound for a file that is not there."""

    def __init__(self, clock: NodeClock) -> None:
        self._clock = clock

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, ReadBack):
            event = ReadBack(event.now, event.read, b"")
        return self._clock.step(event)

    def invariants(self) -> list[Violation]:
        return self._clock.invariants()


class Watch:
    """Sees every answer of every clock at the moment it is given."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._promised: dict[Address, Clock] = {}
        self._wall_ms_highest = 0

    def saw(self, host: Host, event: Event, effects: list[Effect]) -> None:
        if host.node.immune:
            return
        self._wall_ms_highest = max(self._wall_ms_highest, event.now.wall_ms)
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Ticked | Adjusted):
                self._answered(host.node.address, effect.message)

    def _answered(self, node: Address, answer: Ticked | Adjusted) -> None:
        clock, promised = answer.clock, self._promised.get(node, ZERO)
        if isinstance(answer, Ticked) and clock <= promised:
            self._world.violated("K1", f"{node} handed out {clock} after {promised}")
        limit_ms = self._wall_ms_highest + clock_reserve_ms + CARRY_MS
        if clock.logical > limit_ms:
            self._world.violated("K8", f"{node} is at {clock}, no wall was above {limit_ms}")
        self._promised[node] = max(promised, clock)


class Client:
    """Times one transaction after the other; a lost answer or a refusal fails one, and it goes on."""

    def __init__(self, world: World, name: str) -> None:
        self.left = TRANSACTIONS
        self._world = world
        self._dice = world.dice.fork(f"client.{name}")
        self._request = RequestId(0)
        self._transaction: TransactionClock | None = None
        #: asked and not answered yet
        self._asked: dict[Address, RequestId] = {}
        #: node -> the highest clock it told us it has passed
        self._passed: dict[Address, Clock] = {}

    def itself(self) -> Client:
        """A client is never restarted, so its factory may hand out the one there is."""
        return self

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            return self._heard(event.sender, event.message)
        if isinstance(event, Fired) and event.timer == _NEXT:
            return self._begin()
        if isinstance(event, Fired) and self._asked:
            return self._answered(ParticipantFailed(NodeId(next(iter(self._asked))), "timeout"))
        return self._pause() if isinstance(event, Started) else []

    def _pause(self) -> list[Effect]:
        return [SetTimer(_NEXT, self._dice.between(0, BETWEEN_MS_MAX))] if self.left else []

    def _begin(self) -> list[Effect]:
        participants = self._dice.subset(NODES, 0.7) or [NODES[0]]
        self._transaction = TransactionClock.over(NodeId(address) for address in participants)
        return self._ask(self._transaction.begin())

    def _ask(self, asks: list[Ask]) -> list[Effect]:
        effects: list[Effect] = []
        for ask in asks:
            self._request = RequestId(self._request + 1)
            self._asked[Address(ask.node)] = self._request
            if isinstance(ask, AskTick):
                effects.append(Send(Address(ask.node), Tick(self._request)))
            else:
                effects.append(Send(Address(ask.node), Adjust(self._request, ask.clock)))
        return [*effects, SetTimer(_TIMEOUT, TIMEOUT_MS)] if effects else []

    def _heard(self, sender: Address, message: Message) -> list[Effect]:
        assert isinstance(message, Ticked | Adjusted | ClockRefused)
        if self._asked.get(sender) != message.request:
            return []  # an answer to what has been given up
        del self._asked[sender]
        node = NodeId(sender)
        if isinstance(message, ClockRefused):
            if message.code == ClockDrift.code:
                self._world.mark("drift_refused")
            return self._answered(ParticipantFailed(node, message.what))
        self._check_order(sender, message)
        if isinstance(message, Ticked):
            return self._answered(TickAnswered(node, message.clock))
        return self._answered(AdjustAnswered(node))

    def _answered(self, answer: Answer) -> list[Effect]:
        assert self._transaction is not None
        asks = self._transaction.step(answer)
        if asks:
            return self._ask(asks)
        if self._transaction.phase == "failed":
            self._world.mark("transaction_failed")
        elif self._transaction.phase == "done":
            self._world.mark("transaction_clock")
            self.left -= 1
        else:
            return []
        self._asked = {}
        return self._pause()

    def _check_order(self, node: Address, message: Ticked | Adjusted) -> None:
        passed = self._passed.get(node, ZERO)
        if isinstance(message, Ticked) and message.clock <= passed:
            self._world.violated("K9", f"{node} ticked {message.clock} after it passed {passed}")
        self._passed[node] = max(passed, message.clock)
