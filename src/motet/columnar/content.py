"""The content of a block: a hash of its rows, whatever pieces they come in and whatever lies below a null.

Two inserts with one token have to be of the same rows in the same order. A hash of a file would not do: a file
is sorted, and its bytes depend on who wrote it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

window_rows = 1 << 16
"""Rows that are hashed together, column by column: pieces of any sizes become these."""


def content_of(block: pa.Table) -> str:
    """BLAKE3 of the names of the columns and of all values, in hex."""
    hash_ = blake3("\0".join(block.schema.names).encode())
    for start in range(0, block.num_rows, window_rows):
        window = block.slice(start, window_rows)
        for column in window.columns:
            _add(hash_, _in_one(column))
    return hash_.hexdigest()


def _in_one(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _add(hash_: blake3, values: pa.Array) -> None:
    kind = values.type
    hash_.update(f"{kind} {len(values)} {values.null_count}".encode())
    is_null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    if is_null is not None:
        hash_.update(np.packbits(is_null).tobytes())
    if pa.types.is_struct(kind):
        for child in values.flatten():
            _add(hash_, child)
    elif pa.types.is_list(kind):
        hash_.update(pc.fill_null(pc.list_value_length(values), 0).to_numpy().view(np.uint8))
        _add(hash_, values.flatten())
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        filled = pc.fill_null(values, "" if pa.types.is_string(kind) else b"")
        hash_.update(pc.binary_length(filled).to_numpy().view(np.uint8))
        hash_.update(_text_of(filled))
    elif pa.types.is_boolean(kind):
        is_true = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
        hash_.update(np.packbits(is_true).tobytes())
    elif not pa.types.is_null(kind):
        hash_.update(_numbers_of(values, is_null))


def _text_of(values: pa.Array) -> memoryview:
    """The characters of all values, one after the other."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return memoryview(b"")
    places = np.frombuffer(offsets, np.int32)
    first, last = places[values.offset], places[values.offset + len(values)]
    return memoryview(data)[first:last]


def _numbers_of(values: pa.Array, is_null: npt.NDArray[np.bool_] | None) -> memoryview:
    """The bytes of values of a fixed width; zeros for nulls."""
    width = values.type.byte_width
    data = values.buffers()[1]
    if data is None:
        return memoryview(b"")
    begin = values.offset * width
    found = np.frombuffer(data, np.uint8)[begin : begin + len(values) * width]
    if is_null is None:
        return found.data
    filled = found.reshape(len(values), width).copy()
    filled[is_null] = 0
    return filled.reshape(-1).data
