"""Definitions as the keeper has them: JSON that says all, and can be read by versions around this one."""

from __future__ import annotations

import json

import msgspec
import pytest

from motet.core.catalog.state import decode_definition
from motet.core.metadata.definitions import (
    NEWEST,
    KeyHash,
    StreamDefinition,
    encode_stream_definition,
)
from motet.core.metadata.paths import stream_path
from motet.errors import BadRecord
from motet.ids import StreamId, StreamName

ORDERS = StreamDefinition(StreamId("0" * 16), StreamName("orders"), 4, 1, b"\x00schema")


def test_what_is_kept_is_read_back() -> None:
    assert decode_definition("/x", encode_stream_definition(ORDERS)) == ORDERS


def test_a_field_of_a_later_version_is_passed_over() -> None:
    later = json.dumps({**json.loads(encode_stream_definition(ORDERS)), "colour": "blue"}).encode()
    assert decode_definition("/x", later) == ORDERS


@pytest.mark.parametrize("missing", ["name", "id", "shards"])
def test_what_lacks_something_is_no_definition(missing: str) -> None:
    fields = json.loads(encode_stream_definition(ORDERS))
    del fields[missing]
    with pytest.raises(BadRecord, match="/motet/streams/orders"):
        decode_definition("/motet/streams/orders", json.dumps(fields).encode())


def test_the_same_but_for_its_id() -> None:
    assert ORDERS.is_same(StreamDefinition(StreamId("1" * 16), ORDERS.name, 4, 1, ORDERS.schema))
    assert not ORDERS.is_same(StreamDefinition(ORDERS.id, ORDERS.name, 5, 1, ORDERS.schema))


def test_where_they_are() -> None:
    assert stream_path(StreamName("orders")) == "/motet/streams/orders"


def test_a_definition_without_a_hash_has_the_one_that_all_had_then() -> None:
    older = b'{"kind":"stream","id":"0","name":"orders","shards":4,"replicas":null}'
    found = decode_definition("/motet/streams/orders", older)
    assert found.key_hash is KeyHash.CRC32C
    newer = msgspec.structs.replace(found, key_hash=NEWEST)
    assert found.is_same(newer), "whoever repeats a create keeps the hash that is there"
    assert decode_definition("/x", encode_stream_definition(newer)) == newer
