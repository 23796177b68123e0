"""The view change with one thing wrong each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from motet.verify.model import Record, Variant
from motet.verify.models.merge_tree import Natural
from motet.verify.models.view_change.protocol import ViewChange

# The state of the view-change model, and what a new primary makes of the logs it was sent.

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


class NacksTheDamaged(ViewChange):
    """An op that cannot be read is taken for one that was never there."""

    def denies(self, log: DoViewChange, op: int, header: int) -> bool:
        return super().denies(log, op, header) or disk_at(log.log, op) == "faulty"


class OneNackIsEnough(ViewChange):
    """One replica that never had an op has it cut off."""

    def prepare(self) -> None:
        super().prepare()
        self.nack_quorum = 1


class LongestLogWins(ViewChange):
    """The longest log is taken, whatever view it is of."""

    def canonical(self, logs: Sequence[DoViewChange]) -> list[DoViewChange]:
        longest = max(len(each.log) for each in logs)
        return [each for each in ordered(logs) if len(each.log) == longest]


class SmallViewChangeQuorum(ViewChange):
    """A new primary asks too few."""

    def prepare(self) -> None:
        super().prepare()
        self.view_change_quorum = 1


class CommitsAlone(ViewChange):
    """The primary does not wait for others."""

    def prepare(self) -> None:
        super().prepare()
        self.replication_quorum = 1


class ForgetsLogView(ViewChange):
    """What is acknowledged in a view is not durably of that view."""

    def log_view_after(self, me: Replica, message: StartView) -> int:  # noqa: ARG002
        return me.log_view


LEADERS_MEET: tuple[str, ...] = (
    "Request(r0)",
    "WritePrepare(r0, op0)",
    "StartViewChange(r1, v1)",
    "StartViewChange(r2, v1)",
    "DoViewChange(r1)",
    "DoViewChange(r2)",
    "BecomePrimary(",
    "StartView(r1)",
    "HandleStartView(r2",
    "Request(r1)",
    "HandlePrepare(r2)",
    "WritePrepare(r1, op0)",
    "WritePrepare(r2, op0)",
    "CommitOp(r1)",
)
"""r0 has an op of view 0 that nobody else has; r1 leads view 1 and has committed another of its number."""


class LongestLogAfterTwoLeaders(LongestLogWins):
    """From where two leaders have prepared different ops."""

    script = LEADERS_MEET


class ForgottenAfterTwoLeaders(ForgetsLogView):
    """From where two leaders have prepared different ops."""

    script = LEADERS_MEET


class AfterTwoLeaders(ViewChange):
    """The model as it is, from where two leaders have prepared different ops."""

    script = LEADERS_MEET


def view_change_variants() -> dict[str, Variant]:
    """What must fail, at three replicas."""
    small = {"replicas": 3, "ops": 1, "views": 1, "most_faults": 0}
    lost = "CommittedIsKept"
    return {
        "nacks-the-damaged": Variant(
            "a prepare that cannot be read counts as one that was never there",
            NacksTheDamaged,
            lost,
            small | {"most_faults": 1},
        ),
        "one-nack-is-enough": Variant("one denial cuts an op off", OneNackIsEnough, lost, small),
        "longest-log-wins": Variant(
            "the longest log wins, not the newest",
            LongestLogAfterTwoLeaders,
            "CommitsAgree",
            small | {"views": 2},
        ),
        "small-view-change-quorum": Variant(
            "a new primary decides by its own log", SmallViewChangeQuorum, lost, small
        ),
        "commits-alone": Variant("a primary commits what only it has", CommitsAlone, lost, small),
        "forgets-log-view": Variant(
            "an acknowledgement is sent before log_view is durable",
            ForgottenAfterTwoLeaders,
            "CommitsAgree",
            small | {"views": 2},
        ),
        "after-two-leaders": Variant(
            "the model as it is, from where two leaders have prepared different ops",
            AfterTwoLeaders,
            None,
            small | {"views": 2},
        ),
    }
