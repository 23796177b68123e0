"""What a state is made of: frozen records of plain values, and how people get to read them."""

from __future__ import annotations

from typing import Any, Self

import msgspec
from msgspec.structs import replace


class Record(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A frozen record. Its fields are ints, bools, strings, tuples, frozensets and other records.

    Nothing in it may be mutable: states are shared between the frontier, the trace and the checkers.
    """

    def but(self, **changes: Any) -> Self:
        """The same record with these fields changed; the rest is unchanged."""
        return replace(self, **changes)

    def __str__(self) -> str:
        return show(self)


def show(value: object) -> str:
    """A value as a person would write it: records by field, sets in order."""
    if isinstance(value, msgspec.Struct):
        fields = " ".join(f"{name}={show(item)}" for name, item in _fields(value))
        return f"({fields})"
    if isinstance(value, frozenset):
        return "{" + ", ".join(show(item) for item in sorted(value)) + "}"
    if isinstance(value, tuple):
        return "<" + ", ".join(show(item) for item in value) + ">"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def changes(before: object, after: object, path: str = "") -> list[str]:
    """What differs between two values, each difference on a line of its own, by path."""
    if before == after:
        return []
    if type(before) is type(after):
        if isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct):
            dot = "." if path else ""
            return [
                line
                for (name, old), (_, new) in zip(_fields(before), _fields(after), strict=True)
                for line in changes(old, new, f"{path}{dot}{name}")
            ]
        if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
            return [
                line
                for index, (old, new) in enumerate(zip(before, after, strict=True))
                for line in changes(old, new, f"{path}[{index}]")
            ]
        if isinstance(before, tuple) and isinstance(after, tuple):
            return [_longer(before, after, path)]
        if isinstance(before, frozenset) and isinstance(after, frozenset):
            signs = [f"- {show(item)}" for item in sorted(before - after)]
            signs += [f"+ {show(item)}" for item in sorted(after - before)]
            return [f"{path}: {', '.join(signs)}"]
    return [f"{path}: {show(before)} → {show(after)}"]


def _longer(before: tuple[object, ...], after: tuple[object, ...], path: str) -> str:
    if after[: len(before)] == before:
        return f"{path}: + {', '.join(show(item) for item in after[len(before) :])}"
    gone = [item for item in before if item not in after]
    new = [item for item in after if item not in before]
    signs = [f"- {show(item)}" for item in gone] + [f"+ {show(item)}" for item in new]
    return f"{path}: " + (", ".join(signs) or f"{show(before)} → {show(after)}")


def _fields(record: msgspec.Struct) -> list[tuple[str, object]]:
    return [(name, getattr(record, name)) for name in record.__struct_fields__]
