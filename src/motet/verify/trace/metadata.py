"""What operators write to the metadata store about a shard, as actions of the model ``shard-log-changes``.

The store counts the versions, so their order is known whoever has told of them and when. A version is told of
by each operator that comes to know it. None is left out but the last: to replace one it has to be known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.streams.cluster_messages import (
    Reconfiguration,
    ReconfigurationPhase,
    ShardMetadata,
    ShardStatus,
)
from motet.ids import NodeId
from motet.verify.models.shard_log_steps.records import NOBODY
from motet.verify.trace.lines import METADATA, TraceLine, read_lines
from motet.verify.trace.merge import Placed

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


class StoreLine(msgspec.Struct, frozen=True):
    """A line as an operator writes it."""

    at: int
    node: str
    shard: str
    version: int
    metadata: ShardMetadata
    #: where it was found
    file: str = ""
    number: int = 0

    def nodes(self) -> list[NodeId]:
        return named_in(self.metadata)


def read_versions(files: Sequence[Path], shard: str) -> list[StoreLine]:
    """The lines about the metadata of one shard, by version."""
    found = [
        msgspec.structs.replace(line, file=file, number=number)
        for file, number, line in read_lines(files, METADATA, StoreLine)
        if line.shard == shard
    ]
    return sorted(found, key=lambda line: (line.version, line.at))


def deleted_in(store: Sequence[StoreLine]) -> int | None:
    """The epoch in which the shard is deleted, if it is."""
    ends = (each.metadata for each in store if each.metadata.status is ShardStatus.DELETING)
    return next((int(end.epoch) for end in ends), None)


def steps_of_store(store: Sequence[StoreLine], numbers: Mapping[NodeId, int]) -> list[Placed]:
    """What the writes amount to. One that cannot be told without others is wrong by itself."""
    steps: list[Placed] = []
    before: StoreLine | None = None
    for line in store:
        if line.metadata.status is ShardStatus.DELETING:
            break
        wrong = _wrong(before, line)
        if before is not None and wrong is None and line.version == before.version:
            continue  # another operator knows it as well
        told = store_steps(None if before is None else before.metadata, line.metadata, numbers)
        for step in told if wrong is None else [{"action": None, "with": {}, "state": {}}]:
            place = step["action"], step["with"], step["state"], line.number, line.file
            steps.append(Placed(TraceLine(*place), int(line.metadata.epoch), line.at, wrong))
        before = line
    return steps


def _wrong(before: StoreLine | None, line: StoreLine) -> str | None:
    if before is None:
        if line.version == 0:
            return None
        return f"the metadata begins with version {line.version}: not all of it is in these traces"
    if line.version == before.version and line.metadata != before.metadata:
        told = f"line {before.number} of {before.file} tells of it differently"
        return f"version {line.version} of the metadata is there twice: {told}"
    if line.version > before.version + 1:
        return f"version {line.version} of the metadata follows version {before.version}"
    return None
