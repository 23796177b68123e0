"""The manifest of a part: what is known of its file without reading it, and how any range of it is checked.

A part is two files in a folder that has its id: ``part.parquet`` and ``manifest``. The manifest is one
journal record (:mod:`motet.format.record`) of kind 80, ``P``, whose salt is the part's id and whose body is
JSON, so that it can be read without us. The same manifest always makes the same bytes; a damaged one is
``BadRecord``.

M1  The file is cut into *pieces*, one after the other without a gap: its head, each column chunk (row group
    by row group, in each leaf by leaf, as Parquet writes them), what follows (page index, bloom filters) in
    pieces of at most 1 MiB, and the footer. Each has a length and a crc32c. Whoever reads a range of the file
    widens it to whole pieces and checks them: who reads two of fifty columns has not the bytes of the others.
M2  Pieces are two packed arrays, eight bytes each: a part of 10 GiB may have a hundred thousand.
M3  What is said of a column is said by its id, which outlives its name. A bound may be wider than the values
    are (long text is cut), never narrower; None where it is not known.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from itertools import accumulate

import msgspec

from motet.errors import BadInput, BadRecord
from motet.format.frame import UNDECODABLE
from motet.format.record import RECORD_VERSION, encode_record, parse_body, parse_header
from motet.ids import PartId, TableId
from motet.limits import part_manifest_bytes_max

PART_FILE = "part.parquet"
MANIFEST_FILE = "manifest"
PART_MANIFEST_KIND = ord("P")

PART_FORMAT = 1
"""Of the writer: how rows become a file and a manifest."""

leftover_piece_bytes_max = 1 << 20
"""Of a piece between the last column chunk and the footer."""

piece_bytes_max = (1 << 32) - 1
"""A length is 32 bits."""

Bound = bool | int | float | str | None

_ID = re.compile(r"[0-9a-f]{16}")
_HASH = re.compile(r"[0-9a-f]{64}")
_PARTITION = re.compile(r"[^/\x00-\x1f]{1,128}")


class ColumnFacts(msgspec.Struct, frozen=True, array_like=True):
    """What is known of the values of a column (M3)."""

    id: int
    #: what it was called when the part was written
    name: str
    nulls: int | None = None
    #: no value is below, none above: numbers and booleans as they are, anything else as text
    low: Bound = None
    high: Bound = None


class Piece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some bytes of the file, and their checksum."""

    offset: int
    length: int
    crc32c: int


class PartManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a part."""

    table_id: TableId
    part_id: PartId
    shard: int
    partition: str
    rows: int
    size_bytes: int
    #: BLAKE3 of the file, 32 bytes in hex
    hash: str
    #: the version of the table's schema that it was written by
    schema_version: int
    engine: str
    #: the ids of the columns that the rows are sorted by
    order_by: tuple[int, ...]
    #: the values of ``order_by`` in the first and in the last row, as a JSON list; a long one is cut
    low_key: str
    high_key: str
    columns: tuple[ColumnFacts, ...]
    #: Parquet's own columns, in the order of the file, by their field ids
    leaves: tuple[int, ...]
    row_groups: int
    #: of each piece 32 bits, little-endian: its length, and its crc32c (M1, M2)
    piece_lengths: bytes
    piece_checksums: bytes
    format: int = PART_FORMAT


class PieceTable:
    """The pieces of a file, found by their place."""

    def __init__(self, manifest: PartManifest) -> None:
        count = len(manifest.piece_lengths) // 4
        self.lengths: tuple[int, ...] = struct.unpack(f"<{count}I", manifest.piece_lengths)
        self.checksums: tuple[int, ...] = struct.unpack(f"<{count}I", manifest.piece_checksums)
        self.offsets: list[int] = list(accumulate(self.lengths, initial=0))
        self._leaves = manifest.leaves

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> Piece:
        return Piece(self.offsets[number], self.lengths[number], self.checksums[number])

    @property
    def footer(self) -> Piece:
        """The last piece."""
        return self[len(self) - 1]

    def chunk(self, row_group: int, leaf: int) -> Piece:
        """A column chunk, by its row group and the place of its leaf."""
        return self[1 + row_group * len(self._leaves) + leaf]

    def covering(self, offset: int, length: int) -> range:
        """The numbers of the pieces that have these bytes; none for bytes beyond the end."""
        end = min(offset + length, self.offsets[-1])
        if offset >= end:
            return range(0)
        first = bisect_right(self.offsets, offset) - 1
        last = bisect_right(self.offsets, end - 1) - 1
        return range(first, last + 1)


def packed(numbers: list[int]) -> bytes:
    """Lengths or checksums of pieces as a manifest has them."""
    return struct.pack(f"<{len(numbers)}I", *numbers)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(PartManifest).decode


def encode_part_manifest(manifest: PartManifest) -> bytes:
    """The bytes of the file. ``BadInput`` for one that could not be read back."""
    fault = _contradiction(manifest)
    if fault is not None:
        raise BadInput(f"this manifest contradicts itself: {fault}")
    body = _encode(manifest)
    if len(body) > part_manifest_bytes_max:
        raise BadInput(
            f"a manifest of {len(body)} bytes exceeds the limit of {part_manifest_bytes_max}",
            hint="write smaller parts, or fewer columns",
        )
    return encode_record(int(manifest.part_id, 16), 0, PART_MANIFEST_KIND, body)


def decode_part_manifest(data: bytes) -> PartManifest:
    """Read it back; ``BadRecord`` when a byte of it is not what was written."""
    header = parse_header(data, 0)
    if header is None or header.kind != PART_MANIFEST_KIND:
        raise BadRecord("this is not the manifest of a part: it does not begin with its header")
    if header.version != RECORD_VERSION:
        raise BadRecord(
            f"the manifest is of version {header.version}, which only a newer program knows",
            hint="upgrade, then read it again",
        )
    body = parse_body(data, 0, header)
    if body is None or header.record_bytes != len(data):
        raise BadRecord(
            f"the manifest is damaged: its record of {header.record_bytes} bytes "
            f"is not what the {len(data)} bytes of the file are"
        )
    try:
        manifest = _decode(body)
    except UNDECODABLE as error:
        raise BadRecord(f"the manifest says what no manifest says: {error}") from None
    fault = _contradiction(manifest)
    if fault is None and int(manifest.part_id, 16) != header.salt:
        fault = f"its record is that of part {header.salt:016x}"
    if fault is not None:
        raise BadRecord(f"the manifest contradicts itself: {fault}")
    return manifest


def is_part_manifest(data: bytes) -> bool:
    """Whether these bytes begin as a manifest does, be it whole or not."""
    header = parse_header(data, 0)
    return header is not None and header.kind == PART_MANIFEST_KIND


def describe_part_manifest(data: bytes) -> list[str]:
    """In words, whole or damaged; never an error."""
    try:
        manifest = decode_part_manifest(data)
    except BadRecord as error:
        return [f"damaged manifest of a part: {error.what}"]
    fields = msgspec.structs.asdict(manifest)
    fields["order_by"] = ", ".join(map(str, manifest.order_by))
    fields["leaves"] = ", ".join(map(str, manifest.leaves))
    fields["piece_lengths"] = f"{len(manifest.piece_lengths) // 4} pieces"
    columns = fields.pop("columns")
    del fields["piece_checksums"]
    return [
        f"manifest of part {manifest.part_id} of table {manifest.table_id}",
        *(f"{name:>14}  {value}" for name, value in fields.items()),
        *(f"{f'column {each.id}':>14}  {_described(each)}" for each in columns),
    ]


def _described(column: ColumnFacts) -> str:
    nulls = "unknown" if column.nulls is None else column.nulls
    return f"{column.name!r} nulls {nulls}, from {column.low!r} to {column.high!r}"


def _contradiction(manifest: PartManifest) -> str | None:
    for what, text, pattern in (
        ("the id of a table", manifest.table_id, _ID),
        ("the id of a part", manifest.part_id, _ID),
        ("a hash", manifest.hash, _HASH),
        ("a partition", manifest.partition, _PARTITION),
    ):
        if pattern.fullmatch(text) is None:
            return f"{text[:80]!r} is not {what}"
    counts = (manifest.rows, manifest.shard, manifest.schema_version, manifest.row_groups)
    if min(counts) < 0 or manifest.format < 1:
        return "a count is below zero"
    return _contradiction_of_pieces(manifest)


def _contradiction_of_pieces(manifest: PartManifest) -> str | None:
    size = len(manifest.piece_lengths)
    if size % 4 or size != len(manifest.piece_checksums):
        return "its pieces have not as many lengths as checksums"
    chunks = manifest.row_groups * len(manifest.leaves)
    if size // 4 < chunks + 2:
        return f"{size // 4} pieces are not a head, {chunks} column chunks and a footer"
    length = sum(struct.unpack(f"<{size // 4}I", manifest.piece_lengths))
    if length != manifest.size_bytes:
        return f"its pieces have {length} bytes, its file {manifest.size_bytes}"
    return None
