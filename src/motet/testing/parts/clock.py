"""Golden scripts about the cluster clock: one node's clock machine, or several and a transaction.

There is one node, ``n1``, until ``cluster`` adds more. What a clock answers is printed as the clock itself,
``waits`` when there is no answer yet, or ``refused CODE: why``; with several nodes its name stands before
it. The part also checks what no single line can show: a node never hands out a clock that is not above
all it has handed out before, over all incarnations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from motet.core.clock import hlc
from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.messages import (
    Adjust,
    Adjusted,
    Adopt,
    ClockIs,
    ClockRefused,
    ClockRequest,
    ReadClock,
    Tick,
    Ticked,
)
from motet.core.clock.node_clock import BOUND_FILE, NodeClock
from motet.core.clock.transaction_clock import (
    AdjustAnswered,
    Answer,
    Ask,
    AskTick,
    ParticipantFailed,
    TickAnswered,
    TransactionClock,
)
from motet.core.machine import NS_PER_MS, Message
from motet.errors import BadClock, BadScenario
from motet.ids import Address, NodeId, RequestId
from motet.testing.bench_network import Which
from motet.testing.bench_part import BenchPart
from motet.testing.part import Converter, verb
from motet.testing.script import Command

CLIENT = "client"


class ClockPart(BenchPart):
    """Commands for clocks."""

    name = "clock"
    converters: ClassVar[Mapping[type, Converter]] = {Clock: Clock.parse}

    def __init__(self) -> None:
        super().__init__()
        self.bench.show = ("note",)
        self.requests = 0
        #: node → the highest clock it has handed out, over all its incarnations
        self.handed_out: dict[Address, Clock] = {}
        self._add("n1", wall_ms=0)

    def run(self, command: Command) -> list[str]:
        lines = super().run(command)
        return lines + [self._told(node, answer) for node, answer in self._answers()]

    # Values

    @verb
    def clock(self, text: str) -> list[str]:
        """Read a clock from text and print it."""
        try:
            return [str(Clock.parse(text))]
        except BadClock as error:
            return [f"refused {error.code}: {error.what}"]

    @verb
    def is_after(self, one: Clock, other: Clock) -> list[str]:
        """Whether one clock is after another."""
        return ["yes" if hlc.is_after(one, other) else "no"]

    @verb
    def sort(self, *clocks: Clock, below: Clock | None = None) -> list[str]:
        """Print clocks in their order; only those below one, if it is given."""
        return [str(clock) for clock in sorted(clocks) if below is None or clock < below]

    # One node

    @verb
    def tick(self, node: str | None = None, *, n: int = 1) -> list[str]:
        """Ask for so many ticks."""
        name = self.named(node)
        return [line for _ in range(n) for line in self._ask(name, Tick(self._request()))]

    @verb
    def adjust(self, clock: Clock, node: str | None = None) -> list[str]:
        """Offer a clock, as a peer or a client does."""
        return self._ask(self.named(node), Adjust(self._request(), clock))

    @verb
    def adopt(self, clock: Clock, node: str | None = None) -> list[str]:
        """Tell a node of a clock in its own log."""
        name = self.named(node)
        return self._ask(name, Adopt(self._request(), clock), sender=name)

    @verb
    def read(self, node: str | None = None) -> list[str]:
        """Look at a clock without a tick."""
        return self._ask(self.named(node), ReadClock(self._request()))

    @verb
    def status(self, node: str | None = None) -> list[str]:
        """Look into a clock machine."""
        machine = self.bench.node(self.named(node)).running()
        assert isinstance(machine, NodeClock)
        clocks = machine.reservation
        wanted = "none" if clocks.wanted is None else clocks.wanted
        waiting = len(machine.waiting)
        bounds = f"bound {clocks.bound}, bound in flight {wanted}"
        return [f"{machine.phase}: last {clocks.last}, {bounds}, {waiting} waiting"]

    @verb
    def damage(self, node: str | None = None) -> list[str]:
        """Flip a bit in the durable bound."""
        durable = self.bench.node(self.named(node)).disk.durable
        bound = durable.get(BOUND_FILE)
        if bound is None:
            raise BadScenario("there is no durable bound to damage", hint="tick first")
        durable[BOUND_FILE] = bound[:-1] + bytes([bound[-1] ^ 1])
        return []

    @verb
    def restart_and_tick(self, times: int, node: str | None = None) -> list[str]:
        """Crash, start and tick, over and over; print the first and the last of these ticks."""
        name = self.named(node)
        ticks = []
        for _ in range(times):
            self.bench.restart(name)
            ticks += self._ask(name, Tick(self._request()))
        return [ticks[0], f"… {times - 2} more", ticks[-1]] if times > 2 else ticks

    # Several nodes

    @verb
    def cluster(self, *, nodes: int) -> list[str]:
        """Have so many nodes, n1 among them, and start them."""
        wall_ms = self.bench.node("n1").wall_ns // NS_PER_MS
        for number in range(len(self.bench.nodes) + 1, nodes + 1):
            self._add(f"n{number}", wall_ms)
        return self.start()

    @verb
    def transaction(self, *nodes: str) -> list[str]:
        """Find the clock of a transaction over nodes, some of which may be named twice."""
        if not nodes:
            raise BadScenario("a transaction needs a node")
        progress = TransactionClock.over(NodeId(self.bench.node(node).name) for node in nodes)
        asks = progress.begin()
        lines = []
        while asks:
            ask = asks.pop(0)
            told, answer = self._asked(ask)
            lines.append(told)
            asks += progress.step(answer)
        if progress.clock is None:
            assert progress.failure is not None, "no clock, and nobody failed"
            return [*lines, f"no clock: {progress.failure.node} {progress.failure.why}"]
        return [*lines, f"clock {progress.clock}"]

    # How

    def _add(self, name: str, wall_ms: int) -> None:
        self.bench.add(name, lambda: NodeClock(NodeId(name)), wall_ms=wall_ms)

    def _request(self) -> RequestId:
        self.requests += 1
        return RequestId(self.requests)

    def _ask(self, node: str, message: ClockRequest, sender: str = CLIENT) -> list[str]:
        lines = self.bench.receive(node, sender, message)
        answers = self._answers()
        answered = any(answer.request == message.request for _, answer in answers)
        lines += [self._told(name, answer) for name, answer in answers]
        return lines if answered else [*lines, "waits"]

    def _answers(self) -> list[tuple[Address, Ticked | Adjusted | ClockIs | ClockRefused]]:
        """What the clocks have answered since we last looked."""
        answers = []
        for each in self.bench.network.take(Which()):
            answer = each.send.message
            assert isinstance(answer, Ticked | Adjusted | ClockIs | ClockRefused)
            if isinstance(answer, Ticked):
                before = self.handed_out.get(each.sender, ZERO)
                assert answer.clock > before, f"{each.sender}: {answer.clock} after {before}"
                self.handed_out[each.sender] = answer.clock
            answers.append((each.sender, answer))
        return answers

    def _told(self, node: Address, answer: Message) -> str:
        match answer:
            case ClockRefused(code=code, what=what):
                text = f"refused {code}: {what}"
            case ClockIs(clock=clock, drift_ms=drift_ms, bound=bound):
                text = f"clock {clock} bound {bound} drift {drift_ms} ms"
            case Ticked(clock=clock) | Adjusted(clock=clock):
                text = str(clock)
            case _:
                raise AssertionError(f"{answer} is no answer")
        return f"{node} {text}" if len(self.bench.nodes) > 1 else text

    def _asked(self, ask: Ask) -> tuple[str, Answer]:
        """Ask one participant of a transaction, and say how that went."""
        asked = "tick" if isinstance(ask, AskTick) else f"adjust {ask.clock}"
        if self.bench.node(ask.node).machine is None:
            return f"{ask.node} {asked}: down", ParticipantFailed(ask.node, "is down")
        request = self._request()
        message = Tick(request) if isinstance(ask, AskTick) else Adjust(request, ask.clock)
        self.bench.receive(ask.node, CLIENT, message)
        answers = [answer for _, answer in self._answers() if answer.request == request]
        match answers:
            case [Ticked(clock=clock)]:
                return f"{ask.node} tick: {clock}", TickAnswered(ask.node, clock)
            case [Adjusted(clock=clock)]:
                return f"{ask.node} {asked}: {clock}", AdjustAnswered(ask.node)
            case [ClockRefused(code=code)]:
                failed = ParticipantFailed(ask.node, f"refused {code}")
                return f"{ask.node} {asked}: refused {code}", failed
        return f"{ask.node} {asked}: no answer", ParticipantFailed(ask.node, "did not answer")
