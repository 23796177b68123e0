"""A transaction that is held is judged with what is being written, and goes with it."""

from __future__ import annotations

from tests.core.onelog.harness import fill, put, serving

from motet.core.onelog.messages import (
    ClockFixed,
    CommitDone,
    CommitFixed,
    FixClock,
    GetTransaction,
    ReadVisible,
    TransactionIs,
    VisibleIs,
)
from motet.ids import TransactionId

T1 = TransactionId("t1")


def test_what_is_held_goes_with_what_could_not_be_written() -> None:
    bench = serving()
    appended = bench.send_append("a")
    fixed = bench.send(FixClock(bench.request(), T1, (), (put("s-9", "7"),)))
    assert isinstance(bench.answers[fixed], ClockFixed)
    fill(bench)
    assert bench.code(appended) == "DISK_FULL"
    assert bench.refused(CommitFixed(bench.request(), T1)) == "CONFLICT"
    bench.append("b")
    assert [change.key for change in bench.feed()] == [b"b"]


def test_what_is_held_is_behind_what_is_being_written() -> None:
    bench = serving()
    bench.send_append("a")
    fixed = bench.answers[bench.send(FixClock(bench.request(), T1, (), (put("s-9", "7"),)))]
    assert isinstance(fixed, ClockFixed)
    waiting = bench.send_append("b")
    bench.finish()
    assert waiting not in bench.answers
    visible = bench.ask(ReadVisible(bench.request(), (), wait=False))
    assert isinstance(visible, VisibleIs)
    assert visible.clock < fixed.clock
    done = bench.ask(CommitFixed(bench.request(), T1))
    assert isinstance(done, CommitDone)
    assert done.clock == fixed.clock
    assert [change.key for change in bench.feed()] == [b"a", b"s-9", b"b"]
    known = bench.ask(GetTransaction(bench.request(), T1))
    assert isinstance(known, TransactionIs)
    assert known.clock == fixed.clock


def test_a_crash_gives_up_what_is_held_and_its_clock() -> None:
    bench = serving()
    fixed = bench.answers[bench.send(FixClock(bench.request(), T1, (), (put("s-9", "7"),)))]
    assert isinstance(fixed, ClockFixed)
    bench.crash()
    bench.serve()
    assert bench.refused(CommitFixed(bench.request(), T1)) == "CONFLICT"
    assert bench.append("a").clock > fixed.clock
