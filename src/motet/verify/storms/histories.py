"""Which histories each simulated part gives, and a run of one of them that writes them down.

What the clients of a simulated part see, taken down as histories: a look over their shoulders.

A *tap* follows clients step by step and tells a recorder what they ask and what they are told. It takes no
part in the run: with it and without it a seed does the same. Each history is of one kind, so that it can be
judged by the checker of that name, away from the run and from all that the part itself checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from motet.core.clock.hlc import Clock
from motet.core.machine import Effect, Event, Message, Received, Send
from motet.errors import BadInput
from motet.sim.host import Host
from motet.sim.storm import Run, Storm
from motet.sim.world import World
from motet.verify.history.checkers import Header, write_history
from motet.verify.history.operation import OperationId
from motet.verify.history.record import History, Recorder
from motet.verify.storms.asker import Asker


class Book:
    """One history on its way. Every operation has a process of its own, in the session of its client."""

    def __init__(self, world: World, checker: str, initial: Any = None) -> None:
        self.checker = checker
        self.initial = initial
        self._world = world
        self._recorder = Recorder()
        self._processes: dict[str, int] = {}

    @classmethod
    def of(cls, world: World, checker: str, recorder: Recorder) -> Book:
        """What a part has recorded itself."""
        book = cls(world, checker)
        book._recorder = recorder
        return book

    def history(self) -> History:
        return self._recorder.history()

    def begin(self, who: str, function: str, key: object, value: object) -> OperationId:
        number = self._processes[who] = self._processes.get(who, 0) + 1
        return self._recorder.invoke(f"{who}+{number}", function, key, value, self._at)

    def ok(self, op: OperationId, value: object = None) -> None:
        self._recorder.ok(op, value, self._at)

    def failed(self, op: OperationId) -> None:
        self._recorder.failed(op, self._at)

    def unknown(self, op: OperationId) -> None:
        self._recorder.unknown(op, self._at)

    @property
    def _at(self) -> int:
        return self._world.virtual.elapsed_ns


class AskerTap:
    """Follows clients that ask one thing at a time."""

    def __init__(self, world: World, clients: Iterable[Asker]) -> None:
        self._clients: Mapping[str, Asker] = {client.name: client for client in clients}
        self._asked: dict[str, Message] = {}
        world.observe(self._saw)

    def asks(self, client: Asker, message: Message) -> None:
        """A request is about to leave."""
        raise NotImplementedError

    def answered(self, client: Asker, asked: Message, answer: Message | None) -> None:
        """It was answered, or given up."""
        raise NotImplementedError

    def _saw(self, host: Host, event: Event, effects: list[Effect]) -> None:
        client = self._clients.get(host.node.address)
        if client is None:
            return
        asked = self._asked.get(client.name)
        if asked is not None and client.asked is not asked:
            del self._asked[client.name]
            answer = event.message if isinstance(event, Received) else None
            self.answered(client, asked, answer)
        for effect in effects:
            if isinstance(effect, Send) and effect.message is client.asked:
                self._asked[client.name] = effect.message
                self.asks(client, effect.message)


def told(clock: Clock) -> list[int]:
    """A clock as a history has it."""
    return [clock.logical, clock.counter]


def _vsr(world: World, run: Run) -> Iterable[Book]:
    from motet.verify.storms.vsr import VsrRun

    assert isinstance(run, VsrRun)
    return (Book.of(world, "keyed", run.recorder),)


def _keeper(world: World, run: Run) -> Iterable[Book]:
    from motet.verify.storms.keeper import KeeperRun
    from motet.verify.storms.keeper_history import TreeTap

    assert isinstance(run, KeeperRun)
    return TreeTap(world, run).books


def _database(world: World, run: Run) -> Iterable[Book]:
    from motet.verify.storms.database import DatabaseRun
    from motet.verify.storms.database_history import DatabaseTap

    assert isinstance(run, DatabaseRun)
    return DatabaseTap(world, run).books


def _streams(world: World, run: Run) -> Iterable[Book]:
    from motet.verify.storms.streams import StreamsRun
    from motet.verify.storms.streams_history import StreamsTap

    assert isinstance(run, StreamsRun)
    return StreamsTap(world, run).books


TAPS: dict[str, Callable[[World, Run], Iterable[Book]]] = {
    "vsr": _vsr,
    "keeper": _keeper,
    "database": _database,
    "streams": _streams,
}
"""Storm -> what follows its clients."""


class Recorded:
    """A part whose clients are followed; the same seed does the same in it."""

    def __init__(self, part: Storm) -> None:
        if part.name not in TAPS:
            raise BadInput(
                f"nobody writes down what the clients of {part.name} see",
                hint=f"choose one of {', '.join(TAPS)}",
            )
        self._part = part
        self.name, self.marks, self.plants = part.name, part.marks, part.plants
        self.storm_ms = part.storm_ms
        self.books: tuple[Book, ...] = ()

    def prepare(self, world: World, plant: str | None) -> Run:
        run = self._part.prepare(world, plant)
        self.books = tuple(TAPS[self.name](world, run))
        return run

    def files(self) -> dict[str, bytes]:
        """Checker -> a history for it, as a file has it."""
        return {
            book.checker: write_history(Header(book.checker, book.initial), book.history())
            for book in self.books
        }
