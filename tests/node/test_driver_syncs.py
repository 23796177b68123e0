"""How the changes of a turn become durable: some files of bulk per turn, and each replaced file once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import count
from typing import Any

import pytest
from tests.node.fakes import KIND, PEER, Bench, Call, Ping, Pong, on

from motet.core.machine import (
    Effect,
    Event,
    Message,
    Received,
    Replace,
    Send,
    Write,
    WriteFailed,
    Written,
)
from motet.errors import DiskFull
from motet.ids import FileName, WriteId
from motet.node import driver

INDEX = FileName("index")


def write(number: int, file: FileName) -> Write:
    return Write(WriteId(number), file, number * 4, b"abcd")


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_a_turn_syncs_some_files_of_bulk_the_oldest_changes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is left waits in order, and so does what was promised for it."""
    monkeypatch.setattr(driver, "turn_bulk_files_max", 3)
    files = [FileName(f"log-{number}") for number in range(7)]
    changes: list[Effect] = []
    for number, file in enumerate(files):
        kind = Replace(WriteId(number), file, b"new") if number % 2 else write(number, file)
        changes.append(kind)
    changes.append(write(7, files[0]))  # synced with the first three, told in its place
    promises = [Send(PEER, Pong(number), after=WriteId(number)) for number in (1, 5, 7)]

    async def main() -> None:
        numbers = count()

        def note(event: Event) -> list[Effect]:
            return [write(next(numbers), INDEX)] if isinstance(event, Received) else []

        bench = Bench(on(Received, *changes, *promises), note, bulk=0)
        await bench.start()
        bench.network.deliver(Ping(1))
        told: list[list[int]] = []
        synced: list[list[object]] = []
        promised: list[list[Message]] = []
        for turn in range(3):
            bench.calls.clear()
            bench.network.deliver(Ping(turn), kind=KIND + 1)
            before = len(bench.machine.events)
            await bench.one_turn()
            durable = [each for each in bench.machine.events[before:] if isinstance(each, Written)]
            told.append([each.write for each in durable])
            synced.append([file for _, file in _disk_calls(bench.calls) if file != INDEX])
            promised.append([each for _, some in bench.network.left for each in some])
            bench.network.left.clear()
        assert told == [[0, 1, 2], [3, 4, 5], [6, 7]]
        assert [sorted(map(str, each)) for each in synced] == [files[:3], files[3:6], files[6:]]
        assert promised == [[Pong(1)], [Pong(5)], [Pong(7)]]
        others = [each for each in bench.machines[1].events if isinstance(each, Written)]
        assert len(others) == 3, "they do not wait for bulk"
        await bench.wake()
        bench.driver.stop()

    run(main())


@pytest.mark.parametrize("is_full", [False, True])
def test_a_file_that_is_replaced_several_times_in_a_turn_is_replaced_once(is_full: bool) -> None:
    async def main() -> None:
        changes = [Replace(WriteId(n), INDEX, b"%d" % n) for n in range(3)]
        promise = Send(PEER, Pong(1), after=WriteId(0))
        bench = Bench(on(Received, *changes, promise))
        await bench.start()
        bench.disk.content[INDEX] = b"old"
        bench.disk.errors["replace"] = [DiskFull("planted")] if is_full else []
        bench.network.deliver(Ping(1))
        await bench.wake()
        assert _disk_calls(bench.calls) == [("replace", INDEX)]
        assert bench.disk.content[INDEX] == (b"old" if is_full else b"2")
        ended = [each for each in bench.machine.events if isinstance(each, Written | WriteFailed)]
        assert [each.write for each in ended] == [0, 1, 2]
        assert {type(each) for each in ended} == {WriteFailed if is_full else Written}
        assert bool(bench.network.left) is not is_full
        bench.driver.stop()

    run(main())


def _disk_calls(calls: list[Call]) -> list[tuple[str, object]]:
    return [(str(call[0]), call[1]) for call in calls if call[0] in ("sync", "replace")]


def test_a_full_disk_fails_the_replacement_of_a_file_in_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "turn_bulk_files_max", 2)
    changes = [Replace(WriteId(n), FileName(f"meta-{n}"), b"new") for n in range(4)]

    async def main() -> None:
        bench = Bench(on(Received, *changes), bulk=0)
        await bench.start()
        bench.disk.errors["replace"] = [DiskFull("planted")]
        bench.network.deliver(Ping(1))
        await bench.wake()
        ended = [
            (type(each), each.write)
            for each in bench.machine.events
            if isinstance(each, Written | WriteFailed)
        ]
        assert sorted(ended, key=lambda each: each[1]) == [
            (WriteFailed, 0),
            (Written, 1),
            (Written, 2),
            (Written, 3),
        ]
        bench.driver.stop()

    run(main())
