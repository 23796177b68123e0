"""E5: work that a machine asks for ends in exactly one event."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.node.fakes import Bench, Ping, Pong, on

from motet.core.machine import Started, Work, WorkDone, WorkFailed
from motet.ids import WorkId


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_it_ends_when_the_workshop_says_so_well_or_not() -> None:
    async def main() -> None:
        bench = Bench(on(Started, *(Work(WorkId(n), Ping(n)) for n in range(3))))
        await bench.start()
        assert bench.machine.kinds() == ["Started"], "nobody waits for it"
        first, second, third = bench.workshop.begun
        assert [work.task for work, _ in bench.workshop.begun] == [Ping(0), Ping(1), Ping(2)]
        third[1](Pong(2), None)
        second[1](None, "the disk is full")
        await bench.settle()
        first[1](None, None)
        await bench.settle()
        now = bench.machine.events[0].now
        assert bench.machine.events[1:] == [
            WorkDone(now, WorkId(2), Pong(2)),
            WorkFailed(now, WorkId(1), "the disk is full"),
            WorkDone(now, WorkId(0), None),
        ]
        assert (bench.driver.counters.works, bench.driver.counters.works_failed) == (3, 1)

    run(main())


def test_it_does_not_end_twice() -> None:
    async def main() -> None:
        bench = Bench(on(Started, Work(WorkId(7), Ping(0))))
        await bench.start()
        ((_, tell),) = bench.workshop.begun
        tell(None, None)
        with pytest.raises(AssertionError, match="E5"):
            tell(None, "late")
        await bench.settle()
        assert bench.machine.kinds() == ["Started", "WorkDone"]

    run(main())


def test_nobody_hears_of_it_once_the_node_has_stopped() -> None:
    async def main() -> None:
        bench = Bench(on(Started, Work(WorkId(7), Ping(0))))
        await bench.start()
        bench.driver.stop()
        ((_, tell),) = bench.workshop.begun
        tell(None, None)
        await bench.settle()
        assert bench.machine.kinds() == ["Started"]

    run(main())
