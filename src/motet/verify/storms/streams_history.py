"""Histories of a simulated cluster's streams: a shard as a queue, and what sessions see of shards."""

from __future__ import annotations

from motet.core.machine import Message
from motet.core.metadata.definitions import shard_names
from motet.core.streams.entries import Chunk, decode_records
from motet.core.streams.messages import AppendRecords, ReadRecords, RecordsAppended, RecordsRead
from motet.format.record_block import decode_block
from motet.sim.world import World
from motet.verify.history.operation import OperationId
from motet.verify.storms.asker import Asker
from motet.verify.storms.histories import AskerTap, Book, told
from motet.verify.storms.streams import StreamsRun


class StreamsTap(AskerTap):
    """Follows writers and readers of the stream that stays.

    ``queue``     the first shard: writers put records in, and one reader takes them out
    ``sessions``  shards as keys: a chunk that is appended is a write, a page shows the newest one in it
    """

    def __init__(self, world: World, run: StreamsRun) -> None:
        super().__init__(world, (*run.writers, *run.readers))
        self._shards = shard_names(run.stays)
        self._taker = run.readers[0].name
        self.queue = Book(world, "queue")
        self.sessions = Book(world, "sessions")
        is_whole = run.config.keep_bytes is None  # else records go before they are taken out
        self.books = (self.queue, self.sessions) if is_whole else (self.sessions,)
        #: what each writer wants appended, for as long as it asks for it again
        self._wanted: dict[str, tuple[Chunk, ...]] = {}
        self._puts: dict[str, list[OperationId]] = {}
        self._writes: dict[str, list[OperationId]] = {}
        self._reads: dict[str, OperationId] = {}

    def asks(self, client: Asker, message: Message) -> None:
        who = client.name
        if isinstance(message, AppendRecords) and self._wanted.get(who) is not message.chunks:
            self._let_go(who)
            if message.shard in self._shards:
                self._append(who, message)
        elif isinstance(message, ReadRecords) and message.shard in self._shards:
            self._reads[who] = self.sessions.begin(who, "read", message.shard, None)

    def _append(self, who: str, message: AppendRecords) -> None:
        self._wanted[who] = message.chunks
        # Chunks of one request share a clock: only the first is of the client's own session.
        self._writes[who] = [
            self.sessions.begin(
                who if not at else f"{who}/{at}", "write", message.shard, _names(chunk)[0]
            )
            for at, chunk in enumerate(message.chunks)
        ]
        if message.shard == self._shards[0]:
            names = [name for chunk in message.chunks for name in _names(chunk)]
            self._puts[who] = [self.queue.begin(who, "enqueue", None, name) for name in names]

    def _let_go(self, who: str) -> None:
        """It asks for something else: nobody knows what became of the last."""
        self._wanted.pop(who, None)
        for op in self._puts.pop(who, ()):
            self.queue.unknown(op)
        for op in self._writes.pop(who, ()):
            self.sessions.unknown(op)

    def answered(self, client: Asker, asked: Message, answer: Message | None) -> None:
        who = client.name
        if isinstance(asked, AppendRecords) and isinstance(answer, RecordsAppended):
            self._wanted.pop(who, None)
            for op in self._puts.pop(who, ()):
                self.queue.ok(op)
            for op, place in zip(self._writes.pop(who, ()), answer.places, strict=False):
                self.sessions.ok(op, told(place.clock))
        elif isinstance(asked, ReadRecords) and who in self._reads:
            page = answer if isinstance(answer, RecordsRead) else None
            self._read(who, asked, page)

    def _read(self, who: str, asked: ReadRecords, page: RecordsRead | None) -> None:
        op = self._reads.pop(who)
        if page is None or not page.entries:
            self.sessions.failed(op)  # it has seen nothing new
            return
        newest = page.entries[-1]
        last = decode_records(newest.body).chunks[-1]
        self.sessions.ok(op, [told(newest.clock), _names(last)[0]])
        if who == self._taker and asked.shard == self._shards[0]:
            self._take(who, asked, page)

    def _take(self, who: str, asked: ReadRecords, page: RecordsRead) -> None:
        """All after the cursor, one after the other: what one reader takes stays there until then."""
        for entry in page.entries:
            records = decode_records(entry.body)
            names = [name for chunk in records.chunks for name in _names(chunk)]
            for offset, name in enumerate(names, start=records.first_offset):
                if offset > asked.after:
                    self.queue.ok(self.queue.begin(who, "dequeue", None, None), name)


def _names(chunk: Chunk) -> list[str]:
    """The values of a chunk, without their padding: they are all different."""
    return [value.rstrip(b".").decode() for value in decode_block(chunk.block)[1]]
