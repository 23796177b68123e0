"""Replicas with planted bugs: the real one, with one rule of its protocol left out."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.machine import (
    Effect,
    Event,
    Note,
    Received,
    Send,
    Write,
    WriteFailed,
    Written,
)
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.context import WAL, Core
from motet.core.vsr.header import encode_header
from motet.core.vsr.messages import (
    DoViewChange,
    Prepare,
    PrepareOk,
    ReadBarrier,
    ReadPoint,
)
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.core.vsr.state_machine import StateMachine
from motet.ids import ReplicaIndex, WriteId
from motet.sim.host import Stepper
from motet.testing.register import Register
from motet.verify.plants import kind_of


class Hurries(Replica):
    """A prepare counts as durable as soon as its write has begun."""

    def __init__(self, config: VsrConfig, own: ReplicaIndex, machine: StateMachine) -> None:
        super().__init__(config, own, machine)
        self._told: dict[WriteId, None] = {}

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Written | WriteFailed) and event.write in self._told:
            return []  # it has been told already, whatever became of it
        effects: list[Effect] = []
        events: list[Event] = [event]
        for each in events:  # grows while it is walked through
            for effect in super().step(each):
                effects.append(effect)
                if isinstance(effect, Write) and effect.id in self.core.state.prepare_writes:
                    self._told[effect.id] = None
                    events.append(Written(event.now, effect.id))
        return effects


class DeniesDamage(Replica):
    """A prepare that the disk has lost is denied, as if it had never been there."""

    def step(self, event: Event) -> list[Effect]:
        journal = self.core.state.journal
        journal.faulty = [False] * journal.slots
        return super().step(event)


class PrefersLength(Replica):
    """The longest log wins a view change, whichever view it is of."""

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received) and isinstance(event.message, DoViewChange):
            log = event.message
            newest = msgspec.structs.replace(log, log_view=log.view)
            event = Received(event.now, event.sender, newest)
        return super().step(event)


class HastyCore(Core):
    """A view counts as durable before it is."""

    @property
    def is_view_durable(self) -> bool:
        return self.state.superblock is not None


class PromisesTooSoon(Replica):
    """Acknowledges in a view that is still on its way to the disk."""

    def __init__(self, config: VsrConfig, own: ReplicaIndex, machine: StateMachine) -> None:
        super().__init__(config, own, machine)
        self.core = HastyCore(config, own, machine)


class ServesTheDeposed(Replica):
    """Acknowledges a prepare of a view that it has left, so that its primary goes on committing."""

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        if isinstance(event, Received) and isinstance(event.message, Prepare):
            effects += self._acknowledge(event.message)
        return effects

    def _acknowledge(self, message: Prepare) -> list[Effect]:
        core, header = self.core, message.header
        if core.state.status is not Status.NORMAL or message.view >= core.state.view:
            return []
        ok = PrepareOk(
            core.config.cluster,
            core.own,
            message.view,
            header.op,
            header.checksum,
            core.checkpoint_op,
            core.checkpoint_id,
        )
        return [Send(core.config.replicas[core.config.primary(message.view)], ok)]


class WritesHeaderAtOnce(Replica):
    """A prepare and its redundant header are written together."""

    def step(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        later: list[Effect] = []
        state = self.core.state
        for effect in super().step(event):
            effects.append(effect)
            if isinstance(effect, Write) and effect.id in state.prepare_writes:
                later += self._header(state.prepare_writes[effect.id])
        return effects + later

    def _header(self, slot: int) -> list[Effect]:
        state, header = self.core.state, self.core.state.journal.headers[slot]
        if header is None:
            return []
        write = state.next_write
        state.next_write = WriteId(write + 1)
        return [Write(write, WAL, self.core.layout.header_offset(slot), encode_header(header))]


class ForgetsSessions(Replica):
    """A new primary begins with an empty table of sessions, as if only the old one had kept it."""

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        if any(isinstance(each, Note) and each.what == "vsr_view_started" for each in effects):
            self.core.state.sessions.by_client = {}
        return effects


class ReadsAlone(Replica):
    """A primary answers a read without asking whether it still is the primary."""

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        core = self.core
        is_read = isinstance(event, Received) and isinstance(event.message, ReadBarrier)
        if is_read and core.is_primary:
            assert isinstance(event, Received)
            assert isinstance(event.message, ReadBarrier)
            cluster, view, op = core.config.cluster, core.state.view, core.state.commit_max
            point = ReadPoint(cluster, core.own, view, event.message.request, op)
            effects.append(Send(event.sender, point))
        return effects


def factory(plant: str | None, config: VsrConfig, own: ReplicaIndex) -> Callable[[], Stepper]:
    """What makes the replica of each incarnation."""
    kind = kind_of("vsr", plant, Replica)
    return lambda: kind(config, own, Register())
