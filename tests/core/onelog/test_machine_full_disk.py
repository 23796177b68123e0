"""A disk without room: what is refused, what goes on, and how the log takes up again when there is room."""

from __future__ import annotations

import pytest
from tests.core.onelog.harness import fill, serving, values

from motet.core.machine import Preallocate, Replace
from motet.core.onelog.context import Phase
from motet.core.onelog.messages import Appended, ReadVisible, VisibleIs
from motet.errors import ClockExhausted, DiskFull
from motet.limits import clock_logical_max

LONG = "x" * 300  # two such records do not fit into one segment


# A write that fails


def test_a_failed_write_takes_all_behind_it_with_it_durable_or_not() -> None:
    bench = serving(segment_bytes=8192)
    first = bench.append("k", "first")
    requests = [bench.send_append("k", f"{number}") for number in range(3)]
    failing, second, third = bench.writes()
    bench.done(second)
    bench.done(third)
    assert not [each for each in requests if each in bench.answers], "nothing overtakes"
    bench.fail(failing)
    assert [bench.code(each) for each in requests] == [DiskFull.code] * 3
    again = bench.append("k", "again")
    assert again.offset == first.offset + 1
    assert values(bench) == [b"first", b"again"]
    bench.crash()
    bench.serve()
    assert values(bench) == [b"first", b"again"]


def test_a_crash_between_the_refusal_and_the_cut_does_not_bring_back_what_was_refused() -> None:
    bench = serving(segment_bytes=8192)
    bench.append("k", "first")
    for number in range(3):
        bench.send_append("k", f"{number}")
    failing, *rest = bench.writes()
    for each in rest:
        bench.done(each)
    bench.fail(failing)
    bench.crash()
    bench.serve()
    assert values(bench) == [b"first"]


def test_nothing_more_is_written_behind_a_write_that_has_failed() -> None:
    """Else a busy node would never come to clear it away, and everything would be refused for ever."""
    bench = serving(segment_bytes=8192)
    bench.send_append("k", "0")
    bench.send_append("k", "1")
    failing, other = bench.writes()
    bench.fail(failing)
    late = bench.send_append("k", "late")
    assert bench.writes() == [other]
    bench.done(other)
    bench.finish()
    assert isinstance(bench.answers[late], Appended)
    assert values(bench) == [b"late"]


def test_a_file_that_could_not_be_made_large_is_written_to_all_the_same() -> None:
    bench = serving()
    bench.append("k", LONG)
    request = bench.send_append("k", LONG)
    (preallocate,) = (each for each in bench.pending if isinstance(each, Preallocate))
    bench.fail(preallocate)
    bench.finish()
    assert isinstance(bench.answers[request], Appended)
    bench.crash()
    bench.serve()
    assert len(values(bench)) == 2


@pytest.mark.parametrize("failing", ["database-log", "database-meta"])
def test_a_new_file_that_cannot_be_begun_refuses_and_the_log_goes_on(failing: str) -> None:
    bench = serving()
    bench.append("k", LONG)
    request = bench.send_append("k", "1" + LONG)
    for change in list(bench.pending):
        if change.file.startswith(failing):
            bench.fail(change)
    while bench.pending and request not in bench.answers:
        bench.done(bench.pending[0])
    assert bench.code(request) == DiskFull.code
    for number in range(3):
        bench.append("k", f"{number}{LONG}")
    bench.crash()
    bench.serve()
    assert values(bench) == [LONG.encode(), *(f"{n}{LONG}".encode() for n in range(3))]


def test_a_bound_that_cannot_be_written_refuses_what_waits_for_it_and_nothing_else() -> None:
    bench = serving(segment_bytes=8192)
    under_way = bench.send_append("k", "0")
    bench.wall_ms += 10_000
    waits = bench.send_append("k", "1")
    (bound,) = (each for each in bench.pending if isinstance(each, Replace))
    bench.fail(bound)
    assert bench.code(waits) == DiskFull.code
    assert under_way not in bench.answers
    bench.finish()
    assert isinstance(bench.answers[under_way], Appended)
    bench.append("k", "2")
    assert values(bench) == [b"0", b"2"]


def test_a_disk_that_stays_full_refuses_each_request_and_takes_the_first_that_finds_room() -> None:
    bench = serving(segment_bytes=8192)
    bench.append("k", "kept")
    for _ in range(3):
        request = bench.send_append("k", "0")
        fill(bench)
        assert bench.code(request) == DiskFull.code
        assert values(bench) == [b"kept"], "reading goes on"
    late = [bench.send_append("k", f"{number}") for number in range(2)]
    bench.finish()
    assert all(isinstance(bench.answers[each], Appended) for each in late)
    bench.crash()
    bench.serve()
    assert values(bench) == [b"kept", b"0", b"1"]


def test_a_database_is_opened_on_a_full_disk_and_takes_writes_when_there_is_room() -> None:
    bench = serving(segment_bytes=8192)
    bench.append("k", "kept")
    before = bench.visible()
    bench.crash()
    bench.start()
    while bench.reads:
        bench.read_back()
    fill(bench)
    assert bench.state.phase is Phase.SERVING
    assert values(bench) == [b"kept"]
    assert bench.visible() >= before
    request = bench.send_append("k", "0")
    fill(bench)
    assert bench.code(request) == DiskFull.code
    assert bench.append("k", "1").clock > before
    bench.crash()
    bench.serve()
    assert values(bench) == [b"kept", b"1"]


def test_who_waits_for_the_visible_clock_is_answered_when_the_write_fails() -> None:
    bench = serving(segment_bytes=8192)
    bench.send_append("k", "0")
    handed_out = bench.state.clock.last
    request = bench.send(ReadVisible(bench.request(), (), True))
    assert request not in bench.answers
    bench.fail(bench.writes()[0])
    answer = bench.answers[request]
    assert isinstance(answer, VisibleIs)
    assert answer.clock >= handed_out


# The end of the clock


def test_a_wall_clock_beyond_the_range_refuses_a_request_and_holds_up_no_other() -> None:
    bench = serving()
    bench.wall_ms, before = clock_logical_max + 1, bench.wall_ms
    assert bench.code(bench.send_append("k", "late")) == ClockExhausted.code
    bench.wall_ms = before
    bench.append("k", "in time")
    assert values(bench) == [b"in time"]


def test_a_request_whose_clock_ran_out_while_it_waited_is_refused_without_a_raise() -> None:
    bench = serving()
    bench.wall_ms, before = bench.wall_ms + 10_000, bench.wall_ms
    waits = bench.send_append("k", "waits for a bound")
    bench.wall_ms = clock_logical_max + 1
    late = bench.send_append("k", "late")
    bench.wall_ms = before
    bench.finish()
    assert isinstance(bench.answers[waits], Appended)
    assert bench.code(late) == ClockExhausted.code
