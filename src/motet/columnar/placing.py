"""Which shard of a table a row belongs to: one function of the values of ``shard_by``, the same everywhere.

The values of a row become bytes, one column after the other; the hash of the row is their CRC-32C, then the
finalizer of MurmurHash3 (``fmix32``); its shard is the hash modulo the number of shards. So text is where the
same text is as the key of a stream. docs/reference/placing.md has the function for those who write their own.

=================================  ================================================================
integers, booleans                 the number as 8 bytes, little-endian, two's complement
dates, timestamps                  the same of days, and of microseconds, since 1970-01-01 (UTC)
floats                             as 64 bits, little-endian; -0.0 is 0.0, and there is one NaN
decimals                           the digits without the point as 16 bytes, little-endian
text, bytes                        as they are (UTF-8)
a struct                           its fields one after the other; if it is null, as if they all were
null                               one byte of zeros
=================================  ================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.columnar.ordering import one_array, repeats
from motet.core.metadata.definitions import TableDefinition
from motet.format.checksum import crc32c, crc32c_more

Hashes = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint64]

_POLYNOMIAL = np.uint32(0x82F6_3B78)
_ALL = np.uint32(0xFFFF_FFFF)
_NULL = b"\0"
_rows_at_once = 1 << 15
"""So many fit into a processor's cache."""


def shards_of(definition: TableDefinition, block: pa.Table) -> npt.NDArray[np.int64]:
    """The shard of each row."""
    if definition.shards == 1:
        return np.zeros(block.num_rows, np.int64)
    names = definition.shard_by or definition.order_by[:1]
    hashes = hash_rows([block.column(name) for name in names], block.num_rows)
    return (hashes % np.uint32(definition.shards)).astype(np.int64)


def hash_rows(columns: Sequence[pa.ChunkedArray], rows: int) -> Hashes:
    """The hash of each row over these columns."""
    sums: Hashes = np.zeros(rows, np.uint32)  # the checksum of no bytes
    for place, column in enumerate(columns):
        values = one_array(column)
        if not place and _is_text(values.type) and repeats(values):
            encoded = values.dictionary_encode()
            index = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
            known = pa.concat_arrays([encoded.dictionary, pa.nulls(1, encoded.dictionary.type)])
            sums = _extended(np.zeros(len(known), np.uint32), known)[index]
        else:
            sums = _extended(sums, values)
    return fmix32(sums)


def is_hashable(kind: pa.DataType) -> bool:
    """Whether rows can be placed by a column of this type."""
    if pa.types.is_struct(kind):
        return all(is_hashable(field.type) for field in kind.fields)
    return not pa.types.is_nested(kind)


def fmix32(numbers: Hashes) -> Hashes:
    """The finalizer of MurmurHash3: each bit changes all of the result."""
    mixed = numbers.copy()
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x85EB_CA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2_AE35)
    mixed ^= mixed >> np.uint32(16)
    return mixed


def _extended(sums: Hashes, values: pa.Array) -> Hashes:
    """Checksums, extended by the bytes of one value each."""
    if pa.types.is_struct(values.type):
        for child in values.flatten():  # a null struct makes its fields null
            sums = _extended(sums, child)
        return sums
    if _is_text(values.type):
        return _by_text(sums, values)
    extended = sums ^ _ALL
    for words in _words(values):
        extended = _by_words(extended, words)
    extended ^= _ALL
    if values.null_count:
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        extended[nulls] = _by_null(sums[nulls])
    return extended


def _is_text(kind: pa.DataType) -> bool:
    return any(is_one(kind) for is_one in _TEXT)


_TEXT: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def _by_text(sums: Hashes, values: pa.Array) -> Hashes:
    large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    encoded = values.cast(pa.large_binary() if large else pa.binary())
    texts = (encoded.fill_null(_NULL) if encoded.null_count else encoded).to_pylist()
    made: Iterable[int]
    made = map(crc32c_more, sums.tolist(), texts) if sums.any() else map(crc32c, texts)
    return np.fromiter(made, np.uint32, len(texts))


def _words(values: pa.Array) -> list[Words]:
    """Numbers as words of 64 bits, the lowest first."""
    kind = values.type
    if pa.types.is_decimal(kind):
        both = np.frombuffer(values.buffers()[1], "<u8").reshape(-1, 2)
        both = both[values.offset : values.offset + len(values)]
        return [both[:, 0], both[:, 1]]
    if pa.types.is_floating(kind):
        floats: npt.NDArray[np.float64] = values.cast(pa.float64()).fill_null(0.0).to_numpy()
        floats = floats + 0.0  # turns -0.0 into 0.0
        floats[np.isnan(floats)] = np.nan
        return [floats.view(np.uint64)]
    return [_whole(values).view(np.uint64)]


def _whole(values: pa.Array) -> npt.NDArray[np.int64]:
    kind = values.type
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", tz=kind.tz)).view(pa.int64())
    elif pa.types.is_date32(kind):
        values = values.view(pa.int32())
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    whole: npt.NDArray[np.int64] = values.cast(pa.int64()).fill_null(0).to_numpy()
    return whole


def _by_words(state: Hashes, words: Words) -> Hashes:
    """The states of the checksum after eight more bytes each, little-endian."""
    after = np.empty_like(state)
    for start in range(0, len(state), _rows_at_once):
        here = slice(start, start + _rows_at_once)
        mixed = words[here].astype("<u8") ^ state[here]
        halves: Any = mixed.view("<u2").reshape(-1, 4)
        after[here] = _PAIRS[0][halves[:, 0]] ^ _PAIRS[1][halves[:, 1]]
        after[here] ^= _PAIRS[2][halves[:, 2]] ^ _PAIRS[3][halves[:, 3]]
    return after


def _by_null(sums: Hashes) -> Hashes:
    state = sums ^ _ALL
    after: Hashes = _BYTES[0][state & np.uint32(0xFF)] ^ (state >> np.uint32(8))
    return after ^ _ALL


def _byte_tables() -> npt.NDArray[np.uint32]:
    """[k][b]: the state after the byte b and k zeros, from a state of zeros."""
    tables = np.zeros((8, 256), np.uint32)
    one = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        one = np.where(one & 1, (one >> np.uint32(1)) ^ _POLYNOMIAL, one >> np.uint32(1))
    tables[0] = one
    for k in range(1, 8):
        before = tables[k - 1]
        tables[k] = one[before & 0xFF] ^ (before >> np.uint32(8))
    return tables


def _pair_tables() -> npt.NDArray[np.uint32]:
    """[k][p]: what the pair of bytes at place k of four contributes to the state after all eight."""
    pairs = np.arange(1 << 16)
    low, high = pairs & 0xFF, pairs >> 8
    return np.array([_BYTES[7 - 2 * k][low] ^ _BYTES[6 - 2 * k][high] for k in range(4)])


_BYTES = _byte_tables()
_PAIRS = _pair_tables()
