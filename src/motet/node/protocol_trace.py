"""What a node does, written down step by step, to be compared with the models of its protocols.

One line of JSON for each step that is one of a protocol::

    {"at":8123,"node":"n1","shard":"s","action":"Sync","with":{"n":"n1","last":4}, …}
    {"at":8124,"node":"n1","replica":0,"replicas":3,"view":1,…,"op":7,"commit":6,"slots":{"7":[1,"dirty"]}}
    {"at":8125,"node":"n1","shard":"s","version":4,"metadata":{"shard":"s","epoch":3, …}}

The first is a step of a shard's log, by ``motet.core.shardlog.steps``; the second the keeper's replica after
a step that changed it, by ``motet.core.vsr.look``; the third a version of a shard's metadata, as soon as this
operator knows of it: it has written that version and was told so, or has found it there. Whoever replaces a
version has known it, so every version but the last is in somebody's trace, also when the operator that wrote
it was killed before it was told.

``motet verify trace`` puts the files of all nodes together by ``at``, the machine's monotonic clock. A line
is in the file before any message of its step leaves the node, so that whatever another node knows is there,
too, when this one is killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from motet.core.keeper.front.node import KeeperNode
from motet.core.machine import Effect, Event, Send
from motet.core.operator.operator import Operator
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import Status
from motet.core.shardlog.steps import Chronicle
from motet.core.streams.node import DataNode
from motet.core.vsr.look import LookLine, Observed, can_be_seen, changed_slots, observed
from motet.core.vsr.messages import DoViewChange
from motet.ids import NodeId, ShardName
from motet.node.hosted import Recorder

Line = dict[str, Any] | LookLine
Look = Callable[[list[Effect]], Iterable[Line]]
"""Looks at a machine after a step with these effects; what there is to write down."""

_encode = msgspec.json.Encoder().encode


class ProtocolTrace:
    """Appends what its looks see to a file; a driver's recorder. ``looks`` are by the names of machines."""

    def __init__(self, path: Path, looks: Mapping[str, Look]) -> None:
        self._file = path.open("ab", buffering=0)
        self._looks = looks

    def __call__(self, machine: str, _event: Event, effects: list[Effect]) -> None:
        look = self._looks.get(machine)
        for line in () if look is None else look(effects):
            self._file.write(_encode(line) + b"\n")

    def close(self) -> None:
        self._file.close()


class ShardSteps:
    """The steps of the shards' logs on a data node."""

    def __init__(self, own: NodeId, machine: Callable[[], DataNode]) -> None:
        self._own = own
        self._machine = machine
        self._chronicles: dict[ShardName, Chronicle] = {}
        #: replicas that were on disk when this process began, and have not been looked at since
        self._found: dict[ShardName, None] = {}

    def __call__(self, effects: list[Effect]) -> Iterator[Line]:
        replicas = self._machine().shards.replicas
        for shard, chronicle in self._chronicles.items():
            if shard not in replicas:
                for line in chronicle.gone(effects):
                    yield self._line(shard, line)
        for shard, replica in replicas.items():
            if shard not in self._chronicles:
                self._chronicles[shard] = Chronicle(
                    shard, 0, with_factor=True, replaced_at_once=True
                )
            if replica.status is Status.RECOVERING:
                self._found[shard] = None
                continue
            for line in self._steps(shard, replica, effects):
                yield self._line(shard, line)

    def _steps(
        self, shard: ShardName, replica: ShardReplica, effects: list[Effect]
    ) -> list[dict[str, Any]]:
        chronicle = self._chronicles[shard]
        if shard in self._found:
            del self._found[shard]
            return chronicle.restarted(replica)
        followers = list(replica.core.state.cursors)
        numbers = {name: at for at, name in enumerate((self._own, *followers))}
        lines = chronicle.saw(replica, effects, numbers)
        for line in lines:
            if line["action"] == "BecomeLeader":
                line["with"]["others"] = followers
        return lines

    def _line(self, shard: ShardName, line: dict[str, Any]) -> Line:
        """Nodes are named here; whoever reads it numbers them."""
        arguments = line["with"] | {"n": self._own}
        seen = line.get("state", {}).get("node", {}).get("0")
        state = {} if seen is None else {"state": {"node": {self._own: seen}}}
        head = {"at": time.monotonic_ns(), "node": self._own, "shard": shard}
        return {**head, "action": line["action"], "with": arguments, **state}


class ReplicaLooks:
    """The keeper's replica of a node, whenever it is another one."""

    def __init__(self, own: NodeId, machine: Callable[[], KeeperNode]) -> None:
        self._own = own
        self._machine = machine
        self._seen: Observed | None = None

    def __call__(self, effects: list[Effect]) -> Iterator[Line]:
        core = self._machine().replica.core
        if not can_be_seen(core):
            return
        sends = any(isinstance(e, Send) and isinstance(e.message, DoViewChange) for e in effects)
        before, after = self._seen, observed(core)
        if after == before and not sends:
            return
        self._seen = after
        yield LookLine(
            time.monotonic_ns(),
            self._own,
            core.own,
            core.config.count,
            after.view,
            after.log_view,
            after.status,
            after.op,
            after.commit,
            after.began,
            changed_slots(before or Observed(), after),
            sends,
            before is None,
        )


class KnownMetadata:
    """What an operator knows to stand in the metadata store."""

    def __init__(self, own: NodeId, machine: Callable[[], Operator]) -> None:
        self._own = own
        self._machine = machine
        #: the last version of each shard that was written down; they never fall
        self._told: dict[ShardName, int] = {}

    def __call__(self, _effects: list[Effect]) -> Iterator[Line]:
        for shard, control in self._machine().core.state.shards.items():
            version, metadata = control.version, control.metadata
            if version is None or metadata is None or version <= self._told.get(shard, -1):
                continue
            self._told[shard] = version
            head = {"at": time.monotonic_ns(), "node": self._own, "shard": shard}
            yield {**head, "version": version, "metadata": metadata}


def both(one: Recorder | None, other: Recorder) -> Recorder:
    """A recorder for those that there are."""
    if one is None:
        return other

    def tell(machine: str, event: Event, effects: list[Effect]) -> None:
        one(machine, event, effects)
        other(machine, event, effects)

    return tell
