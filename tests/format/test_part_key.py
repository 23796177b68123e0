"""Keys of parts' files: strict, and told apart."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import BadInput
from motet.format.manifest import content_hash, hash_in_name, manifest_key, parse_part_key, part_key
from motet.ids import PartId, TableId

TABLE, PART = TableId("0123456789abcdef"), PartId("fedcba9876543210")
HASH = "00112233445566778899aabbccddeeff"

hex_ids = st.text("0123456789abcdef", min_size=16, max_size=16)


@given(hex_ids, hex_ids, st.integers(0, 10**9 - 1), st.binary(max_size=20))
def test_a_key_is_taken_apart_as_it_was_made(
    table: str, part: str, number: int, data: bytes
) -> None:
    file = f"{number}-{content_hash(data)}"
    key = part_key(TableId(table), PartId(part), file)
    parsed = parse_part_key(key)
    assert (parsed.table_id, parsed.part_id, parsed.file) == (table, part, file)
    assert parsed.hash == hash_in_name(file) == content_hash(data)
    assert parse_part_key(manifest_key(TableId(table), PartId(part))).hash is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "manifest",
        f"{TABLE}/{PART}",
        f"{TABLE}/{PART}/",
        f"{TABLE}/{PART}/0",
        f"{TABLE}/{PART}/-{HASH}",
        f"{TABLE}/{PART}/00-{HASH}",
        f"{TABLE}/{PART}/0-{HASH}0",
        f"{TABLE}/{PART}/0-{HASH[:-1]}",
        f"{TABLE}/{PART}/0-{HASH.upper()}",
        f"{TABLE}/{PART}/٣-{HASH}",
        f"{TABLE}/{PART}/1234567890-{HASH}",
        f"{TABLE}/{PART}/manifest\n",
        f"{TABLE}/{PART}/manifest/",
        f"{TABLE}/{PART}/Manifest",
        f"{TABLE}/{PART}/../{PART}/manifest",
        f"{TABLE}/../manifest",
        f"../{PART}/manifest",
        f"/{TABLE}/{PART}/manifest",
        f"{TABLE}//{PART}/manifest",
        f"{TABLE.upper()}/{PART}/manifest",
        f"{TABLE}/{PART}/.store",
        f"{TABLE}\\{PART}\\manifest",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_part_key(text)


def test_the_hash_is_that_of_everybody_else() -> None:
    assert content_hash(b"x") == hashlib.blake2b(b"x", digest_size=16).hexdigest()
    assert hash_in_name("manifest") is None
