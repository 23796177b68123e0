"""Messages that no machine of ours would send: any kind, any field at its extremes or at random.

Nothing is written down about a message here: kinds are the members of the union that a machine decodes, and
what a field may hold is read off its type. Whatever is made is put on the wire and decoded again, since only
that can arrive.

``NONSENSE`` has something in it that makes no sense: a number that nothing reaches, a checksum of nothing, a
name of nobody. It must have no effect. ``LIES`` make sense and are not true; what a machine believes of a lie
is its own affair, but it must live.
"""

from __future__ import annotations

import random
import typing
from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec
from msgspec import inspect

from motet.core.machine import Message
from motet.core.vsr.header import Header, sealed
from motet.core.vsr.messages import Request, sealed_request

NONSENSE, LIES = "nonsense", "lies"

ABSURD = (
    2**64 - 1,
    2**63,
    2**63 - 1,
    2**62 + 1,
    2**53,
    2**48,
    -1,
    -2,
    -(2**31),
    -(2**63),
)
"""Numbers that no count of ours comes to."""

PLAUSIBLE = (0, 1, 2, 3, 7, 12, 100, 2**16, 2**31, 2**32)

samples_max = 24
"""Real messages of one kind that are remembered."""

depth_max = 6


def kinds_of(union: object) -> tuple[type[Message], ...]:
    """The kinds that a machine decodes."""
    return typing.get_args(union) or (typing.cast("type[Message]", union),)


class Wire:
    """What of a message arrives on the other side; None when that side refuses the bytes."""

    def __init__(self, union: object) -> None:
        self._decode = msgspec.msgpack.Decoder(union).decode

    def passed(self, message: Message) -> Message | None:
        try:
            return typing.cast("Message", self._decode(msgspec.msgpack.encode(message)))
        except (msgspec.MsgspecError, OverflowError, UnicodeEncodeError):
            return None


class Forger:
    """Makes them, from nothing or out of messages that it has heard."""

    def __init__(self, union: object, dice: random.Random, mode: str) -> None:
        self.kinds = kinds_of(union)
        self.mode = mode
        self._dice = dice
        self._wire = Wire(union)
        self._heard: dict[type[Message], list[Message]] = {}
        #: field -> values that it had in real messages
        self._values: dict[str, list[Any]] = {}
        self.made: dict[type[Message], int] = dict.fromkeys(self.kinds, 0)

    def hear(self, message: Message) -> None:
        """A real message, to be changed a little later on."""
        if type(message) not in self.made:
            return
        heard = self._heard.setdefault(type(message), [])
        if len(heard) < samples_max:
            heard.append(message)
        elif self._dice.random() < 0.05:
            heard[self._dice.randrange(samples_max)] = message
        else:
            return
        self._note_values(message)

    def _note_values(self, struct: msgspec.Struct) -> None:
        for name in struct.__struct_fields__:
            values = self._values.setdefault(name, [])
            if len(values) < samples_max:
                values.append(getattr(struct, name))
            else:
                values[self._dice.randrange(samples_max)] = getattr(struct, name)

    def forge(self) -> Message | None:
        """The next one; each kind as often as any other."""
        kind = self._dice.choice(self.kinds)
        heard = self._heard.get(kind)
        is_fresh = not heard or self._dice.random() < 0.25
        made = self._fresh(kind) if is_fresh else self._changed(self._dice.choice(heard or []))
        arrived = self._wire.passed(made)
        if arrived is not None:
            self.made[kind] += 1
        return arrived

    # From nothing

    def _fresh(self, kind: type[Message]) -> Message:
        return typing.cast("Message", self._struct(inspect.type_info(kind), 0))

    def _struct(self, info: inspect.Type, depth: int) -> msgspec.Struct:
        assert isinstance(info, inspect.StructType)
        fields = {field.name: self._field(field, depth) for field in info.fields}
        return self._sealed(info.cls(**fields))

    def _field(self, field: inspect.Field, depth: int) -> Any:
        known = self._values.get(field.name)
        if known and self._dice.random() < 0.5:
            return self._dice.choice(known)
        return self._value(field.type, depth + 1)

    def _value(self, info: inspect.Type, depth: int) -> Any:  # noqa: C901 - one case per type
        dice = self._dice
        match info:
            case inspect.IntType():
                return self._number(info)
            case inspect.BoolType():
                return dice.random() < 0.5
            case inspect.FloatType():
                return dice.choice([0.0, -1.0, 1e300, float("inf")])
            case inspect.NoneType():
                return None
            case inspect.StrType():
                return self._text()
            case inspect.BytesType():
                return self._bytes()
            case inspect.LiteralType(values=values):
                return dice.choice(list(values))
            case inspect.EnumType(cls=cls):
                return dice.choice(list(cls))
            case inspect.UnionType(types=types):
                return self._value(dice.choice(list(types)), depth)
            case inspect.StructType():
                return self._struct(info, depth)
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
                count = 0 if depth > depth_max else dice.choice([0, 1, 1, 2, 5])
                found = [self._value(item, depth + 1) for _ in range(count)]
                return found if isinstance(info, inspect.ListType) else tuple(found)
            case inspect.TupleType(item_types=items):
                return tuple(self._value(item, depth + 1) for item in items)
            case inspect.DictType(key_type=key, value_type=value):
                count = 0 if depth > depth_max else dice.choice([0, 1, 3])
                return {
                    self._value(key, depth + 1): self._value(value, depth + 1) for _ in range(count)
                }
            case _:
                raise NotImplementedError(f"a field of type {info}")

    def _number(self, info: inspect.IntType) -> int:
        low, high = info.ge, info.le
        if low is not None and high is not None:
            return self._dice.choice([low, high, high - 1, self._dice.randint(low, high)])
        if self.mode == NONSENSE:
            return self._dice.choice(ABSURD)
        if self._dice.random() < 0.3:
            return self._dice.choice(ABSURD)
        return self._dice.choice([*PLAUSIBLE, self._dice.randint(-(2**20), 2**20)])

    def _text(self) -> str:
        return self._dice.choice(["", "x", "nobody", "/", "\0", "é" * 100, "a" * 5_000])

    def _bytes(self) -> bytes:
        size = self._dice.choice([0, 1, 15, 16, 16, 16, 17, 300])
        return self._dice.randbytes(size)

    # Out of real ones

    def _changed(self, message: Message) -> Message:
        made: Any = message
        for _ in range(self._dice.choice([1, 1, 2, 3])):
            made = self._change(made, inspect.type_info(type(message)), 0)
        return typing.cast("Message", made)

    def _change(self, value: Any, info: inspect.Type, depth: int) -> Any:
        """The same with one thing in it that is another."""
        dice = self._dice
        if isinstance(value, msgspec.Struct) and value.__struct_fields__:
            field = dice.choice(inspect.type_info(type(value)).fields)  # type: ignore[attr-defined]
            old = getattr(value, field.name)
            new = self._change(old, field.type, depth + 1)
            return self._sealed(msgspec.structs.replace(value, **{field.name: new}))
        if isinstance(value, tuple) and value and dice.random() < 0.7:
            return self._change_list(value, info, depth)
        if isinstance(value, Enum):
            return dice.choice(list(type(value)))
        return self._value(info, depth)

    def _change_list(self, value: tuple[Any, ...], info: inspect.Type, depth: int) -> Any:
        dice, items = self._dice, list(value)
        place = dice.randrange(len(items))
        how = dice.choice(["one", "one", "drop", "double", "reverse"])
        if isinstance(info, inspect.UnionType):
            info = next((t for t in info.types if not isinstance(t, inspect.NoneType)), info)
        if how == "one" or isinstance(info, inspect.TupleType):
            item = (
                info.item_types[place] if isinstance(info, inspect.TupleType) else _item_type(info)
            )
            items[place] = self._change(items[place], item, depth + 1)
        elif how == "drop":
            del items[place]
        elif how == "double":
            items.insert(place, items[place])
        else:
            items.reverse()
        return tuple(items)

    def _sealed(self, made: msgspec.Struct) -> msgspec.Struct:
        """Most often with the checksum that goes with it: else nobody would look any further."""
        if self._dice.random() < 0.2:
            return made
        try:
            if isinstance(made, Header):
                return sealed(made)
            if isinstance(made, Request):
                return sealed_request(made)
        except OverflowError:
            pass
        return made


def _item_type(info: inspect.Type) -> inspect.Type:
    assert isinstance(info, inspect.VarTupleType | inspect.ListType), info
    return info.item_type


def never_made(forgers: Sequence[Forger]) -> list[str]:
    """The kinds of which none has arrived anywhere."""
    made: dict[str, int] = {}
    for forger in forgers:
        for kind, count in forger.made.items():
            made[kind.__name__] = made.get(kind.__name__, 0) + count
    return [name for name, count in made.items() if not count]
