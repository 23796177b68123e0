"""What operators write to the metadata store about a shard, as actions of the model ``shard-log-changes``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.streams.cluster_messages import (
    Reconfiguration,
    ReconfigurationPhase,
    ShardMetadata,
    ShardStatus,
)
from motet.ids import NodeId
from motet.verify.models.shard_log_steps.records import NOBODY

NAMES = {
    ReconfigurationOp.NODE_SWAP: "swap",
    ReconfigurationOp.EXPAND: "expand",
    ReconfigurationOp.CONTRACT: "contract",
}

Numbers = Mapping[NodeId, int]


def store_steps(
    before: ShardMetadata | None, after: ShardMetadata, numbers: Numbers
) -> list[dict[str, Any]]:
    """The action that a write of metadata is, if it is one: who has left is not in the model."""
    named = _action(before, after, numbers)
    if named is None:
        return []
    action, arguments = named
    seen = {
        "epoch": int(after.epoch),
        "ensemble": sorted(numbers[node] for node in after.ensemble),
        "leader": _number(after.leader, numbers),
    }
    return [
        {"action": action, "with": arguments, "state": {"stored": {str(after.epoch - 1): seen}}}
    ]


def named_in(metadata: ShardMetadata) -> list[NodeId]:
    """The nodes of a shard, also those that come or go."""
    change = metadata.reconfiguration
    coming = () if change is None or change.new_node is None else (change.new_node,)
    return [*metadata.ensemble, *coming]


def _action(
    before: ShardMetadata | None, after: ShardMetadata, numbers: Numbers
) -> tuple[str, dict[str, Any]] | None:
    if before is None:
        return "Found", {"ensemble": sorted(numbers[node] for node in after.ensemble)}
    change = after.reconfiguration
    if after.epoch != before.epoch:
        if after.status is ShardStatus.ELECTION or change is None:
            return "Elect", {}
        return "BeginChange", {"change": _told(change, numbers)}
    if before.status is ShardStatus.ELECTION and after.status is ShardStatus.STEADY_STATE:
        return "Elected", {}
    if change is None and before.reconfiguration is not None:
        is_done = before.reconfiguration.phase is ReconfigurationPhase.COMMIT
        return ("EndChange" if is_done else "CallOff"), {}
    if change is not None and change != before.reconfiguration:
        return "OrderChange", {}
    return None


def _told(change: Reconfiguration, numbers: Numbers) -> dict[str, Any]:
    return {
        "op": NAMES[change.op],
        "old": _number(change.old_node, numbers),
        "new": _number(change.new_node, numbers),
    }


def _number(node: NodeId | None, numbers: Numbers) -> int:
    return NOBODY if node is None else numbers[node]
