"""Machines on the workbench: effects, durability, and what a machine owes."""

from __future__ import annotations

from typing import Self

import pytest
from tests.testing.puppet import LOG, Do, Puppet, Stage, ping, write

from motet.core.machine import (
    CancelTimer,
    Effect,
    Note,
    Preallocate,
    Read,
    ReadBack,
    ReadFailed,
    Remove,
    Replace,
    SetTimer,
    Truncate,
    WriteFailed,
    Written,
)
from motet.errors import BadScenario
from motet.ids import FileName, ReadId, TimerName, WriteId
from motet.testing.workbench import Workbench

# Effects and what comes of them


def test_every_effect_has_a_line_and_takes_place_in_order() -> None:
    stage = Stage()
    told = stage.do(
        write(1, b"abcdef"),
        Preallocate(WriteId(2), LOG, 8),
        Truncate(WriteId(3), LOG, 3),
        Replace(WriteId(4), FileName("vote"), b"xy"),
        write(5, b"!", offset=4),
        Remove(WriteId(6), FileName("none")),
        Read(ReadId(1), LOG),
        Read(ReadId(2), LOG, offset=1, size_bytes=2),
        SetTimer(TimerName("election"), 150),
        CancelTimer(TimerName("other")),
        ping(7),
        Note("elected"),
        Note("elected", "n1 in view 2"),
    )
    assert told == [
        "  write log@0 6 bytes #1",
        "  preallocate log to 8 bytes #2",
        "  truncate log to 3 bytes #3",
        "  replace vote 2 bytes #4",
        "  write log@4 1 bytes #5",
        "  remove none #6",
        "  read log@0 all #1",
        "  read log@1 2 #2",
        "  timer election in 150 ms",
        "  timer other cancelled",
        "  n1 -> n2 Ping number=7",
        "  note elected",
        "  note elected: n1 in view 2",
        "n1 read back #1: 5 bytes",
        "n1 read back #2: 2 bytes",
        *[f"n1 durable #{number}" for number in range(1, 7)],
    ]
    assert stage.happened()[:2] == [(ReadBack, 1, b"abc\0!"), (ReadBack, 2, b"bc")]
    assert stage.bench.node("n1").disk.durable == {"log": b"abc\0!", "vote": b"xy"}


def test_lines_can_be_hidden_by_kind() -> None:
    stage = Stage(show=("send",))
    lines = stage.bench.receive("n1", "c", Do((write(1, b"x"), ping(0), Note("n"))))
    assert lines == ["n1 -> n2 Ping number=0"]


def test_a_read_without_a_file_is_empty_and_an_unreadable_file_is_not() -> None:
    stage = Stage()
    stage.bench.node("n1").disk.unreadable[LOG] = "bad sector"
    told = stage.do(Read(ReadId(1), FileName("none")), Read(ReadId(2), LOG))
    assert told[-1] == "n1 cannot read #2: bad sector"
    assert stage.happened() == [(ReadBack, 1, b""), (ReadFailed, 2, "bad sector")]


def test_reads_see_what_is_not_durable_yet() -> None:
    stage = Stage()
    stage.bench.hold_sync("n1", held=True)
    stage.do(write(1, b"new"), Read(ReadId(1), LOG))
    assert stage.happened() == [(ReadBack, 1, b"new")]


def test_a_full_disk_refuses_what_grows_and_takes_the_rest() -> None:
    stage = Stage()
    stage.do(write(1, b"abcd"))
    stage.bench.node("n1").disk.full = True
    told = stage.do(
        write(2, b"XY", offset=2),
        write(3, b"XY", offset=3),
        Preallocate(WriteId(4), LOG, 4),
        Preallocate(WriteId(5), LOG, 5),
        Replace(WriteId(6), LOG, b""),
        ping(1, after=3),
        Truncate(WriteId(7), LOG, 3),
    )
    assert [event[:2] for event in stage.happened()[1:]] == [
        (WriteFailed, 3),
        (WriteFailed, 5),
        (WriteFailed, 6),
        (Written, 2),
        (Written, 4),
        (Written, 7),
    ]
    assert "  n1 -x n2 Ping number=1" in told, "a promise whose write was refused is never made"
    assert stage.bench.node("n1").disk.durable == {"log": b"abX"}
    assert not stage.bench.network.in_flight


# Durable before promised


def test_a_send_waits_for_its_write_and_no_other_does() -> None:
    stage = Stage()
    stage.bench.hold_sync("n1", held=True)
    told = stage.do(
        write(1, b"x"), write(2, b"y", file="b"), ping(1, after=1), ping(2), ping(3, after=2)
    )
    assert told[2:] == [
        "  n1 .. n2 Ping number=1 after #1",
        "  n1 -> n2 Ping number=2",
        "  n1 .. n2 Ping number=3 after #2",
    ]
    assert stage.bench.sync("n1", "log") == ["n1 durable #1", "  n1 -> n2 Ping number=1"]
    assert stage.bench.sync("n1") == ["n1 durable #2", "  n1 -> n2 Ping number=3"]
    assert stage.happened() == [(Written, 1), (Written, 2)]


def test_a_send_after_a_durable_write_leaves_at_once() -> None:
    stage = Stage()
    stage.do(write(1, b"x"))
    assert stage.do(ping(4, after=1)) == ["  n1 -> n2 Ping number=4"]


def test_letting_syncs_go_completes_what_is_pending() -> None:
    stage = Stage()
    stage.bench.hold_sync("n1", held=True)
    stage.do(write(1, b"x"))
    assert stage.bench.hold_sync("n1", held=False) == ["n1 durable #1"]


def test_a_crash_takes_what_is_not_durable_and_the_sends_that_waited_for_it() -> None:
    stage = Stage()
    stage.do(write(1, b"durable"))
    stage.bench.hold_sync("n1", held=True)
    stage.do(write(2, b"LOST"), ping(1, after=2), SetTimer(TimerName("t"), 5))
    assert stage.bench.crash("n1") == ["n1 crashed", "  lost #2"]
    node = stage.bench.node("n1")
    assert node.machine is None
    assert node.disk.files() == {"log": b"durable"}
    assert stage.bench.start("n1") == ["n1 started"]
    assert stage.bench.sync("n1") == []
    assert not stage.bench.network.in_flight
    assert stage.bench.advance(10) == []


@pytest.mark.parametrize(
    ("keep", "torn", "left"),
    [
        ([], None, b"0000"),
        ([2], None, b"00BB"),
        ([1], None, b"AAA0"),
        ([1, 2], None, b"AABB"),
        ([], (1, 2), b"AA00"),
        ([2], (1, 1), b"A0BB"),
    ],
)
def test_any_subset_of_pending_writes_can_survive_torn_or_whole(
    keep: list[int], torn: tuple[int, int] | None, left: bytes
) -> None:
    stage = Stage()
    stage.do(write(0, b"0000"))
    stage.bench.hold_sync("n1", held=True)
    stage.do(write(1, b"AAA"), write(2, b"BB", offset=2))
    cut = None if torn is None else (WriteId(torn[0]), torn[1])
    stage.bench.crash("n1", keep=[WriteId(number) for number in keep], torn=cut)
    assert stage.bench.node("n1").disk.durable == {"log": left}


def test_a_replace_is_never_torn_and_an_unknown_write_not_kept() -> None:
    stage = Stage()
    stage.bench.hold_sync("n1", held=True)
    stage.do(Replace(WriteId(1), LOG, b"whole"))
    with pytest.raises(BadScenario, match="torn"):
        stage.bench.crash("n1", torn=(WriteId(1), 2))
    with pytest.raises(BadScenario, match="#9"):
        stage.bench.crash("n1", keep=[WriteId(9)])


# What a machine owes


def test_a_broken_invariant_stops_the_script() -> None:
    stage = Stage()
    stage.puppet().broken = "two leaders"
    with pytest.raises(AssertionError, match="n1 breaks P1 two leaders"):
        stage.do()


def test_a_machine_whose_clone_acts_differently_is_caught() -> None:
    class Forgetful(Puppet):
        def clone(self) -> Self:
            return type(self)((Note("something else"),))

    bench = Workbench()
    bench.add("n1", Forgetful)
    with pytest.raises(AssertionError, match="E8"):
        bench.start("n1")


@pytest.mark.parametrize(
    ("effects", "rule"),
    [
        ((ping(1, after=1), write(1, b"x")), "E3"),
        ((write(1, b"x"), write(1, b"y")), "twice"),
        ((Read(ReadId(1), LOG), Read(ReadId(1), LOG)), "twice"),
    ],
)
def test_a_machine_that_breaks_a_rule_of_the_vocabulary_is_caught(
    effects: tuple[Effect, ...], rule: str
) -> None:
    with pytest.raises(AssertionError, match=rule):
        Stage().do(*effects)
