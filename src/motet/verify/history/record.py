"""The recorder of a history, and the history it gives.

Tell the recorder of an operation *before* its request is sent, and of its outcome *after* the answer
has arrived: an interval that is too long hides a fault, one that is too short invents one.

R1  A process is sequential: it has at most one open operation.
R2  An operation ends once, as ok, failed or unknown. One still open when the history is taken counts
    as unknown.
R3  A process with an unknown outcome is over, for its operation may still be running: whoever goes on
    does so under a new name.
R4  Events are ordered as the recorder was told of them. ``at`` is any integer that never goes back
    (virtual time, monotonic nanoseconds); it is shown to people and decides nothing.

A recorder is not for several threads at once: give it to one loop, or hold a lock around each call.

A witness is drawn for people as bars, one line each. The horizontal axis has the events of these operations
in their order, not to scale::

    c1 write 1  |----|          ok      0..3
    c2 write 2        |----|    ok      4..6
    c3 read          |-------|  = 1     3..9

A bar without an end (``|---?``) is an operation of unknown outcome. The figures at the right are the
recorded times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from motet.errors import BadHistory
from motet.verify.history.operation import (
    FOREVER,
    Event,
    Failed,
    Invoke,
    Ok,
    Operation,
    OperationId,
    Outcome,
    Unknown,
    Value,
    from_lines,
    frozen,
    to_lines,
)

_CELL = 3  # columns from one event to the next


def timeline(operations: Iterable[Operation]) -> str:
    """The operations as text, in the order in which they began."""
    drawn = sorted(operations, key=lambda op: op.began)
    moments = sorted({at for op in drawn for at in (op.began, op.ended) if at != FOREVER})
    column = {moment: _CELL * index for index, moment in enumerate(moments)}
    column[FOREVER] = _CELL * len(moments)
    rows = [
        (
            f"{op.process} {op.call}",
            _bar(column[op.began], column[op.ended], open_end=op.ended == FOREVER),
            op.answer,
            f"{op.began_at}..{'' if op.ended_at is None else op.ended_at}",
        )
        for op in drawn
    ]
    widths = [max((len(row[index]) for row in rows), default=0) for index in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )


def _bar(start: int, end: int, *, open_end: bool) -> str:
    return " " * start + "|" + "-" * (end - start - 1) + ("?" if open_end else "|")


# What a checker says: ok, violated with a witness, or unknown. Never ok when it has not looked.

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


class History:
    """All operations of one run, in the order of their invocation."""

    __slots__ = ("events", "keys", "operations")

    def __init__(self, events: Iterable[Event]) -> None:
        """Take events as a recorder has accepted them; ``from_ndjson`` checks events from outside."""
        self.events = tuple(events)
        self.operations = _operations(self.events)
        #: every key, in the order of first use
        self.keys: tuple[Value, ...] = tuple(dict.fromkeys(op.key for op in self.operations))

    @classmethod
    def from_ndjson(cls, data: bytes | str) -> History:
        """Read a history from lines of JSON; raises ``BadHistory`` for what no recorder writes."""
        recorder = Recorder()
        for number, event in from_lines(data):
            try:
                recorder.replay(event)
            except BadHistory as error:
                raise BadHistory(
                    f"line {number} of the history: {error.what}", hint=error.advice
                ) from None
        return recorder.history()

    def to_ndjson(self) -> bytes:
        """The history as lines of JSON, one event each."""
        return to_lines(self.events)

    def __len__(self) -> int:
        return len(self.operations)

    def __str__(self) -> str:
        return timeline(self.operations)


def _operations(events: tuple[Event, ...]) -> tuple[Operation, ...]:
    endings: dict[OperationId, tuple[int, Event]] = {
        event.op: (number, event)
        for number, event in enumerate(events)
        if not isinstance(event, Invoke)
    }
    return tuple(
        _operation(number, event, *endings.get(event.op, (FOREVER, None)))
        for number, event in enumerate(events)
        if isinstance(event, Invoke)
    )


def _operation(began: int, invoke: Invoke, ended: int, ending: Event | None) -> Operation:
    outcome: Outcome = "unknown"
    result: Value = None
    if isinstance(ending, Ok):
        outcome, result = "ok", ending.value
    elif isinstance(ending, Failed):
        outcome = "failed"
    return Operation(
        id=invoke.op,
        process=invoke.process,
        function=invoke.function,
        key=invoke.key,
        value=invoke.value,
        outcome=outcome,
        result=result,
        began=began,
        ended=FOREVER if outcome == "unknown" else ended,
        began_at=invoke.at,
        ended_at=None if ending is None else ending.at,
    )


class Recorder:
    """Takes down what the clients of a system see. See R1 to R4 above."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._invoked = 0
        self._at: int | None = None
        #: process of every open operation
        self._open: dict[OperationId, str] = {}
        #: open operation of a process, or ``None`` once one of its outcomes is unknown
        self._processes: dict[str, OperationId | None] = {}

    def invoke(
        self, process: str, function: str, key: object, value: object, at: int
    ) -> OperationId:
        """A process is about to begin an operation. ``key`` is ``None`` where there is but one object."""
        if process in self._processes:
            raise _busy(process, self._processes[process])
        event = Invoke(
            OperationId(self._invoked), process, function, frozen(key), frozen(value), at
        )
        self._append(event)
        self._invoked += 1
        self._open[event.op] = process
        self._processes[process] = event.op
        return event.op

    def ok(self, op: OperationId, value: object, at: int) -> None:
        """The operation happened and answered ``value`` (``None`` if there is nothing to say)."""
        del self._processes[self._end(Ok(op, frozen(value), at))]

    def failed(self, op: OperationId, at: int) -> None:
        """The operation did not happen and never will. If in doubt, it is unknown."""
        del self._processes[self._end(Failed(op, at))]

    def unknown(self, op: OperationId, at: int) -> None:
        """The operation may have happened, or may happen later. Its process is over (R3)."""
        self._processes[self._end(Unknown(op, at))] = None

    def replay(self, event: Event) -> None:
        """Take an event that was recorded before, under the same rules."""
        match event:
            case Invoke():
                if event.op != self._invoked:
                    raise BadHistory(
                        f"operation {event.op} is invoked where operation {self._invoked} should be",
                        hint="operations are numbered from 0 in the order of their invocation",
                    )
                self.invoke(event.process, event.function, event.key, event.value, event.at)
            case Ok():
                self.ok(event.op, event.value, event.at)
            case Failed():
                self.failed(event.op, event.at)
            case Unknown():
                self.unknown(event.op, event.at)

    def history(self) -> History:
        """What has been recorded so far; the recorder may go on."""
        return History(self._events)

    def _end(self, event: Ok | Failed | Unknown) -> str:
        if event.op not in self._open:
            known = 0 <= event.op < self._invoked
            raise BadHistory(
                f"operation {event.op} " + ("has ended before" if known else "was never invoked"),
                hint="an operation ends once, with the id that invoke() gave for it",
            )
        self._append(event)
        return self._open.pop(event.op)

    def _append(self, event: Event) -> None:
        if self._at is not None and event.at < self._at:
            raise BadHistory(
                f"time went back from {self._at} to {event.at}",
                hint="give virtual time or monotonic nanoseconds, read when the recorder is told",
            )
        self._at = event.at
        self._events.append(event)


def _busy(process: str, op: OperationId | None) -> BadHistory:
    if op is None:
        return BadHistory(
            f"process {process} has an operation of unknown outcome, which may still be running",
            hint=f"go on as a new process, for instance {process}+1",
        )
    return BadHistory(
        f"process {process} still has operation {op} open",
        hint="a process is sequential: end its operation first, or use one name for each client",
    )
