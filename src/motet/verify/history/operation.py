"""An operation as the checkers see it: one interval with what was asked and what was answered.

The order of a history is the recorder's own: its events are numbered as they come, ``began`` and
``ended`` are such numbers, and one operation precedes another when it ended before the other began.
Everything else is concurrent. The times ``began_at`` and ``ended_at`` are only shown to people, so
equal times do no harm.

A recorded operation carries values that can be hashed, compared and written down: values are ``None``,
booleans, integers, strings, and sequences of values (kept as tuples). Equality is Python's own, so ``True``
and ``1`` are the same value. Floats are refused because NaN is not equal to itself, bytes because they have
no JSON form that comes back as bytes.

An operation is invoked, and ends in one of three outcomes: *ok* (it happened, here is the answer),
*failed* (it did not happen and never will) or *unknown* (it may have happened, or may happen later).
A history file has one event per line, in the order in which the recorder was told::

    {"event":"invoke","op":0,"process":"c1","function":"write","key":"x","value":1,"at":10}
    {"event":"ok","op":0,"value":null,"at":14}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, NewType, TypeAlias, Union

import msgspec

from motet.errors import BadHistory

Value: TypeAlias = Union[bool, int, str, tuple["Value", ...], None]  # noqa: UP007 - it is recursive


def frozen(value: object) -> Value:
    """The value as it is kept: lists become tuples, and sets sorted tuples."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    if isinstance(value, set | frozenset):
        return tuple(sorted((frozen(item) for item in value), key=repr))
    raise BadHistory(
        f"a history cannot keep {value!r} ({type(value).__name__})",
        hint="record None, bool, int, str, or a list, tuple or set of those",
    )


def show(value: Value) -> str:
    """A value for people: sequences in braces, the absent value as ``nothing``."""
    if isinstance(value, tuple):
        return "{" + ", ".join(map(show, value)) + "}"
    return "nothing" if value is None else repr(value)


OperationId = NewType("OperationId", int)
"""One operation of one history, counted from 0 in the order of invocation."""


class Invoke(msgspec.Struct, frozen=True, tag="invoke", tag_field="event"):
    """A process begins an operation: about to be sent, not yet sent."""

    op: OperationId
    process: str
    function: str
    key: Any
    value: Any
    at: int


class Ok(msgspec.Struct, frozen=True, tag="ok", tag_field="event"):
    """The operation happened, and answered ``value``."""

    op: OperationId
    value: Any
    at: int


class Failed(msgspec.Struct, frozen=True, tag="failed", tag_field="event"):
    """The operation did not happen and never will."""

    op: OperationId
    at: int


class Unknown(msgspec.Struct, frozen=True, tag="unknown", tag_field="event"):
    """Nobody can say: it may have happened, may happen later, or never."""

    op: OperationId
    at: int


Event: TypeAlias = Invoke | Ok | Failed | Unknown

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)


def to_lines(events: Iterable[Event]) -> bytes:
    """The events as NDJSON, one per line."""
    return _encoder.encode_lines(events)


def from_lines(data: bytes | str) -> Iterator[tuple[int, Event]]:
    """The events of an NDJSON text with the numbers of their lines; blank lines are passed over."""
    lines = (data.encode() if isinstance(data, str) else data).split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, _decoder.decode(line)
            except msgspec.MsgspecError as error:
                raise BadHistory(f"line {number} of the history is no event: {error}") from error


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
