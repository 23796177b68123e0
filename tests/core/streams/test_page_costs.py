"""What a page of the feed costs is what it returns, wherever it is in a log, and however long that is."""

from __future__ import annotations

import pytest
from tests.core.onelog.harness import apply
from tests.core.streams.test_gathered import CLIENT, NOW, SHARD, Lone

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import ReadBack, Received, Written
from motet.core.shardlog.context import ShardlogConfig
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.entries import record_range
from motet.core.streams.messages import (
    CommitTransaction,
    ReadRecords,
    ReadShardFeed,
    RecordsRead,
    ShardFeed,
)
from motet.core.streams.messages import TransactionEnded as Ended
from motet.core.streams.node import DataNode
from motet.ids import FileName, NodeId, Offset, RequestId, TransactionId
from motet.limits import KIB, page_bytes_max, shard_index_step_bytes, sparse_index_step_bytes

TOGETHER = 100
ROW = b"." * 80


class OnDisk(Lone):
    """A node with files, and without anything of its log in memory."""

    def __init__(self) -> None:
        self.files: dict[FileName, bytes] = {}
        self.read_bytes = 0
        super().__init__()

    def made(self) -> DataNode:
        return DataNode(NodeId("n1"), ShardlogConfig(tail_bytes_max=0))

    def finish(self) -> None:
        while self.changes or self.reads:
            if self.reads:
                read = self.reads.pop(0)
                end = None if read.size_bytes is None else read.offset + read.size_bytes
                data = self.files.get(read.file, b"")[read.offset : end]
                self.read_bytes += len(data)
                self.step(ReadBack(NOW, read.id, data))
            else:
                change = self.changes.pop(0)
                apply(self.files, change)
                self.step(Written(NOW, change.id))

    def commit(self, number: int) -> Clock:
        changes = [RowChange(n, b"k%d" % n, "update", ROW, None) for n in range(TOGETHER)]
        branch = Branch(TransactionId(f"t{number}"), ZERO, ZERO, TOGETHER, tuple(changes))
        message = CommitTransaction(RequestId(number), ZERO, SHARD, branch, (), (), (), None)
        self.step(Received(NOW, CLIENT, message))
        self.finish()
        answer = self.answers[number]
        assert isinstance(answer, Ended)
        assert answer.clock is not None
        return answer.clock

    def page(self, number: int, after: Clock, limit: int) -> ShardFeed:
        message = ReadShardFeed(RequestId(number), ZERO, SHARD, after, None, limit, page_bytes_max)
        self.step(Received(NOW, CLIENT, message))
        self.finish()
        answer = self.answers[number]
        assert isinstance(answer, ShardFeed)
        return answer

    def records(self, number: int, after: int, limit: int) -> RecordsRead:
        message = ReadRecords(
            RequestId(number), ZERO, SHARD, Offset(after), limit, page_bytes_max, "replica"
        )
        self.step(Received(NOW, CLIENT, message))
        self.finish()
        answer = self.answers[number]
        assert isinstance(answer, RecordsRead)
        return answer


@pytest.mark.parametrize("count", [200, 800])
def test_a_few_records_cost_little_wherever_they_are(count: int) -> None:
    node = OnDisk()
    for number in range(count):
        node.commit(number)
    body = TOGETHER * (len(ROW) + 16)
    allowed = 5 * body + sparse_index_step_bytes + shard_index_step_bytes + 160 * KIB
    for tenth in range(10):
        node.read_bytes = 0
        after = count * TOGETHER * tenth // 10 - 1
        page = node.records(count + tenth, after, 5 * TOGETHER)
        ranges = [record_range(entry) for entry in page.entries]
        assert [place[0] for place in ranges if place is not None] == [
            after + 1 + TOGETHER * n for n in range(5)
        ]
        assert node.read_bytes <= allowed, tenth


@pytest.mark.parametrize("count", [200, 800])
def test_a_short_page_reads_little_wherever_it_is(count: int) -> None:
    node = OnDisk()
    clocks = [node.commit(number) for number in range(count)]
    body = TOGETHER * (len(ROW) + 16)
    # What it returns, what lies before it behind the last index point and mark, and what is read in one go.
    allowed = 5 * body + sparse_index_step_bytes + shard_index_step_bytes + 160 * KIB
    for tenth in range(10):
        node.read_bytes = 0
        at = count * tenth // 10
        page = node.page(count + tenth, clocks[at], 5 * TOGETHER)
        assert [entry.clock for entry in page.entries] == clocks[at + 1 : at + 6]
        assert node.read_bytes <= allowed, tenth
