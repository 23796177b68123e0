"""A block of records: keys and values, column by column, as clients send them and readers get them back.

::

    count      u32
    key_ends   u32 × count     where each key ends in the bytes of the keys
    value_ends u32 × count     likewise
    keys       bytes, one after the other
    values     bytes, one after the other

All numbers are little-endian. A block travels and is logged as it is: between the client that made it and the
one that reads it nobody looks at a single record. The two columns are what Arrow calls a binary array, so a
block becomes one without a copy of its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from operator import sub

from motet.errors import BadInput, TooLarge
from motet.limits import block_bytes_max, block_records_max, key_bytes_max, row_bytes_max

_COUNT = struct.Struct("<I")


def encode_block(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """The bytes of a block."""
    count = len(keys)
    assert 0 < count == len(values)
    ends = struct.pack(
        f"<{1 + 2 * count}I", count, *accumulate(map(len, keys)), *accumulate(map(len, values))
    )
    return b"".join((ends, *keys, *values))


def block_count(block: bytes | memoryview) -> int:
    """How many records a good block has."""
    count: int = _COUNT.unpack_from(block)[0]
    return count


def check_block(block: bytes) -> int:
    """How many records it has; ``BadInput`` when it is no block, ``TooLarge`` when a record is too long."""
    if len(block) > block_bytes_max:
        raise TooLarge(f"a block of {len(block)} bytes exceeds the limit of {block_bytes_max}")
    if len(block) < _COUNT.size:
        raise BadInput("these bytes are no block of records")
    count = block_count(block)
    if not 0 < count <= block_records_max or len(block) < 4 + 8 * count:
        raise BadInput(f"a block of {len(block)} bytes does not hold {count} records")
    keys, values = _ends(block, count)
    if len(block) != 4 + 8 * count + keys[-1] + values[-1]:
        raise BadInput("a block is not as long as its records")
    _check_column(keys, 1, key_bytes_max, "a key")
    _check_column(values, 0, row_bytes_max, "a value")
    return count


def decode_block(block: bytes) -> tuple[list[bytes], list[bytes]]:
    """Keys and values of a good block."""
    count = block_count(block)
    keys, values = _ends(block, count)
    start = 4 + 8 * count
    return _cut(block, start, keys), _cut(block, start + keys[-1], values)


def decode_keys(block: bytes | memoryview) -> list[bytes]:
    """The keys of a good block, without its values."""
    count = block_count(block)
    ends = struct.unpack_from(f"<{count}I", block, _COUNT.size)
    start = 4 + 8 * count
    return _cut(bytes(block[start : start + ends[-1]]), 0, ends)


def _ends(block: bytes, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    numbers = struct.unpack_from(f"<{2 * count}I", block, _COUNT.size)
    return numbers[:count], numbers[count:]


def _check_column(ends: tuple[int, ...], shortest: int, longest: int, what: str) -> None:
    lengths = [ends[0], *map(sub, ends[1:], ends)]
    if (least := min(lengths)) < shortest:
        if least < 0:
            raise BadInput(f"the ends of a block's records do not rise ({what})")
        raise BadInput(f"{what} has at least {shortest} byte")
    if (most := max(lengths)) > longest:
        raise TooLarge(f"{what} of {most} bytes exceeds the limit of {longest}")


def _cut(data: bytes, start: int, ends: tuple[int, ...]) -> list[bytes]:
    if start:
        data = data[start : start + ends[-1]]
    # Without a line of Python for each: a leader and its followers do this for every key that is appended.
    return list(map(data.__getitem__, map(slice, (0, *ends), ends)))
