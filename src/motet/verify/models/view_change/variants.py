"""The view change with one thing wrong each."""

from __future__ import annotations

from collections.abc import Sequence

from motet.verify.model import Variant
from motet.verify.models.view_change.protocol import ViewChange
from motet.verify.models.view_change.records import (
    DoViewChange,
    Replica,
    StartView,
    disk_at,
    ordered,
)


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
