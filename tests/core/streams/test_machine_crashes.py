"""What a crash or a full disk may leave behind, in the orders that hurt."""

from __future__ import annotations

import pytest
from tests.core.streams.harness import STOCK, Bench, put, saw, serving

from motet.core.machine import Preallocate, Remove, Replace, Truncate
from motet.core.streams.messages import Appended, GetLatest, ReadVisible, VisibleIs
from motet.core.streams.recovery import BOUND_FILE, IDENTITY_FILE
from motet.core.streams.state import Phase
from motet.errors import (
    BadRecord,
    ClockExhausted,
    DiskFull,
    DiskReadFailed,
    NodeError,
)
from motet.ids import FileName
from motet.limits import clock_logical_max

LONG = "x" * 300  # two such records do not fit into one segment


def values(bench: Bench) -> list[bytes | None]:
    return [change.row for change in bench.feed()]


# Files behind a gap


def test_no_file_of_the_log_is_begun_before_the_one_before_it_is_there() -> None:
    """A crash keeps any subset of what is under way: a third file without a second is never found."""
    bench = serving()
    for number in range(4):
        bench.send_append("k", f"{number}{LONG}")
    under_way = {write.file for write in bench.writes()}
    newest = max(int(file.removeprefix("log-")) for file in under_way)
    assert f"log-{newest - 1}" in bench.files, "it is durable that the file before exists"


def test_a_crash_that_keeps_only_the_newest_file_resurrects_nothing() -> None:
    bench = serving()
    bench.append("k", "confirmed")
    for number in range(4):
        bench.send_append("k", f"{number}{LONG}")
    newest = bench.writes()[-1].file
    bench.crash(keep=[change for change in bench.pending if change.file == newest])
    bench.serve()
    found = values(bench)
    assert found[0] == b"confirmed"
    # As many again but for the last, so that what was left behind would come right behind it.
    for letter in "abcd"[len(found) :]:
        bench.append("k", f"{letter}{LONG}")
    found = values(bench)
    bench.crash()
    bench.serve()
    assert values(bench) == found


def fail_over_three_segments(bench: Bench) -> None:
    """A record in the first file fails, while one in each of two more files is durable."""
    bench.send_append("k", "a" * 100)
    failing = bench.writes()[0]
    for number in range(2):
        bench.send_append("k", f"{number}{LONG}")
    while rest := [change for change in bench.pending if change != failing]:
        bench.done(rest[0])
    bench.fail(failing)


def test_a_crash_at_any_point_of_the_cutting_leaves_no_file_behind_a_gap() -> None:
    for survivors in range(8):
        bench = serving()
        fail_over_three_segments(bench)
        assert [bench.code(each) for each in sorted(bench.answers)[-3:]] == [DiskFull.code] * 3
        # Each round one of what is under way survives alone, the last first.
        for bit in range(3):
            if not survivors >> bit & 1 or not bench.pending:
                continue
            last = [each for each in bench.pending if not isinstance(each, Preallocate)][-1]
            bench.done(last)
        bench.crash()
        bench.serve()
        numbers = sorted(int(f.removeprefix("log-")) for f in bench.files if f.startswith("log"))
        assert numbers == list(range(1, len(numbers) + 1))
        for number in range(3):
            bench.append("k", f"{number}{LONG}")
        bench.crash()
        bench.serve()
        assert values(bench) == [f"{n}{LONG}".encode() for n in range(3)]


def test_cutting_removes_the_last_file_first_and_one_after_the_other() -> None:
    bench = serving()
    fail_over_three_segments(bench)
    steps = []
    while bench.pending:
        cutting = [each for each in bench.pending if not isinstance(each, Preallocate | Replace)]
        assert len(cutting) <= 1, "a later step is taken when the one before is durable"
        steps += cutting
        bench.done(bench.pending[0])
    assert [type(step) for step in steps] == [Remove, Remove, Truncate]
    assert [step.file for step in steps] == ["log-3", "log-2", "log-1"]


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


def test_the_first_write_of_a_new_file_fails_and_the_log_goes_on_in_it() -> None:
    bench = serving()
    bench.append("k", LONG)
    request = bench.send_append("k", "1" + LONG)
    for change in list(bench.pending):
        if change.file == "log-2":
            bench.fail(change)
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


def test_a_cut_that_fails_stops_the_streams_and_a_restart_brings_them_back() -> None:
    bench = serving(segment_bytes=8192)
    bench.append("k", "kept")
    bench.send_append("k", "0")
    bench.fail(bench.writes()[0])
    waits = bench.send_append("k", "waits")
    (truncate,) = (each for each in bench.pending if isinstance(each, Truncate))
    bench.fail(truncate)
    assert bench.state.phase is Phase.BROKEN
    assert bench.code(waits) == DiskFull.code
    assert bench.code(bench.send_append("k", "1")) == NodeError.code
    bench.crash()
    bench.serve()
    assert values(bench) == [b"kept"]


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


# Founding


def begin_founding(bench: Bench) -> None:
    bench.start()
    while bench.reads:
        bench.read_back()
    assert bench.pending


@pytest.mark.parametrize("failing", [Preallocate, Replace])
def test_a_database_is_founded_when_there_is_room_at_last(
    failing: type[Preallocate] | type[Replace],
) -> None:
    bench = Bench()
    begin_founding(bench)
    assert bench.state.phase is Phase.FOUNDING
    bench.fail(next(each for each in bench.pending if isinstance(each, failing)))
    assert bench.code(bench.send_append("k")) == NodeError.code
    bench.finish()
    bench.fire()
    bench.finish()
    bench.create()
    bench.append("k", LONG)
    bench.crash()
    bench.serve()
    assert values(bench) == [LONG.encode()]


def test_founding_fails_altogether_and_is_tried_once_more() -> None:
    bench = Bench()
    begin_founding(bench)
    for change in list(bench.pending):
        bench.fail(change)
    assert len(bench.timers) == 1
    bench.fire()
    bench.finish()
    bench.create()


def test_a_crash_while_founding_leaves_a_database_or_none() -> None:
    for survivors in range(4):
        bench = Bench()
        begin_founding(bench)
        bench.crash(keep=[c for n, c in enumerate(bench.pending) if survivors >> n & 1])
        bench.serve()
        bench.create()
        assert bench.state.end.salt in (1, 2)


def test_a_lost_identity_is_damage_and_not_a_new_database() -> None:
    bench = serving()
    bench.append("k", "precious")
    bench.crash()
    del bench.files[IDENTITY_FILE]
    before = dict(bench.files)
    bench.serve()
    assert bench.state.phase is Phase.BROKEN
    assert bench.files == before


# Reading back the past


def test_what_cannot_be_read_is_asked_for_again() -> None:
    bench = serving()
    bench.append("k", "kept")
    bench.crash()
    for failures in range(3):
        bench.start()
        for _ in range(failures):
            bench.read_back()
        bench.read_failed()
        assert bench.code(bench.send_append("k")) == NodeError.code
        bench.fire()
        bench.finish()
        assert values(bench) == [b"kept"]
        bench.crash()


def test_damage_of_each_file_is_noticed_and_nothing_is_served_or_changed() -> None:
    for file in (IDENTITY_FILE, BOUND_FILE, FileName("log-1"), FileName("log-2")):
        bench = serving()
        for number in range(4):
            bench.append("k", f"{number}{LONG}")
        bench.crash()
        data = bench.files[file]
        bench.files[file] = data[:9] + bytes([data[9] ^ 1]) + data[10:]
        before = dict(bench.files)
        bench.serve()
        assert bench.state.phase is Phase.BROKEN, file
        assert bench.code(bench.send_append("k")) == NodeError.code
        assert bench.files == before


def test_a_bound_behind_the_log_is_damage() -> None:
    bench = serving()
    bench.append("k")
    bench.crash()
    del bench.files[BOUND_FILE]
    bench.serve()
    assert bench.state.broken is not None
    assert bench.state.broken[0] == BadRecord.code


def test_a_page_whose_bytes_have_rotted_is_refused_and_the_node_goes_on() -> None:
    bench = serving(segment_bytes=8192)
    bench.append("k", "0")
    good = bench.files[FileName("log-1")]
    bench.files[FileName("log-1")] = good[:-8192] + bytes(200) + good[200:]
    request = bench.send(GetLatest(bench.request(), STOCK, b"k"))
    bench.finish()
    assert bench.code(request) == BadRecord.code
    bench.files[FileName("log-1")] = good
    assert values(bench) == [b"0"]


def test_a_page_that_cannot_be_read_is_refused_and_the_node_goes_on() -> None:
    bench = serving()
    bench.append("k", "0")
    request = bench.send(GetLatest(bench.request(), STOCK, b"k"))
    bench.read_failed()
    assert bench.code(request) == DiskReadFailed.code
    assert values(bench) == [b"0"]


def test_what_was_lost_with_a_crash_is_judged_as_if_it_had_never_been() -> None:
    bench = serving(segment_bytes=8192)
    seen = bench.commit("t1", put("a", "1"))
    bench.send_commit("t2", put("a", "2"), reads=[saw("a", seen)])
    bench.crash()
    bench.serve()
    assert bench.commit("t3", put("a", "3"), reads=[saw("a", seen)]) > seen
    assert values(bench) == [b"1", b"3"]


def test_a_torn_record_is_cut_and_its_clock_is_never_used_again() -> None:
    bench = serving(segment_bytes=8192)
    bench.append("k", "0")
    bench.send_append("k", LONG)
    torn_clock = bench.state.clock.last
    (write,) = bench.writes()
    bench.crash(torn=(write, 60))
    bench.serve()
    assert "streams_tail_cut" in bench.notes
    assert bench.append("k", "1").clock > torn_clock
    assert values(bench) == [b"0", b"1"]
