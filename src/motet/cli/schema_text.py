"""A schema as it is written on the command line: ``sku string not null, qty int, at timestamp``.

Types are called as in SQL, and as Arrow calls them. A list is ``list<int>``, a struct
``struct<sku string, qty int>``, a decimal ``decimal(10,2)``. A timestamp is an instant in UTC;
``timestamp_ntz`` has no time zone. A name that is no plain word stands between double quotes.
"""

from __future__ import annotations

import re
from typing import Any

from motet.client.rows import need_pyarrow
from motet.errors import BadSchema

TYPES = {
    "bool": "bool",
    "boolean": "bool",
    "int8": "int8",
    "tinyint": "int8",
    "int16": "int16",
    "smallint": "int16",
    "int32": "int32",
    "int": "int32",
    "int64": "int64",
    "bigint": "int64",
    "float32": "float32",
    "float": "float32",
    "float64": "float64",
    "double": "float64",
    "string": "string",
    "binary": "binary",
    "date32": "date32",
    "date": "date32",
}
"""Words for types without parameters, and Arrow's own for each."""

_WORD = re.compile(r'\s*(?:([A-Za-z_]\w*|\d+)|"([^"]+)"|([<>(),:])|(\S))')
nesting_max = 16


def parse_schema(text: str) -> Any:
    """The ``pyarrow.Schema`` in a text."""
    need_pyarrow("a schema")
    import pyarrow as pa

    parser = _Parser(text)
    fields = parser.fields(pa, 0)
    parser.expect("")
    return pa.schema(fields)


class _Parser:
    """Reads a text word by word."""

    def __init__(self, text: str) -> None:
        self._words: list[tuple[str, bool]] = []
        for plain, quoted, sign, other in _WORD.findall(text):
            if other:
                raise BadSchema(f"{other!r} has no place in a schema", hint=HINT)
            self._words.append((quoted or plain or sign, bool(quoted)))
        self._words.append(("", False))
        self._next = 0

    def fields(self, pa: Any, depth: int) -> list[Any]:
        """Columns, with commas between them."""
        made = [self._field(pa, depth)]
        while self._take(","):
            made.append(self._field(pa, depth))
        return made

    def expect(self, wanted: str) -> None:
        """The next word is this one; an empty one is the end."""
        found = self._words[self._next][0]
        if not self._take(wanted):
            raise BadSchema(
                f"the schema has {found or 'its end'!r} where {wanted or 'its end'!r} should be",
                hint=HINT,
            )

    def _field(self, pa: Any, depth: int) -> Any:
        name = self._name("the name of a column")
        self._take(":")
        kind = self._type(pa, name, depth)
        is_nullable = not self._take("not")
        if not is_nullable:
            self.expect("null")
        return pa.field(name, kind, is_nullable)

    def _type(self, pa: Any, column: str, depth: int) -> Any:
        if depth > nesting_max:
            raise BadSchema(f"the column {column!r} is nested deeper than {nesting_max}")
        word = self._name(f"the type of {column!r}").lower()
        if word in ("list", "array"):
            self.expect("<")
            made = pa.list_(self._type(pa, column, depth + 1))
            self.expect(">")
        elif word == "struct":
            self.expect("<")
            made = pa.struct(self.fields(pa, depth + 1))
            self.expect(">")
        elif word in ("decimal", "decimal128"):
            made = self._decimal(pa, column)
        elif word in ("timestamp", "timestamp_ntz"):
            made = pa.timestamp("us", tz="UTC" if word == "timestamp" else None)
        elif word in TYPES:
            made = pa.type_for_alias(TYPES[word])
        else:
            raise BadSchema(f"the column {column!r} is {word!r}, which is no type", hint=HINT)
        return made

    def _decimal(self, pa: Any, column: str) -> Any:
        self.expect("(")
        precision = self._number(column)
        self.expect(",")
        scale = self._number(column)
        self.expect(")")
        if not 1 <= precision <= 38:
            raise BadSchema(f"the column {column!r}: a decimal has 1 to 38 digits")
        return pa.decimal128(precision, scale)

    def _number(self, column: str) -> int:
        word = self._name(f"a number for {column!r}")
        if not word.isdecimal() or len(word) > 2:
            raise BadSchema(f"the column {column!r}: {word!r} is no number of digits", hint=HINT)
        return int(word)

    def _name(self, what: str) -> str:
        word, is_quoted = self._words[self._next]
        if not word or (not is_quoted and word in "<>(),:"):
            raise BadSchema(f"{what} is missing before {word or 'its end'!r}", hint=HINT)
        self._next += 1
        return word

    def _take(self, wanted: str) -> bool:
        word, is_quoted = self._words[self._next]
        if is_quoted or word.lower() != wanted:
            return False
        self._next += 1
        return True


HINT = 'for instance: "sku string not null, qty int, at timestamp, tags list<string>"'
