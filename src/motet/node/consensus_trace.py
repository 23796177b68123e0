"""What the keeper's replica of a node does, written down look by look, to be compared with its model.

One line of JSON for each step after which the replica is another one, by ``motet.core.vsr.look``::

    {"at":8123,"node":"n1","replica":0,"replicas":3,"view":1,…,"op":7,"commit":6,"slots":{"7":[1,"dirty"]}}

``motet verify trace --model vsr-view-change`` puts the files of all nodes together by ``at``. A line is in
the file before any message of its step leaves the node.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from motet.core.keeper.front.node import KeeperNode
from motet.core.machine import Effect, Event, Send
from motet.core.vsr.look import LookLine, Observed, can_be_seen, changed_slots, observed
from motet.core.vsr.messages import DoViewChange
from motet.ids import NodeId
from motet.node.keeper import KEEPER_MACHINE

_encode = msgspec.json.Encoder().encode


class ConsensusTrace:
    """Looks at the replica after each step of the keeper's machine; a driver's recorder."""

    def __init__(self, path: Path, own: NodeId, machine: Callable[[], KeeperNode]) -> None:
        self._file = path.open("ab", buffering=0)
        self._own = own
        self._machine = machine
        self._seen: Observed | None = None

    def __call__(self, machine: str, _event: Event, effects: list[Effect]) -> None:
        if machine != KEEPER_MACHINE:
            return
        core = self._machine().replica.core
        if not can_be_seen(core):
            return
        sends = any(isinstance(e, Send) and isinstance(e.message, DoViewChange) for e in effects)
        before, after = self._seen, observed(core)
        if after == before and not sends:
            return
        self._seen = after
        line = LookLine(
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
        self._file.write(_encode(line) + b"\n")

    def close(self) -> None:
        self._file.close()
