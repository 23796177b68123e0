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
from motet.ids import PartId, RequestId, SessionId, Zxid
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


def test_inserts_of_one_producer_are_under_way_together() -> None:
    """K4: none waits for another, none conflicts, and all are done."""
    stand = Stand()
    stand.start()
    for number in range(20):
        stand.receive(CLIENT, counted(number))
    while stand.working:
        stand.work()
    while any(isinstance(each, Read) for each in stand.asked):
        stand.answer(Read)
    commits = [each for each in stand.asked if isinstance(each, Write)]
    assert len(commits) == 20
    while stand.asked:
        stand.answer()
    assert sum(isinstance(each, BlockInserted) for each in stand.told) == 20
    assert not stand.state.lanes


def test_a_commit_that_builds_upon_one_that_is_not_done_is_not_done() -> None:
    """K4: another replica sets the node meanwhile; its version is then what the second commit expects."""
    stand = Stand()
    stand.start()
    for number in (1, 2):
        stand.receive(CLIENT, counted(number))
    while stand.working:
        stand.work()
    while any(isinstance(each, Read) for each in stand.asked):
        stand.answer(Read)
    other = tokens.use(PATHS, counted(3), Absent(PATHS.producer("p")))
    stand.write(other)
    stand.settle()
    assert sum(isinstance(each, BlockInserted) for each in stand.told) == 2
    data = stand.tree.get(PATHS.producer("p"))
    assert data is not None
    assert sorted(tokens.decode_producer(data).uses) == [1, 2, 3]


def test_two_inserts_of_one_number_are_not_under_way_together() -> None:
    """K4: the second one finds what became of the first."""
    stand = Stand()
    stand.start()
    again = counted(1)
    again = msgspec.structs.replace(
        again, request=RequestId(2), part=msgspec.structs.replace(again.part, id=PartId("again"))
    )
    for message in (counted(1), again):
        stand.receive(CLIENT, message)
    stand.settle()
    told = [each for each in stand.told if isinstance(each, BlockInserted)]
    assert [each.is_duplicate for each in told] == [False, True]
    assert told[0].name == told[1].name


def test_all_inserts_of_a_producer_are_told_when_the_session_ends() -> None:
    stand = Stand()
    stand.start()
    for number in (1, 2, 2):
        stand.receive(CLIENT, msgspec.structs.replace(counted(number), request=RequestId(number)))
    while stand.working:
        stand.work()
    stand.answer(Read)
    stand.end()
    codes = [each.code for each in stand.told if isinstance(each, TableRefused)]
    assert sorted(codes) == ["BAD_INPUT", "OUTCOME_UNKNOWN", "TABLE_READ_ONLY"]
    assert not stand.state.lanes
