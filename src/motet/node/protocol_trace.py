"""What the replicas of a node do, written down step by step, to be compared with their model.

One line of JSON for each step of a shard's protocol, by ``motet.core.shardlog.steps``::

    {"at":8123,"node":"n1","shard":"s","action":"Sync","with":{"n":"n1","last":4}, …}

``motet verify trace`` puts the files of all nodes together. A line is in the file before any message of its
step leaves the node, so that whatever another node knows is there, too, when this one is killed. ``at`` is
the machine's monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from motet.core.datanode.node import DataNode
from motet.core.machine import Effect, Event
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import Status
from motet.core.shardlog.steps import Chronicle
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
        self._chronicles: dict[ShardName, Chronicle] = {}
        #: replicas that were on disk when this process began, and have not been looked at since
        self._found: dict[ShardName, None] = {}

    def __call__(self, machine: str, _event: Event, effects: list[Effect]) -> None:
        if machine != DATA_MACHINE:
            return
        replicas = self._machine().shards.replicas
        for shard, chronicle in self._chronicles.items():
            if shard not in replicas:
                for line in chronicle.gone(effects):
                    self._write(shard, line)
        for shard, replica in replicas.items():
            if shard not in self._chronicles:
                self._chronicles[shard] = Chronicle(
                    shard, 0, with_factor=True, replaced_at_once=True
                )
            if replica.status is Status.RECOVERING:
                self._found[shard] = None
            else:
                self._look_at(shard, replica, effects)

    def _look_at(self, shard: ShardName, replica: ShardReplica, effects: list[Effect]) -> None:
        chronicle = self._chronicles[shard]
        if shard in self._found:
            del self._found[shard]
            lines = chronicle.restarted(replica)
        else:
            followers = list(replica.core.state.cursors)
            numbers = {name: at for at, name in enumerate((self._own, *followers))}
            lines = chronicle.saw(replica, effects, numbers)
            for line in lines:
                if line["action"] == "BecomeLeader":
                    line["with"]["others"] = followers
        for line in lines:
            self._write(shard, line)

    def _write(self, shard: ShardName, line: dict[str, Any]) -> None:
        """Nodes are named here; whoever reads it numbers them."""
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
