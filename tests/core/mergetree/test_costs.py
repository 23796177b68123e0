"""What a step costs does not grow with the parts that are there (E7): calls are counted, not time."""

from __future__ import annotations

import sys
from types import FrameType

from tests.core.mergetree.stand import CLIENT, N2, PATHS, TABLE, Stand, header, insert

from motet.core.machine import Message
from motet.core.mergetree.entries import InsertEntry
from motet.core.mergetree.messages import BlockInserted, ListParts, LogHas, PartsListed
from motet.core.mergetree.queued import QueuedPart, Step
from motet.core.mergetree.state import OwnPart
from motet.ids import RequestId, Zxid


def stand_with(parts: int, *, queued: int = 0, readers: int = 0) -> Stand:
    """A replica that has so many parts, and waits for so many others."""
    stand = Stand()
    stand.start()
    state = stand.state
    for number in range(parts + queued):
        part = header(f"old-{number}")
        at = Zxid(-parts - queued + number)
        state.history.zxid = Zxid(at - 1)
        state.history.apply(number, at, InsertEntry(part, N2))
        if number < parts:
            state.parts[part.id] = OwnPart(part, is_stored=True, is_registered=True)
        else:
            later = QueuedPart(number, part, Step.WANTED, "", 1 << 60)
            state.queue[part.id] = later
    state.history.next_number = 0
    for number in range(readers):
        state.history.zxid = Zxid(0)
        missing = ListParts(TABLE, 0, RequestId(100 + number), -1, Zxid(0))
        stand.receive(CLIENT, missing)
    return stand


def calls_of(stand: Stand, message: Message) -> int:
    """How many functions are called until a message is answered."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        stand.receive(CLIENT, message)
        stand.settle_quietly()
    finally:
        sys.setprofile(None)
    return calls


def calls_of_an_insert(stand: Stand) -> int:
    stand.state.history.zxid = Zxid(0)
    stand.is_checked = False
    calls = calls_of(stand, insert("new"))
    assert isinstance(stand.told[-1], BlockInserted)
    return calls


def test_an_insert_costs_the_same_at_many_parts() -> None:
    few, many = (calls_of_an_insert(stand_with(parts)) for parts in (10, 5_000))
    assert many <= few * 1.1


def test_an_insert_costs_the_same_when_many_parts_are_waited_for() -> None:
    few, many = (calls_of_an_insert(stand_with(10, queued=queued)) for queued in (10, 5_000))
    assert many <= few * 1.1


def test_a_reader_that_waits_costs_nothing_at_each_step() -> None:
    """W3."""
    few, many = (
        calls_of_an_insert(stand_with(parts, queued=1, readers=1)) for parts in (10, 5_000)
    )
    assert many <= few * 1.1


def test_a_list_of_ten_thousand_parts_is_answered_at_once() -> None:
    """M9: 20 ms and some on a machine of today; here it is counted, since others use this machine, too."""
    stand = stand_with(10_000)
    stand.is_checked = False
    history = stand.state.history
    history.next_number, history.zxid = len(history.blocks), Zxid(0)
    listed: list[str] = []
    calls, more = 0, True
    while more:
        request = RequestId(100 + len(listed))
        after = listed[-1] if listed else ""
        message = ListParts(TABLE, 0, request, len(history.blocks) - 1, Zxid(0), after=after)
        calls += calls_of(stand, message)
        page = stand.told[-1]
        assert isinstance(page, PartsListed)
        listed += [each.name for each in page.parts]
        more = page.more
    assert len(set(listed)) == 10_000
    assert calls < 10_000 * 20


def test_an_idle_replica_asks_the_keeper_once_in_ten_seconds() -> None:
    stand = Stand()
    stand.start()
    stand.settle()
    asked = []
    for _ in range(30):
        stand.tick()
        asked += [each for each in stand.asked if PATHS.log in repr(each)]
        stand.settle()
    assert len(asked) == 3
    stand.receive(N2, LogHas(TABLE, 0, 0))
    assert len(stand.asked) == 1, "who is told of an entry looks at once"
