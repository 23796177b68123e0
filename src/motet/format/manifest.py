"""A part in a part store: where its files are, and its manifest, which says what is in them.

A part has two files, under ``<table id>/<part id>/``. Its rows are in ``<n>-<hash>``, and the hash is that of
the content, so whoever has the file can tell whether it is whole. Beside it lies ``manifest``: one journal
record (:mod:`motet.format.record`) of kind 112, ``p``, whose salt is the part's id and whose body is JSON, so
that it can be read without us. Both checksums and everything that is said twice must agree, else it is
damaged: ``BadRecord``. A part id is minted per creation and never used again: a key never stands for two
contents.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from motet.errors import BadInput, BadRecord
from motet.format.record import RECORD_VERSION, encode_record, parse_body, parse_header
from motet.ids import ObjectKey, PartId, ShardId, TableId, TableName
from motet.limits import MIB

MANIFEST_FILE = "manifest"
HASH_BYTES = 16

_ID = r"[0-9a-f]{16}"
_HASH = rf"[0-9a-f]{{{2 * HASH_BYTES}}}"
_KEY = re.compile(rf"({_ID})/({_ID})/((?:0|[1-9][0-9]{{0,8}})-({_HASH})|{MANIFEST_FILE})")
_FILE = re.compile(rf"(?:0|[1-9][0-9]{{0,8}})-({_HASH})")


class PartFileKey(msgspec.Struct, frozen=True):
    """A key taken apart."""

    table_id: TableId
    part_id: PartId
    file: str
    #: of the content; None for the manifest, whose record has its own checksums
    hash: str | None


def part_key(table_id: TableId, part_id: PartId, file: str) -> ObjectKey:
    """The key of one file of a part; ``BadInput`` when an id or the file is not what it should be."""
    key = ObjectKey(f"{table_id}/{part_id}/{file}")
    parse_part_key(key)
    return key


def manifest_key(table_id: TableId, part_id: PartId) -> ObjectKey:
    """The key of the manifest of a part."""
    return part_key(table_id, part_id, MANIFEST_FILE)


def parse_part_key(text: str) -> PartFileKey:
    """Take a key apart; ``BadInput`` for every text that is not exactly one."""
    match = _KEY.fullmatch(text)
    if match is None:
        raise BadInput(
            f"{text[:120]!r} is not the key of a part's file",
            hint="<table id>/<part id>/<n>-<hash>, or manifest; ids are 16 hex digits",
        )
    table_id, part_id, file, hash_ = match.groups()
    return PartFileKey(TableId(table_id), PartId(part_id), file, hash_)


def hash_in_name(file: str) -> str | None:
    """The hash that the name of a part's file promises; None for any other name."""
    match = _FILE.fullmatch(file)
    return None if match is None else match[1]


def content_hash(data: bytes) -> str:
    """The hash of a part's file: BLAKE2b of 16 bytes, in hex."""
    return hashlib.blake2b(data, digest_size=HASH_BYTES).hexdigest()


MANIFEST_KIND = ord("p")

manifest_bytes_max = MIB
"""A manifest with its two keys; it is read whole."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a part without reading its rows."""

    table: TableName
    table_id: TableId
    part_id: PartId
    shard: ShardId
    engine: str
    order_by: tuple[str, ...]
    rows: int
    #: the name of the file with the rows, ``<n>-<hash>``, its size and the hash of its content
    file: str
    size_bytes: int
    hash: str
    #: the values of ``order_by`` in the first and in the last row, each as JSON text
    low_key: str
    high_key: str
    #: the wall clock of whoever wrote it
    written_at_ms: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Manifest).decode


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of the file. ``BadInput`` for one that could not be read back."""
    fault = _contradiction(manifest)
    if fault is not None:
        raise BadInput(f"this manifest contradicts itself: {fault}")
    data = encode_record(int(manifest.part_id, 16), 0, MANIFEST_KIND, _encode(manifest))
    if len(data) > manifest_bytes_max:
        raise BadInput(
            f"a manifest of {len(data)} bytes exceeds the limit of {manifest_bytes_max}",
            hint="order the table by shorter columns",
        )
    return data


def decode_manifest(data: bytes) -> Manifest:
    """Read it back; ``BadRecord`` when a byte of it is not what was written."""
    header = parse_header(data, 0)
    if header is None or header.kind != MANIFEST_KIND:
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
    except msgspec.MsgspecError as error:
        raise BadRecord(f"the manifest says what no manifest says: {error}") from None
    fault = _contradiction(manifest)
    if fault is None and int(manifest.part_id, 16) != header.salt:
        fault = f"its record is that of part {header.salt:016x}"
    if fault is not None:
        raise BadRecord(f"the manifest contradicts itself: {fault}")
    return manifest


def is_manifest(data: bytes) -> bool:
    """Whether these bytes begin as a manifest does, be it whole or not."""
    header = parse_header(data, 0)
    return header is not None and header.kind == MANIFEST_KIND


def describe_manifest(data: bytes) -> list[str]:
    """In words, whole or damaged; never an error."""
    try:
        manifest = decode_manifest(data)
    except BadRecord as error:
        return [f"damaged manifest of a part: {error.what}"]
    fields = msgspec.to_builtins(manifest)
    shown = {name: ", ".join(v) if isinstance(v, tuple | list) else v for name, v in fields.items()}
    return [
        f"manifest of part {manifest.part_id} of table {manifest.table!r}",
        *(f"{name:>14}  {value}" for name, value in shown.items()),
    ]


def _contradiction(manifest: Manifest) -> str | None:
    try:
        part_key(manifest.table_id, manifest.part_id, manifest.file)
    except BadInput as error:
        return error.what
    if hash_in_name(manifest.file) != manifest.hash:
        return f"the file {manifest.file} does not have the hash {manifest.hash}"
    if min(manifest.rows, manifest.size_bytes, manifest.shard, manifest.written_at_ms) < 0:
        return "a count is below zero"
    return None
