"""Writing the file of a part, and its manifest.

The same rows and the same definition make the same bytes, whatever pieces the rows come in; only the manifest
has the id of the part. Rows are written one row group at a time, so a part may be larger than memory; the
file is read once more at its end, for its hash and the checksums of its pieces.

Beside what every part file has (:mod:`motet.columnar.part_layout`) there are a page index, the ids of columns
(:mod:`motet.columnar.part_schema`), and a bloom filter on the first column of the key, if pyarrow writes one.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from motet.columnar.ordering import repeats_min, sorted_block
from motet.columnar.part_facts import facts_of, leaves_of
from motet.columnar.part_layout import (
    bytes_of,
    encodings,
    key_text,
    row_group_bytes_max,
    row_group_rows,
    rows_of_group,
)
from motet.columnar.part_schema import column_ids, file_schema, leaf_ids, table_schema
from motet.core.metadata.definitions import TableDefinition
from motet.errors import TooLarge
from motet.format.checksum import crc32c
from motet.format.part_manifest import (
    PartManifest,
    leftover_piece_bytes_max,
    packed,
    piece_bytes_max,
)
from motet.ids import PartId

compression = "zstd"

HAS_BLOOM_FILTERS = "bloom_filter_options" in inspect.signature(pq.ParquetWriter).parameters
"""Whether this pyarrow writes bloom filters; older ones do not."""

bloom_false_positives = 0.05

_footer_end_bytes = 8


def write_part(
    definition: TableDefinition,
    shard: int,
    partition: str,
    block: pa.Table,
    target: BinaryIO,
    part_id: PartId,
) -> PartManifest:
    """The rows, sorted by the key of the table, as a file; ``target`` can be read and is empty."""
    writer = PartWriter(definition, shard, partition, target, part_id)
    writer.add(sorted_block(block, definition.order_by))
    return writer.close()


class PartWriter:
    """Writes one part from pieces that follow each other in the order of the key."""

    def __init__(
        self,
        definition: TableDefinition,
        shard: int,
        partition: str,
        target: BinaryIO,
        part_id: PartId,
    ) -> None:
        self._definition = definition
        self._shard = shard
        self._partition = partition
        self._target = target
        self._part_id = part_id
        self._schema = file_schema(definition)
        self._metadata: list[Any] = []
        self._writer: pq.ParquetWriter | None = None
        self._group_rows = row_group_rows
        #: rows that do not fill a row group yet
        self._waiting = self._schema.empty_table()
        self._rows = 0
        self._low_key = self._high_key = "[]"

    def add(self, piece: pa.Table) -> None:
        """Some more rows: columns of the table, sorted, none of them before the last one that was added."""
        if not piece.num_rows:
            return
        order_by = self._definition.order_by
        if not self._rows:
            self._low_key = key_text(piece, order_by, 0)
        self._high_key = key_text(piece, order_by, piece.num_rows - 1)
        self._rows += piece.num_rows
        piece = pa.Table.from_arrays(piece.columns, schema=self._schema)
        waiting = pa.concat_tables([self._waiting, piece]) if self._waiting.num_rows else piece
        if self._writer is None and self._is_enough(waiting):
            self._writer = self._opened(waiting)
        if self._writer is not None:
            waiting = self._write(waiting, waiting.num_rows // self._group_rows * self._group_rows)
        self._waiting = waiting

    def close(self) -> PartManifest:
        """Finish the file, and say what is in it."""
        if self._writer is None:
            self._writer = self._opened(self._waiting)
        self._write(self._waiting, self._waiting.num_rows)
        self._writer.close()
        metadata = self._metadata[0]
        definition, ids = self._definition, column_ids(self._definition)
        hash_, lengths, checksums = _pieces(self._target, metadata)
        return PartManifest(
            table_id=definition.id,
            part_id=self._part_id,
            shard=self._shard,
            partition=self._partition,
            rows=self._rows,
            size_bytes=sum(lengths),
            hash=hash_,
            schema_version=definition.schema_version,
            engine=definition.engine,
            order_by=tuple(ids[name] for name in definition.order_by),
            low_key=self._low_key,
            high_key=self._high_key,
            columns=tuple(facts_of(definition, table_schema(definition), metadata)),
            leaves=leaf_ids(self._schema),
            row_groups=metadata.num_row_groups,
            piece_lengths=packed(lengths),
            piece_checksums=packed(checksums),
        )

    def _is_enough(self, rows: pa.Table) -> bool:
        """Whether these rows say all that the layout of the file depends on."""
        if rows.num_rows >= row_group_rows:
            return True
        return rows.nbytes > row_group_bytes_max and bytes_of(rows) > row_group_bytes_max

    def _write(self, rows: pa.Table, count: int) -> pa.Table:
        """Write so many of the rows, and return the others."""
        if not count:
            return rows
        assert self._writer is not None, "what is written has been laid out"
        self._writer.write_table(rows.slice(0, count).combine_chunks(), self._group_rows)
        return rows.slice(count)

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        """A writer for a file that begins with these rows."""
        self._group_rows = rows_of_group(first)
        first = first.slice(0, self._group_rows)
        dictionary, plain = encodings(first)
        return pq.ParquetWriter(
            self._target,
            self._schema,
            compression=compression,
            use_dictionary=dictionary,
            column_encoding=plain,
            write_statistics=True,
            write_page_index=True,
            store_schema=False,
            sorting_columns=_sorting_columns(self._definition),
            metadata_collector=self._metadata,
            **_bloom_filter(self._definition, first, dictionary),
        )


def _sorting_columns(definition: TableDefinition) -> list[pq.SortingColumn] | None:
    """The order of the rows as Parquet says it; not of floats, whose NaN it knows nothing of."""
    schema = table_schema(definition)
    columns = []
    for name in definition.order_by:
        place = schema.get_field_index(name)
        kind = schema.field(place).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind):
            break
        leaf = sum(leaves_of(field.type) for field in list(schema)[:place])
        columns.append(pq.SortingColumn(leaf, descending=False, nulls_first=True))
    return columns or None


def _bloom_filter(
    definition: TableDefinition, first: pa.Table, dictionary: list[str]
) -> dict[str, Any]:
    """Of the first column of the key, as large as a row group takes; none on what has two values."""
    key = definition.order_by[0]
    kind = first.schema.field(key).type
    # Names with dots can look alike to the writer.
    if not HAS_BLOOM_FILTERS or pa.types.is_nested(kind) or pa.types.is_boolean(kind) or "." in key:
        return {}
    rows = max(1, first.num_rows)
    values = -(-rows // repeats_min) if key in dictionary else rows
    return {"bloom_filter_options": {key: {"ndv": values, "fpp": bloom_false_positives}}}


def _pieces(file: BinaryIO, metadata: Any) -> tuple[str, list[int], list[int]]:
    """The hash of a file, and the lengths and checksums of the pieces that make it up."""
    lengths = _piece_lengths(file, metadata)
    hash_ = blake3()
    checksums = []
    file.seek(0)
    for length in lengths:
        data = file.read(length)
        assert len(data) == length, "the file is as long as its writer says"
        hash_.update(data)
        checksums.append(crc32c(data))
    file.seek(0, os.SEEK_END)
    return hash_.hexdigest(), lengths, checksums


def _piece_lengths(file: BinaryIO, metadata: Any) -> list[int]:
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(size_bytes - _footer_end_bytes)
    footer_bytes = int.from_bytes(file.read(4), "little") + _footer_end_bytes
    starts = [0, *_chunk_starts(metadata)]
    end = _end_of_chunks(metadata)
    leftover = range(end, size_bytes - footer_bytes, leftover_piece_bytes_max)
    starts += [*leftover, size_bytes - footer_bytes]
    assert starts == sorted(starts), "column chunks follow each other as they are listed"
    ends = [*starts[1:], size_bytes]
    lengths = [stop - start for start, stop in zip(starts, ends, strict=True)]
    if max(lengths) > piece_bytes_max:
        raise TooLarge(
            f"a column chunk of {max(lengths)} bytes exceeds the limit of {piece_bytes_max}"
        )
    return lengths


def _chunk_starts(metadata: Any) -> list[int]:
    starts = []
    for group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(leaf)
            starts.append(_start_of(chunk))
    return starts


def _start_of(chunk: Any) -> int:
    dictionary: int | None = chunk.dictionary_page_offset
    data: int = chunk.data_page_offset
    return data if dictionary is None else min(dictionary, data)


def _end_of_chunks(metadata: Any) -> int:
    """Where the last column chunk ends; the head, if there is none."""
    if not metadata.num_row_groups:
        return len(b"PAR1")
    last = metadata.row_group(metadata.num_row_groups - 1).column(metadata.num_columns - 1)
    return _start_of(last) + int(last.total_compressed_size)
