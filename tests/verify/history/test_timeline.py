"""Operations drawn as bars: aligned by event, whatever their times are."""

from __future__ import annotations

from motet.verify.history import Recorder
from motet.verify.history.record import timeline


def test_bars_overlap_as_the_operations_do() -> None:
    recorder = Recorder()
    write = recorder.invoke("c1", "write", None, 1, at=100)
    read = recorder.invoke("reader", "read", None, None, at=100)
    recorder.ok(write, None, at=250)
    recorder.ok(read, 1, at=900)
    cas = recorder.invoke("c1", "cas", "x", (1, None), at=901)
    recorder.unknown(cas, at=950)
    recorder.failed(recorder.invoke("c2", "add", None, "e", at=960), at=970)
    assert str(recorder.history()).splitlines() == [
        "c1 write 1          |-----|                 ok       100..250",
        "reader read            |-----|              = 1      100..900",
        "c1 cas x 1→nothing              |--------?  unknown  901..950",
        "c2 add 'e'                         |--|     failed   960..970",
    ]


def test_an_operation_nothing_was_heard_of_has_no_end() -> None:
    recorder = Recorder()
    recorder.invoke("c1", "read", None, None, at=3)
    assert timeline(recorder.history().operations) == "c1 read  |--?  unknown  3.."


def test_nothing_is_drawn_of_nothing() -> None:
    assert timeline([]) == ""
