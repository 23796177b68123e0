"""The hash of rows: of their values and their order, not of how they are held or in what pieces they come.

Each column has streams of its own: where its nulls are, its numbers, the lengths and the bytes of its text,
and those of what is within it. A value that is null adds nothing to the others. A column that is null in all
rows counts for nothing, so that one which was added to the table meanwhile changes no hash.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3


class ContentHash:
    """Takes the rows of a table, piece by piece, and has their hash at the end."""

    def __init__(self, columns: tuple[int, ...], schema: pa.Schema) -> None:
        self._columns = [
            (number, _ColumnHash(field.type)) for number, field in zip(columns, schema, strict=True)
        ]
        self._rows = 0

    def add(self, block: pa.Table) -> None:
        """Some more rows of the schema."""
        for (_, hash_), column in zip(self._columns, block.columns, strict=True):
            for chunk in column.chunks:
                hash_.add(chunk)
        self._rows += block.num_rows

    def digest(self) -> str:
        """Of all rows so far, 32 bytes in hex."""
        hash_ = blake3(b"rows %d" % self._rows)
        for number, column in self._columns:
            if column.values:
                hash_.update(b" column %d " % number)
                hash_.update(column.digest())
        return str(hash_.hexdigest())


class _ColumnHash:
    """The streams of one column, or of what is within one."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._rows = 0
        #: how many are not null
        self.values = 0
        self._nulls = blake3(str(kind).encode())
        self._sizes = blake3()
        self._bytes = blake3()
        inner: list[pa.DataType] = []
        if pa.types.is_struct(kind):
            inner = [field.type for field in kind.fields]
        elif pa.types.is_list(kind):
            inner = [kind.value_type]
        self._inner = [_ColumnHash(each) for each in inner]

    def add(self, values: pa.Array) -> None:
        if values.null_count:
            is_null = values.is_null().to_numpy(zero_copy_only=False)
            self._nulls.update((np.flatnonzero(is_null) + self._rows).astype("<i8").tobytes())
        self._rows += len(values)
        self.values += len(values) - values.null_count
        present = values.drop_null() if values.null_count else values
        kind = self._kind
        if pa.types.is_struct(kind):
            for hash_, child in zip(self._inner, present.flatten(), strict=True):
                hash_.add(child)
        elif pa.types.is_list(kind):
            self._add_sizes(pc.list_value_length(present))
            self._inner[0].add(present.flatten())
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            self._add_sizes(pc.binary_length(present))
            self._bytes.update(_text_bytes(present))
        else:
            self._bytes.update(_number_bytes(present))

    def _add_sizes(self, sizes: pa.Array) -> None:
        self._sizes.update(sizes.to_numpy(zero_copy_only=False).astype("<i4").tobytes())

    def digest(self) -> bytes:
        streams = [self._nulls, self._sizes, self._bytes]
        own = b"".join(stream.digest() for stream in streams)
        return own + b"".join(inner.digest() for inner in self._inner)


def _text_bytes(values: pa.Array) -> memoryview | bytes:
    """The bytes of all texts one after the other."""
    data = values.buffers()[2]
    if data is None:
        return b""
    bounds = np.frombuffer(values.buffers()[1], "<i4")
    start, end = bounds[values.offset], bounds[values.offset + len(values)]
    return memoryview(data)[start:end]


def _number_bytes(values: pa.Array) -> memoryview | bytes:
    if pa.types.is_boolean(values.type):
        return bytes(values.cast(pa.uint8()).to_numpy().tobytes())
    width = values.type.bit_width // 8
    start = values.offset * width
    return memoryview(values.buffers()[1])[start : start + len(values) * width]
