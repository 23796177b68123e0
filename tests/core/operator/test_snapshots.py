"""How long an operator waits for a new node that fetches its snapshot."""

from __future__ import annotations

from tests.core.operator.clusters import WatchedPart

from motet.core.operator.context import OperatorConfig
from motet.core.operator.state import Phase

patience_ms = 2_000


def test_a_snapshot_may_take_as_long_as_it_takes_while_it_gets_on() -> None:
    part = WatchedPart()
    part.config = OperatorConfig(snapshot_ms=patience_ms)
    part.do("cluster nodes=4", "create orders replicas=3", "lose SnapshotResponse")
    part.do("swap n3 n4 wait=off", "run 500")
    for piece in range(1, 5):
        new = part.replica("n4")
        assert new is not None
        new.fetched = piece
        part.do(f"run {patience_ms * 2 // 3}")
        assert part.control().phase is Phase.SNAPSHOT
    seen = part.do(f"run {patience_ms}")
    assert any("aborts_node_swap" in line and "has not installed" in line for line in seen)
    assert part.stored().ensemble == ("n1", "n2", "n3")
