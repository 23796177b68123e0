"""The hand-worked bench of the streams, with a catalog around them and a keeper beside them."""

from __future__ import annotations

from tests.core.streams.harness import Bench
from tests.core.tables.harness import spec

from motet.core.catalog.machine import CatalogedStreams
from motet.core.catalog.messages import (
    KEEPER,
    FromKeeper,
    Keep,
    KeepFailed,
    Kept,
    KeptAre,
    KeptNode,
    ListKept,
    ToKeeper,
)
from motet.core.machine import Effect, Event, Message, Received, Send, Started
from motet.core.streams.machine import StreamsMachine
from motet.core.streams.messages import CreateStream, Describe, Described
from motet.core.tables.messages import CreateTable, ListTables, TablesAre
from motet.ids import RequestId, StreamName


class CatalogBench(Bench):
    """``tree`` is the keeper's, and survives everything; what it is asked waits in ``asked``."""

    def __init__(self) -> None:
        super().__init__(segment_bytes=4096)
        self.tree: dict[str, bytes] = {}
        self.asked: list[ToKeeper] = []
        self._become(CatalogedStreams(StreamsMachine(self.segment_bytes)))

    def _become(self, catalog: CatalogedStreams) -> None:
        self.catalog, self.machine = catalog, catalog.streams

    def start(self) -> None:
        self.incarnations += 1
        self._become(CatalogedStreams(StreamsMachine(self.segment_bytes)))
        self.pending, self.reads, self.timers, self.asked = [], [], [], []
        self.used_writes, self.used_reads = set(), set()
        self.step(Started(self.now, nonce=self.incarnations))

    def step(self, event: Event) -> list[Effect]:
        twin = self.catalog.clone()
        effects = self.catalog.step(event)
        assert twin.step(event) == effects
        assert twin.fingerprint() == self.catalog.fingerprint()
        assert self.catalog.invariants() == []
        for effect in effects:
            if isinstance(effect, Send) and effect.to == KEEPER:
                assert isinstance(effect.message, ToKeeper)
                self.asked.append(effect.message)
            else:
                self._perform(effect)
        return effects

    # The keeper

    def keep(self) -> FromKeeper:
        """The keeper does the oldest thing that it was asked; its answer is on its way."""
        wanted = self.asked.pop(0)
        if isinstance(wanted, Keep):
            data = self.tree.setdefault(wanted.path, wanted.data)
            return Kept(wanted.number, wanted.path, data)
        assert isinstance(wanted, ListKept)
        below = [path for path in self.tree if path.rpartition("/")[0] == wanted.path]
        nodes = tuple(KeptNode(path, self.tree[path]) for path in below)
        return KeptAre(wanted.number, wanted.path, nodes)

    def tell(self, answer: Message) -> list[Effect]:
        return self.step(Received(self.now, KEEPER, answer))

    def fail_keeper(self) -> None:
        """The keeper does nothing of what it was asked first, and says so."""
        self.tell(KeepFailed(self.asked.pop(0).number, "NODE", "no keeper", "wait"))

    def finish_disk(self) -> None:
        """What the disk was asked for ends well; the keeper says nothing."""
        super().finish()

    def finish(self) -> None:
        while self.reads or self.pending or self.asked:
            if self.asked:
                self.tell(self.keep())
            else:
                self.finish_disk()

    # Asking

    def create_table(self, name: str = "sales", **changed: object) -> Message:
        return self.ask(CreateTable(self.request(), spec(name, **changed)))  # type: ignore[arg-type]

    def described(self) -> dict[str, tuple[int, bytes | None]]:
        answer = self.ask(Describe(self.request()))
        assert isinstance(answer, Described), answer
        return {info.name: (info.shards, info.schema) for info in answer.streams}

    def tables(self) -> list[str]:
        answer = self.ask(ListTables(self.request()))
        assert isinstance(answer, TablesAre), answer
        return [info.spec.name for info in answer.tables]

    def send_create(self, name: str, shards: int = 1) -> RequestId:
        return self.send(CreateStream(self.request(), StreamName(name), shards))


def serving() -> CatalogBench:
    bench = CatalogBench()
    bench.serve()
    return bench
