"""Operators that do what they are asked whenever that comes, and for whatever has that name by then."""

from __future__ import annotations

from motet.core.machine import Effect, Event
from motet.core.operator import deletion, streams
from motet.core.operator.context import Core
from motet.core.operator.operator import Operator
from motet.core.operator.state import Definition
from motet.core.streams.cluster_messages import CreateStream, DeleteStream
from motet.errors.operator import NotActive
from motet.verify.storms.planting import instead


def _any_fence(core: Core, _message: CreateStream) -> int:
    if core.state.fence is None:
        raise NotActive("it has only just become the active operator")
    return core.state.fence


class CreatesLate(Operator):
    """A stream is created, whatever was deleted since that was asked."""

    def step(self, event: Event) -> list[Effect]:
        with instead(streams, "_checked_fence", _any_fence):
            return super().step(event)


def _by_name(core: Core, message: DeleteStream) -> Definition | None:
    return core.state.definitions.get(message.name)


class DeletesByName(Operator):
    """A stream is deleted because it has the name of the one that is meant."""

    def step(self, event: Event) -> list[Effect]:
        with instead(deletion, "_meant", _by_name):
            return super().step(event)
