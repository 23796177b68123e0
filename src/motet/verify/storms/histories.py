"""Which histories each simulated part gives, and a run of one of them that writes them down."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from motet.errors import BadInput
from motet.sim.storm import Run, Storm
from motet.sim.world import World
from motet.verify.history.checkers import Header, write_history
from motet.verify.storms.history_taps import Book


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
