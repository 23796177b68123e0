"""The lines of a trace: read from a file, and refused by their number when they make no sense."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from motet import limits
from motet.errors import BadInput


class TraceLine(msgspec.Struct, frozen=True):
    """One step of a system: the action, what is known of its arguments, and what was seen after it."""

    action: str | None = None
    arguments: dict[str, Any] = msgspec.field(default_factory=dict, name="with")
    state: dict[str, Any] = msgspec.field(default_factory=dict)
    #: in its file, counted from one
    number: int = 0
    #: of several files
    file: str = ""


class Header(msgspec.Struct, frozen=True):
    """What a trace says of itself."""

    model: str | None = None
    settings: dict[str, int] = msgspec.field(default_factory=dict, name="set")


def read_trace(lines: Iterable[bytes]) -> tuple[Header, Iterator[TraceLine]]:
    """The header, empty if there is none, and the steps as they are read."""
    numbered = ((n, line) for n, line in enumerate(lines, start=1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise BadInput("the trace is empty", hint="write one JSON object on each line")
    number, line = first
    document = _object(number, line)
    if "model" in document or "set" in document:
        return _header(number, line), (_step(n, each) for n, each in numbered)
    return Header(), _chain(_step(number, line), numbered)


def _chain(first: TraceLine, rest: Iterator[tuple[int, bytes]]) -> Iterator[TraceLine]:
    yield first
    for number, line in rest:
        yield _step(number, line)


def _header(number: int, line: bytes) -> Header:
    try:
        return msgspec.json.decode(line, type=Header)
    except msgspec.MsgspecError as error:
        raise malformed(number, error) from None


def _object(number: int, line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise malformed(number, error) from None


def _step(number: int, line: bytes) -> TraceLine:
    if len(line) > limits.trace_line_bytes_max:
        raise BadInput(
            f"line {number} of the trace has {len(line):,} bytes",
            hint=f"at most {limits.trace_line_bytes_max:,} are read",
        )
    try:
        step = msgspec.json.decode(line, type=TraceLine)
    except msgspec.MsgspecError as error:
        raise malformed(number, error) from None
    if step.action is None and not step.state:
        raise BadInput(
            f"line {number} of the trace says nothing", hint='give it an "action" or a "state"'
        )
    return msgspec.structs.replace(step, number=number)


def malformed(number: int, error: Exception, *, of: str = "") -> BadInput:
    """A line that makes no sense."""
    return BadInput(
        f"line {number} of the trace{of} is malformed: {error}",
        hint="each line is one JSON object, as the guide on verifying describes",
    )


# Files in which nodes have written what they do: to shards, their metadata, and the keeper's replicas.

L = TypeVar("L")

METADATA, SHARD, REPLICA = "metadata", "shard", "replica"
"""By which field a line is known, the first that it has."""


class Found(NamedTuple, Generic[L]):
    """A line, and where it stands."""

    file: str
    number: int
    line: L


def kind_of(document: object) -> str | None:
    """What a line is about, if a node has written it."""
    if not isinstance(document, dict) or "node" not in document:
        return None
    return next((kind for kind in (METADATA, SHARD, REPLICA) if kind in document), None)


def read_lines(files: Sequence[Path], kind: str, line_type: type[L]) -> list[Found[L]]:
    """All lines of a kind, file by file; one that is of no kind is refused by its number."""
    found: list[Found[L]] = []
    for file in files:
        with file.open("rb") as content:
            for number, text in enumerate(content, start=1):
                if not text.strip():
                    continue
                document = _document(file, number, text)
                if kind_of(document) in (kind, None):
                    found.append(Found(file.name, number, _line(file, number, document, line_type)))
    return found


def _document(file: Path, number: int, text: bytes) -> Any:
    if len(text) > limits.trace_line_bytes_max:
        raise BadInput(
            f"line {number} of the trace {file.name} has {len(text):,} bytes",
            hint=f"at most {limits.trace_line_bytes_max:,} are read",
        )
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise malformed(number, error, of=f" {file.name}") from None


def _line(file: Path, number: int, document: Any, line_type: type[L]) -> L:
    try:
        return msgspec.convert(document, line_type, str_keys=True)
    except msgspec.MsgspecError as error:
        raise malformed(number, error, of=f" {file.name}") from None
