"""Files in which nodes have written what they do: to shards, their metadata, and the keeper's replicas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from motet import limits
from motet.errors import BadInput
from motet.verify.trace.lines import malformed

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
