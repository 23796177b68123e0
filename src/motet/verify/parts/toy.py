"""The toy machine in the storm: clients remember values and recall them, and nothing may be missing.

The history of ``add`` and ``read`` operations is judged by the set checker: a value whose ``add`` was
confirmed and that a later ``read`` does not show is lost. In the end each value must be at the position
that was confirmed for it. That is rule T1 of the toy's essay.
"""

from __future__ import annotations

from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Message,
    Received,
    Send,
    SetTimer,
    Started,
    Violation,
)
from motet.core.toy import Notebook, Recall, Recalled, Refused, Remember, Remembered
from motet.ids import Address, TimerName
from motet.sim.dice import Dice
from motet.sim.world import World
from motet.verify.history import Recorder, check_set
from motet.verify.history.events import OperationId

CLIENTS = 3
OPERATIONS = 25
TIMEOUT_MS = 120
BETWEEN_MS_MAX = 60
SERVER = Address("n1")
EARLY = "ack-before-durable"

_NEXT = TimerName("next")
_TIMEOUT = TimerName("timeout")


class ToyPart:
    """``motet simulate toy``."""

    name = "toy"
    marks = (
        "crash",
        "crash_writing",
        "lost_write",
        "torn_write",
        "toy_torn_tail_cut",
        "toy_recalled",
        "toy_batch",
        "toy_disk_full",
        "partition",
        "pause",
        "operation_unknown",
    )
    plants = (EARLY,)
    storm_ms = 4_000

    def prepare(self, world: World, plant: str | None) -> ToyRun:
        return ToyRun(world, acknowledge_early=plant == EARLY)


class ToyRun:
    """One notebook, some clients, and one last look at everything in the end."""

    def __init__(self, world: World, *, acknowledge_early: bool) -> None:
        self.recorder = Recorder()
        world.host(
            world.add_node(SERVER),
            "notes",
            lambda: Notebook(acknowledge_early=acknowledge_early),
        )
        self.clients: list[Client] = []
        for number in range(1, CLIENTS + 1):
            name = f"c{number}"
            client = Client(name, world, self.recorder, OPERATIONS)
            world.host(world.add_node(name, immune=True), "notes", client.itself)
            self.clients.append(client)
        self.reader = Client("reader", world, self.recorder, 1, wait_for=self.clients)
        world.host(world.add_node("reader", immune=True), "notes", self.reader.itself)

    def finished(self) -> bool:
        return self.reader.left == 0

    def check(self) -> list[Violation]:
        verdict = check_set(self.recorder.history())
        if verdict.status == "ok":
            return self._misplaced()
        return [Violation("T1" if verdict.status == "violated" else "unjudged", str(verdict))]

    def _misplaced(self) -> list[Violation]:
        if not self.finished():
            return []
        found = dict(enumerate(self.reader.recalled))
        return [
            Violation(
                "T1", f"{value!r} was confirmed at {position}: there is {found.get(position)!r}"
            )
            for client in self.clients
            for position, value in client.confirmed
            if found.get(position) != value
        ]

    def permits(self, fault: str, _node: Address, /) -> bool:
        # One copy cannot survive a damaged disk; that the damage is noticed is a test of its own.
        return fault not in ("rot", "read_error")


class Client:
    """Works through its operations one after the other; a time-out leaves the outcome unknown."""

    def __init__(
        self,
        name: str,
        world: World,
        recorder: Recorder,
        operations: int,
        wait_for: list[Client] | None = None,
    ) -> None:
        self.name = name
        self.left = operations
        self._world = world
        self._recorder = recorder
        self._dice: Dice = world.dice.fork(f"client.{name}")
        self._wait_for = wait_for or []
        self._request = 0
        self._lives = 0
        self._open: OperationId | None = None
        self._value = ""
        #: position and value of each confirmed ``add``
        self.confirmed: list[tuple[int, str]] = []
        #: what the newest ``read`` showed
        self.recalled: list[str] = []

    def itself(self) -> Client:
        """A client is never restarted, so its factory may hand out the one there is."""
        return self

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Started):
            return self._pause()
        if isinstance(event, Fired):
            return self._next() if event.timer == _NEXT else self._gave_up()
        if isinstance(event, Received):
            return self._answered(event.message)
        return []

    def _pause(self) -> list[Effect]:
        return [SetTimer(_NEXT, self._dice.between(0, BETWEEN_MS_MAX))] if self.left else []

    def _next(self) -> list[Effect]:
        if any(client.left for client in self._wait_for):
            return self._pause()
        self._request += 1
        process = f"{self.name}.{self._lives}"
        message: Message
        if self._wait_for or self._dice.chance(0.3):
            self._open = self._recorder.invoke(process, "read", None, None, self._at())
            message = Recall(self._request)
        else:
            # Long enough to span sectors now and then, so that a crash can tear it.
            padding = "." * self._dice.pick([0, 100, 700, 1_500])
            self._value = f"{self.name}-{self._request}{padding}"
            self._open = self._recorder.invoke(process, "add", None, self._value, self._at())
            message = Remember(self._request, self._value)
        return [Send(SERVER, message), SetTimer(_TIMEOUT, TIMEOUT_MS)]

    def _answered(self, message: Message) -> list[Effect]:
        assert isinstance(message, Remembered | Recalled | Refused)
        if message.request != self._request or self._open is None:
            return []  # too late: this outcome has been given up as unknown
        if isinstance(message, Refused):
            return self._gave_up()  # a repeated copy of the request may still be taken
        if isinstance(message, Recalled):
            self.recalled = message.values
            self._recorder.ok(self._open, message.values, self._at())
        else:
            self.confirmed.append((message.position, self._value))
            self._recorder.ok(self._open, None, self._at())
        self._open = None
        self.left -= 1
        return self._pause()

    def _gave_up(self) -> list[Effect]:
        if self._open is None:
            return []
        self._world.mark("operation_unknown")
        self._recorder.unknown(self._open, self._at())
        self._open = None
        self._lives += 1  # what may still be running belongs to a process that is no more
        return self._pause()

    def _at(self) -> int:
        return self._world.virtual.elapsed_ns
