"""Nodes of a keeper with planted bugs: the real ones, with one rule left out.

What is simulated is a node whose machine tells the ledger what it applies, and which shows the replica inside
to those who check replicas.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.front.front_end import FrontEnd
from motet.core.keeper.front.lanes import Item
from motet.core.keeper.front.node import KeeperNode
from motet.core.keeper.front.progress import advance
from motet.core.keeper.front.pulses import Pulses
from motet.core.keeper.front.watches import Watches, WatchKind
from motet.core.keeper.machine import Keeper
from motet.core.keeper.messages import FrontEndConfig
from motet.core.keeper.operations import AddIdentity, EndSession, Outcome, Pulse, Write
from motet.core.keeper.sessions import Session
from motet.core.keeper.writes import Writing, write_one
from motet.core.machine import NS_PER_MS, Effect, Event, Violation
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.replica import Replica
from motet.core.vsr.state_machine import Entry
from motet.format.zookeeper.messages import Failed, Multi, MultiResult
from motet.ids import Address, ReplicaIndex, View
from motet.sim.host import Stepper
from motet.verify.plants import kind_of
from motet.verify.storms.keeper_ledger import Ledger


class LoggedKeeper(Keeper):
    """Tells the ledger what it applies."""

    def __init__(self, config: KeeperConfig, who: str, ledger: Ledger) -> None:
        super().__init__(config)
        self._who = who
        self._ledger = ledger

    def apply(self, entry: Entry) -> bytes:
        reply = super().apply(entry)
        self._ledger.applied(self._who, self, entry, reply)
        return reply


class SeenNode(Replica):
    """A node; whoever checks replicas sees the one inside."""

    def __init__(
        self, vsr: VsrConfig, own: ReplicaIndex, keeper: Keeper, front: FrontEndConfig
    ) -> None:
        super().__init__(vsr, own, keeper)
        self.node = KeeperNode(vsr, own, keeper.config, front)
        self.node.keeper, self.node.replica = keeper, Replica(vsr, own, keeper)
        self.node.front = FrontEnd(self.node.replica.core, front)
        self.core = self.node.replica.core

    @property
    def front(self) -> FrontEnd:
        return self.node.front

    def step(self, event: Event) -> list[Effect]:
        return self.node.step(event)

    def invariants(self) -> list[Violation]:
        return self.node.invariants()


# Bugs of the machine


class StopsHalfway(LoggedKeeper):
    """A multi that fails leaves behind what it did before."""

    def _write(self, operation: Write, session: Session, time_ms: int) -> Outcome:
        outcome = super()._write(operation, session, time_ms)
        request, result = operation.request, outcome.result
        if isinstance(request, Multi) and isinstance(result, MultiResult):
            write = Writing(self.config, self._tree, self.zxid, time_ms, session.id, (), [])
            for each, its in zip(request.operations, result.results, strict=True):
                if its == Failed(0):
                    write_one(write, each)
        return outcome


class BelievesTheOld(LoggedKeeper):
    """Whoever once spoke for a session may go on."""

    def _run_as_session(self, operation: Write | EndSession | AddIdentity, time_ms: int) -> Outcome:
        session = self._sessions.by_id.get(operation.session)
        if session is not None:
            operation = msgspec.structs.replace(operation, generation=session.generation)
        return super()._run_as_session(operation, time_ms)


# Bugs of the front end


class LateWatches(Watches):
    """Takes its time to set a watch."""

    late: list[tuple[WatchKind, str, Address]] = msgspec.field(default_factory=list)

    def set(self, kind: WatchKind, path: str, address: Address) -> None:
        self.late.append((kind, path, address))

    def set_late(self, due: list[tuple[WatchKind, str, Address]]) -> None:
        for kind, path, address in due:
            super().set(kind, path, address)


class WatchesAfterwards(SeenNode):
    """A watch is set in the step after its read."""

    def step(self, event: Event) -> list[Effect]:
        state = self.front.context.state
        if not isinstance(state.watches, LateWatches):
            state.watches = LateWatches()
        due, state.watches.late = state.watches.late, []
        effects = super().step(event)
        known = state.connections.by_address
        open_now = [each for each in due if each[2] in known and not known[each[2]].is_gone]
        state.watches.set_late(open_now)
        return effects


class WallPulses(Pulses):
    """Time is what the clock on the wall says, whoever was the primary, however long it took."""

    wall_ns: int = 0
    pulse_wall_ns: int = 0

    def begin_pulse(self, view: View, now_ns: int, pulse_ms: int) -> Pulse | None:
        pulse = super().begin_pulse(view, now_ns, pulse_ms)
        before_ns, self.pulse_wall_ns = self.pulse_wall_ns, self.wall_ns
        if pulse is None or not before_ns:
            return pulse
        return Pulse(max(0, self.wall_ns - before_ns) // NS_PER_MS, view)


class TrustsTheWall(SeenNode):
    """Sessions expire by the local clock."""

    def step(self, event: Event) -> list[Effect]:
        state = self.front.context.state
        if not isinstance(state.pulses, WallPulses):
            state.pulses = WallPulses()
        state.pulses.wall_ns = event.now.wall_ns
        return super().step(event)


class TriesAgain(FrontEnd):
    """What a lane had in flight when it was evicted is sent once more."""

    def _lose(self, items: list[Item], why: str) -> None:
        known = self.context.state.connections.by_address
        for item in items:
            if item.owner in known:
                self.context.lanes.add(known[item.owner].lane, item)
            else:
                super()._lose([item], why)


class RetriesTheEvicted(SeenNode):
    """An operation may go twice."""

    def __init__(
        self, vsr: VsrConfig, own: ReplicaIndex, keeper: Keeper, front: FrontEndConfig
    ) -> None:
        super().__init__(vsr, own, keeper, front)
        self.node.front = TriesAgain(self.core, front)


class AnswersFirst(FrontEnd):
    """Whoever waited is answered before anybody hears of what was applied."""

    def _on_applied(self) -> None:
        context = self.context
        for connection in context.state.connections.take_waiting(context.state.applied):
            advance(context, connection)
        super()._on_applied()


class TellsAfterwards(SeenNode):
    """An answer may know of a change before its event is heard."""

    def __init__(
        self, vsr: VsrConfig, own: ReplicaIndex, keeper: Keeper, front: FrontEndConfig
    ) -> None:
        super().__init__(vsr, own, keeper, front)
        self.node.front = AnswersFirst(self.core, front)


READS_LOCALLY = "local-reads"
"""A node that always answers reads without asking the primary."""


def factory(
    plant: str | None,
    vsr: VsrConfig,
    own: ReplicaIndex,
    keeper: KeeperConfig,
    front: FrontEndConfig,
    ledger: Ledger,
) -> Callable[[], Stepper]:
    """What makes the node of each incarnation."""
    node = kind_of("keeper", plant, SeenNode)
    machine = kind_of("keeper", plant, LoggedKeeper)
    who = vsr.replicas[own]
    if plant == READS_LOCALLY:
        front = msgspec.structs.replace(front, reads_are_local=True)
    return lambda: node(vsr, own, machine(keeper, who, ledger), front)
