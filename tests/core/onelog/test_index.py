"""The index is a fold of the log, and refuses a log that breaks its rules."""

from __future__ import annotations

import pytest

from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.index import Index, LatestChange, TokenUse
from motet.core.onelog.record import CommittedRecord, LoggedChange, StreamRecord
from motet.core.streams.change import Token
from motet.ids import Epoch, Offset, ShardId, StreamName, TransactionId

STOCK = StreamName("stock")
EPOCH = Epoch(4)


def committed(clock: Clock, *offsets: int, token: Token | None = None) -> CommittedRecord:
    changes = tuple(
        LoggedChange(STOCK, ShardId(0), Offset(offset), b"a", "append", b"", None)
        for offset in offsets
    )
    return CommittedRecord(clock, TransactionId(f"t-{clock}"), 0, changes, token)


def index() -> Index:
    made = Index()
    made.add(StreamRecord(Clock(1, 0), STOCK, 2, b"schema"), EPOCH)
    return made


def test_where_things_are() -> None:
    made = index()
    made.add(committed(Clock(1, 5), 0, 1, token=Token("p", 3)), EPOCH)
    made.add(committed(Clock(2, 0), 2), EPOCH)
    stream = made.streams[STOCK]
    assert stream.entries == [[1, 1, 2], []]
    assert stream.latest == {b"a": LatestChange(Clock(2, 0), 2, 0)}
    assert stream.tokens == {"p": TokenUse(3, ShardId(0), EPOCH, Offset(0), Clock(1, 5))}
    assert (made.places.stop, made.records) == (3, 3)
    info = stream.info()
    assert (info.schema, info.created, info.entries) == (b"schema", Clock(1, 0), (3, 0))


def test_the_later_change_of_a_key_in_a_transaction_is_the_latest() -> None:
    made = index()
    made.add(committed(Clock(1, 5), 0, 1), EPOCH)
    assert made.streams[STOCK].latest[b"a"].index == 1


def test_the_first_record_above_a_clock() -> None:
    made = index()
    made.add(committed(Clock(2, 0), 0), EPOCH)
    assert [made.places.first_after(c) for c in (None, ZERO)] == [0, 0]
    assert [made.places.first_after(Clock(*c)) for c in ((1, 0), (1, 9), (2, 0), (3, 0))] == [
        1,
        1,
        2,
        2,
    ]
    assert made.places.newest == Clock(2, 0)
    assert Index().places.newest == ZERO


def test_a_clock_that_does_not_rise_and_an_offset_that_leaves_a_gap_are_refused() -> None:
    with pytest.raises(AssertionError, match="S2"):
        index().add(committed(Clock(1, 0), 0), EPOCH)
    with pytest.raises(AssertionError, match="S3"):
        index().add(committed(Clock(2, 0), 1), EPOCH)
