"""The state of the view-change model, and what a new primary makes of the logs it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from motet.verify.model import Record
from motet.verify.models.merge_tree import Natural

Disk = Literal["dirty", "written", "faulty"]
Status = Literal["normal", "view_change", "leading"]


class Slot(Record, frozen=True):
    """An op in the log of a replica. The view it was prepared in tells it from others of its number.

    Only its header is known (*dirty*), it is on disk (*written*), or was and cannot be read (*faulty*).
    """

    view: Natural
    disk: Disk


Log = tuple[Slot, ...]


class Replica(Record, frozen=True):
    """What a replica has durably, but for its status. ``log[i]`` is op i + 1."""

    view: Natural = 0
    log_view: Natural = 0
    status: Status = "normal"
    log: Log = ()
    commit: Natural = 0
    #: since it has had this log it was restarted
    is_back: bool = False


class DoViewChange(Record, frozen=True):
    """The log of a replica as it was when it was sent."""

    view: Natural
    replica: Natural
    log_view: Natural
    log: Log
    commit: Natural


class StartView(Record, frozen=True):
    """The headers of a view that begins: the view each op was prepared in."""

    view: Natural
    headers: tuple[Natural, ...]
    commit: Natural


class State(Record, frozen=True):
    """The replicas, and everything that was ever sent: it may arrive late, twice, or never."""

    replica: tuple[Replica, ...]
    #: (view, op) of every prepare that a primary made
    prepares: frozenset[tuple[Natural, Natural]] = frozenset()
    #: (view, op, replica)
    prepare_oks: frozenset[tuple[Natural, Natural, Natural]] = frozenset()
    do_view_changes: frozenset[DoViewChange] = frozenset()
    start_views: frozenset[StartView] = frozenset()
    #: the highest commit number that was told in each view
    told: tuple[Natural, ...] = ()
    #: (op, view it was prepared in) of what was committed, ever
    committed: frozenset[tuple[Natural, Natural]] = frozenset()
    faults: Natural = 0
    restarts: Natural = 0


class Decision(Record, frozen=True):
    """The log of the new view: the view each op was prepared in, and what is known to be committed."""

    headers: tuple[Natural, ...]
    commit: Natural


def header_at(log: Log, op: int) -> int | None:
    """The view in which the op of this log was prepared, if the log has it."""
    return log[op - 1].view if op <= len(log) else None


def disk_at(log: Log, op: int) -> Disk | None:
    """What a log can say of an op that it has."""
    return log[op - 1].disk if op <= len(log) else None


def ordered(messages: Sequence[DoViewChange]) -> list[DoViewChange]:
    """By replica, for a choice that is the same everywhere."""
    return sorted(messages, key=lambda each: each.replica)
