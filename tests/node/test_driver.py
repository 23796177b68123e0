"""The turn of a driver, on ports that write down every call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.node.fakes import (
    KIND,
    ME,
    OTHER_PEER,
    PEER,
    Bench,
    Ping,
    Pong,
    facts,
    on,
)

from motet.core.machine import (
    ClientLeft,
    Effect,
    Event,
    Fired,
    Received,
    Send,
    SetTimer,
    Started,
    Write,
    Written,
)
from motet.errors import NodeError
from motet.ids import Address, FileName, TimerName, WriteId
from motet.limits import turn_bulk_ms_max, turn_events_max

JOURNAL = FileName("journal")
INDEX = FileName("index")
TIMER = TimerName("tick")


def write(number: int, file: FileName = JOURNAL) -> Write:
    return Write(WriteId(number), file, number * 4, b"abcd")


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_started_comes_first_with_a_fresh_nonce() -> None:
    async def main() -> None:
        bench = Bench(lambda _: [], lambda _: [])
        bench.network.deliver(Ping(1))
        await bench.start()
        first, second = (machine.events[0] for machine in bench.machines)
        assert isinstance(first, Started)
        assert isinstance(second, Started)
        assert first.nonce != second.nonce
        assert bench.machine.kinds() == ["Started", "Received"]

    run(main())


def test_a_turn_is_one_write_per_peer_and_one_sync_per_file() -> None:
    writes = iter(range(100))

    def log_and_tell(event: Event) -> list[Effect]:
        if not isinstance(event, Received):
            return []
        number = next(writes)
        return [
            write(number, JOURNAL if number % 2 else INDEX),
            Send(PEER, Ping(number)),
            Send(OTHER_PEER, Ping(number)),
        ]

    async def main() -> None:
        bench = Bench(log_and_tell)
        await bench.start()
        bench.calls.clear()
        bench.network.deliver(*(Ping(i) for i in range(10)))
        await bench.one_turn()
        assert bench.calls.count(("flush", PEER, 10)) == 1
        assert bench.calls.count(("flush", OTHER_PEER, 10)) == 1
        assert sum(call[0] == "flush" for call in bench.calls) == 2
        assert sorted(call for call in bench.calls if call[0] == "sync") == [
            ("sync", INDEX),
            ("sync", JOURNAL),
        ]
        assert bench.driver.counters.syncs == 2

    run(main())


def test_sends_without_a_condition_leave_before_the_sync() -> None:
    async def main() -> None:
        bench = Bench(on(Started, write(0), Send(PEER, Ping(1))))
        await bench.start()
        assert bench.calls.index(("flush", PEER, 1)) < bench.calls.index(("sync", JOURNAL))

    run(main())


def test_a_send_after_a_write_leaves_after_its_sync_together_with_what_follows_from_it() -> None:
    promise = Send(PEER, Pong(1), after=WriteId(0))

    def promise_then_report(event: Event) -> list[Effect]:
        if isinstance(event, Started):
            return [write(0), promise, Send(OTHER_PEER, Ping(1))]
        return [Send(PEER, Ping(2))] if isinstance(event, Written) else []

    async def main() -> None:
        bench = Bench(promise_then_report)
        bench.driver.start(bench.network)
        await bench.one_turn()
        assert bench.network.left == [
            (OTHER_PEER, [Ping(1)]),
            (PEER, [Pong(1), Ping(2)]),
        ], "one write carries both"
        synced = bench.calls.index(("sync", JOURNAL))
        assert ("send", PEER) not in bench.calls[:synced]

    run(main())


def test_an_exception_in_a_step_stops_the_node_at_once(caplog: pytest.LogCaptureFixture) -> None:
    def break_down(event: Event) -> list[Effect]:
        assert not isinstance(event, Received), "M1 planted"
        return [Send(PEER, Ping(1))] if isinstance(event, Fired) else []

    async def main() -> None:
        bench = Bench(break_down)
        await bench.start()
        bench.network.deliver(Ping(1), Ping(2))
        with caplog.at_level(logging.CRITICAL, "motet.node"):
            await bench.wake()
        with pytest.raises(NodeError, match=r"machine0 broke a rule of its own at Received.*M1"):
            await bench.driver.finished
        assert bench.machine.kinds() == ["Started", "Received"], "not even the rest of the turn"
        assert not bench.driver.running

    run(main())
    (record,) = (record for record in caplog.records if record.levelno == logging.CRITICAL)
    assert record.getMessage() == "node_stopped"
    assert "M1 planted" in str(facts(record)["why"])


def test_all_events_of_a_turn_have_the_same_time_read_once() -> None:
    async def main() -> None:
        bench = Bench(on(Started, SetTimer(TIMER, 5)))
        await bench.start()
        bench.time.move_ms(50)
        bench.network.deliver(Ping(1), Ping(2))
        readings = bench.time.readings
        await bench.one_turn()
        assert bench.time.readings == readings + 1
        assert len({event.now for event in bench.machine.events[1:]}) == 1
        assert bench.machine.kinds()[1:] == ["Received", "Received", "Fired"], "peers before timers"

    run(main())


def test_a_turn_is_bounded_and_the_rest_follows_at_once() -> None:
    async def main() -> None:
        bench = Bench(lambda _: [])
        await bench.start()
        sent = [Ping(i) for i in range(2 * turn_events_max + 1)]
        bench.network.deliver(*sent)
        bench.network.takes.clear()
        await bench.wake()
        assert bench.machine.messages() == sent
        assert max(bench.network.takes) <= turn_events_max
        assert min(bench.network.takes[:-1]) >= turn_events_max // 2

    run(main())


def test_a_machine_that_keeps_itself_busy_starves_nobody() -> None:
    def chatter(event: Event) -> list[Effect]:
        """Many messages to itself for each event: more than a turn and its queue can hold."""
        return [Send(ME, Ping(0))] * 16

    async def main() -> None:
        bench = Bench(chatter, lambda _: [])
        bench.driver.start(bench.network)
        for _ in range(5):
            await bench.one_turn()
        bench.network.deliver(Ping(7), kind=KIND + 1)
        events = bench.driver.counters.events
        await bench.one_turn()
        assert bench.machines[1].messages() == [Ping(7)]
        assert bench.driver.counters.events - events <= turn_events_max
        assert bench.driver.counters.sends_dropped["inbox_full"] > 0
        bench.driver.stop()

    run(main())


def test_a_turn_works_on_bulk_for_a_while_and_then_looks_after_the_others() -> None:
    """However many messages wait for the one, and however long each takes."""

    async def main() -> None:
        def slow(event: Event) -> list[Effect]:
            bench.time.move_ms(isinstance(event, Received))
            return []

        bench = Bench(slow, on(Fired, SetTimer(TIMER, 1)), bulk=0)
        await bench.start()
        bench.driver.tell("machine1", Fired, TIMER)
        bench.network.deliver(*map(Ping, range(1000)))
        for turn in range(1, 5):
            before = len(bench.machines[1].events)
            await bench.one_turn()
            assert turn_bulk_ms_max < len(bench.machine.messages()) / turn < 3 * turn_bulk_ms_max
            assert len(bench.machines[1].events) > before
        bench.driver.stop()

    run(main())


def test_what_others_write_is_durable_and_told_before_bulk_is_synced() -> None:
    async def main() -> None:
        bench = Bench(on(Received, write(1)), on(Received, write(1, INDEX)), bulk=0)
        await bench.start()
        bench.network.deliver(Ping(1))
        bench.network.deliver(Ping(2), kind=KIND + 1)
        bench.calls.clear()
        await bench.wake()
        synced = [call for call in bench.calls if call[0] == "sync"]
        assert synced == [("sync", INDEX), ("sync", JOURNAL)]
        bench.driver.stop()

    run(main())


def test_a_machine_that_wants_to_know_hears_that_a_client_has_left() -> None:
    async def main() -> None:
        bench = Bench(lambda _: [], lambda _: [], bulk=0)
        await bench.start()
        bench.driver.client_left(Address("client:1"))
        await bench.wake()
        assert [type(each) for each in bench.machine.events] == [Started, ClientLeft]
        assert [type(each) for each in bench.machines[1].events] == [Started]
        bench.driver.stop()

    run(main())


def test_a_message_says_whether_another_one_for_its_machine_follows_in_the_turn() -> None:
    async def main() -> None:
        bench = Bench(lambda _: [])
        await bench.start()
        bench.network.deliver(Ping(1), Ping(2), Ping(3))
        await bench.one_turn()
        bench.network.deliver(Ping(4))
        await bench.one_turn()
        received = [event for event in bench.machine.events if isinstance(event, Received)]
        assert [event.is_followed for event in received] == [True, True, False, False]

    run(main())


def test_frames_of_an_unknown_kind_are_counted_and_dropped() -> None:
    async def main() -> None:
        bench = Bench(lambda _: [])
        await bench.start()
        bench.network.deliver(Ping(1), kind=99)
        bench.network.deliver(Ping(2))
        await bench.wake()
        assert bench.machine.messages() == [Ping(2)]
        assert bench.driver.counters.frames_refused == {"unknown_kind": 1}

    run(main())


def test_stop_hands_over_what_was_released_and_then_nothing_moves() -> None:
    async def main() -> None:
        bench = Bench(on(Started, write(0), Send(PEER, Pong(1), after=WriteId(0))))
        bench.driver.start(bench.network)
        await bench.one_turn()
        bench.driver.stop()
        await bench.driver.finished
        assert bench.network.left == [(PEER, [Pong(1)])]
        bench.network.deliver(Ping(1))
        await bench.wake()
        assert bench.machine.kinds() == ["Started", "Written"]
        assert bench.driver.not_serving() == ["the node is not running"]

    run(main())


def test_an_error_of_the_driver_itself_stops_the_node_too() -> None:
    async def main() -> None:
        bench = Bench(lambda _: [])
        await bench.start()
        bench.network.inbox.append(None)  # type: ignore[arg-type]
        await bench.wake()
        with pytest.raises(NodeError, match="the driver failed: AttributeError"):
            await bench.driver.finished

    run(main())
