"""What a client has seen is the least that it is shown."""

from __future__ import annotations

from motet.client.cluster.session import Session
from motet.core.clock.hlc import ZERO, Clock
from motet.core.streams.messages import RecordsRead
from motet.ids import Offset, RequestId, ShardName

A, B = ShardName("a"), ShardName("b")


def answer(next_offset: int, closed: Clock) -> RecordsRead:
    clock = Clock(900, 0)
    return RecordsRead(RequestId(1), (), Offset(0), Offset(next_offset), clock, closed)


def test_a_new_client_takes_whatever_a_replica_has() -> None:
    assert Session().is_enough(A, answer(0, ZERO))


def test_a_replica_without_a_record_that_was_seen_is_not_enough() -> None:
    session = Session()
    session.reached(A, Offset(3))
    session.reached(A, Offset(2))
    assert not session.is_enough(A, answer(2, Clock(900, 0)))
    assert session.is_enough(A, answer(3, ZERO))
    assert session.is_enough(B, answer(0, ZERO))


def test_a_replica_that_may_lack_our_transaction_is_not_enough() -> None:
    session = Session()
    session.committed((A, B), Clock(50, 1), is_settled=True)
    session.committed((A,), Clock(40, 0), is_settled=True)
    for shard in (A, B):
        assert not session.is_enough(shard, answer(9, Clock(50, 0)))
        assert session.is_enough(shard, answer(9, Clock(50, 1)))
        assert session.closed_floor(shard) == ZERO, "its leader has logged it"


def test_a_leader_that_may_not_have_logged_our_transaction_has_to_close() -> None:
    session = Session()
    session.committed((A,), Clock(50, 1), is_settled=False)
    session.committed((A,), Clock(60, 0), is_settled=True)
    assert session.closed_floor(A) == Clock(50, 1)
    assert session.closed_floor(B) == ZERO


def test_a_bookmark_is_for_all_shards() -> None:
    session = Session()
    session.resume_after(Clock(70, 0))
    session.resume_after(Clock(60, 0))
    for shard in (A, B):
        assert session.closed_floor(shard) == Clock(70, 0)
        assert not session.is_enough(shard, answer(9, Clock(69, 0)))
