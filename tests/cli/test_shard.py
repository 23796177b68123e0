"""What ``motet shard describe`` makes of an operator's answer."""

from __future__ import annotations

from motet.cli.cluster import _rows
from motet.core.metadata.definitions import StreamDefinition
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import ShardReport
from motet.core.streams.cluster_messages import ShardMetadata, ShardsDescribed, ShardStatus
from motet.ids import Epoch, LogName, NodeId, Offset, RequestId, ShardName, StreamId, StreamName

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")
HEAD = EntryId(Epoch(4), Offset(4))


def described(leader_epoch: int) -> dict[str, object]:
    definition = StreamDefinition(StreamId("1" * 16), StreamName("orders"), 1, 3)
    shard = ShardName(f"{definition.id}.0")
    meta = ShardMetadata(shard, Epoch(4), ShardStatus.STEADY_STATE, N0, (N0, N1, N2), 3)
    leads = ShardReport(
        LogName(shard), Epoch(leader_epoch), "leader", HEAD, HEAD, stalled=((N1, "needs_snapshot"),)
    )
    follows = ShardReport(LogName(shard), Epoch(4), "follower", HEAD, HEAD)
    reports = ((N0, (leads,)), (N1, (follows,)))
    (row,) = _rows(ShardsDescribed(RequestId(1), (definition,), (meta,), reports))
    return row


def test_a_follower_that_its_leader_reports_is_shown_as_stalled() -> None:
    assert described(leader_epoch=4)["replicas"] == {
        "n0": "leader(4,4)",
        "n1": "follower(4,4) stalled",
        "n2": "silent",
    }


def test_a_leader_of_an_earlier_epoch_says_nothing_about_followers() -> None:
    assert described(leader_epoch=3)["replicas"] == {
        "n0": "leader(4,4)",
        "n1": "follower(4,4)",
        "n2": "silent",
    }
