"""Recorders of a node: the steps of its machines, to be replayed, and those of its protocols, to be checked.

**A trace to be replayed.** A step is a function of state and event (E8), so the events of a run are the run.
A trace is a file of one JSON object per line: the machine's name, the event as it was, and a digest of the
effects. Replaying it steps a fresh machine through the same events and compares the digests: the first line
that differs is where the machine is not deterministic, or not the machine that was recorded. Bytes are base64
as everywhere in JSON. A line ``Started`` begins a new incarnation, so a trace may span restarts of a node.

**A trace of protocols** has one line of JSON for each step that is one of a protocol, to be compared with its
model::

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
from typing import Any, Self

import msgspec

from motet.core.fingerprint import fingerprint
from motet.core.keeper.front.node import KeeperNode
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Machine,
    Message,
    Now,
    ReadBack,
    ReadFailed,
    Received,
    Send,
    Started,
    WorkDone,
    WorkFailed,
    WriteFailed,
    Written,
)
from motet.core.operator.operator import Operator
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import Status
from motet.core.shardlog.steps import Chronicle
from motet.core.streams.node import DataNode
from motet.core.vsr.look import LookLine, Observed, can_be_seen, changed_slots, observed
from motet.core.vsr.messages import DoViewChange
from motet.errors import BadInput
from motet.ids import Address, NodeId, ShardName, WorkId
from motet.node.hosted import Recorder


class TraceLine(msgspec.Struct, frozen=True):
    """One step of one machine."""

    machine: str
    event: msgspec.Raw
    #: of the effects, in hexadecimal
    digest: str


class Divergence(msgspec.Struct, frozen=True):
    """The first line at which a replay did something else than the recorded run."""

    line: int
    event: Event
    effects: list[Effect]


class Replayed(msgspec.Struct, frozen=True):
    """What came of a replay; a divergence is its last step."""

    steps: int
    divergence: Divergence | None


class _Received(msgspec.Struct, frozen=True, tag="Received"):
    """``Received`` with the message still as text: only the machine's own union can read it."""

    now: Now
    sender: Address
    message: msgspec.Raw
    is_followed: bool = False


class _WorkDone(msgspec.Struct, frozen=True, tag="WorkDone"):
    """``WorkDone``, likewise."""

    now: Now
    work: WorkId
    result: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(TraceLine).decode
_decode_event: Callable[[msgspec.Raw], Any] = msgspec.json.Decoder(
    Started
    | _Received
    | Written
    | WriteFailed
    | ReadBack
    | ReadFailed
    | Fired
    | _WorkDone
    | WorkFailed
).decode


def effects_digest(effects: list[Effect]) -> str:
    """Equal for equal lists of effects, in every process."""
    return fingerprint(effects).hex()


class TraceWriter:
    """Appends every step to a file; a driver's recorder.

    Lines reach the file in whole, at the latest at ``close``. A trace is for looking at afterwards: it is
    not synced, and costs more than the step it records.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, machine: str, event: Event, effects: list[Effect]) -> None:
        line = TraceLine(machine, msgspec.Raw(_encode(event)), effects_digest(effects))
        self._file.write(_encode(line) + b"\n")

    def close(self) -> None:
        self._file.close()


def replay(
    lines: Iterable[bytes], name: str, make_machine: Callable[[], Machine], messages: object
) -> Replayed:
    """Step fresh machines through the lines of the machine of this name, up to the first divergence."""
    decode_message: Callable[[msgspec.Raw], Message] = msgspec.json.Decoder(messages).decode
    machine: Machine | None = None
    steps = 0
    for number, text in enumerate(lines, start=1):
        try:
            line = _decode_line(text)
            if line.machine != name:
                continue
            event = _read_event(line, decode_message)
        except msgspec.MsgspecError as error:
            raise BadInput(
                f"line {number} is no line of a trace of {name}: {error}",
                hint="replay a file written by a node with debug.trace set",
            ) from None
        if isinstance(event, Started):
            machine = make_machine()
        if machine is None:
            raise BadInput(
                f"line {number}: {name} does not begin with Started",
                hint="replay the trace from its beginning",
            )
        effects = machine.step(event)
        steps += 1
        if effects_digest(effects) != line.digest:
            return Replayed(steps, Divergence(number, event, effects))
    return Replayed(steps, None)


def _read_event(line: TraceLine, decode_message: Callable[[msgspec.Raw], Message]) -> Event:
    event: Event | _Received | _WorkDone = _decode_event(line.event)
    if isinstance(event, _Received):
        message = decode_message(event.message)
        return Received(event.now, event.sender, message, event.is_followed)
    if isinstance(event, _WorkDone):
        result = None if bytes(event.result) == b"null" else decode_message(event.result)
        return WorkDone(event.now, event.work, result)
    return event


Line = dict[str, Any] | LookLine
Look = Callable[[list[Effect]], Iterable[Line]]
"""Looks at a machine after a step with these effects; what there is to write down."""


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
