"""A workbench on which time and messages move together, and only what a script asks for is told.

A message takes no time, and arrives before the next timer fires. Notes are told with the
name of their replica, but for those that are muted; sends are told if their command is traced, and then as
``r1 -> r2 prepare op=5 of view 1``, or with ``-x`` if they are lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Event,
    Fired,
    Machine,
    Message,
    Note,
    Received,
    Send,
    Started,
    Violation,
)
from motet.core.vsr.client import Client, Evicted, ReadAt, Result
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.messages import Prepare, Reply, Request, StartView, command_name
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.ids import Address, ClientId, Op
from motet.testing.bench_network import InFlight, Line, told_effect, told_event
from motet.testing.bench_node import BenchNode
from motet.testing.register import BATCH, Found, Refused, Stored, Swapped, decode_results
from motet.testing.workbench import LossyBench

# What happens in a cluster of replicas, in few words: a message, a replica, a log, each on one line.

_FIELDS = (
    "view",
    "log_view",
    "op",
    "op_min",
    "op_max",
    "commit",
    "commit_max",
    "client",
    "session",
    "request",
    "round",
    "reason",
)
"""Of a message, what a reader of a script wants to know, in this order."""


def told_message(message: Message) -> str:
    """The command and its numbers."""
    if isinstance(message, Prepare):
        return f"prepare op={message.header.op} of view {message.header.view}"
    known = [(field, getattr(message, field, None)) for field in _FIELDS]
    words = [command_name(type(message))]
    words += [f"{field}={value}" for field, value in known if value is not None]
    if isinstance(message, StartView):
        words.append(f"checkpoint={message.checkpoint.op}")
    if isinstance(message, Reply):
        words.append(f"checksum={message.checksum[:4].hex()}")
    return " ".join(words)


def told_replica(name: str, replica: Replica | None) -> str:
    """Where a replica is; ``*`` marks one that leads."""
    if replica is None:
        return f"{name}  down"
    core, state = replica.core, replica.core.state
    mark = "*" if core.is_primary else " "
    if state.status is Status.REFUSED:
        return f"{name}{mark} refused: {state.refusal}"
    views = f"view={state.view} log_view={state.log_view}"
    commit = str(state.commit_min)
    if state.commit_max != state.commit_min:
        commit += f" of {state.commit_max}"
    doing = [
        word
        for word, holds in (
            ("catching_up", state.catching_up),
            ("leading", state.leading),
            ("syncing", core.is_syncing),
            ("restoring", state.restore is not None),
        )
        if holds
    ]
    where = f"op={state.op} commit={commit} checkpoint={core.checkpoint_op}"
    return " ".join([f"{name}{mark} {state.status.value} {views} {where}", *doing])


def told_log(replica: Replica) -> str:
    """The log above the checkpoint: op, its view, and whether its prepare is there."""
    core = replica.core
    ops = range(core.checkpoint_op + 1, core.state.op + 1)
    return " ".join(_told_slot(replica, Op(op)) for op in ops) or "empty"


def _told_slot(replica: Replica, op: Op) -> str:
    journal = replica.core.state.journal
    header = journal.header(op)
    name = f"{op}" if header is None else f"{op}v{header.view}"
    if journal.is_faulty(op):
        return f"{name}:faulty"
    if header is None:
        return f"{name}:none"
    return name if journal.is_clean(op) else f"{name}:dirty"


def told_results(body: bytes) -> str:
    """What came of a batch of calls."""
    words = []
    for result in decode_results(body):
        match result:
            case Stored():
                words.append("stored")
            case Found(value=value, op=op):
                words.append("nothing" if value is None else f"{value.decode()} of op {op}")
            case Swapped(is_swapped=is_swapped):
                words.append("swapped" if is_swapped else "not swapped")
            case Refused(why=why):
                words.append(f"refused: {why}")
    return ", ".join(words)


# A client on the workbench: what a script has it ask, it asks, and tells what came of it.

ANSWER = "answer"
"""A note of a client that is not muted: what it was told."""


class Submit(Message, frozen=True):
    """The script: have this batch of calls done."""

    body: bytes


class Barrier(Message, frozen=True):
    """The script: find out how new a state must be to be read."""


class BenchClient:
    """One session, as a machine. What the script wants while something is in flight waits for its turn."""

    def __init__(
        self, config: VsrConfig, client: ClientId, *, reserved: bool, release: int
    ) -> None:
        self.client = Client(config, client, reserved=reserved, release=release)
        self.waiting: list[Message] = []
        #: requests that were answered
        self.answered = 0
        self.is_over = False

    def step(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(event, Started):
            effects = self.client.begin(event.now)
        elif isinstance(event, Fired):
            effects = self.client.on_timer(event.timer, event.now)
        elif isinstance(event, Received) and isinstance(event.message, Submit | Barrier):
            self.waiting.append(event.message)
        elif isinstance(event, Received):
            effects = self.client.on_message(event.sender, event.message, event.now)
        result = self.client.take_result()
        if result is not None:
            effects = [*effects, Note(ANSWER, self._told(result))]
        return effects + self._ask_next(event)

    def _ask_next(self, event: Event) -> list[Effect]:
        if not self.waiting or not self.client.is_idle:
            return []
        wanted = self.waiting.pop(0)
        if isinstance(wanted, Submit):
            return self.client.submit(BATCH, wanted.body, event.now)
        return self.client.read_barrier(event.now)

    def _told(self, result: Result) -> str:
        if isinstance(result, Evicted):
            self.is_over = True
            return f"evicted: {result.reason}"
        if isinstance(result, ReadAt):
            return f"may read at op {result.op}"
        self.answered += 1
        if result.request == 0:
            return f"registered, session {result.op}"
        return f"#{result.request} at op {result.op}: {told_results(result.body)}"

    @property
    def is_busy(self) -> bool:
        return not self.is_over and (bool(self.waiting) or not self.client.is_idle)

    # What a bench needs

    def clone(self) -> Self:
        state = self.client.state
        twin = type(self)(self.client.config, state.client, reserved=False, release=state.release)
        twin.client = self.client.clone()
        twin.waiting, twin.answered = list(self.waiting), self.answered
        twin.is_over = self.is_over
        return twin

    def fingerprint(self) -> bytes:
        return self.client.fingerprint()

    def invariants(self) -> list[Violation]:
        return []


MUTED = (
    "vsr_clock_agreed",
    "vsr_checkpoint",
    "vsr_view_decided",
    "vsr_prepare_waits_for_checkpoint",
)
"""Notes of what goes on all the time."""

clone_each_steps = 10
"""A replica is large, and time is long: a copy at each step would take most of a script's time."""


class SampledNode(BenchNode):
    """Checks what a machine owes at each step, but that a clone does the same only now and then."""

    steps = 0

    def step(self, event: Event) -> list[Effect]:
        self.steps += 1
        if self.steps % clone_each_steps == 0:
            return super().step(event)
        machine = self.running()
        effects = machine.step(event)
        broken = [f"{each.invariant} {each.what}" for each in machine.invariants()]
        assert not broken, f"{self.name} breaks {'; '.join(broken)}"
        return effects


class VsrBench(LossyBench):
    """Replicas and clients."""

    def __init__(self) -> None:
        super().__init__(show=("send", "note"))
        #: the last request of each client
        self.requests: dict[Address, Request] = {}
        self.muted: dict[str, None] = dict.fromkeys(MUTED)

    def add(self, name: str, make: Callable[[], Machine], *, wall_ms: int = 0) -> BenchNode:
        super().add(name, make, wall_ms=wall_ms)
        node = self.nodes[Address(name)] = SampledNode(Address(name), make, wall_ms * NS_PER_MS)
        return node

    def _step(self, node: BenchNode, event: Event) -> list[Line]:
        self._steps += 1
        assert self._steps <= self._steps_max, f"no rest within {self._steps_max} steps"
        lines = [told_event(node.name, event)] if "event" in self.show else []
        self._waited_for(node, event)
        for effect in node.step(event):
            if isinstance(effect, Send):
                lines += self._sent(node.name, effect)
                continue
            node.perform(effect, self.monotonic_ns)
            if isinstance(effect, Note):
                lines += self._noted(node.name, effect)
            elif "disk" in self.show or "timer" in self.show:
                lines.append(told_effect(effect))
        return lines

    def _sent(self, sender: Address, send: Send) -> list[Line]:
        command = command_name(type(send.message))
        if isinstance(send.message, Request):
            self.requests[sender] = send.message
        return self._put_in_flight(sender, send, command, told_message)

    def _noted(self, name: Address, note: Note) -> list[Line]:
        if note.what in self.muted or note.what.startswith("vsr_wal_case_"):
            return []
        if note.what == ANSWER:
            return [Line("note", f"{name} {note.detail}")]
        detail = f": {note.detail}" if note.detail else ""
        return [Line("note", f"{name} {note.what.removeprefix('vsr_')}{detail}")]

    def _deliver(self, each: InFlight) -> list[Line]:
        node = self.nodes.get(each.send.to)
        if node is None or node.machine is None:
            return []
        return self._run(node, Received(self._now(node), each.sender, each.send.message))

    def hand(self, name: str, sender: str, message: Message) -> list[str]:
        """A message from anybody, and all that follows at once."""
        return [*self.receive(name, sender, message), *self.settle()]
