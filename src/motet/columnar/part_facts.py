"""What a manifest says of the values in a part, and what can be told from it.

Values are written as JSON has them: numbers and booleans as they are; times, decimals, infinity and NaN as
text; bytes in base64. Whoever reads them knows the type of the column, and makes them values again. Text and
bytes are cut to 64 characters; the upper bound is then the least one of that length that is above.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from motet.columnar.filters import Bounds, Filter, may_be_true
from motet.columnar.part_schema import column_ids, table_schema
from motet.core.metadata.definitions import TableDefinition
from motet.format.part_manifest import Bound, ColumnFacts, PartManifest

text_length_max = 64
"""Of a bound: characters of text, or bytes."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_CHARACTER = chr(0x10FFFF)


def facts_of(definition: TableDefinition, schema: pa.Schema, metadata: Any) -> list[ColumnFacts]:
    """What the footer of a file with this metadata says of its columns."""
    facts = []
    leaf = 0
    for column, field in zip(definition.columns, schema, strict=True):
        if pa.types.is_nested(field.type):
            facts.append(ColumnFacts(column.id, column.name))
        else:
            facts.append(_facts_of(metadata, leaf, column.id, column.name))
        leaf += leaves_of(field.type)
    return facts


def leaves_of(kind: pa.DataType) -> int:
    """How many of Parquet's own columns a column takes."""
    if pa.types.is_struct(kind):
        return sum(leaves_of(field.type) for field in kind.fields)
    return leaves_of(kind.value_type) if pa.types.is_list(kind) else 1


def _facts_of(metadata: Any, leaf: int, column: int, name: str) -> ColumnFacts:
    groups = [metadata.row_group(n).column(leaf) for n in range(metadata.num_row_groups)]
    statistics = [group.statistics for group in groups]
    if any(each is None or not each.has_null_count for each in statistics):
        return ColumnFacts(column, name)
    nulls = sum(each.null_count for each in statistics)
    # A row group of nothing but nulls has no bounds, and widens none.
    valued = [each for each in statistics if each.num_values]
    if not valued or not all(each.has_min_max for each in valued):
        return ColumnFacts(column, name, nulls)
    try:
        low = min(each.min for each in valued)
        high = max(each.max for each in valued)
    except (ValueError, OverflowError):  # a time that Python cannot say
        return ColumnFacts(column, name, nulls)
    low_bound, high_bound = _as_json(_cut(low)), _as_json(_cut_up(high))
    if low_bound is None or high_bound is None:
        return ColumnFacts(column, name, nulls)
    return ColumnFacts(column, name, nulls, low_bound, high_bound)


def _cut(value: Any) -> Any:
    return value[:text_length_max] if isinstance(value, str | bytes) else value


def _cut_up(value: Any) -> Any:
    """The value, or the least short text that is above it; None if there is none."""
    if not isinstance(value, str | bytes) or len(value) <= text_length_max:
        return value
    if isinstance(value, bytes):
        start = value[:text_length_max].rstrip(b"\xff")
        return start[:-1] + bytes([start[-1] + 1]) if start else None
    text = value[:text_length_max].rstrip(_LAST_CHARACTER)
    return text[:-1] + _following(text[-1]) if text else None


def _following(character: str) -> str:
    place = ord(character) + 1
    return chr(0xE000 if 0xD800 <= place < 0xE000 else place)


def _as_json(value: Any) -> Bound:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    made: Bound = msgspec.to_builtins(value)
    return made


def from_json(value: Any, kind: pa.DataType) -> Any:
    """A value of this type from what was made of it; ``ValueError`` if it is none."""
    if value is None or isinstance(value, bool | int):
        return value
    try:
        if pa.types.is_floating(kind):
            return float(value)
        if pa.types.is_decimal(kind):
            return Decimal(value)
        if pa.types.is_timestamp(kind):
            return datetime.fromisoformat(value)
        if pa.types.is_date(kind):
            return date.fromisoformat(value)
        if pa.types.is_binary(kind):
            return base64.b64decode(value, validate=True)
    except (ArithmeticError, binascii.Error, TypeError) as error:
        raise ValueError(str(error)) from None
    return value


def bounds_of(facts: ColumnFacts | None, kind: pa.DataType, rows: int) -> Bounds:
    """What is known of a column of the part; one that it does not have is null in all rows."""
    if facts is None:
        return Bounds(rows, rows, None, None)
    try:
        low, high = from_json(facts.low, kind), from_json(facts.high, kind)
    except ValueError:
        low = high = None
    if low is None or high is None:
        low = high = None
    return Bounds(rows, facts.nulls, low, high)


def may_match(
    definition: TableDefinition, manifest: PartManifest, filters: Sequence[Filter]
) -> bool:
    """Whether a row of the part can pass all filters."""
    if not filters:
        return True
    schema, ids = table_schema(definition), column_ids(definition)
    facts = {each.id: each for each in manifest.columns}
    for each in filters:
        kind = schema.field(each.column).type
        bounds = bounds_of(facts.get(ids[each.column]), kind, manifest.rows)
        try:
            if not may_be_true(each, kind, bounds):
                return False
        except (
            TypeError
        ):  # bounds of another type than the column: whoever wrote them knew better, or lied
            continue
    return True


def comparable_key(text: str, kinds: Sequence[pa.DataType]) -> tuple[Any, ...] | None:
    """A key from its JSON text as something that has the order of keys; None for one that was cut."""
    try:
        values = msgspec.json.decode(text)
        return tuple(_comparable(v, kind) for v, kind in zip(values, kinds, strict=True))
    except (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _comparable(value: Any, kind: pa.DataType) -> tuple[Any, ...]:
    """Null comes first, and no number comes after all others."""
    if value is None:
        return (0,)
    if pa.types.is_struct(kind):
        return (1, *(_comparable(value[field.name], field.type) for field in kind.fields))
    made = from_json(value, kind)
    if isinstance(made, float) and math.isnan(made):
        return (2,)
    if isinstance(made, datetime):
        made = _microseconds(made)
    elif isinstance(made, date):
        made = made.toordinal() - _EPOCH.toordinal()
    return (1, made)


def _microseconds(moment: datetime) -> int:
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
