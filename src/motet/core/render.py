"""Messages and other plain structs as one short line, the same in traces, golden scripts and logs."""

from __future__ import annotations

import msgspec

_BYTES_SHOWN_MAX = 16


def render(value: object) -> str:
    """``TypeName field=value …``; long bytes shortened, ``str()`` where a type defines its own."""
    if not isinstance(value, msgspec.Struct):
        return _field(value)
    fields = [f"{name}={_field(getattr(value, name))}" for name in value.__struct_fields__]
    return " ".join([type(value).__name__, *fields])


def _field(value: object) -> str:
    if isinstance(value, bytes):
        shown = value[:_BYTES_SHOWN_MAX]
        text = shown.decode() if shown.isascii() and shown.decode().isprintable() else shown.hex()
        return text if len(value) <= _BYTES_SHOWN_MAX else f"{text}…{len(value)}B"
    if isinstance(value, msgspec.Struct) and type(value).__str__ is object.__str__:
        return f"<{render(value)}>"
    if isinstance(value, list | tuple):
        return "[" + " ".join(_field(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + " ".join(f"{_field(k)}:{_field(v)}" for k, v in value.items()) + "}"
    return str(value)
