"""A workbench for machines: nothing moves until the script moves it, and all that moves is shown.

The bench holds named machines, their files, their timers and the messages between them. Every operation
(deliver, drop, sync, crash, fire …) returns the lines that say what happened, so that a golden script
(:mod:`motet.testing.scenario`) reads like a protocol trace::

    n2 received Append offset=3 from n1
      write log@64 32 bytes #7
      n2 .. n1 Appended offset=3 after #7
    n2 durable #7
      n2 -> n1 Appended offset=3

``->`` has left, ``..`` waits for its write, ``-x`` is lost. The rules E1 to E8 of :mod:`motet.core.machine`
are kept, and what a machine owes is checked at each step: no invariant is broken, the same event on a
clone gives the same effects and state (E8), no write or read uses a number twice, and a send waits only
for a write that was asked for before it.

Time stands still unless the script moves it. A write is durable at once unless the node's syncs are held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from motet.core.machine import (
    NS_PER_MS,
    Event,
    Fired,
    Machine,
    Message,
    Now,
    Received,
    Send,
    Started,
    WriteFailed,
    Written,
)
from motet.core.render import render
from motet.errors import BadScenario
from motet.ids import Address, FileName, TimerName, WriteId
from motet.testing.bench_network import (
    KINDS,
    BenchNetwork,
    InFlight,
    Kind,
    Line,
    Which,
    sent,
    told,
    told_effect,
    told_event,
)
from motet.testing.bench_node import BenchNode, WriteState

steps_max_default = 2_000
"""Steps of one operation; machines that go on for longer are taken never to come to rest."""


class Workbench:
    """Machines by name, and everything around them."""

    def __init__(
        self, show: Collection[Kind] = KINDS, *, steps_max: int = steps_max_default
    ) -> None:
        self.nodes: dict[Address, BenchNode] = {}
        self.network = BenchNetwork()
        #: what was delivered to a name that is no machine on the bench: the answers to a client
        self.received: dict[Address, list[Message]] = {}
        #: the kinds of lines that are told
        self.show = tuple(show)
        self.monotonic_ns = 0
        self._starts = 0
        self._steps = 0
        self._steps_max = steps_max

    # Nodes

    def add(self, name: str, make: Callable[[], Machine], *, wall_ms: int = 0) -> BenchNode:
        """Put a machine on the bench, not yet started; ``make`` is called for each incarnation."""
        if name in self.nodes:
            raise BadScenario(f"{name} is on the bench already", hint="give it another name")
        node = BenchNode(Address(name), make, wall_ms * NS_PER_MS)
        self.nodes[node.name] = node
        return node

    def node(self, name: str) -> BenchNode:
        """A node by name; ``BadScenario`` lists the known ones if there is none."""
        node = self.nodes.get(Address(name))
        if node is None:
            known = ", ".join(self.nodes) or "none yet"
            raise BadScenario(f"there is no node {name!r}; there are: {known}")
        return node

    def start(self, name: str) -> list[str]:
        """A new incarnation, which knows only its files (E6)."""
        node = self.node(name)
        if node.machine is not None:
            raise BadScenario(f"{name} runs already", hint="crash it first")
        node.machine = node.make()
        self._starts += 1
        return self._told(self._run(node, Started(self._now(node), nonce=self._starts)))

    def crash(
        self, name: str, *, keep: Sequence[WriteId] = (), torn: tuple[WriteId, int] | None = None
    ) -> list[str]:
        """Stop a node dead. Of what is not durable, ``keep`` and a torn write's first bytes survive."""
        node = self.node(name)
        node.running()
        pending = [change.id for change in node.disk.pending]
        node.crash(keep, torn)
        kept = [write for write in pending if write in keep or (torn and write == torn[0])]
        lost = [f"#{write}" for write in pending if write not in kept]
        lines = [Line("event", f"{name} crashed")]
        if lost:
            lines.append(Line("disk", f"lost {' '.join(lost)}"))
        return self._told(lines)

    def restart(self, name: str) -> list[str]:
        """Crash, if it runs, and start."""
        crashed = [] if self.node(name).machine is None else self.crash(name)
        return crashed + self.start(name)

    # Messages

    def receive(self, name: str, sender: str, message: Message) -> list[str]:
        """Hand a node a message as if ``sender``, a client say, had sent it just now."""
        node = self.node(name)
        return self._told(self._run(node, Received(self._now(node), Address(sender), message)))

    def deliver(
        self,
        to: str | None = None,
        *,
        sender: str | None = None,
        kind: str | None = None,
        nth: int | None = None,
    ) -> list[str]:
        """Deliver what is in flight, oldest first; not what is sent in answer to it."""
        taken = self.network.take(Which(to, sender, kind, nth))
        return self._told([line for each in taken for line in self._deliver(each)])

    def drop(
        self,
        to: str | None = None,
        *,
        sender: str | None = None,
        kind: str | None = None,
        nth: int | None = None,
    ) -> list[str]:
        """Lose what is in flight."""
        taken = self.network.take(Which(to, sender, kind, nth))
        return self._told([sent(each.sender, "-x", each.send) for each in taken])

    def repeat(
        self,
        to: str | None = None,
        *,
        sender: str | None = None,
        kind: str | None = None,
        nth: int | None = None,
    ) -> list[str]:
        """Send what is in flight once more."""
        again = self.network.repeat(Which(to, sender, kind, nth))
        return self._told([each.line for each in again])

    def deliver_copy(
        self, to: str, *, sender: str | None = None, kind: str | None = None, nth: int | None = None
    ) -> list[str]:
        """Deliver a copy of a message that was sent before, however long ago, and in whichever life."""
        return self._told(self._deliver(self.network.copy(Which(to, sender, kind, nth))))

    def settle(self) -> list[str]:
        """Deliver until nothing is in flight."""
        lines = []
        while self.network.in_flight:
            lines += self._deliver(self.network.in_flight.pop(0))
        return self._told(lines)

    def cut(self, source: str, target: str) -> None:
        """From now on lose what one node sends to another, in this direction."""
        self.network.cut(source, target)

    def isolate(self, name: str) -> None:
        """Cut a node off from all others, both ways. What is in flight stays in flight."""
        for other in [each for each in self.nodes if each != self.node(name).name]:
            self.network.cut(name, other)
            self.network.cut(other, name)

    def heal(self) -> None:
        """Heal all links. What was lost stays lost."""
        self.network.cut_links.clear()

    # Disks

    def hold_sync(self, name: str, *, held: bool) -> list[str]:
        """Hold a node's syncs back; or let them go again, which completes what is pending."""
        node = self.node(name)
        node.sync_held = held
        return self._told(self._completed(node))

    def sync(self, name: str, file: str | None = None) -> list[str]:
        """Make durable what is pending now; what is written in answer waits again if syncs are held."""
        node = self.node(name)
        node.running()
        lines = self._sync(node, None if file is None else FileName(file))
        return self._told(lines + self._completed(node))

    # Time

    def set_wall(self, wall_ms: int, name: str | None = None) -> None:
        """Let one wall clock jump, or all of them."""
        for node in self.nodes.values() if name is None else [self.node(name)]:
            node.wall_ns = wall_ms * NS_PER_MS

    def fire(self, name: str, timer: str) -> list[str]:
        """Fire one timer, and no other; time moves on to where it is due."""
        node = self.node(name)
        due_ns = node.timers.get(TimerName(timer))
        if due_ns is None:
            running = ", ".join(node.timers) or "none"
            raise BadScenario(f"{name} has no timer {timer!r} running; it has: {running}")
        self._move_time(due_ns)
        return self._told(self._fire(node, TimerName(timer)))

    def advance(self, time_ms: int) -> list[str]:
        """Let time pass on all nodes; each timer fires when it is due."""
        until_ns = self.monotonic_ns + time_ms * NS_PER_MS
        lines = []
        while (due := self._next_due()) is not None and due[0] <= until_ns:
            self._move_time(due[0])
            lines += self._fire(self.nodes[due[1]], due[2])
        self._move_time(until_ns)
        return self._told(lines)

    # Looking

    def only_node(self) -> str:
        """The name of the node, if there is just one to mean."""
        if len(self.nodes) != 1:
            raise BadScenario(f"which node? there are: {', '.join(self.nodes) or 'none yet'}")
        return next(iter(self.nodes))

    def told_in_flight(self) -> list[str]:
        """What is in flight, a line each, oldest first."""
        return [each.line.text for each in self.network.in_flight]

    def told_timers(self, name: str) -> list[str]:
        """A node's timers, the next one first."""
        timers = sorted((due_ns, timer) for timer, due_ns in self.node(name).timers.items())
        return [
            f"{timer} in {(due_ns - self.monotonic_ns) // NS_PER_MS} ms" for due_ns, timer in timers
        ]

    # What operations are made of

    def _told(self, lines: list[Line]) -> list[str]:
        self._steps = 0
        return told(lines, self.show)

    def _now(self, node: BenchNode) -> Now:
        return Now(self.monotonic_ns, node.wall_ns)

    def _run(self, node: BenchNode, event: Event) -> list[Line]:
        return self._step(node, event) + self._completed(node)

    def _step(self, node: BenchNode, event: Event) -> list[Line]:
        self._steps += 1
        assert self._steps <= self._steps_max, f"no rest within {self._steps_max} steps"
        lines = [told_event(node.name, event), *self._waited_for(node, event)]
        for effect in node.step(event):
            if isinstance(effect, Send):
                lines.append(self._send(node, effect))
            else:
                node.perform(effect, self.monotonic_ns)
                lines.append(told_effect(effect))
        return lines

    def _waited_for(self, node: BenchNode, event: Event) -> list[Line]:
        """What a write's end does to the sends that waited for it (E3)."""
        match event:
            case Written(write=write):
                waited = node.settle_write(write, WriteState.DURABLE)
                return [self.network.leave(node.name, send) for send in waited]
            case WriteFailed(write=write):
                waited = node.settle_write(write, WriteState.REFUSED)
                return [sent(node.name, "-x", send) for send in waited]
        return []

    def _send(self, node: BenchNode, send: Send) -> Line:
        match node.state_of(send):
            case WriteState.DURABLE:
                return self.network.leave(node.name, send)
            case WriteState.PENDING:
                node.withheld.append(send)
                return sent(node.name, "..", send, f"after #{send.after}")
            case WriteState.REFUSED:
                return sent(node.name, "-x", send)

    def _deliver(self, each: InFlight) -> list[Line]:
        to, message = each.send.to, each.send.message
        node = self.nodes.get(to)
        if node is None:
            self.received.setdefault(to, []).append(message)
            return [Line("event", f"{to} received {render(message)} from {each.sender}")]
        if node.machine is None:
            return [sent(each.sender, "-x", each.send, f"({to} is down)")]
        return self._run(node, Received(self._now(node), each.sender, message))

    def _completed(self, node: BenchNode) -> list[Line]:
        """Answer reads and refused writes, and sync unless that is held, until nothing is left."""
        lines = []
        while node.answers or (node.disk.pending and not node.sync_held):
            if node.answers:
                lines += self._step(node, node.answers.pop(0)(self._now(node)))
            else:
                lines += self._sync(node, None)
        return lines

    def _sync(self, node: BenchNode, file: FileName | None) -> list[Line]:
        now = self._now(node)
        done = node.disk.sync(file)
        return [line for write in done for line in self._step(node, Written(now, write))]

    def _fire(self, node: BenchNode, timer: TimerName) -> list[Line]:
        del node.timers[timer]
        return self._run(node, Fired(self._now(node), timer))

    def _next_due(self) -> tuple[int, Address, TimerName] | None:
        running = [
            (due_ns, node.name, timer)
            for node in self.nodes.values()
            for timer, due_ns in node.timers.items()
        ]
        return min(running, default=None)

    def _move_time(self, until_ns: int) -> None:
        passed_ns = max(0, until_ns - self.monotonic_ns)
        self.monotonic_ns += passed_ns
        for node in self.nodes.values():
            node.wall_ns += passed_ns


class Lost(msgspec.Struct, frozen=True):
    """Messages that do not arrive; None means any."""

    kind: str
    sender: str | None
    to: str | None

    def fits(self, sender: Address, to: Address, kind: str) -> bool:
        return (
            self.kind in ("all", kind) and self.sender in (None, sender) and self.to in (None, to)
        )


class LossyBench(Workbench):
    """A workbench that loses messages by kind, and lets time pass."""

    def __init__(
        self, show: Collection[Kind] = KINDS, *, steps_max: int = steps_max_default
    ) -> None:
        super().__init__(show, steps_max=steps_max)
        self.lost: list[Lost] = []
        #: kinds of messages whose sends are told
        self.traced: tuple[str, ...] = ()

    def run_ms(self, time_ms: int, until: Callable[[], bool] = lambda: False) -> list[str]:
        """Let time pass, at most until something is the case; messages arrive as they are sent."""
        last_ns = self.monotonic_ns + time_ms * NS_PER_MS
        lines = self.settle()
        while not until():
            due = self._next_due()
            if due is None or due[0] > last_ns:
                self._move_time(last_ns)
                break
            self._move_time(due[0])
            lines += self._told(self._fire(self.nodes[due[1]], due[2]))
            lines += self.settle()
        return lines

    def heal(self) -> None:
        super().heal()
        self.lost = []

    def _put_in_flight(
        self, sender: Address, send: Send, kind: str, told: Callable[[Message], str]
    ) -> list[Line]:
        """Let a message go, unless it is lost; told if its kind is traced."""
        is_lost = (sender, send.to) in self.network.cut_links or any(
            lost.fits(sender, send.to, kind) for lost in self.lost
        )
        self.network.left.append(InFlight(sender, send))
        if not is_lost:
            self.network.in_flight.append(InFlight(sender, send))
        if kind not in self.traced:
            return []
        arrow = "-x" if is_lost else "->"
        return [Line("send", f"{sender} {arrow} {send.to} {told(send.message)}")]
