"""Every operation of the workbench as a command."""

from __future__ import annotations

from typing import Self

import pytest

from motet.core.fingerprint import fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Message,
    Read,
    Received,
    Send,
    SetTimer,
    Started,
    Violation,
    Write,
    Written,
)
from motet.errors import BadScenario
from motet.ids import Address, FileName, ReadId, TimerName, WriteId
from motet.testing.bench_part import BenchPart
from motet.testing.part import verb
from motet.testing.script import parse_command

LOG = FileName("log")


class Ball(Message, frozen=True, tag="ball"):
    bounces: int


class Player:
    """Writes a ball down and throws it back."""

    def __init__(self) -> None:
        self.writes = 0

    def step(self, event: Event) -> list[Effect]:
        match event:
            case Started():
                return [Read(ReadId(0), LOG), SetTimer(TimerName("yawn"), 100)]
            case Received(sender=sender, message=Ball(bounces=bounces)):
                self.writes += 1
                write = Write(WriteId(self.writes), LOG, 4 * (self.writes - 1), b"ball")
                back = Send(sender, Ball(bounces - 1), after=write.id)
                return [write, back] if bounces else [write]
            case Written():
                return []
        return []

    def clone(self) -> Self:
        twin = type(self)()
        twin.writes = self.writes
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint(self.writes)

    def invariants(self) -> list[Violation]:
        return []


class PlayerPart(BenchPart):
    name = "player"

    @verb
    def cluster(self, *, nodes: int) -> list[str]:
        for number in range(1, nodes + 1):
            self.bench.add(f"n{number}", Player)
        return []

    @verb
    def throw(self, to: str, from_: str, *, bounces: int = 0) -> list[str]:
        return self.bench.receive(Address(to), from_, Ball(bounces))


def run(part: PlayerPart, *lines: str) -> list[str]:
    """The output of the last line."""
    return [part.run(parse_command(line, "x:1")) for line in lines][-1]


@pytest.fixture
def part() -> PlayerPart:
    part = PlayerPart()
    run(part, "cluster nodes=2", "show event send", "start")
    return part


def test_starting_without_a_name_starts_all_that_are_down(part: PlayerPart) -> None:
    run(part, "crash n2")
    assert run(part, "start") == ["n2 started", "n2 read back #0: 0 bytes"]


def test_messages_are_delivered_dropped_and_repeated(part: PlayerPart) -> None:
    run(part, "throw n1 n2 bounces=2")
    assert run(part, "messages") == ["n1 -> n2 Ball bounces=1"]
    assert run(part, "repeat n2 from=n1 kind=Ball") == ["  n1 -> n2 Ball bounces=1"]
    assert run(part, "drop n1") == []
    assert run(part, "deliver n2 from=n1")[0] == "n2 received Ball bounces=1 from n1"
    assert run(part, "drop") == ["  n2 -x n1 Ball bounces=0"] * 2
    assert run(part, "messages") == ["nothing in flight"]


def test_messages_settle(part: PlayerPart) -> None:
    assert run(part, "throw n1 n2 bounces=2", "settle")[-2:] == [
        "n1 received Ball bounces=0 from n2",
        "n1 durable #2",
    ]


def test_links_are_cut_and_mended(part: PlayerPart) -> None:
    assert "  n1 -x n2 Ball bounces=0" in run(part, "cut n1 n2", "throw n1 n2 bounces=1")
    assert "  n1 -> n2 Ball bounces=0" in run(part, "heal", "throw n1 n2 bounces=1")
    assert "  n2 -x n1 Ball bounces=0" in run(part, "isolate n1", "throw n2 n1 bounces=1")


def test_syncs_are_held_and_done(part: PlayerPart) -> None:
    run(part, "hold-sync on n1", "throw n1 n2 bounces=1")
    assert run(part, "files n1") == ["log 4 bytes, 0 durable"]
    assert run(part, "sync n1 file=other") == []
    assert run(part, "sync n1 file=log") == ["n1 durable #1", "  n1 -> n2 Ball bounces=0"]
    assert run(part, "files n1") == ["log 4 bytes, 4 durable"]
    assert run(part, "files n2") == ["no files"]


@pytest.mark.parametrize(
    ("crash", "left"),
    [
        ("crash n1", "no files"),
        ("crash n1 keep=all", "log 8 bytes, 8 durable"),
        ("crash n1 keep=1", "log 4 bytes, 4 durable"),
        ("crash n1 keep=1,2", "log 8 bytes, 8 durable"),
        ("crash n1 keep=1 torn=2:3", "log 7 bytes, 7 durable"),
    ],
)
def test_a_crash_keeps_what_it_is_told_to(part: PlayerPart, crash: str, left: str) -> None:
    run(part, "hold-sync on n1", "throw n1 n2", "throw n1 n2", crash)
    assert run(part, "files n1") == [left]


@pytest.mark.parametrize("crash", ["crash n1 keep=x", "crash n1 torn=1", "crash n1 torn=1:2:3"])
def test_a_crash_that_makes_no_sense_is_refused(part: PlayerPart, crash: str) -> None:
    with pytest.raises(BadScenario, match="expected"):
        run(part, "hold-sync on n1", "throw n1 n2", crash)


def test_disks_fill_up_and_go_bad(part: PlayerPart) -> None:
    assert "n1 refused #1: disk full" in run(part, "disk full n1", "throw n1 n2")
    assert run(part, "unreadable log n2", "restart n2")[-1] == "n2 cannot read #0: bad sector"
    run(part, "disk ok n1", "disk ok n2")
    assert "n1 durable #2" in run(part, "throw n1 n2")
    assert run(part, "restart n2")[-1] == "n2 read back #0: 0 bytes"


def test_time_passes_when_told_to(part: PlayerPart) -> None:
    assert run(part, "advance 40") == []
    assert run(part, "timers n1") == ["yawn in 60 ms"]
    assert run(part, "fire yawn n2") == ["n2 fired yawn"]
    assert run(part, "timers n2") == ["no timers"]
    run(part, "wall 7000 n1", "wall 8000 n2")
    assert [node.wall_ns for node in part.bench.nodes.values()] == [7_000_000_000, 8_000_000_000]


def test_with_one_node_its_name_goes_without_saying() -> None:
    part = PlayerPart()
    run(part, "cluster nodes=1", "start", "throw n1 client bounces=1")
    assert run(part, "files") == ["log 4 bytes, 4 durable"]
    run(part, "restart", "hold-sync on", "sync", "timers", "crash")


def test_with_several_nodes_it_does_not(part: PlayerPart) -> None:
    with pytest.raises(BadScenario, match="which node"):
        run(part, "crash")


def test_lines_are_shown_by_kind(part: PlayerPart) -> None:
    assert run(part, "show disk", "throw n1 n2") == ["write log@0 4 bytes #1"]
    assert len(run(part, "show", "throw n1 n2")) == 3
    with pytest.raises(BadScenario, match="no kind 'sound'"):
        run(part, "show sound")
