"""Typed rows: Python values in, JSON text on the log, the same Python values out.

A row of a typed stream is kept as JSON like any other, so that it can be read without the schema. Whatever
JSON has no word for is text: a timestamp in ISO 8601 with microseconds (and ``Z`` for UTC), a date in ISO
8601, a decimal with all digits of its scale, binary in base64. All columns are there, in the schema's order.

Values are taken strictly: what comes back equals what went in, or it is refused and ``BadSchema`` names the
column. Reading is just as strict, because raw entries are anybody's bytes.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from motet.columnar.schema import decode_schema
from motet.errors import BadSchema

Convert = Callable[[Any], Any]
"""One value that is not None, turned into what is kept or back."""


class RowCodec:
    """The rows of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        both = _struct_of(schema, "")
        self._encode, self._decode = both.encode, both.decode

    def encode(self, row: object) -> bytes:
        """A row as JSON text."""
        plain = self._encode(row)
        try:
            return _to_json(plain)
        except UnicodeEncodeError:
            raise BadSchema("the row has a lone surrogate, which is no character") from None

    def decode(self, data: bytes) -> dict[str, Any]:
        """The row in its JSON text."""
        try:
            plain = _from_json(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadSchema(f"the row is not JSON: {error}") from None
        row: dict[str, Any] = self._decode(plain)
        return row


@lru_cache(maxsize=1024)
def row_codec(schema: bytes) -> RowCodec:
    """The codec of a schema as ``encode_schema`` made it."""
    return RowCodec(decode_schema(schema))


class _Both(NamedTuple):
    """Into JSON, and back."""

    encode: Convert
    decode: Convert


class _Field(NamedTuple):
    name: str
    path: str
    nullable: bool
    convert: Convert


_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode


def _both_of(kind: pa.DataType, path: str) -> _Both:
    if pa.types.is_struct(kind):
        return _struct_of(kind.fields, path)
    if pa.types.is_list(kind):
        item, is_nullable = _both_of(kind.value_type, path), kind.value_field.nullable
        return _Both(
            _list_of(_Field("", path, is_nullable, item.encode)),
            _list_of(_Field("", path, is_nullable, item.decode)),
        )
    if pa.types.is_integer(kind):
        return _same(_integer_of(kind, path))
    if pa.types.is_floating(kind):
        return _same(_float_of(kind, path))
    if pa.types.is_timestamp(kind):
        return _timestamp_of(kind, path)
    if pa.types.is_decimal(kind):
        return _decimal_of(kind, path)
    make = _PLAIN.get(kind)
    if make is None:
        raise BadSchema(f"the column {path!r} is {kind}, which no row can have")
    return make(path)


def _struct_of(fields: Iterable[pa.Field], path: str) -> _Both:
    encoders, decoders = [], []
    for field in fields:
        inner = f"{path}.{field.name}" if path else field.name
        both = _both_of(field.type, inner)
        encoders.append(_Field(field.name, inner, field.nullable, both.encode))
        decoders.append(_Field(field.name, inner, field.nullable, both.decode))
    return _Both(_dict_of(encoders, path), _dict_of(decoders, path))


def _dict_of(fields: list[_Field], path: str) -> Convert:
    names = {field.name for field in fields}

    def convert(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            what = f"the column {path!r}" if path else "a row"
            raise BadSchema(f"{what} is a dict, not {type(value).__name__}")
        made = {}
        for name, inner, is_nullable, convert_one in fields:
            one = value.get(name)
            if one is not None:
                made[name] = convert_one(one)
            elif is_nullable:
                made[name] = None
            else:
                how = "null" if name in value else "missing"
                raise BadSchema(f"the column {inner!r} is {how}, and it may not be null")
        if not value.keys() <= names:
            unknown = next(name for name in value if name not in names)
            shown = f"{path}.{unknown}" if path else unknown
            raise BadSchema(f"there is no column {shown!r}")
        return made

    return convert


def _list_of(item: _Field) -> Convert:
    def convert(value: object) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise _wrong(item.path, "a list", value)
        if not item.nullable and any(one is None for one in value):
            raise BadSchema(f"the column {item.path!r} has a null in its list, and may not")
        return [None if one is None else item.convert(one) for one in value]

    return convert


def _same(convert: Convert) -> _Both:
    """JSON has this type itself; reading it checks what writing it does."""
    return _Both(convert, convert)


def _bool_of(path: str) -> _Both:
    def convert(value: object) -> bool:
        if not isinstance(value, bool):
            raise _wrong(path, "a bool", value)
        return value

    return _same(convert)


def _integer_of(kind: pa.DataType, path: str) -> Convert:
    high = (1 << (kind.bit_width - 1)) - 1
    low = -high - 1

    def convert(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(path, "an int", value)
        if not low <= value <= high:
            raise BadSchema(f"the column {path!r}: {_shown(value)} does not fit into {kind}")
        return int(value)

    return convert


def _float_of(kind: pa.DataType, path: str) -> Convert:
    is_single = kind.bit_width == 32

    def convert(value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _wrong(path, "a float", value)
        try:
            number = float(value)
            if is_single:
                number = float(_SINGLE.unpack(_SINGLE.pack(number))[0])
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise BadSchema(f"the column {path!r}: {_shown(value)} is no number that {kind} has")
        if isinstance(value, int) and number != value:
            raise BadSchema(f"the column {path!r}: {_shown(value)} is not exact as {kind}")
        return number

    return convert


def _string_of(path: str) -> _Both:
    def convert(value: object) -> str:
        if type(value) is str:
            return value
        if not isinstance(value, str):
            raise _wrong(path, "a str", value)
        return str.__str__(value)  # of a subclass, whatever it prints as

    return _same(convert)


def _binary_of(path: str) -> _Both:
    def encode(value: object) -> str:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise _wrong(path, "bytes", value)
        return base64.b64encode(value).decode()

    def decode(value: object) -> bytes:
        if not isinstance(value, str):
            raise _wrong(path, "base64", value)
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise BadSchema(f"the column {path!r}: {_shown(value)} is not base64") from None

    return _Both(encode, decode)


def _date_of(path: str) -> _Both:
    def encode(value: object) -> str:
        if not isinstance(value, date) or isinstance(value, datetime):
            raise _wrong(path, "a date", value)
        return value.isoformat()

    def decode(value: object) -> date:
        if not isinstance(value, str):
            raise _wrong(path, "a date as text", value)
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise BadSchema(f"the column {path!r}: {_shown(value)} is not a date") from None

    return _Both(encode, decode)


def _timestamp_of(kind: pa.TimestampType, path: str) -> _Both:
    is_utc = kind.tz is not None

    def check(value: datetime) -> datetime:
        if (value.tzinfo is not None) != is_utc or (is_utc and value.utcoffset() is None):
            how = "no time zone" if is_utc else "a time zone"
            raise BadSchema(f"the column {path!r} is {kind}, and {value} has {how}")
        return value if value.tzinfo is UTC or not is_utc else value.astimezone(UTC)

    def encode(value: object) -> str:
        if not isinstance(value, datetime):
            raise _wrong(path, "a datetime", value)
        try:
            text = check(_exact(value)).replace(tzinfo=None).isoformat(timespec="microseconds")
        except (OverflowError, TypeError, ValueError):
            raise BadSchema(f"the column {path!r}: {value} is no instant {kind} has") from None
        return text + "Z" if is_utc else text

    def decode(value: object) -> datetime:
        if not isinstance(value, str):
            raise _wrong(path, "a timestamp as text", value)
        try:
            return check(datetime.fromisoformat(value))
        except (OverflowError, ValueError):
            raise BadSchema(f"the column {path!r}: {_shown(value)} is not a timestamp") from None

    return _Both(encode, decode)


def _exact(value: datetime) -> datetime:
    """A datetime of a library's own may be no time at all, or finer than microseconds."""
    if type(value) is datetime:
        return value
    if getattr(value, "nanosecond", 0):
        raise ValueError("nanoseconds")
    day, time = (value.year, value.month, value.day), (value.hour, value.minute, value.second)
    return datetime(*day, *time, value.microsecond, tzinfo=value.tzinfo, fold=value.fold)


def _decimal_of(kind: pa.Decimal128Type, path: str) -> _Both:
    scale, whole_digits = kind.scale, kind.precision - kind.scale

    def check(number: Decimal) -> Decimal:
        """The same number with all digits of the scale; digit by digit, as a context could round it."""
        if not number.is_finite() or (number and number.adjusted() >= whole_digits):
            raise BadSchema(f"the column {path!r}: {_shown(number)} does not fit into {kind}")
        sign, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int), "it is finite"
        shift = exponent + scale
        if not number:
            return Decimal((0, (0,), -scale))  # zero has any exponent, and a sign that Arrow drops
        if shift == 0:
            return number
        if shift < 0 and any(digits[shift:]):
            raise BadSchema(f"the column {path!r}: {_shown(number)} has more digits than {kind}")
        digits = digits[:shift] if shift < 0 else digits + (0,) * shift
        return Decimal((sign, digits, -scale))

    def encode(value: object) -> str:
        if not isinstance(value, Decimal | int) or isinstance(value, bool):
            raise _wrong(path, "a Decimal", value)
        return format(check(Decimal(value)), "f")

    def decode(value: object) -> Decimal:
        if not isinstance(value, str):
            raise _wrong(path, "a decimal as text", value)
        try:
            number = Decimal(value)
        except ArithmeticError:
            raise BadSchema(f"the column {path!r}: {_shown(value)} is not a decimal") from None
        return check(number)

    return _Both(encode, decode)


_SINGLE = struct.Struct("<f")

_PLAIN: dict[pa.DataType, Callable[[str], _Both]] = {
    pa.bool_(): _bool_of,
    pa.string(): _string_of,
    pa.binary(): _binary_of,
    pa.date32(): _date_of,
}


def _wrong(path: str, wanted: str, value: object) -> BadSchema:
    return BadSchema(f"the column {path!r} is {wanted}, not {type(value).__name__}")


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"  # Python may refuse to print it
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:60] + "…"
