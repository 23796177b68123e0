"""A replica as the model ``vsr-view-change`` sees it, and the lines in which a node writes that down.

A replica is looked at after a step, when its view is durable: before that it promises nothing in it. A line
says what has changed since the last one, so that a long log costs no more than a short one; whoever reads it
puts the looks together again, and finds the actions that lead from each to the next. Nothing here is ever
asked by the protocol.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from motet.core.vsr.context import Core
from motet.core.vsr.state import Status
from motet.ids import Op

Slot: TypeAlias = tuple[int, str] | None
"""The view in which an op was prepared, and whether it is written; None if its header is not here."""


class Observed(msgspec.Struct, frozen=True):
    """What is known of a replica. ``slots[i]`` is op i + 1."""

    view: int = 0
    log_view: int = 0
    status: str = "normal"
    slots: tuple[Slot, ...] = ()
    commit: int = 0
    #: of a primary: the head of the log when its view began
    began: int = 0

    @property
    def op(self) -> int:
        """The head of the log."""
        return len(self.slots)


class LookLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A look at a replica of a node, as the difference to the look before."""

    #: the machine's monotonic clock
    at: int
    node: str
    replica: int
    replicas: int
    view: int
    log_view: int
    status: str
    op: int
    commit: int
    began: int = 0
    #: of the ops whose slot is another one now
    slots: dict[int, Slot] = {}
    #: it has sent its log to whoever leads the view
    sends: bool = False
    #: the first look at this life
    restarted: bool = False

    def after(self, before: Observed) -> Observed:
        """The look that this line is."""
        known = before.slots[: self.op] + (None,) * (self.op - before.op)
        slots = tuple(self.slots.get(op, slot) for op, slot in enumerate(known, start=1))
        return Observed(self.view, self.log_view, self.status, slots, self.commit, self.began)


def can_be_seen(core: Core) -> bool:
    """Whether anything can be said of a replica now."""
    return core.state.status in (Status.NORMAL, Status.VIEW_CHANGE) and core.is_view_durable


def observed(core: Core) -> Observed:
    """What the model has of a replica; of what is no longer in the ring nothing is known."""
    state = core.state
    lowest = max(1, state.op - state.journal.slots + 1)
    slots: list[Slot] = [None] * (lowest - 1)
    slots += [_slot(core, Op(op)) for op in range(lowest, state.op + 1)]
    status = "leading" if state.leading else str(state.status)
    commit = min(state.commit_max, state.op)
    began = state.view_start_op if core.is_primary else 0
    return Observed(state.view, state.log_view, status, tuple(slots), commit, began)


def _slot(core: Core, op: Op) -> Slot:
    state = core.state
    header = state.journal.header(op)
    if header is None:
        return None
    is_linked = op <= state.commit_min or op >= state.connected_op
    if not is_linked and header.view < state.log_view:
        return None  # it may be of an older log: the chain of headers does not reach here yet
    return int(header.view), "written" if state.journal.is_clean(op) else "dirty"


def changed_slots(before: Observed, after: Observed) -> dict[int, Slot]:
    """The slots of a look that are not those of the look before."""
    old: tuple[Any, ...] = before.slots[: after.op] + (None,) * (after.op - before.op)
    pairs = enumerate(zip(old, after.slots, strict=True), start=1)
    return {op: new for op, (was, new) in pairs if was != new}
