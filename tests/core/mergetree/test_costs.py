"""What a step costs does not grow with the parts that are there (E7): calls are counted, not time."""

from __future__ import annotations

import sys
from types import FrameType

from tests.core.mergetree.stand import CLIENT, N2, TABLE, Stand, header, insert

from motet.core.mergetree.entries import InsertEntry
from motet.core.mergetree.messages import BlockInserted, ListParts
from motet.core.mergetree.state import OwnPart, QueuedPart, Step
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


def calls_of_an_insert(stand: Stand) -> int:
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    stand.state.history.zxid = Zxid(0)
    stand.is_checked = False
    sys.setprofile(count)
    try:
        stand.receive(CLIENT, insert("new"))
        stand.settle_quietly()
    finally:
        sys.setprofile(None)
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
