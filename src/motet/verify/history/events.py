"""The events of an operation's life, and their form as lines of JSON.

An operation is invoked, and ends in one of three outcomes: *ok* (it happened, here is the answer),
*failed* (it did not happen and never will) or *unknown* (it may have happened, or may happen later).
A history file has one event per line, in the order in which the recorder was told::

    {"event":"invoke","op":0,"process":"c1","function":"write","key":"x","value":1,"at":10}
    {"event":"ok","op":0,"value":null,"at":14}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NewType, TypeAlias

import msgspec

from motet.errors import BadHistory

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
