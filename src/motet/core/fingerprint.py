"""A canonical digest and a copy of plain state, for machines that want both without writing them out.

Two states get one fingerprint exactly if they are equal, in every process: dicts and sets are sorted
by their encoded keys, structs carry their type's name, and nothing depends on ``hash()`` or on the
order of insertion.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar, cast

import msgspec

T = TypeVar("T")

_encode = msgspec.msgpack.Encoder().encode
_DICT, _SET, _STRUCT = 1, 2, 3  # kinds of their own: no list can be mistaken for a dict
_SCALARS = (int, str, bytes, bool, type(None))


def fingerprint(state: object) -> bytes:
    """16 bytes that are equal for equal plain states."""
    return hashlib.blake2b(_encode(_canonical(state)), digest_size=16).digest()


def clone_plain(value: T) -> T:
    """Copy the containers of a plain state and share what cannot change."""
    return cast("T", _clone(value))


def _canonical(value: object) -> object:
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, dict):
        pairs = [(_encode(_canonical(key)), _canonical(item)) for key, item in value.items()]
        return _tagged(_DICT, sorted(pairs, key=lambda pair: pair[0]))
    if isinstance(value, set | frozenset):
        return _tagged(_SET, sorted(_encode(_canonical(item)) for item in value))
    if isinstance(value, msgspec.Struct):
        fields = [_canonical(getattr(value, name)) for name in value.__struct_fields__]
        return _tagged(_STRUCT, [type(value).__name__, fields])
    raise TypeError(f"state must be plain data, and {type(value).__name__} is not")


def _tagged(kind: int, value: object) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(kind, _encode(value))


def _clone(value: object) -> object:
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, list):
        return [_clone(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_clone(item) for item in value)
    if isinstance(value, dict):
        return {key: _clone(item) for key, item in value.items()}  # keys cannot change
    if isinstance(value, set):
        return set(value)
    if isinstance(value, frozenset):
        return value
    if isinstance(value, msgspec.Struct):
        if type(value).__struct_config__.frozen:
            return value  # by the rule of the house a frozen struct holds only what is frozen too
        return type(value)(*[_clone(getattr(value, name)) for name in value.__struct_fields__])
    raise TypeError(f"state must be plain data, and {type(value).__name__} is not")
