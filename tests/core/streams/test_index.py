"""The index is a fold of the log, and refuses a log that breaks its rules."""

from __future__ import annotations

import pytest

from motet.core.clock.hlc import ZERO, Clock
from motet.core.streams.change import Committed, LoggedChange, StreamCreated, Token
from motet.core.streams.index import Index, LatestChange, TokenUse
from motet.ids import Offset, ShardId, StreamName, TransactionId

STOCK = StreamName("stock")


def committed(clock: Clock, *offsets: int, token: Token | None = None) -> Committed:
    changes = tuple(
        LoggedChange(STOCK, ShardId(0), Offset(offset), b"a", "append", b"", None)
        for offset in offsets
    )
    return Committed(clock, TransactionId(f"t-{clock}"), 0, changes, token)


def index() -> Index:
    made = Index()
    made.add(StreamCreated(Clock(1, 0), STOCK, 2, b"schema"), 0, 64)
    return made


def test_where_things_are() -> None:
    made = index()
    made.add(committed(Clock(1, 5), 0, 1, token=Token("p", 3)), 64, 80)
    made.add(committed(Clock(2, 0), 2), 512, 40)
    stream = made.streams[STOCK]
    assert stream.entries == [[1, 1, 2], []]
    assert stream.latest == {b"a": LatestChange(Clock(2, 0), 2, 0)}
    assert stream.tokens == {"p": TokenUse(3, ShardId(0), Offset(0), Clock(1, 5))}
    assert (made.positions, made.sizes) == ([0, 64, 512], [64, 80, 40])
    info = stream.info()
    assert (info.schema, info.born, info.entries) == (b"schema", Clock(1, 0), (3, 0))


def test_the_later_change_of_a_key_in_a_transaction_is_the_latest() -> None:
    made = index()
    made.add(committed(Clock(1, 5), 0, 1), 64, 80)
    assert made.streams[STOCK].latest[b"a"].index == 1


def test_the_first_record_above_a_clock() -> None:
    made = index()
    made.add(committed(Clock(2, 0), 0), 64, 40)
    assert [made.first_after(c) for c in (None, ZERO)] == [0, 0]
    assert [made.first_after(Clock(*c)) for c in ((1, 0), (1, 9), (2, 0), (3, 0))] == [1, 1, 2, 2]
    assert made.newest == Clock(2, 0)
    assert Index().newest == ZERO


def test_a_clock_that_does_not_rise_and_an_offset_that_leaves_a_gap_are_refused() -> None:
    with pytest.raises(AssertionError, match="S2"):
        index().add(committed(Clock(1, 0), 0), 64, 40)
    with pytest.raises(AssertionError, match="S3"):
        index().add(committed(Clock(2, 0), 1), 64, 40)
