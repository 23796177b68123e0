"""What a crash or a full disk may leave behind, in the orders that hurt."""

from __future__ import annotations

import pytest
from tests.core.onelog.harness import STOCK, Bench, fill, put, saw, serving, values

from motet.core.onelog.context import Phase
from motet.core.onelog.messages import Appended, GetLatest
from motet.core.onelog.starting import BOUND_FILE, IDENTITY_FILE, IDENTITY_SALT
from motet.errors import (
    BadRecord,
    DiskFull,
    DiskReadFailed,
    NodeError,
)
from motet.format.record import encode_record
from motet.ids import FileName

LOG = "database-log-1"
LONG = "x" * 300  # two such records do not fit into one segment


# A crash at every boundary


def crashed_at(boundary: int, survivors: int) -> tuple[Bench, list[bytes], list[bytes]]:
    """A node that dies after so many ends of writes, of those under way some survive; and what it had said.

    What was confirmed, and what was asked for, each in order.
    """
    bench = serving()
    confirmed: list[bytes] = []
    asked = [f"{number}{LONG if number % 3 == 0 else ''}".encode() for number in range(6)]
    requests = [bench.send_append("k", value) for value in asked]
    for _ in range(boundary):
        if not bench.pending:
            break
        bench.done(bench.pending[0])
    for value, request in zip(asked, requests, strict=True):
        if isinstance(bench.answers.get(request), Appended):
            confirmed.append(value)
    bench.crash(keep=[c for n, c in enumerate(bench.pending) if survivors >> n & 1])
    return bench, confirmed, asked


@pytest.mark.parametrize("survivors", [0, 0b10, 0b0101_0101, 0b1111_0000, -2])
def test_a_crash_at_any_boundary_keeps_what_was_confirmed_and_no_more_than_a_prefix(
    survivors: int,
) -> None:
    boundary, confirmed, asked = 0, list[bytes](), [b""]
    while confirmed != asked:
        bench, confirmed, asked = crashed_at(boundary, survivors)
        boundary += 1
        bench.serve()
        found = values(bench)
        assert found[: len(confirmed)] == confirmed, "S1"
        assert found == asked[: len(found)], "no gap, and nothing twice"
        bench.append("k", f"new{LONG}")
        bench.crash()
        bench.serve()
        assert values(bench) == [*found, f"new{LONG}".encode()]


def test_a_crash_at_any_boundary_of_a_start_changes_nothing_that_is_read() -> None:
    boundary, is_through = 0, False
    while not is_through:
        bench, _, _ = crashed_at(4, 0b0101)
        bench.start()
        for _ in range(boundary):
            if bench.reads:
                bench.read_back()
            elif bench.pending:
                bench.done(bench.pending[0])
            else:
                is_through = True
        bench.crash(keep=bench.pending[1:])
        bench.serve()
        whole = values(bench)
        bench.crash()
        bench.serve()
        assert values(bench) == whole
        assert bench.append("k").offset == len(whole)
        boundary += 1
    assert boundary > 8


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


def test_a_crash_at_any_point_of_taking_back_brings_nothing_back() -> None:
    for survivors in range(8):
        bench = serving()
        fail_over_three_segments(bench)
        assert [bench.code(each) for each in sorted(bench.answers)[-3:]] == [DiskFull.code] * 3
        # Each round one of what is under way survives alone, the last first.
        for bit in range(3):
            if survivors >> bit & 1 and bench.pending:
                bench.done(bench.pending[-1])
        bench.crash()
        bench.serve()
        assert values(bench) == []
        for number in range(3):
            bench.append("k", f"{number}{LONG}")
        bench.crash()
        bench.serve()
        assert values(bench) == [f"{n}{LONG}".encode() for n in range(3)]


def test_files_of_what_was_taken_back_are_removed() -> None:
    bench = serving()
    before = sorted(bench.files)
    fail_over_three_segments(bench)
    bench.finish()
    assert sorted(bench.files) == before


# Founding


def begin_founding(bench: Bench) -> None:
    bench.start()
    while bench.reads:
        bench.read_back()
    assert bench.pending


def test_a_database_is_founded_when_there_is_room_at_last() -> None:
    """Whichever of its writes fails."""
    writes, number = 1, 0
    while number < writes:
        bench = Bench()
        begin_founding(bench)
        assert bench.state.phase is Phase.FOUNDING
        ended = 0
        while bench.pending or bench.timers:
            if not bench.pending:
                bench.fire()
            elif ended == number:
                bench.fail(bench.pending[0])
                assert bench.code(bench.send_append("k")) == NodeError.code
            else:
                bench.done(bench.pending[0])
            ended += 1
        writes = max(writes, ended)
        bench.create()
        bench.append("k", LONG)
        bench.crash()
        bench.serve()
        assert values(bench) == [LONG.encode()]
        number += 1
    assert number > 4


def test_founding_fails_altogether_and_is_tried_once_more() -> None:
    bench = Bench()
    begin_founding(bench)
    fill(bench)
    assert len(bench.timers) == 1
    bench.fire()
    bench.finish()
    bench.create()


def test_a_crash_while_founding_leaves_a_database_or_none() -> None:
    for boundary in range(8):
        for survivors in range(8):
            bench = Bench()
            begin_founding(bench)
            for _ in range(boundary):
                if bench.pending:
                    bench.done(bench.pending[0])
            bench.crash(keep=[c for n, c in enumerate(bench.pending) if survivors >> n & 1])
            bench.serve()
            bench.create()
            bench.append("k", "0")
            assert bench.state.database in (1, 2)
            bench.crash()
            bench.serve()
            assert values(bench) == [b"0"]


@pytest.mark.parametrize("file", [IDENTITY_FILE, BOUND_FILE, "shards", "database-meta", LOG])
def test_a_lost_file_is_damage_and_never_a_new_database(file: str) -> None:
    bench = serving()
    bench.append("k", "precious")
    bench.crash()
    kept = bench.files.pop(FileName(file))
    before = dict(bench.files)
    bench.serve()
    assert bench.state.phase is Phase.BROKEN
    assert bench.files == before
    bench.files[FileName(file)] = kept
    bench.serve()
    assert values(bench) == [b"precious"], "who puts it back has it back"


def test_a_log_whose_identity_and_bound_are_lost_is_not_founded_anew() -> None:
    bench = serving()
    bench.append("k", "precious")
    bench.crash()
    del bench.files[IDENTITY_FILE], bench.files[BOUND_FILE]
    bench.serve()
    assert bench.state.phase is Phase.BROKEN


def test_a_log_of_an_earlier_format_is_refused_with_what_to_do() -> None:
    bench = Bench()
    bench.files[IDENTITY_FILE] = encode_record(IDENTITY_SALT, 0, 1, bytes(8))
    bench.files[FileName("log-1")] = bytes(64)
    before = dict(bench.files)
    bench.serve()
    assert bench.state.broken is not None
    assert bench.state.broken[0] == BadRecord.code
    assert "earlier development version" in bench.state.broken[1]
    assert "that version" in bench.state.broken[2]
    assert bench.files == before


# Reading back the past


def test_what_cannot_be_read_is_asked_for_again() -> None:
    bench = serving()
    bench.append("k", "kept")
    bench.crash()
    for failures in range(5):
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
    bench = serving()
    for number in range(4):
        bench.append("k", f"{number}{LONG}")
    bench.crash()
    files = dict(bench.files)
    newest = max(file for file in files if file.startswith("database-log"))
    damageable = [file for file in files if file != newest]  # the last record is in doubt
    assert len(damageable) > 7
    for file in damageable:
        bench.files, data = dict(files), files[file]
        bench.files[file] = data[:9] + bytes([data[9] ^ 1]) + data[10:]
        before = dict(bench.files)
        bench.serve()
        assert bench.state.phase is Phase.BROKEN, file
        assert bench.code(bench.send_append("k")) == NodeError.code
        assert bench.files == before
        bench.files = dict(files)
        bench.serve()
        assert len(values(bench)) == 4, "who puts it right has it back"


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
    good = bench.files[FileName(LOG)]
    bench.files[FileName(LOG)] = bytes(40) + good[40:]
    request = bench.send(GetLatest(bench.request(), STOCK, b"k"))
    bench.finish()
    assert bench.code(request) == BadRecord.code
    assert bench.append("other", "1").offset == 1
    grown = bench.files[FileName(LOG)]
    bench.files[FileName(LOG)] = good[:40] + grown[40:]
    assert values(bench) == [b"0", b"1"]


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
    assert "shard_tail_cut" in bench.notes
    assert bench.append("k", "1").clock > torn_clock
    assert values(bench) == [b"0", b"1"]
