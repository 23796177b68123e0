"""Where the files of a part are in a part store: ``<table id>/<part id>/<file>``.

A part has two files. Its rows are in ``<n>-<hash>``, and the hash is that of the content, so whoever has
the file can tell whether it is whole. Beside it lies its ``manifest``. A part id is minted per creation
and never used again: a key never stands for two contents.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from motet.errors import BadInput
from motet.ids import ObjectKey, PartId, TableId

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
