"""Tables on the hand-worked bench of the streams: specs, parts and steps in few words."""

from __future__ import annotations

import msgspec
from tests.core.onelog.harness import Bench

from motet.core.clock.hlc import Clock
from motet.core.tables.messages import (
    CreateTable,
    Publish,
    PublishDone,
    ReadTable,
    ReadWriter,
    TableIs,
    TableReady,
    WriterInfo,
    WriterIs,
)
from motet.core.tables.part_name import of_block
from motet.core.tables.records import (
    InsertToken,
    Published,
    PublishedPart,
    StagedPart,
    TableCreated,
    TableSpec,
    WriterStep,
)
from motet.ids import PartId, RequestId, ShardId, TableId, TableName, WriterName

FILE = f"0-{'ab' * 16}"
REQUEST = RequestId(7)
SHOP = WriterName("shop")


def at(counter: int) -> Clock:
    """A clock of the log."""
    return Clock(1_000, counter)


def fed(logical: int) -> Clock:
    """A clock of the feed that somebody follows."""
    return Clock(logical, 0)


def spec(name: str = "sales", shards: int = 1, **changed: object) -> TableSpec:
    """A table; its id is made of its name."""
    identity = TableId(name.encode().hex().rjust(16, "0")[-16:])
    plain = TableSpec(TableName(name), identity, b"schema", ("key",), shards, "merge", None, None)
    return msgspec.structs.replace(plain, **changed)


def staged(number: int, table: str = "sales", shard: int = 0, rows: int = 1) -> StagedPart:
    """The part with this number, which is its id."""
    place = (TableName(table), spec(table).id, PartId(f"{number:016x}"), ShardId(shard))
    return StagedPart(*place, FILE, rows, 100 + rows)


def step(epoch: int, after: int | None, through: int, writer: str = SHOP) -> WriterStep:
    """A step of a writer, over clocks of the feed."""
    begin = None if after is None else fed(after)
    return WriterStep(WriterName(writer), epoch, begin, fed(through))


def token(text: str, table: str = "sales") -> InsertToken:
    return InsertToken(TableName(table), text)


def publish(
    *parts: StagedPart, token: InsertToken | None = None, step: WriterStep | None = None
) -> Publish:
    return Publish(REQUEST, parts, token, step)


def created(counter: int, table: TableSpec) -> TableCreated:
    return TableCreated(at(counter), table)


def published(
    counter: int,
    *parts: tuple[StagedPart, int],
    token: InsertToken | None = None,
    step: WriterStep | None = None,
) -> Published:
    """A record that gives each part its block."""
    named = tuple(PublishedPart(part, of_block(block)) for part, block in parts)
    return Published(at(counter), 1_000, named, token, step)


class TablesBench(Bench):
    """A serving node with tables."""

    def __init__(self, *tables: TableSpec, segment_bytes: int = 8192) -> None:
        super().__init__(segment_bytes=segment_bytes)
        self.serve()
        for table in tables or (spec(),):
            assert isinstance(self.ask(CreateTable(self.request(), table)), TableReady)

    def send_publish(
        self,
        *parts: StagedPart,
        token: InsertToken | None = None,
        step: WriterStep | None = None,
    ) -> RequestId:
        return self.send(Publish(self.request(), parts, token, step))

    def publish(
        self,
        *parts: StagedPart,
        token: InsertToken | None = None,
        step: WriterStep | None = None,
    ) -> PublishDone:
        request = self.send_publish(*parts, token=token, step=step)
        self.finish()
        return self.done_of(request)

    def done_of(self, request: RequestId) -> PublishDone:
        answer = self.answers[request]
        assert isinstance(answer, PublishDone), answer
        return answer

    def read_table(self, table: str = "sales", clock: Clock | None = None) -> TableIs:
        answer = self.ask(ReadTable(self.request(), TableName(table), clock))
        assert isinstance(answer, TableIs), answer
        return answer

    def ids(self, table: str = "sales", clock: Clock | None = None) -> list[int]:
        """The numbers of the parts that a table has."""
        return [int(each.part.staged.id, 16) for each in self.read_table(table, clock).parts]

    def writer(self, name: str = SHOP) -> WriterInfo | None:
        answer = self.ask(ReadWriter(self.request(), WriterName(name)))
        assert isinstance(answer, WriterIs), answer
        return answer.info
