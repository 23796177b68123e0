"""A replica whose files are being read: what it has of its log is not what it knows."""

from __future__ import annotations

import pytest

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import (
    NS_PER_MS,
    Event,
    Now,
    Preallocate,
    Read,
    ReadBack,
    Received,
    Replace,
    Send,
    Started,
    Write,
    Written,
)
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.log import Log
from motet.core.shardlog.messages import FenceRequest
from motet.core.shardlog.state import Status
from motet.core.streams.messages import DataRefused, DataRequest, ReadRecords, ReadShardFeed
from motet.core.streams.node import DataNode
from motet.errors import NodeError
from motet.ids import Address, Epoch, LogName, NodeId, Offset, RequestId, ShardName

CLIENT, SHARD = Address("client"), LogName(ShardName("s.0"))
NOW = Now(0, 1_000 * NS_PER_MS)
QUESTIONS = [
    ReadShardFeed(RequestId(1), ZERO, SHARD, Clock(5, 0), None, 10, 1_000),
    ReadRecords(RequestId(1), ZERO, SHARD, Offset(-1), 10, 1_000, "replica"),
]


def founded() -> DataNode:
    """A node that has an empty shard; its disk does everything at once."""
    node = DataNode(NodeId("n1"))
    events: list[Event] = [Started(NOW, nonce=7)]
    while events:
        for effect in node.step(events.pop(0)):
            if isinstance(effect, Read):
                events.append(ReadBack(NOW, effect.id, b""))
            elif isinstance(effect, Write | Replace | Preallocate):
                events.append(Written(NOW, effect.id))
        if not events and not node.shards.replicas:
            fence = FenceRequest(SHARD, Epoch(1), node.shards.incarnation, founds=True)
            events.append(Received(NOW, Address("operator"), fence))
    return node


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: type(each).__name__)
def test_a_reader_is_refused_while_the_log_is_there_and_the_state_is_not(
    question: DataRequest,
) -> None:
    node = founded()
    state = node.shards.replicas[SHARD].core.state
    state.status = Status.RECOVERING
    state.log = Log.after(EntryId(Epoch(1), Offset(64)), Clock(9, 0))
    effects = node.step(Received(NOW, CLIENT, question))
    (answer,) = [each.message for each in effects if isinstance(each, Send)]
    assert isinstance(answer, DataRefused)
    assert answer.code == NodeError.code
