"""Rows put into the order of their keys: stable, and quick because only plain 64-bit numbers are sorted.

The order is the same everywhere: ascending; null before everything; ``NaN`` equal to itself and after every
other number; ``-0.0`` equal to ``0.0``; text and bytes byte by byte; a struct by its fields, one after the
other. A column becomes a short list of digits, whole numbers whose order is that of the values, most
significant first.

The digits of the key are packed, as many as fit, into one number above the place of the row; sorting these
numbers is what processors are best at, and since no two are equal the result does not depend on how it is
done. Rows that are still equal go into another round, with what is left of the key, below the number of their
group. A round whose rows are in order already is not sorted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.errors import BadSchema

Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint64]
Digit = Callable[[Rows], Numbers]

SIGN = np.uint64(1 << 63)

text_words_max = 8
"""Text up to this many words of eight bytes is compared word by word; longer text is ranked first, since
rows that share it would be compared again and again."""

_FIRST_BYTES = np.array([(1 << 64) - (1 << 64 - 8 * count) for count in range(9)], np.uint64)
"""A mask for the first bytes of a word, by their number."""

_NUMBERS_BEHIND = {
    pa.bool_(): pa.uint8(),
    pa.date32(): pa.int32(),
    pa.timestamp("us"): pa.int64(),
    pa.timestamp("us", tz="UTC"): pa.int64(),
}


def is_sortable(kind: pa.DataType) -> bool:
    """Whether rows can be put into an order by a column of this type."""
    if pa.types.is_struct(kind):
        return all(is_sortable(field.type) for field in kind.fields)
    return (
        kind in _NUMBERS_BEHIND
        or pa.types.is_signed_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    )


def check_sortable(schema: pa.Schema, columns: tuple[str, ...]) -> None:
    """``BadSchema`` names the first of the columns that is not there or has no order."""
    for name in columns:
        if schema.get_field_index(name) < 0:
            raise BadSchema(f"there is no column {name!r} to sort by")
        kind = schema.field(name).type
        if not is_sortable(kind):
            raise BadSchema(f"rows cannot be sorted by the column {name!r}, which is {kind}")


def digits_of(column: pa.ChunkedArray) -> Iterator[Digit]:
    """The digits of a column."""
    return _digits(one_array(column))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece; text whose sum is too long for 32-bit offsets gets long ones."""
    if column.nbytes >= 1 << 31:
        if pa.types.is_string(column.type):
            column = column.cast(pa.large_string())
        elif pa.types.is_binary(column.type):
            column = column.cast(pa.large_binary())
    return column.combine_chunks()


def _digits(values: pa.Array) -> Iterator[Digit]:
    if values.null_count == len(values):
        return
    if values.null_count:
        yield _picked(values.is_valid().cast(pa.uint8()).to_numpy().astype(np.uint64))
    if pa.types.is_struct(values.type):
        for field in values.flatten():
            yield from _digits(field)
    elif _is_text(values.type):
        yield from _text_digits(values.fill_null(pa.scalar(b"", pa.binary()).cast(values.type)))
    elif pa.types.is_decimal128(values.type):
        high_low = _decimal_words(_filled(values))
        yield _picked(high_low[:, 1] ^ SIGN)
        yield _picked(high_low[:, 0])
    elif pa.types.is_floating(values.type):
        yield _picked(_float_numbers(_filled(values).cast(pa.float64()).to_numpy()))
    else:
        yield _picked(_whole_numbers(_filled(values)))


def _picked(numbers: Numbers) -> Digit:
    return lambda rows: numbers[rows]


def _filled(values: pa.Array) -> pa.Array:
    """Without nulls: a digit before this one tells them apart, and one that occurs keeps numbers small."""
    if not values.null_count:
        return values
    return values.fill_null(values[pc.index(values.is_valid(), True).as_py()])


def _whole_numbers(values: pa.Array) -> Numbers:
    kind = _NUMBERS_BEHIND.get(values.type, values.type)
    numbers: Rows = values.cast(kind).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers.view(np.uint64) ^ SIGN


def _float_numbers(values: npt.NDArray[np.float64]) -> Numbers:
    values = values + 0.0  # turns -0.0 into 0.0
    values[np.isnan(values)] = np.nan  # one NaN, with its sign bit clear: above infinity
    bits = values.view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def _decimal_words(values: pa.Array) -> Numbers:
    words = np.frombuffer(values.buffers()[1], dtype="<u8").reshape(-1, 2)
    return words[values.offset : values.offset + len(values)]


def _is_text(kind: pa.DataType) -> bool:
    return _is_long_text(kind) or bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _is_long_text(kind: pa.DataType) -> bool:
    """Whether its offsets have 64 bits."""
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _text_digits(values: pa.Array) -> Iterator[Digit]:
    starts, lengths = _text_bounds(values)
    longest = int(lengths.max())
    words = (longest + 7) // 8
    if words > text_words_max:
        yield _picked(_text_ranks(values))
        return
    data = values.buffers()[2]
    # Padded, so that eight bytes can be read from any place in it.
    text = np.zeros((data.size if data is not None else 0) + 8, np.uint8)
    if data is not None:
        text[:-8] = np.frombuffer(data, np.uint8)
    anywhere = np.ndarray((len(text) - 7,), dtype=">u8", buffer=text, strides=(1,))
    for word in range(words):
        yield _text_word(anywhere, starts, lengths, 8 * word)
    if int(lengths.min()) != longest:
        yield _picked(lengths.astype(np.uint64))  # "a" before "a\0"


def _text_bounds(values: pa.Array) -> tuple[Rows, Rows]:
    """Where each text starts, and how many bytes it has."""
    width = "<i8" if _is_long_text(values.type) else "<i4"
    bounds = np.frombuffer(values.buffers()[1], width).astype(np.int64)
    bounds = bounds[values.offset : values.offset + len(values) + 1]
    return bounds[:-1], bounds[1:] - bounds[:-1]


def _text_word(
    anywhere: npt.NDArray[np.uint64], starts: Rows, lengths: Rows, skipped: int
) -> Digit:
    """The eight bytes after the skipped ones as a number, as if every text was followed by zeros."""

    def number(rows: Rows) -> Numbers:
        present = np.clip(lengths[rows] - skipped, 0, 8)
        places = np.minimum(starts[rows] + skipped, len(anywhere) - 1)
        return anywhere[places].astype(np.uint64) & _FIRST_BYTES[present]

    return number


def _text_ranks(values: pa.Array) -> Numbers:
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.uint64)
    ranks[order] = np.arange(len(order), dtype=np.uint64)
    places: Rows = encoded.indices.to_numpy()
    return ranks[places]


sample_rows = 1 << 16
"""Rows looked at to learn whether the values of a column repeat."""

few_rows = 1 << 12
"""Rows that mostly suffice to see that they do not."""

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


def sorted_block(block: pa.Table, order_by: Sequence[str]) -> pa.Table:
    """The rows in the order of these columns, each column in one piece."""
    check_sortable(block.schema, tuple(order_by))
    ordering = Ordering(block.num_rows)
    ordering.refine([block.column(name) for name in order_by])
    return take_rows(block, ordering.order) if ordering.moved else block.combine_chunks()


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
    if len(values) > few_rows and _distinct(values.slice(0, few_rows)) * 10 > few_rows * 9:
        return False  # so many different ones are not found among few that occur again and again
    sample = values.slice(0, sample_rows)
    return _distinct(sample) * repeats_min <= len(sample)


def _distinct(values: pa.Array) -> int:
    return int(pc.count_distinct(values, mode="all").as_py())
