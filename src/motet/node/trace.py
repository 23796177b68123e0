"""A recorded run of a node's machines, and its replay.

A step is a function of state and event (E8), so the events of a run are the run. A trace is a file of
one JSON object per line: the machine's name, the event as it was, and a digest of the effects. Replaying
it steps a fresh machine through the same events and compares the digests: the first line that differs
is where the machine is not deterministic, or not the machine that was recorded.

Bytes are base64 as everywhere in JSON. A line ``Started`` begins a new incarnation, so a trace may span
restarts of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import msgspec

from motet.core.fingerprint import fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Machine,
    Message,
    Now,
    ReadBack,
    ReadFailed,
    Received,
    Started,
    WriteFailed,
    Written,
)
from motet.errors import BadInput
from motet.ids import Address


class TraceLine(msgspec.Struct, frozen=True):
    """One step of one machine."""

    machine: str
    event: msgspec.Raw
    #: of the effects, in hexadecimal
    digest: str


class Divergence(msgspec.Struct, frozen=True):
    """The first line at which a replay did something else than the recorded run."""

    line: int
    event: Event
    effects: list[Effect]


class Replayed(msgspec.Struct, frozen=True):
    """What came of a replay; a divergence is its last step."""

    steps: int
    divergence: Divergence | None


class _Received(msgspec.Struct, frozen=True, tag="Received"):
    """``Received`` with the message still as text: only the machine's own union can read it."""

    now: Now
    sender: Address
    message: msgspec.Raw
    is_followed: bool = False


_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(TraceLine).decode
_decode_event: Callable[[msgspec.Raw], Any] = msgspec.json.Decoder(
    Started | _Received | Written | WriteFailed | ReadBack | ReadFailed | Fired
).decode


def effects_digest(effects: list[Effect]) -> str:
    """Equal for equal lists of effects, in every process."""
    return fingerprint(effects).hex()


class TraceWriter:
    """Appends every step to a file; a driver's recorder.

    Lines reach the file in whole, at the latest at ``close``. A trace is for looking at afterwards: it is
    not synced, and costs more than the step it records.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, machine: str, event: Event, effects: list[Effect]) -> None:
        line = TraceLine(machine, msgspec.Raw(_encode(event)), effects_digest(effects))
        self._file.write(_encode(line) + b"\n")

    def close(self) -> None:
        self._file.close()


def replay(
    lines: Iterable[bytes], name: str, make_machine: Callable[[], Machine], messages: object
) -> Replayed:
    """Step fresh machines through the lines of the machine of this name, up to the first divergence."""
    decode_message: Callable[[msgspec.Raw], Message] = msgspec.json.Decoder(messages).decode
    machine: Machine | None = None
    steps = 0
    for number, text in enumerate(lines, start=1):
        try:
            line = _decode_line(text)
            if line.machine != name:
                continue
            event = _read_event(line, decode_message)
        except msgspec.MsgspecError as error:
            raise BadInput(
                f"line {number} is no line of a trace of {name}: {error}",
                hint="replay a file written by a node with debug.trace set",
            ) from None
        if isinstance(event, Started):
            machine = make_machine()
        if machine is None:
            raise BadInput(
                f"line {number}: {name} does not begin with Started",
                hint="replay the trace from its beginning",
            )
        effects = machine.step(event)
        steps += 1
        if effects_digest(effects) != line.digest:
            return Replayed(steps, Divergence(number, event, effects))
    return Replayed(steps, None)


def _read_event(line: TraceLine, decode_message: Callable[[msgspec.Raw], Message]) -> Event:
    event: Event | _Received = _decode_event(line.event)
    if isinstance(event, _Received):
        message = decode_message(event.message)
        return Received(event.now, event.sender, message, event.is_followed)
    return event
