"""What a shard remembers of transactions: bounded, and never so that one could be applied twice."""

from __future__ import annotations

import pytest

from motet.core.clock.hlc import ZERO, Clock
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.entries import Aborted, Committed, Forgotten, Prepared
from motet.core.streams.latest import LatestChanges
from motet.core.streams.transactions import TransactionState
from motet.ids import Offset, ShardName, TransactionId
from motet.limits import raw_keys_max

HOME, OTHER = ShardName("h.0"), ShardName("o.0")


def branch(name: str, key: str = "k", asked: Clock = ZERO) -> Branch:
    change = RowChange(0, key.encode(), "update", b"v", None)
    return Branch(TransactionId(name), ZERO, asked, 1, (change,))


def committed(name: str, clock: Clock, *participants: ShardName, asked: Clock = ZERO) -> Committed:
    return Committed(branch(name, asked=asked), clock, 0, Offset(0), participants)


def test_an_open_prepare_locks_its_keys_and_holds_the_closed_clock_below_it() -> None:
    state = TransactionState()
    state.prepare(Clock(5, 1), Prepared(branch("t1"), (b"read",), HOME, (OTHER,)))
    state.clock = Clock(9, 0)
    assert state.locks == {b"read": "t1", b"k": "t1"}
    assert state.closed == Clock(5, 0)
    state.commit(Clock(9, 1), committed("t1", Clock(9, 0)))
    state.clock = Clock(9, 1)
    assert (state.locks, state.prepared_bytes, state.closed) == ({}, 0, Clock(9, 1))


def test_the_oldest_of_several_prepares_holds_it() -> None:
    state = TransactionState()
    for number in range(1, 4):
        body = Prepared(branch(f"t{number}", f"k{number}"), (), HOME, (OTHER,))
        state.prepare(Clock(number, 1), body)
    state.abort(Aborted(TransactionId("t2"), ZERO))
    assert state.closed == Clock(1, 0)
    state.abort(Aborted(TransactionId("t1"), ZERO))
    assert state.closed == Clock(3, 0)


def test_a_key_is_never_locked_twice() -> None:
    state = TransactionState()
    state.prepare(Clock(1, 0), Prepared(branch("t1"), (), HOME, (OTHER,)))
    with pytest.raises(AssertionError, match="X1"):
        state.prepare(Clock(2, 0), Prepared(branch("t2"), (), HOME, (OTHER,)))


def test_a_transaction_is_decided_once() -> None:
    state = TransactionState()
    state.abort(Aborted(TransactionId("t1"), ZERO, (OTHER,)))
    with pytest.raises(AssertionError, match="X2"):
        state.commit(Clock(1, 0), committed("t1", Clock(1, 0), OTHER))


def test_a_decision_stays_until_it_is_said_to_be_logged_everywhere() -> None:
    state = TransactionState(remembered=1)
    state.commit(Clock(1, 0), committed("t1", Clock(1, 0), OTHER))
    state.commit(Clock(2, 0), committed("t2", Clock(2, 0)))
    assert "t1" not in state.outcomes
    assert state.decisions[TransactionId("t1")].clock == Clock(1, 0)
    known = state.outcome_of(TransactionId("t1"))
    assert known is not None
    assert known.clock == Clock(1, 0)
    state.forget(Forgotten((TransactionId("t1"),)))
    assert state.decisions == {}
    assert state.outcome_of(TransactionId("t1")) is None


def test_what_is_older_than_what_was_forgotten_is_refused() -> None:
    state = TransactionState(remembered=2)
    assert not state.is_expired(ZERO)
    for number in range(1, 5):
        clock = Clock(number, 0)
        state.commit(clock, committed(f"t{number}", clock, asked=clock))
    assert list(state.outcomes) == ["t3", "t4"]
    assert state.low_watermark == Clock(2, 0)
    assert state.is_expired(Clock(2, 0))
    assert not state.is_expired(Clock(2, 1))


def test_who_had_seen_no_clock_when_it_asked_is_refused_once_something_is_forgotten() -> None:
    state = TransactionState(remembered=1)
    state.commit(Clock(5, 0), committed("t1", Clock(5, 0)))
    assert not state.is_expired(ZERO), "nothing is forgotten"
    state.commit(Clock(6, 0), committed("t2", Clock(6, 0)))
    assert state.is_expired(ZERO), "it may be t1"
    assert not state.is_expired(Clock(5, 0))


def test_a_shard_without_transactions_does_not_remember_all_its_keys() -> None:
    latest = LatestChanges()
    keys = [str(number).encode() for number in range(raw_keys_max + 1)]
    assert latest.wants_raw(Clock(1, 0))
    latest.add_raw(Clock(1, 0), Offset(1), keys[:-1])
    assert latest.knows(b"never")
    latest.add_raw(Clock(2, 0), Offset(2), keys[-1:])
    assert (latest.keys, latest.knows(b"never")) == ({}, False)
    assert not latest.wants_raw(Clock(3, 0))
    latest.is_wanted = True
    assert latest.wants_raw(Clock(4, 0))
    latest.add_raw(Clock(4, 0), Offset(4), [b"new"])
    assert latest.knows(b"new")
    assert not latest.knows(keys[0])
    assert latest.forgotten == Clock(3, 0)
