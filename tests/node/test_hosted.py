"""What becomes of each effect and event of a hosted machine, on ports that write down every call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.fakes import (
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
    CancelTimer,
    Effect,
    Event,
    Fired,
    Note,
    Preallocate,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Remove,
    Replace,
    Send,
    SetTimer,
    Started,
    Truncate,
    Violation,
    Write,
    WriteFailed,
    Written,
)
from motet.errors import DiskError, DiskFull, NodeError
from motet.ids import FileName, ReadId, TimerName, WriteId
from motet.limits import message_bytes_max

JOURNAL = FileName("journal")
INDEX = FileName("index")
TIMER = TimerName("tick")


def write(number: int, file: FileName = JOURNAL) -> Write:
    return Write(WriteId(number), file, number * 4, b"abcd")


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_a_send_after_a_write_that_is_durable_already_leaves_at_once() -> None:
    def promise_later(event: Event) -> list[Effect]:
        if isinstance(event, Started):
            return [write(0)]
        return [Send(PEER, Pong(1), after=WriteId(0))] if isinstance(event, Received) else []

    async def main() -> None:
        bench = Bench(promise_later)
        await bench.start()
        bench.network.deliver(Ping(1))
        await bench.one_turn()
        assert bench.network.left == [(PEER, [Pong(1)])]

    run(main())


def test_a_full_disk_fails_the_write_and_drops_what_waited_for_it() -> None:
    behaviour = on(
        Started,
        write(0),
        Send(PEER, Pong(0), after=WriteId(0)),
        write(1),
        Send(PEER, Pong(1), after=WriteId(1)),
    )

    async def main() -> None:
        bench = Bench(behaviour)
        # The two follow each other and are tried together first: there is room for one of them.
        bench.disk.errors["write"] = [DiskFull("planted"), DiskFull("planted")]
        await bench.start()
        assert sorted(bench.machine.kinds()) == ["Started", "WriteFailed", "Written"]
        (failed,) = (event for event in bench.machine.events if isinstance(event, WriteFailed))
        assert failed.write == 0
        assert "planted" in failed.why
        assert bench.network.left == [(PEER, [Pong(1)])]
        assert bench.driver.running
        assert bench.driver.counters.sends_dropped == {"write_failed": 1}

    run(main())


def test_a_send_naming_a_failed_write_is_dropped_until_the_machine_knows() -> None:
    def late_promise(event: Event) -> list[Effect]:
        if isinstance(event, Started):
            return [write(0)]
        return [Send(PEER, Pong(0), after=WriteId(0))] if isinstance(event, Received) else []

    async def main() -> None:
        bench = Bench(late_promise)
        bench.disk.errors["write"] = [DiskFull("planted")]
        bench.network.deliver(Ping(0))
        await bench.start()
        assert bench.machine.kinds() == ["Started", "Received", "WriteFailed"]
        assert bench.network.left == []

    run(main())


@pytest.mark.parametrize(
    ("change", "call"),
    [
        (Replace(WriteId(0), JOURNAL, b"new"), "replace"),
        (Remove(WriteId(0), JOURNAL), "remove"),
        (Truncate(WriteId(0), JOURNAL, 2), "truncate"),
        (Preallocate(WriteId(0), JOURNAL, 64), "preallocate"),
        (write(0), "write"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
class TestEveryDiskChange:
    """E5: each ends in exactly one event."""

    def test_ends_in_written_and_only_then_is_promised(self, change: Effect, call: str) -> None:
        async def main() -> None:
            bench = Bench(on(Started, change, Send(PEER, Pong(1), after=WriteId(0))))
            await bench.start()
            assert bench.machine.kinds() == ["Started", "Written"]
            assert (call == "preallocate") == (("preallocate", JOURNAL, 64) in bench.calls)
            durable = ("sync", JOURNAL) if call not in ("replace", "remove") else (call, JOURNAL)
            assert bench.calls.index(durable) < bench.calls.index(("send", PEER))
            assert sum(c[0] == "sync" for c in bench.calls) == (call not in ("replace", "remove"))

        run(main())

    def test_ends_in_write_failed_when_the_disk_is_full(self, change: Effect, call: str) -> None:
        async def main() -> None:
            bench = Bench(on(Started, change, Send(PEER, Pong(1), after=WriteId(0))))
            bench.disk.errors[call] = [DiskFull("planted")]
            await bench.start()
            assert bench.machine.kinds() == ["Started", "WriteFailed"]
            assert bench.network.left == []

        run(main())

    def test_stops_the_node_when_the_disk_fails_otherwise(self, change: Effect, call: str) -> None:
        async def main() -> None:
            bench = Bench(on(Started, change, Send(PEER, Pong(1), after=WriteId(0))))
            bench.disk.errors[call] = [DiskError("planted")]
            await bench.start()
            with pytest.raises(NodeError, match=r"machine0 could not change its files: .*planted"):
                await bench.driver.finished
            assert bench.network.left == []

        run(main())


def test_a_file_that_was_written_and_then_removed_needs_no_sync() -> None:
    async def main() -> None:
        bench = Bench(on(Started, write(0), Remove(WriteId(1), JOURNAL)))
        await bench.start()
        assert ("sync", JOURNAL) not in bench.calls
        written = [event.write for event in bench.machine.events if isinstance(event, Written)]
        assert sorted(written) == [0, 1]

    run(main())


def test_a_failed_sync_stops_the_node_and_nothing_that_waited_leaves() -> None:
    behaviour = on(Started, write(0), Send(PEER, Pong(1), after=WriteId(0)))

    async def main() -> None:
        bench = Bench(behaviour)
        bench.disk.errors["sync"] = [DiskFull("even a full disk, at a sync")]
        await bench.start()
        with pytest.raises(NodeError, match="could not sync journal"):
            await bench.driver.finished
        bench.driver.wake()
        await bench.settle()
        assert bench.network.left == []
        assert bench.machine.kinds() == ["Started"]

    run(main())


def test_reads_see_what_the_turn_wrote_and_come_back_as_events() -> None:
    read = Read(ReadId(7), JOURNAL, 1, 2)

    async def main() -> None:
        bench = Bench(on(Started, write(0), read))
        await bench.start()
        (back,) = (event for event in bench.machine.events if isinstance(event, ReadBack))
        assert (back.read, back.data) == (7, b"bc")
        bench = Bench(on(Started, read))
        bench.disk.unreadable = True
        await bench.start()
        (failed,) = (event for event in bench.machine.events if isinstance(event, ReadFailed))
        assert failed.read == 7

    run(main())


def test_a_send_that_waits_for_a_write_never_asked_for_stops_the_node() -> None:
    async def main() -> None:
        bench = Bench(on(Started, Send(PEER, Ping(1), after=WriteId(3))))
        await bench.start()
        with pytest.raises(NodeError, match="never asked for"):
            await bench.driver.finished

    run(main())


def test_invariants_are_checked_only_in_the_debug_setting() -> None:
    async def main(*, check: bool) -> Bench:
        bench = Bench(lambda _: [], check_invariants=check)
        bench.machine.violated = [Violation("M2", "planted")]
        await bench.start()
        return bench

    async def both() -> None:
        assert (await main(check=False)).driver.running
        checked = await main(check=True)
        with pytest.raises(NodeError, match="violates M2: planted"):
            await checked.driver.finished

    run(both())


def test_timers_fire_once_in_order_move_and_are_cancelled() -> None:
    a, b, c = TimerName("a"), TimerName("b"), TimerName("c")
    behaviour = on(
        Started,
        SetTimer(a, 30),
        SetTimer(b, 20),
        SetTimer(c, 10),
        SetTimer(c, 40),
        SetTimer(TIMER, 10),
        CancelTimer(TIMER),
        CancelTimer(TimerName("never set")),
    )

    async def main() -> None:
        bench = Bench(behaviour)
        await bench.start()
        fired: list[list[str]] = []
        for _ in range(6):
            bench.time.move_ms(10)
            before = len(bench.machine.events)
            await bench.wake()
            fired.append([e.timer for e in bench.machine.events[before:] if isinstance(e, Fired)])
        assert fired == [[], ["b"], ["a"], ["c"], [], []]

    run(main())


def test_a_timer_cancelled_earlier_in_the_same_turn_does_not_fire() -> None:
    def cancel_on_message(event: Event) -> list[Effect]:
        if isinstance(event, Started):
            return [SetTimer(TIMER, 5)]
        return [CancelTimer(TIMER)] if isinstance(event, Received) else []

    async def main() -> None:
        bench = Bench(cancel_on_message)
        await bench.start()
        bench.time.move_ms(50)
        bench.network.deliver(Ping(1))
        await bench.wake()
        assert "Fired" not in bench.machine.kinds()

    run(main())


def test_a_timer_that_is_set_to_nothing_lets_the_turn_end() -> None:
    async def main() -> None:
        bench = Bench(lambda _: [SetTimer(TIMER, 0)])
        bench.driver.start(bench.network)
        for fired in range(5):
            await bench.one_turn()
            assert bench.machine.kinds() == ["Started"] + ["Fired"] * (fired + 1)
            bench.time.move_ms(1)

    run(main())


def test_a_timer_that_a_message_sets_for_now_fires_after_all_messages_of_the_turn() -> None:
    async def main() -> None:
        bench = Bench(on(Received, SetTimer(TIMER, 0)))
        await bench.start()
        for number in range(3):
            bench.network.deliver(Ping(number))
        await bench.one_turn()
        assert bench.machine.kinds() == ["Started", "Received", "Received", "Received", "Fired"]

    run(main())


def test_a_message_to_ourselves_is_an_event_of_the_next_turn() -> None:
    async def main() -> None:
        bench = Bench(on(Started, Send(ME, Ping(1)), write(0), Send(ME, Pong(2), after=WriteId(0))))
        await bench.start()
        assert sorted(map(repr, bench.machine.messages())) == sorted(map(repr, [Ping(1), Pong(2)]))
        assert {e.sender for e in bench.machine.events if isinstance(e, Received)} == {ME}
        assert bench.network.left == []

    run(main())


@given(bodies=st.lists(st.binary(max_size=40), max_size=5))
def test_bodies_that_are_no_message_of_ours_are_counted_and_dropped(bodies: list[bytes]) -> None:
    async def main() -> None:
        bench = Bench(lambda _: [])
        await bench.start()
        bodies.append(b"\x82\xa4type\xa4Pong\xa4text\xa1\xff")  # right but for its text
        for body in bodies:
            bench.network.deliver_bytes(body)
        bench.network.deliver(Ping(2))
        await bench.wake()
        assert bench.machine.messages() == [Ping(2)]
        assert bench.driver.counters.frames_refused == {"undecodable": len(bodies)}
        assert bench.driver.running

    run(main())


def test_sends_nobody_takes_are_counted() -> None:
    too_large = Pong(1, "x" * message_bytes_max)

    async def main() -> None:
        bench = Bench(on(Started, Send(PEER, Ping(1)), Send(OTHER_PEER, too_large)))
        bench.network.deaf.add(PEER)
        await bench.start()
        assert bench.network.left == []
        assert bench.driver.counters.sends_dropped == {"no_peer_or_full": 1, "too_large": 1}

    run(main())


def test_notes_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        bench = Bench(on(Started, Note("rejoined", "view 3")))
        await bench.start()
        assert bench.driver.counters.notes == {("machine0", "rejoined"): 1}

    with caplog.at_level(logging.INFO, "motet.node"):
        run(main())
    (record,) = (record for record in caplog.records if record.getMessage() == "rejoined")
    assert facts(record) == {"machine": "machine0", "detail": "view 3"}


def test_a_note_is_logged_in_words_that_people_know(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        bench = Bench(on(Received, Note("shard_damaged", "00ff.0 epoch 3")))
        await bench.start()
        (hosted,) = bench.driver.hosted
        hosted.hosting = replace(
            hosted.hosting, readable=lambda _, text: text.replace("00ff.0", "orders/0")
        )
        bench.network.deliver(Ping(1))
        await bench.one_turn()

    with caplog.at_level(logging.INFO, "motet.node"):
        run(main())
    (record,) = (record for record in caplog.records if record.getMessage() == "shard_damaged")
    assert facts(record)["detail"] == "orders/0 epoch 3"
