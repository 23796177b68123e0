"""A key in words: the values of some columns of one row as JSON text, for people and for a part's manifest.

What JSON has no word for is text; a number that is none (``NaN``) is, too. It is not meant to be read back,
and a long one is cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

key_text_length_max = 1024
"""Characters of a key: enough to recognise it."""

_to_json = msgspec.json.Encoder().encode


def key_text(block: pa.Table, order_by: Sequence[str], row: int) -> str:
    """The key of one row; an empty list if there is no such row."""
    if not 0 <= row < block.num_rows:
        return "[]"
    text = _to_json([_plain(block.column(name)[row]) for name in order_by]).decode()
    return text[:key_text_length_max]


def _plain(value: pa.Scalar) -> Any:
    if isinstance(value, pa.StructScalar) and value.is_valid:
        return {name: _plain(inner) for name, inner in value.items()}
    try:
        made = value.as_py()
    except (ValueError, OverflowError):  # a time that Python cannot say
        return value.value
    return str(made) if isinstance(made, float) and not math.isfinite(made) else made
