"""What the replicas of a node do, written down step by step, to be compared with their model.

One line of JSON for each step of a shard's protocol, by ``motet.core.shardlog.steps``::

    {"at":8123,"node":"n1","shard":"s","action":"Sync","with":{"n":"n1","last":4}, …}

``motet verify trace`` puts the files of all nodes together by ``at``, the machine's monotonic clock. A line
is in the file before any message of its step leaves the node, so that whatever another node knows is there,
too, when this one is killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from motet.core.datanode.node import DataNode
from motet.core.machine import Effect, Event, Note
from motet.core.shardlog.state import Status
from motet.core.shardlog.steps import Look, look_at, restart_of, steps_between
from motet.ids import NodeId, ShardName
from motet.node.data import DATA_MACHINE
from motet.node.hosted import Recorder

_encode = msgspec.json.Encoder().encode


class ProtocolTrace:
    """Looks at the replicas after each step of the data machine; a driver's recorder."""

    def __init__(self, path: Path, own: NodeId, machine: Callable[[], DataNode]) -> None:
        self._file = path.open("ab", buffering=0)
        self._own = own
        self._machine = machine
        self._looks: dict[ShardName, Look] = {}
        #: replicas that were on disk when this process began, and have not been looked at since
        self._found: dict[ShardName, None] = {}

    def __call__(self, machine: str, _event: Event, effects: list[Effect]) -> None:
        if machine != DATA_MACHINE:
            return
        for shard, replica in self._machine().shards.replicas.items():
            if replica.status is Status.RECOVERING:
                self._found[shard] = None
                continue
            look = look_at(replica)
            if look is not None and look != self._looks.get(shard):
                self._saw(shard, look, effects)

    def _saw(self, shard: ShardName, look: Look, effects: list[Effect]) -> None:
        before = self._looks.get(shard, Look())
        self._looks[shard] = look
        if shard in self._found:
            del self._found[shard]
            self._write(shard, restart_of(0, look))
            return
        numbers = {name: at for at, name in enumerate((self._own, *look.followers))}
        installed = any(
            isinstance(effect, Note)
            and effect.what == "shard_installed"
            and effect.detail.partition(" ")[0] == shard
            for effect in effects
        )
        for line in steps_between(0, before, look, numbers, installed=installed):
            if line["action"] == "BecomeLeader":
                line["with"]["others"] = list(look.followers)
            self._write(shard, line)

    def _write(self, shard: ShardName, line: dict[str, Any]) -> None:
        """Nodes are named here; who reads it numbers them."""
        arguments = line["with"] | {"n": self._own}
        seen = line.get("state", {}).get("node", {}).get("0")
        state = {} if seen is None else {"state": {"node": {self._own: seen}}}
        head = {"at": time.monotonic_ns(), "node": self._own, "shard": shard}
        whole = {**head, "action": line["action"], "with": arguments, **state}
        self._file.write(_encode(whole) + b"\n")

    def close(self) -> None:
        self._file.close()


def both(one: Recorder | None, other: Recorder | None) -> Recorder | None:
    """A recorder for those that there are."""
    if one is None or other is None:
        return one or other

    def tell(machine: str, event: Event, effects: list[Effect]) -> None:
        one(machine, event, effects)
        other(machine, event, effects)

    return tell
