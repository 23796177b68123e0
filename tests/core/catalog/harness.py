"""The hand-worked bench of the streams, with a catalog around them and a keeper beside them."""

from __future__ import annotations

from tests.core.onelog.harness import Bench

from motet.core.catalog.machine import CatalogedStreams
from motet.core.machine import Effect, Event, Message, Received, Send, Started
from motet.core.metadata.messages import (
    ANY_VERSION,
    METADATA,
    Create,
    Delete,
    Failed,
    MetadataMessage,
    MetadataRequest,
    SessionBegun,
    Set,
    Write,
    WriteOperation,
    Written,
)
from motet.core.onelog.machine import StreamsMachine
from motet.core.onelog.messages import CreateStream, Describe, Described
from motet.ids import RequestId, StreamName
from motet.sim.metadata_tree import MetadataTree


class CatalogBench(Bench):
    """``tree`` is the keeper's, and survives everything; what it is asked waits in ``asked``."""

    def __init__(self) -> None:
        super().__init__(segment_bytes=4096)
        self.tree = MetadataTree()
        self._session = self.tree.begin_session()
        for path in ("/motet", "/motet/streams"):
            self._write(Create(path))
        self.asked: list[MetadataRequest] = []
        self._become(CatalogedStreams(StreamsMachine(self.segment_bytes)))

    def _become(self, catalog: CatalogedStreams) -> None:
        self.catalog, self.machine = catalog, catalog.streams

    def start(self) -> None:
        self.incarnations += 1
        self._become(CatalogedStreams(StreamsMachine(self.segment_bytes)))
        self.pending, self.reads, self.timers, self.asked = [], [], [], []
        self.used_writes, self.used_reads = set(), set()
        self.step(Started(self.now, nonce=self.incarnations))
        self.tell(SessionBegun(self.tree.begin_session()))

    def step(self, event: Event) -> list[Effect]:
        twin = self.catalog.clone()
        effects = self.catalog.step(event)
        assert twin.step(event) == effects
        assert twin.fingerprint() == self.catalog.fingerprint()
        assert self.catalog.invariants() == []
        for effect in effects:
            if isinstance(effect, Send) and effect.to == METADATA:
                assert isinstance(effect.message, MetadataRequest)
                self.asked.append(effect.message)
            else:
                self._perform(effect)
        return effects

    # The keeper

    def keep(self) -> MetadataMessage:
        """The keeper does the oldest thing that it was asked; its answer is on its way."""
        return self.tree.answer(self.asked.pop(0))

    def put(self, path: str, data: bytes) -> None:
        """Somebody else writes a node."""
        is_there = self.tree.get(path) is not None
        self._write(Set(path, data, ANY_VERSION) if is_there else Create(path, data))

    def remove(self, path: str) -> None:
        self._write(Delete(path, ANY_VERSION))

    def stored(self, path: str) -> bytes:
        data = self.tree.get(path)
        assert data is not None, path
        return data

    def below(self, path: str) -> list[str]:
        return [f"{path}/{name}" for name in self.tree.names(path)]

    def _write(self, operation: WriteOperation) -> None:
        done = self.tree.answer(Write(RequestId(0), self._session, (operation,)))
        assert isinstance(done, Written), done

    def tell(self, answer: Message) -> list[Effect]:
        return self.step(Received(self.now, METADATA, answer))

    def fail_keeper(self) -> None:
        """The keeper does nothing of what it was asked first, and says so."""
        self.tell(Failed(self.asked.pop(0).request, "NODE", "no keeper", "wait"))

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

    def described(self) -> dict[str, tuple[int, bytes | None]]:
        answer = self.ask(Describe(self.request()))
        assert isinstance(answer, Described), answer
        return {info.name: (info.shards, info.schema) for info in answer.streams}

    def send_create(self, name: str, shards: int = 1) -> RequestId:
        return self.send(CreateStream(self.request(), StreamName(name), shards))


def serving() -> CatalogBench:
    bench = CatalogBench()
    bench.serve()
    return bench
