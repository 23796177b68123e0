"""An operation as the checkers see it: one interval with what was asked and what was answered.

The order of a history is the recorder's own: its events are numbered as they come, ``began`` and
``ended`` are such numbers, and one operation precedes another when it ended before the other began.
Everything else is concurrent. The times ``began_at`` and ``ended_at`` are only shown to people, so
equal times do no harm.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from motet.verify.history.events import OperationId
from motet.verify.history.values import Value, show

Outcome: TypeAlias = Literal["ok", "failed", "unknown"]

FOREVER = 1 << 62
"""Where an operation of unknown outcome ends: it may take effect at any time after it began."""

_SILENT = (
    "write",
    "put",
    "delete",
    "add",
    "enqueue",
)  # their answer says no more than that they happened


class Operation(NamedTuple):
    """One operation from its invocation to its outcome. A tuple, because checkers read many."""

    id: OperationId
    process: str
    function: str
    key: Value
    #: what it was invoked with: the value written, the element added, ``(expected, new)`` of a cas
    value: Value
    outcome: Outcome
    #: what it answered; ``None`` unless the outcome is ok
    result: Value
    #: number of the event that invoked it
    began: int
    #: number of the event that ended it, ``FOREVER`` if its outcome is unknown
    ended: int
    began_at: int
    #: ``None`` if nothing was ever heard of it
    ended_at: int | None

    def __str__(self) -> str:
        return f"{self.process} {self.call} {self.answer}"

    @property
    def call(self) -> str:
        """The invocation as people write it: ``write 1``, ``put x 1``, ``cas 1→2``."""
        words = [self.function]
        if self.key is not None:
            words.append(str(self.key))
        if self.function == "cas" and isinstance(self.value, tuple):
            words.append("→".join(map(show, self.value)))
        elif self.value is not None:
            words.append(show(self.value))
        return " ".join(words)

    @property
    def answer(self) -> str:
        """The outcome as people write it: ``= 1``, ``ok``, ``failed``, ``unknown``."""
        if self.outcome != "ok" or self.function in _SILENT:
            return self.outcome
        return f"= {show(self.result)}"
