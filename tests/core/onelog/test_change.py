"""Records of the log: what is written is read back, and nothing that is garbled."""

from __future__ import annotations

import msgspec
import pytest

from motet.core.clock.hlc import Clock
from motet.core.metadata.definitions import NEWEST, KeyHash
from motet.core.onelog.record import (
    KINDS,
    CommittedRecord,
    LoggedChange,
    StreamRecord,
    decode_committed,
    decode_stream_created,
    encode_body,
    feed_change,
)
from motet.core.streams.change import Token
from motet.ids import Offset, ShardId, StreamName, TransactionId

STOCK = StreamName("stock")
COMMITTED = CommittedRecord(
    Clock(7, 2),
    TransactionId("t1"),
    1234,
    (
        LoggedChange(STOCK, ShardId(1), Offset(5), b"a", "insert", b"1", None),
        LoggedChange(STOCK, ShardId(0), Offset(9), b"\xff", "delete", None, b"2"),
    ),
    Token("p", 3),
)


def test_records_are_read_back_as_they_were() -> None:
    assert decode_committed(encode_body(COMMITTED)) == COMMITTED
    created = StreamRecord(Clock(7, 1), STOCK, 4, b"arrow")
    assert decode_stream_created(encode_body(created)) == created


def test_kinds_keep_their_numbers_for_ever() -> None:
    assert {kind.name: kind.value for kind in KINDS.values()} == {
        "STREAM_CREATED": 32,
        "COMMITTED": 33,
        "FEED_ORDERED": 37,
        "CLOCK_TURNED": 40,
        "CHANGES_COMPACTED": 41,
    }


def test_a_record_without_a_token_as_older_ones_is_read() -> None:
    fields = msgspec.msgpack.decode(encode_body(COMMITTED))
    without = msgspec.msgpack.encode(fields[:-1])
    assert decode_committed(without) == msgspec.structs.replace(COMMITTED, token=None)


def test_a_clock_out_of_range_is_not_read() -> None:
    created = StreamRecord(Clock(1 << 42, 0), STOCK, 1, None)
    with pytest.raises(msgspec.ValidationError):
        decode_stream_created(encode_body(created))


def test_the_feed_shows_a_change_with_its_transaction() -> None:
    change = feed_change(COMMITTED, 1)
    assert (change.clock, change.transaction, change.at_ms) == (Clock(7, 2), "t1", 1234)
    assert (change.index, change.count) == (1, 2)
    assert (change.stream, change.shard, change.offset) == ("stock", 0, 9)
    assert (change.key, change.op, change.row, change.before) == (b"\xff", "delete", None, b"2")


def test_a_stream_of_an_older_log_keeps_its_hash() -> None:
    older = msgspec.msgpack.encode([[7, 1], "stock", 4, None])
    assert decode_stream_created(older).key_hash is KeyHash.CRC32C
    newer = StreamRecord(Clock(7, 1), STOCK, 4, None, NEWEST)
    assert decode_stream_created(encode_body(newer)) == newer
