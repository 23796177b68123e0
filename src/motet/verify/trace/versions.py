"""The metadata of a shard, version by version, as operators have told of it.

The store counts the versions, so their order is known whoever has told of them and when. A version is told of
by each operator that comes to know it. None is left out but the last: to replace one it has to be known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from motet.core.streams.cluster_messages import ShardMetadata, ShardStatus
from motet.ids import NodeId
from motet.verify.trace.files import METADATA, read_lines
from motet.verify.trace.lines import TraceLine
from motet.verify.trace.metadata import named_in, store_steps
from motet.verify.trace.waiting import Placed


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
