"""What a recorded operation may carry: plain values that can be hashed, compared and written down.

Values are ``None``, booleans, integers, strings, and sequences of values (kept as tuples). Equality
is Python's own, so ``True`` and ``1`` are the same value. Floats are refused because NaN is not
equal to itself, bytes because they have no JSON form that comes back as bytes.
"""

from __future__ import annotations

from typing import TypeAlias, Union

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
