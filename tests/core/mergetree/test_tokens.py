"""A producer's number is applied once, however late it comes again, whatever is remembered of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.mergetree.stand import CLIENT, PATHS, Stand, insert

from motet.core.mergetree import tokens
from motet.core.mergetree.messages import BlockInserted, InsertBlock, TableRefused
from motet.core.metadata.messages import (
    Absent,
    Create,
    Found,
    NodeStat,
    Read,
    ReadResult,
    Set,
    Write,
)
from motet.errors import TokenExpired, TooLarge
from motet.errors.tables import TokenReused
from motet.ids import SessionId, Zxid
from motet.limits import producer_window, producers_max


def stat(children: int = 0) -> NodeStat:
    return NodeStat(3, 0, children, Zxid(1), Zxid(1), 0, 0, SessionId(0))


NOBODY = Found(PATHS.producers, b"", stat())


def counted(number: int, content: str = "a", shard: int = 0) -> InsertBlock:
    message = insert(f"part-{number}", token="x")
    return msgspec.structs.replace(
        message, token="", producer="p", number=number, content=content, shard=shard
    )


def applied(found: ReadResult, number: int) -> ReadResult:
    done = tokens.use(PATHS, counted(number), found)
    assert isinstance(done, Create | Set)
    return Found(done.path, done.data, stat())


@given(st.lists(st.integers(0, 200), max_size=300))
def test_no_number_is_applied_twice(numbers: list[int]) -> None:
    found: ReadResult = Absent(PATHS.producer("p"))
    done: set[int] = set()
    for number in numbers:
        try:
            use = tokens.use_of(counted(number), found, NOBODY)
        except TokenExpired:
            assert len(done) >= producer_window
            continue
        if use is None:
            assert number not in done
            found = applied(found, number)
            done.add(number)
        else:
            assert number in done


def test_the_newest_numbers_are_remembered() -> None:
    found: ReadResult = Absent(PATHS.producer("p"))
    for number in range(producer_window + 5):
        found = applied(found, number)
    assert tokens.use_of(counted(5), found, NOBODY) is not None
    with pytest.raises(TokenExpired):
        tokens.use_of(counted(4), found, NOBODY)
    with pytest.raises(TokenReused):
        tokens.use_of(counted(5, "other"), found, NOBODY)
    with pytest.raises(TokenReused):
        tokens.use_of(counted(5, shard=1), found, NOBODY)


def test_so_many_producers_and_no_more() -> None:
    full = Found(PATHS.producers, b"", stat(producers_max))
    with pytest.raises(TooLarge):
        tokens.use_of(counted(1), Absent(PATHS.producer("p")), full)


def test_a_number_is_taken_back_for_its_part_alone() -> None:
    """K3."""
    found = applied(Absent(PATHS.producer("p")), 1)
    back = tokens.take_back(found, counted(1).part.id, 1)
    assert isinstance(back, Set)
    again = Found(back.path, back.data, stat())
    assert tokens.use_of(counted(1), again, NOBODY) is None
    assert tokens.take_back(found, counted(2).part.id, 1) is None
    assert tokens.take_back(again, counted(1).part.id, 1) is None


def test_inserts_of_one_producer_take_turns() -> None:
    """K4: none conflicts with another, and all are done."""
    stand = Stand()
    stand.start()
    for number in range(20):
        stand.receive(CLIENT, counted(number))
    writes = 0
    while stand.asked or stand.working:
        if stand.working:
            stand.work()
        else:
            writes += isinstance(stand.answer(), Write)
    assert sum(isinstance(each, BlockInserted) for each in stand.told) == 20
    assert writes == 20
    assert not stand.state.busy


def test_a_producer_that_waits_for_its_turn_is_told_when_the_session_ends() -> None:
    stand = Stand()
    stand.start()
    for number in range(3):
        stand.receive(CLIENT, counted(number))
    for _ in range(3):
        stand.work()
    stand.answer(Read)
    stand.end()
    codes = [each.code for each in stand.told if isinstance(each, TableRefused)]
    assert codes == ["OUTCOME_UNKNOWN", "TABLE_READ_ONLY", "TABLE_READ_ONLY"]
    assert not stand.state.busy
