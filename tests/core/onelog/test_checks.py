"""Bad requests of all kinds are refused with the right error, and the node is as it was."""

from __future__ import annotations

import pytest
from tests.core.onelog.harness import STOCK, serving

from motet.core.onelog.checks import check
from motet.core.onelog.conversation import StreamsRequest
from motet.core.onelog.messages import (
    Append,
    Commit,
    CreateStream,
    GetLatest,
    KeyRead,
    ReadEntries,
    ReadFeed,
    ReadVisible,
    Wanted,
)
from motet.core.streams.change import Token
from motet.errors import BadInput, NoSuchShard, NoSuchStream, TooLarge
from motet.ids import Offset, RequestId, ShardId, StreamName, TransactionId
from motet.limits import (
    key_bytes_max,
    name_length_max,
    page_changes_max,
    row_bytes_max,
    stream_shards_max,
    token_number_max,
    transaction_bytes_max,
    transaction_changes_max,
    transaction_id_length_max,
)

R = RequestId(77)
T = TransactionId("t")
NOWHERE = StreamName("nowhere")
FIRST = ShardId(0)
BEGINNING = Offset(-1)
LONG_KEY = b"k" * (key_bytes_max + 1)
LONG_ROW = b"r" * (row_bytes_max + 1)


def wanted(op: str = "insert", row: bytes | None = b"1", key: bytes = b"a") -> Wanted:
    return Wanted(STOCK, key, op, row, None)  # type: ignore[arg-type]


MANY = tuple(wanted() for _ in range(transaction_changes_max + 1))
READS = tuple(KeyRead(STOCK, b"a", None) for _ in range(transaction_changes_max))
HEAVY = tuple(
    wanted(row=b"r" * row_bytes_max) for _ in range(transaction_bytes_max // row_bytes_max)
)

BAD: list[tuple[StreamsRequest, type[BadInput]]] = [
    *(
        (CreateStream(R, StreamName(name), 1), BadInput)
        for name in ("", "9a", "_a", "a b", "a/b", "a\n", "é", "a" * (name_length_max + 1))
    ),
    *((CreateStream(R, STOCK, shards), BadInput) for shards in (0, -1, stream_shards_max + 1)),
    (CreateStream(R, NOWHERE, 1, LONG_ROW), TooLarge),
    (Append(R, STOCK, b"", b"v"), BadInput),
    (Append(R, STOCK, LONG_KEY, b"v"), TooLarge),
    (Append(R, STOCK, b"a", LONG_ROW), TooLarge),
    (Append(R, NOWHERE, b"a", b"v"), NoSuchStream),
    (Append(R, STOCK, b"a", b"v", Token("", 1)), BadInput),
    (Append(R, STOCK, b"a", b"v", Token("p" * 129, 1)), BadInput),
    (Append(R, STOCK, b"a", b"v", Token("p", -1)), BadInput),
    (Append(R, STOCK, b"a", b"v", Token("p", token_number_max + 1)), BadInput),
    (GetLatest(R, STOCK, b""), BadInput),
    (GetLatest(R, STOCK, LONG_KEY), TooLarge),
    (GetLatest(R, NOWHERE, b"a"), NoSuchStream),
    (Commit(R, TransactionId(""), (), (wanted(),)), BadInput),
    (Commit(R, TransactionId("t" * (transaction_id_length_max + 1)), (), (wanted(),)), BadInput),
    (Commit(R, T, (), MANY), TooLarge),
    (Commit(R, T, READS, (wanted(),)), TooLarge),
    (Commit(R, T, (), HEAVY), TooLarge),
    (Commit(R, T, (), (wanted("append", row=None),)), BadInput),
    (Commit(R, T, (), (wanted("upsert"),)), BadInput),
    (Commit(R, T, (), (wanted("insert", None),)), BadInput),
    (Commit(R, T, (), (wanted("update", None),)), BadInput),
    (Commit(R, T, (), (wanted("delete", b"1"),)), BadInput),
    (Commit(R, T, (), (wanted("delete", b""),)), BadInput),
    (Commit(R, T, (), (wanted(key=b""),)), BadInput),
    (Commit(R, T, (), (wanted(key=LONG_KEY),)), TooLarge),
    (Commit(R, T, (), (wanted(row=LONG_ROW),)), TooLarge),
    (Commit(R, T, (), (Wanted(STOCK, b"a", "update", b"1", LONG_ROW),)), TooLarge),
    (Commit(R, T, (KeyRead(STOCK, b"", None),), (wanted(),)), BadInput),
    (Commit(R, T, (KeyRead(STOCK, LONG_KEY, None),), (wanted(),)), TooLarge),
    (Commit(R, T, (KeyRead(NOWHERE, b"a", None),), (wanted(),)), NoSuchStream),
    (Commit(R, T, (), (wanted(), Wanted(NOWHERE, b"a", "insert", b"1", None))), NoSuchStream),
    (ReadEntries(R, STOCK, FIRST, BEGINNING, 0), BadInput),
    (ReadEntries(R, STOCK, FIRST, BEGINNING, page_changes_max + 1), BadInput),
    (ReadEntries(R, STOCK, ShardId(1), BEGINNING, 1), NoSuchShard),
    (ReadEntries(R, STOCK, ShardId(-1), BEGINNING, 1), NoSuchShard),
    (ReadEntries(R, NOWHERE, FIRST, BEGINNING, 1), NoSuchStream),
    (ReadFeed(R, (), None, 1), BadInput),
    (ReadFeed(R, (STOCK,), None, 0), BadInput),
    (ReadFeed(R, (STOCK,), None, page_changes_max + 1), BadInput),
    (ReadFeed(R, (STOCK, NOWHERE), None, 1), NoSuchStream),
    (ReadVisible(R, (NOWHERE,), False), NoSuchStream),
    (StreamsRequest(R), BadInput),
]


@pytest.mark.parametrize(("message", "error"), BAD, ids=lambda value: type(value).__name__)
def test_a_bad_request_is_refused_and_changes_nothing(
    message: StreamsRequest, error: type[BadInput]
) -> None:
    bench = serving(segment_bytes=8192)
    before = bench.index.clone(), bench.machine.core.log.head, dict(bench.files)
    assert bench.refused(message) == error.code
    assert (bench.index, bench.machine.core.log.head, bench.files) == before
    assert not bench.state.pending
    assert not bench.state.waiting
    assert not bench.state.readings


def test_what_is_just_within_its_bounds_is_taken() -> None:
    for message in (
        CreateStream(R, StreamName("a" * name_length_max), stream_shards_max, b"s" * row_bytes_max),
        Append(
            R, STOCK, b"k" * key_bytes_max, b"v" * row_bytes_max, Token("p" * name_length_max, 0)
        ),
        Append(R, STOCK, b"a", b"", Token("p", token_number_max)),
        Commit(R, TransactionId("t" * transaction_id_length_max), (), MANY[1:]),
        Commit(R, T, (), (wanted("insert", b""), wanted("delete", None))),
        ReadEntries(R, STOCK, FIRST, BEGINNING, page_changes_max),
    ):
        check(message)
