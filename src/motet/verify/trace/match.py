"""Whether a state is what a line saw, and if not, where it differs.

A line sees as much as it says: of a record the named fields, of a sequence the numbered places, or else the
whole value, with sets and sequences as JSON arrays.
"""

from __future__ import annotations

from typing import Any

import msgspec

from motet.verify.model.record import show


def difference(seen: Any, value: object, path: str = "") -> str | None:
    """Where and how a value is not what was seen; ``None`` if it is."""
    if isinstance(seen, dict):
        return _inside(seen, value, path)
    return None if _is(seen, value) else f"{path} is {show(value)}"


def _inside(seen: dict[str, Any], value: object, path: str) -> str | None:
    for key, part in seen.items():
        where = f"{path}.{key}" if path else key
        if isinstance(value, msgspec.Struct) and key in value.__struct_fields__:
            found = difference(part, getattr(value, key), where)
        elif isinstance(value, tuple) and key.isdigit() and int(key) < len(value):
            found = difference(part, value[int(key)], where)
        else:
            return f"there is no {where}"
        if found is not None:
            return found
    return None


def _is(seen: Any, value: object) -> bool:
    """Whether a JSON value is this one; the members of a set may come in any order."""
    if isinstance(seen, dict):
        return _inside(seen, value, "") is None
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        fields = tuple(getattr(value, name) for name in value.__struct_fields__)
        value = fields if tag is None else (tag, *fields)
    if not isinstance(value, tuple | frozenset):
        return bool(seen == value)
    if not isinstance(seen, list) or len(seen) != len(value):
        return False
    if isinstance(value, frozenset):
        return all(any(_is(each, item) for each in seen) for item in value)
    return all(_is(each, item) for each, item in zip(seen, value, strict=True))
