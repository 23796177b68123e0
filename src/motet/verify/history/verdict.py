"""What a checker says: ok, violated with a witness, or unknown. Never ok when it has not looked."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from motet.verify.history.operation import Operation
from motet.verify.history.timeline import timeline

Status: TypeAlias = Literal["ok", "violated", "unknown"]

budget_steps_default = 1_000_000
"""Steps of a search before it gives up: some seconds of work, at most about 250 MB."""


class Witness(msgspec.Struct, frozen=True):
    """Why a history is violated: a sentence for people, and the few operations that show it."""

    #: a word for the kind of fault, for instance ``stale`` or ``lost``
    fault: str
    sentence: str
    operations: tuple[Operation, ...]

    def __str__(self) -> str:
        return f"{self.fault}: {self.sentence}\n{timeline(self.operations)}"


class Verdict(msgspec.Struct, frozen=True):
    """The answer of a checker. It is true as a condition only when the history is ok."""

    status: Status
    #: operations that were looked at
    operations: int
    #: steps taken, the measure that budgets are counted in; the same in every run
    steps: int
    #: there exactly when the status is ``violated``
    witness: Witness | None = None
    #: why the status is ``unknown``
    reason: str | None = None

    def __bool__(self) -> bool:
        return self.status == "ok"

    def __str__(self) -> str:
        text = f"{self.status} ({self.operations} operations, {self.steps} steps)"
        if self.reason is not None:
            return f"{text}: {self.reason}"
        return text if self.witness is None else f"{text}\n{self.witness}"
