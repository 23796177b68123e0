"""What an operator knows to stand in the metadata store, written down for ``motet verify trace``.

One line of JSON for each version of a shard's metadata, as soon as this operator knows of it: it has written
that version and was told so, or has found it there::

    {"at":8123,"node":"n1","shard":"s","version":4,"metadata":{"shard":"s","epoch":3, …}}

Whoever replaces a version has known it, so every version but the last is in somebody's trace, also when the
operator that wrote it was killed before it was told. A line is in the file before any message of its step
leaves: what an order rests on is there when the order is carried out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from motet.core.machine import Effect, Event
from motet.core.operator.metadata import ShardMetadata
from motet.core.operator.operator import Operator
from motet.ids import NodeId, ShardName
from motet.node.operator import OPERATOR_MACHINE

_encode = msgspec.json.Encoder().encode


class OperatorTrace:
    """Looks at the metadata after each step of the operator; a driver's recorder."""

    def __init__(self, path: Path, own: NodeId, machine: Callable[[], Operator]) -> None:
        self._file = path.open("ab", buffering=0)
        self._own = own
        self._machine = machine
        #: the last version of each shard that was written down; they never fall
        self._told: dict[ShardName, int] = {}

    def __call__(self, machine: str, _event: Event, _effects: list[Effect]) -> None:
        if machine != OPERATOR_MACHINE:
            return
        for shard, control in self._machine().core.state.shards.items():
            version, metadata = control.version, control.metadata
            if version is not None and metadata is not None and version > self._last(shard):
                self._write(shard, version, metadata)

    def _last(self, shard: ShardName) -> int:
        return self._told.get(shard, -1)

    def _write(self, shard: ShardName, version: int, metadata: ShardMetadata) -> None:
        self._told[shard] = version
        head = {"at": time.monotonic_ns(), "node": self._own, "shard": shard}
        self._file.write(_encode({**head, "version": version, "metadata": metadata}) + b"\n")

    def close(self) -> None:
        self._file.close()
