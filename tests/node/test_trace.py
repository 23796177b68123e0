"""A recorded run replays to the same effects, and a different machine is noticed."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.node.fakes import PEER, Behaviour, Bench, Ping, Pong, Scripted

from motet.core.machine import (
    Effect,
    Event,
    Note,
    Read,
    ReadBack,
    Received,
    Send,
    SetTimer,
    Started,
    Work,
    WorkDone,
    Write,
    Written,
)
from motet.errors import BadInput
from motet.ids import FileName, ReadId, TimerName, WorkId, WriteId
from motet.node.trace import TraceWriter, replay

FILE = FileName("file")


def busy(event: Event) -> list[Effect]:
    """Some of everything."""
    if isinstance(event, Started):
        return [
            Write(WriteId(0), FILE, 0, b"\x00\xff"),
            Read(ReadId(0), FILE),
            SetTimer(TimerName("tick"), 5),
            *(Work(WorkId(n), Ping(n)) for n in range(3)),
            Note("nonce", str(event.nonce)),
        ]
    if isinstance(event, Received):
        return [Send(event.sender, Pong(1, repr(event.message)))]
    if isinstance(event, ReadBack):
        return [Note("read", event.data.hex())]
    if isinstance(event, WorkDone):
        return [Note("done", repr(event.result))]
    return [Note(type(event).__name__)]


def without_note_at_written(event: Event) -> list[Effect]:
    return [] if isinstance(event, Written) else busy(event)


def make(behaviour: Behaviour) -> Scripted:
    return Scripted(behaviour)


#: how work ends
ENDED = ((Pong(5), None), (None, None), (None, "the disk is full"))


def record(path: Path, *deliver: Ping | Pong) -> list[Event]:
    async def main() -> list[Event]:
        with TraceWriter(path) as recorder:
            bench = Bench(busy, lambda _: [], recorder=recorder)
            await bench.start()
            for (_, tell), ended in zip(bench.workshop.begun, ENDED, strict=False):
                tell(*ended)
            bench.network.deliver(*deliver)
            bench.time.move_ms(10)
            await bench.wake()
            return bench.machine.events

    return asyncio.run(main())


def test_a_recorded_run_replays_to_the_same_events_and_effects(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    events = record(path, Ping(7), Pong(8, "ü"))
    machine = Scripted(busy)
    replayed = replay(path.read_bytes().splitlines(), "machine0", lambda: machine, Ping | Pong)
    assert machine.events == events
    assert {type(event).__name__ for event in events} == {
        "Started", "Received", "ReadBack", "Written", "Fired", "WorkDone", "WorkFailed",
    }  # fmt: skip
    assert replayed.steps == len(events)
    assert replayed.divergence is None


def test_the_first_step_that_differs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    record(path)
    lines = path.read_bytes().splitlines()
    machine = partial(make, without_note_at_written)
    divergence = replay(lines, "machine0", machine, Ping | Pong).divergence
    assert divergence is not None
    assert isinstance(divergence.event, Written)
    assert divergence.effects == []
    assert b'"Written"' in lines[divergence.line - 1]


def test_each_started_is_a_new_incarnation(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    events = record(path) + record(path)
    made: list[Scripted] = []

    def make_and_keep() -> Scripted:
        made.append(Scripted(busy))
        return made[-1]

    replayed = replay(path.read_bytes().splitlines(), "machine0", make_and_keep, Ping | Pong)
    assert replayed.steps == len(events)
    assert len(made) == 2


def test_an_event_at_which_the_machine_broke_is_in_the_trace(tmp_path: Path) -> None:
    def break_at_message(event: Event) -> list[Effect]:
        assert not isinstance(event, Received), "planted"
        return []

    async def main() -> None:
        with TraceWriter(tmp_path / "trace") as recorder:
            bench = Bench(break_at_message, recorder=recorder)
            await bench.start()
            bench.network.deliver(Ping(1), sender=PEER)
            await bench.wake()

    asyncio.run(main())
    lines = (tmp_path / "trace").read_bytes().splitlines()
    with pytest.raises(AssertionError, match="planted"):
        replay(lines, "machine0", partial(make, break_at_message), Ping | Pong)


ORPHAN = (
    b'{"machine":"m","event":{"type":"Fired","now":{"monotonic_ns":1,"wall_ns":1},"timer":"t"},'
    b'"digest":""}'
)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"not json", "line 1 is no line of a trace"),
        (b'{"machine":"m","event":{"type":"Nonsense"},"digest":""}', "line 1 is no line"),
        (ORPHAN, "line 1: m does not begin with Started"),
    ],
)
def test_what_is_no_trace_is_refused(line: bytes, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        replay([line], "m", partial(make, busy), Ping | Pong)
