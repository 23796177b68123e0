"""The option ``where``: conditions in the words of SQL, joined by ``and``, that are part of what is loaded.

::

    sku = 'a' and qty >= 2 and day in ('2026-01-05', '2026-01-06') and name like 'n-%' and at is not null

Only rows that meet them are read, and ranges of rows in which none can are skipped. A value is written
as a number, ``true``, ``false``, ``x'05'``, or a text in quotes, which also stands for dates
(``'2026-01-05'``) and times (``'2026-01-05T12:00:00Z'``), as the column wants it.

Filters that Spark pushes become the same conditions, where both mean exactly the same (see
``motet.pipeline.register`` for why they are not always pushed). What is not translated is left to Spark:
paths into structs, and values that the column cannot hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark

from motet.columnar import filters as ours
from motet.errors import BadInput

_TOKEN = re.compile(
    r"\s*(?:[xX]'(?P<hex>[0-9a-fA-F]*)'|'(?P<text>(?:[^']|'')*)'|`(?P<quoted>[^`]+)`"
    r"|(?P<name>[^\W\d]\w*)|(?P<number>[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
    r"|(?P<sign><=|>=|<>|!=|[=<>(),]))"
)
_COMPARISONS: dict[str, type[ours.Comparison]] = {
    "=": ours.Equal,
    "<": ours.Less,
    "<=": ours.LessOrEqual,
    ">": ours.Greater,
    ">=": ours.GreaterOrEqual,
}

Token = tuple[str, str]
END: Token = ("end", "")


def parse_where(text: str, schema: pa.Schema) -> list[ours.Filter]:
    """The conditions on rows of this schema; ``BadInput`` says what is wrong with them."""
    parser = _Parser(text, schema)
    found = [parser.condition()]
    while parser.takes("and"):
        found.append(parser.condition())
    if parser.token != END:
        raise parser.refusal("and, or the end")
    return found


class _Parser:
    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self._place = 0
        self.token = self._next()

    def condition(self) -> ours.Filter:
        column = self._column()
        if self.takes("is"):
            is_not = self.takes("not")
            self._need("null")
            return ours.IsNotNull(column) if is_not else ours.IsNull(column)
        is_not = self.takes("not")
        made = self._test(column, is_not)
        if not ours.can_filter(made, self._schema):
            kind = self._schema.field(column).type
            raise BadInput(f"option where: column {column}, {kind}, cannot be compared like that")
        return ours.Not(made) if is_not else made

    def _test(self, column: str, is_not: bool) -> ours.Filter:
        if self.takes("in"):
            self._need("(")
            values = [self._value(column)]
            while self.takes(","):
                values.append(self._value(column))
            self._need(")")
            return ours.In(column, tuple(values))
        if self.takes("like"):
            return self._like(column)
        if not is_not:
            if self.takes("<>") or self.takes("!="):
                return ours.Not(ours.Equal(column, self._value(column)))
            for sign, kind in _COMPARISONS.items():
                if self.takes(sign):
                    return kind(column, self._value(column))
        raise self.refusal("a comparison")

    def _like(self, column: str) -> ours.Filter:
        kind, pattern = self._take()
        body = pattern.strip("%")
        if kind != "text" or "%" in body or "_" in body or "\\" in body:
            raise BadInput(
                f"option where: like {pattern[:40]!r} is more than can be looked for",
                hint="like 'a%', '%a' or '%a%'; leave the rest to a filter of Spark",
            )
        starts, ends = not pattern.startswith("%"), not pattern.endswith("%")
        if starts and ends:
            return ours.Equal(column, body)
        if starts:
            return ours.StartsWith(column, body)
        return ours.EndsWith(column, body) if ends else ours.Contains(column, body)

    def _column(self) -> str:
        kind, name = self._take()
        if kind not in ("name", "quoted"):
            raise self.refusal("the name of a column", name)
        if self._schema.get_field_index(name) < 0:
            raise BadInput(
                f"option where: there is no column {name}",
                hint=f"the columns are {', '.join(self._schema.names)}",
            )
        return name

    def _value(self, column: str) -> object:
        token = self._take()
        kind = self._schema.field(column).type
        try:
            return _converted(token, kind)
        except (ValueError, InvalidOperation):
            raise BadInput(
                f"option where: {token[1][:60]!r} is not a value of column {column}, {kind}"
            ) from None

    def takes(self, word: str) -> bool:
        """Whether this is the next word; then it is taken."""
        kind, text = self.token
        if kind not in ("name", "sign") or text.lower() != word:
            return False
        self._take()
        return True

    def _need(self, word: str) -> None:
        if not self.takes(word):
            raise self.refusal(word)

    def refusal(self, wanted: str, found: str | None = None) -> BadInput:
        """What is wrong with the next word, or with one that was taken already."""
        shown = (self.token[1] if found is None else found)[:40] or "the end"
        return BadInput(
            f"option where: {shown!r} stands where {wanted} should be",
            hint="conditions joined by and: sku = 'a' and qty >= 2",
        )

    def _take(self) -> Token:
        taken = self.token
        self.token = self._next()
        return taken

    def _next(self) -> Token:
        match = _TOKEN.match(self._text, self._place)
        if match is None:
            rest = self._text[self._place :].strip()
            if rest:
                raise BadInput(f"option where: cannot read {rest[:40]!r}")
            return END
        self._place = match.end()
        assert match.lastgroup is not None
        text = match[match.lastgroup]
        return match.lastgroup, text.replace("''", "'") if match.lastgroup == "text" else text


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _local_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError(text)
    return moment


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment


#: whether a column's type is this one, how its values are written, and what they become
_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], str, Callable[[str], object]], ...] = (
    (pa.types.is_boolean, "name", _truth),
    (pa.types.is_integer, "number", int),
    (pa.types.is_floating, "number", float),
    (pa.types.is_decimal, "number", Decimal),
    (pa.types.is_string, "text", str),
    (pa.types.is_binary, "hex", bytes.fromhex),
    (pa.types.is_date, "text", date.fromisoformat),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, "text", _local_time),
    (pa.types.is_timestamp, "text", _moment),
)


def _converted(token: Token, kind: pa.DataType) -> object:
    """A literal as the column's type has its values."""
    for fits, literal, convert in _CONVERSIONS:
        if fits(kind) and token[0] == literal:
            return convert(token[1])
    raise ValueError(token[1])


_WITH_VALUE: dict[type[spark.Filter], Callable[[str, Any], ours.Filter]] = {
    spark.EqualTo: ours.Equal,
    spark.EqualNullSafe: ours.SameOrBothNull,
    spark.LessThan: ours.Less,
    spark.LessThanOrEqual: ours.LessOrEqual,
    spark.GreaterThan: ours.Greater,
    spark.GreaterThanOrEqual: ours.GreaterOrEqual,
    spark.StringStartsWith: ours.StartsWith,
    spark.StringEndsWith: ours.EndsWith,
    spark.StringContains: ours.Contains,
}


def translated(given: spark.Filter, schema: pa.Schema) -> ours.Filter | None:
    """Our filter that keeps the same rows; None if there is none."""
    made = _translated(given)
    return made if made is not None and ours.can_filter(made, schema) else None


def _translated(given: spark.Filter) -> ours.Filter | None:
    if isinstance(given, spark.Not):
        inner = _translated(given.child)
        return None if inner is None else ours.Not(inner)
    path: tuple[str, ...] = getattr(given, "attribute", ())
    if len(path) != 1:
        return None
    if isinstance(given, spark.IsNull):
        return ours.IsNull(path[0])
    if isinstance(given, spark.IsNotNull):
        return ours.IsNotNull(path[0])
    if isinstance(given, spark.In):
        return ours.In(path[0], tuple(given.value))
    kind = _WITH_VALUE.get(type(given))
    return None if kind is None else kind(path[0], getattr(given, "value", None))
