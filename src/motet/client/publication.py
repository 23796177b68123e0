"""What becomes visible together, and how it is said: tokens, staged parts, the outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from motet.core.clock.hlc import Clock
from motet.core.tables.messages import PublishDone
from motet.core.tables.part_name import PartName
from motet.core.tables.records import InsertToken, StagedPart, WriterStep
from motet.errors import BadInput
from motet.ids import TableName
from motet.limits import name_length_max


@dataclass(frozen=True, slots=True)
class Publication:
    """Parts that became visible together."""

    #: since when
    clock: Clock
    parts: tuple[PartName, ...]
    #: it had been done before; this time nothing was changed
    duplicate: bool
    rows: int


def publication_of(done: PublishDone, parts: Iterable[StagedPart]) -> Publication:
    """What a node said about these parts."""
    rows = 0 if done.duplicate else sum(part.rows for part in parts)
    return Publication(done.clock, done.names, done.duplicate, rows)


def token_of_table(table: TableName, token: object) -> InsertToken | None:
    """A caller's token as it travels: text, or a pair as streams have it."""
    if token is None:
        return None
    if isinstance(token, tuple) and len(token) == 2:
        token = f"{token[0]}:{token[1]}"
    if not isinstance(token, str) or not 0 < len(token) <= name_length_max:
        raise BadInput(f"the token of an insert is text of 1 to {name_length_max} characters")
    return InsertToken(table, token)


def checked_parts(parts: object) -> tuple[StagedPart, ...]:
    """Staged parts as a caller hands them in: one, several, or the lists that ``stage`` gave."""
    if isinstance(parts, StagedPart):
        return (parts,)
    if not isinstance(parts, Iterable) or isinstance(parts, str | bytes):
        raise BadInput(f"{type(parts).__name__} is not what `stage` gives back")
    return tuple(part for each in parts for part in checked_parts(each))


def checked_step(step: object) -> WriterStep | None:
    """The step of an ordered writer as a caller hands it in."""
    if step is not None and not isinstance(step, WriterStep):
        raise BadInput(f"{type(step).__name__} is not a writer's step")
    return step
