"""Rows put into the order of their keys: stable, and quick because only plain 64-bit numbers are sorted.

The digits of the key (:mod:`motet.columnar.digits`) are packed, as many as fit, into one number above the
place of the row; sorting these numbers is what processors are best at, and since no two are equal the
result does not depend on how it is done. Rows that are still equal go into another round, with what is
left of the key, below the number of their group. A round whose rows are in order already is not sorted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.columnar.digits import Digit, Numbers, Rows, digits_of, one_array

sample_rows = 1 << 16
"""Rows looked at to learn whether the values of a column repeat."""

repeats_min = 8
"""Text that occurs at least this often on average is moved as a number."""


class Ordering:
    """The rows of a block, put into order by one column after the other."""

    def __init__(self, rows: int) -> None:
        #: order[i] is the row that comes to place i
        self.order: Rows = np.arange(rows, dtype=np.int64)
        #: is_first[i]: the row at place i differs from the one before it
        self.is_first: npt.NDArray[np.bool_] = np.zeros(rows, np.bool_)
        self.is_first[:1] = True
        #: whether any row has left its place
        self.moved = False

    def refine(self, columns: Sequence[pa.ChunkedArray]) -> None:
        """Put rows that are equal so far into the order of these columns."""
        left = _Left(digit for column in columns for digit in digits_of(column))
        while left.more():
            places = self._undecided()
            if not len(places):
                return
            self._round(places, left)

    def _undecided(self) -> Rows:
        """The places of rows that equal a neighbour."""
        equal = ~self.is_first
        equal[:-1] |= equal[1:].copy()
        return np.flatnonzero(equal)

    def _round(self, places: Rows, left: _Left) -> None:
        rows = self.order[places]
        groups = (np.cumsum(self.is_first[places]) - 1).astype(np.uint64)
        place_bits = (len(places) - 1).bit_length()
        keys = left.packed(rows, groups, 64 - place_bits)
        if bool((keys[1:] < keys[:-1]).any()):
            keys <<= np.uint64(place_bits)
            keys |= np.arange(len(places), dtype=np.uint64)
            keys.sort()
            self.order[places] = rows[(keys & _mask(place_bits)).astype(np.int64)]
            self.moved = True
            keys >>= np.uint64(place_bits)
        self.is_first[places[1:]] |= keys[1:] != keys[:-1]


class _Left:
    """The digits that have not been looked at yet."""

    def __init__(self, digits: Iterator[Digit]) -> None:
        self._digits = digits
        self._next: deque[Digit] = deque()

    def more(self) -> bool:
        if not self._next:
            self._next.extend(next(([digit] for digit in self._digits), []))
        return bool(self._next)

    def packed(self, rows: Rows, groups: Numbers, bits: int) -> Numbers:
        """One number per row, of so many bits: its group, and as many digits as fit below."""
        room = bits - int(groups[-1]).bit_length()
        keys = groups
        while room and self.more():
            digit = self._next.popleft()
            numbers = digit(rows)
            low = numbers.min()
            numbers = numbers - low
            digit_bits = int(numbers.max()).bit_length()
            over = digit_bits - room
            if over > 0:
                numbers >>= np.uint64(over)
                self._next.appendleft(_rest_of(digit, low, over))
                digit_bits = room
            # A group number of nothing but zeros may have to move by all 64 bits.
            keys = (
                keys << np.uint64(digit_bits) if digit_bits < 64 else keys & np.uint64(0)
            ) | numbers
            room -= digit_bits
        return keys.copy() if keys is groups else keys


def _rest_of(digit: Digit, low: np.uint64, bits: int) -> Digit:
    return lambda rows: (digit(rows) - low) & _mask(bits)


def _mask(bits: int) -> np.uint64:
    return np.uint64((1 << bits) - 1)


def take_rows(block: pa.Table, order: Rows) -> pa.Table:
    """The rows of a block in another order, or some of them; each column in one piece."""
    places = pa.array(order)
    return pa.Table.from_arrays(
        [_take(column, places) for column in block.columns], schema=block.schema
    )


def _take(column: pa.ChunkedArray, places: pa.Array) -> pa.Array | pa.ChunkedArray:
    values = one_array(column)
    is_text = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    if is_text and repeats(values):
        # Moving numbers and copying from a few texts is quicker than jumping about among many.
        return values.dictionary_encode().take(places).dictionary_decode()
    return values.take(places) if values.type == column.type else column.take(places)


def repeats(values: pa.Array) -> bool:
    """Whether the values of a column occur again and again, judged by the first ones."""
    sample = values.slice(0, sample_rows)
    return bool(pc.count_distinct(sample, mode="all").as_py() * repeats_min <= len(sample))
