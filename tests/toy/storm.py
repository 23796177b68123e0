"""The toy machine in the storm: clients remember values and recall them, and nothing may be missing.

The history of ``add`` and ``read`` operations is judged by the set checker: a value whose ``add`` was
confirmed and that a later ``read`` does not show is lost. In the end each value must be at the position
that was confirmed for it. That is rule T1 of the toy's essay.
"""

from __future__ import annotations

from tests.toy.notebook import Notebook, Recall, Recalled, Remember, Remembered

from motet.core.machine import Effect, Message, Violation
from motet.ids import Address
from motet.sim.world import World
from motet.verify.history import Recorder, check_set
from motet.verify.history.operation import OperationId
from motet.verify.storms.asker import Asker

CLIENTS = 3
OPERATIONS = 25
TIMEOUT_MS = 120
BETWEEN_MS_MAX = 60
SERVER = Address("n1")
EARLY = "ack-before-durable"


class ToyPart:
    """The smallest part there is: one server, one kind of client, one checker."""

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


class Client(Asker):
    """Works through its operations one after the other; a time-out leaves the outcome unknown."""

    def __init__(
        self,
        name: str,
        world: World,
        recorder: Recorder,
        operations: int,
        wait_for: list[Client] | None = None,
    ) -> None:
        super().__init__(world, name, SERVER, timeout_ms=TIMEOUT_MS, between_ms_max=BETWEEN_MS_MAX)
        self.left = operations
        self._recorder = recorder
        self._wait_for = wait_for or []
        self._lives = 0
        self._open: OperationId | None = None
        #: position and value of each confirmed ``add``
        self.confirmed: list[tuple[int, str]] = []
        #: what the newest ``read`` showed
        self.recalled: list[str] = []

    def begin(self) -> list[Effect]:
        if any(client.left for client in self._wait_for):
            return self.pause()
        request = self.next_request()
        if self._wait_for or self.dice.chance(0.3):
            self._invoke("read", None)
            return self.ask(Recall(request))
        # Long enough to span sectors now and then, so that a crash can tear it.
        value = f"{self.name}-{request}" + "." * self.dice.pick([0, 100, 700, 1_500])
        self._invoke("add", value)
        return self.ask(Remember(request, value))

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        assert self._open is not None
        if isinstance(answer, Recalled):
            self.recalled = answer.values
            self._recorder.ok(self._open, answer.values, self.at())
            self.left -= 1
        elif isinstance(answer, Remembered) and isinstance(asked, Remember):
            self.confirmed.append((answer.position, asked.value))
            self._recorder.ok(self._open, None, self.at())
            self.left -= 1
        else:
            # No answer, or a refusal: a repeated copy of the request may still be taken.
            self._give_up(self._open)
        self._open = None
        return self.pause() if self.left else []

    def _invoke(self, function: str, value: str | None) -> None:
        process = f"{self.name}.{self._lives}"
        self._open = self._recorder.invoke(process, function, None, value, self.at())

    def _give_up(self, operation: OperationId) -> None:
        self.world.mark("operation_unknown")
        self._recorder.unknown(operation, self.at())
        self._lives += 1  # what may still be running belongs to a process that is no more
