"""The streams of a node from outside: clocks, conflicts, tokens, waiting, and copies of the machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.core.onelog.harness import STOCK, Bench, put, saw, serving

from motet.core.clock.hlc import Clock
from motet.core.machine import Fired, Message, Note, Received, Started
from motet.core.onelog import machine as machine_module
from motet.core.onelog import reading, writing
from motet.core.onelog.context import Phase
from motet.core.onelog.machine import StreamsMachine
from motet.core.onelog.messages import (
    Appended,
    CommitDone,
    CreateStream,
    Describe,
    Described,
    GetLatest,
    Latest,
    ReadFeed,
    ReadVisible,
    StreamReady,
    VisibleIs,
)
from motet.core.streams.change import Token
from motet.errors import Conflict, NodeError, StreamExists, TokenExpired
from motet.ids import Address, TimerName

LONG = "x" * 300


def test_answers_leave_in_the_order_of_the_log_when_all_before_are_durable() -> None:
    bench = serving(segment_bytes=8192)
    requests = [bench.send_append("k", f"{number}") for number in range(3)]
    first, second, third = bench.writes()
    bench.done(third)
    bench.done(second)
    assert not set(requests) & set(bench.answers)
    bench.done(first)
    answers = [bench.answers[request] for request in requests]
    assert [each.offset for each in answers if isinstance(each, Appended)] == [0, 1, 2]


def test_what_is_not_durable_is_neither_read_nor_visible() -> None:
    bench = serving(segment_bytes=8192)
    bench.send_append("k", "0")
    clock = bench.state.pending[0].record.clock
    assert bench.visible() < clock
    request = bench.send(GetLatest(bench.request(), STOCK, b"k"))
    assert bench.answers[request] == Latest(request, None)
    bench.finish()
    assert bench.visible() == clock


def test_who_waits_for_the_visible_clock_waits_for_what_was_handed_out_before() -> None:
    bench = serving(segment_bytes=8192)
    bench.send_append("k", "0")
    early = bench.send(ReadVisible(bench.request(), (STOCK,), True))
    bench.send_append("k", "1")
    late = bench.send(ReadVisible(bench.request(), (STOCK,), True))
    first, second = bench.writes()
    bench.done(second)
    assert not {early, late} & set(bench.answers)
    bench.done(first)
    for request in (early, late):
        assert bench.answers[request] == VisibleIs(request, bench.state.clock.last)


def test_a_conflict_with_what_is_under_way() -> None:
    bench = serving(segment_bytes=8192)
    first = bench.send_commit("t1", put("a", "1"), reads=[saw("a", None)])
    second = bench.send_commit("t2", put("a", "2"), reads=[saw("a", None)])
    other = bench.send_commit("t3", put("b", "3"), reads=[saw("b", None)])
    assert bench.code(second) == Conflict.code
    bench.finish()
    assert isinstance(bench.answers[first], CommitDone)
    assert isinstance(bench.answers[other], CommitDone)


def test_having_seen_something_that_was_never_there_is_a_conflict() -> None:
    bench = serving()
    clock = bench.commit("t1", put("a", "1"))
    assert bench.code(bench.send_commit("t2", put("b", "1"), reads=[saw("b", clock)])) == (
        Conflict.code
    )
    assert bench.code(bench.send_commit("t3", put("b", "1"), reads=[saw("a", None)])) == (
        Conflict.code
    )


def test_a_stream_that_is_under_way_can_be_written_to_and_created_again() -> None:
    bench = Bench(segment_bytes=8192)
    bench.serve()
    bench.create("first")
    created = bench.send(CreateStream(bench.request(), STOCK, 2))
    again = bench.send(CreateStream(bench.request(), STOCK, 2))
    different = bench.send(CreateStream(bench.request(), STOCK, 3))
    appended = bench.send_append("k")
    assert bench.code(different) == StreamExists.code
    assert not {created, again, appended} & set(bench.answers)
    bench.finish()
    answers = [bench.answers[each] for each in (created, again)]
    assert [each.created for each in answers if isinstance(each, StreamReady)] == [True, False]
    assert isinstance(bench.answers[appended], Appended)


def test_a_token_is_applied_once_whenever_it_is_repeated() -> None:
    bench = serving(segment_bytes=8192)
    first = bench.send_append("k", "0", Token("p", 7))
    again = bench.send_append("k", "0", Token("p", 7))
    older = bench.send_append("k", "0", Token("p", 6))
    assert bench.code(older) == TokenExpired.code
    bench.finish()
    once, twice = bench.answers[first], bench.answers[again]
    assert isinstance(once, Appended)
    assert isinstance(twice, Appended)
    assert (once.offset, once.clock, once.duplicate) == (twice.offset, twice.clock, False)
    assert twice.duplicate
    assert bench.append("k", "0", Token("p", 7)).duplicate
    bench.crash()
    bench.serve()
    assert bench.append("k", "0", Token("p", 7)).clock == once.clock
    assert bench.append("k", "0", Token("q", 7)).offset == once.offset + 1
    assert len(bench.feed()) == 2


def test_too_many_who_write_and_too_many_who_read_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "commits_waiting_max", 2)
    monkeypatch.setattr(machine_module, "readings_max", 2)
    bench = serving(segment_bytes=8192)
    requests = [bench.send_append("k") for _ in range(3)]
    assert bench.code(requests[2]) == NodeError.code
    waiters = [bench.send(ReadVisible(bench.request(), (), True)) for _ in range(3)]
    assert bench.code(waiters[2]) == NodeError.code
    bench.finish()
    assert isinstance(bench.answers[requests[1]], Appended)
    assert isinstance(bench.answers[waiters[1]], VisibleIs)
    readers = [bench.send(ReadFeed(bench.request(), (STOCK,), None, 9)) for _ in range(3)]
    assert bench.code(readers[2]) == NodeError.code
    bench.finish()


def test_a_description() -> None:
    bench = serving(shards=2)
    bench.append("k")
    answer = bench.ask(Describe(bench.request()))
    assert isinstance(answer, Described)
    assert answer.database == 1
    assert answer.visible == answer.clock == bench.state.clock.last
    assert [(each.name, each.shards, sum(each.entries)) for each in answer.streams] == [
        (STOCK, 2, 1)
    ]
    bench.crash()
    bench.serve()
    again = bench.ask(Describe(bench.request()))
    assert isinstance(again, Described)
    assert (again.database, again.streams) == (answer.database, answer.streams)


def test_a_foreign_message_and_a_foreign_timer_are_not_ours() -> None:
    bench = serving()
    before = bench.machine.fingerprint()
    (note,) = bench.step(Received(bench.now, Address("client"), Message()))
    assert isinstance(note, Note)
    assert bench.step(Fired(bench.now, TimerName("another"))) == []
    assert bench.machine.fingerprint() == before


# Copies


def stages() -> list[tuple[str, StreamsMachine]]:
    """Machines in the middle of everything."""
    found = []
    bench = Bench()
    bench.start()
    found.append(("identifying", bench.machine.clone()))
    while bench.reads:
        bench.read_back()
    found.append(("founding", bench.machine.clone()))
    bench.finish()
    bench.create()
    bench.append("k", LONG)
    bench.append("k", LONG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "RANGE_BYTES", 1)
        bench.send(ReadFeed(bench.request(), (STOCK,), None, 9))
        while not any(begun.runs for begun in bench.state.readings.values()):
            bench.read_back()
    found.append(("reading a page", bench.machine.clone()))
    bench.finish()
    bench.send_append("k", "1", Token("p", 1))
    bench.send_append("k", "1", Token("p", 1))
    bench.send(ReadVisible(bench.request(), (), True))
    found.append(("writing", bench.machine.clone()))
    bench.fail(bench.writes()[0])
    found.append(("clearing away", bench.machine.clone()))
    bench.crash()
    bench.start()
    for _ in range(5):
        bench.read_back()
    found.append(("recovering", bench.machine.clone()))
    return found


@pytest.mark.parametrize(("name", "machine"), stages(), ids=lambda value: str(value)[:20])
def test_a_copy_is_equal_and_leads_a_life_of_its_own(name: str, machine: StreamsMachine) -> None:
    twin = machine.clone()
    assert twin.fingerprint() == machine.fingerprint(), name
    before = machine.fingerprint()
    state = twin.state
    state.pending.clear()
    state.waiting.clear()
    state.readings.clear()
    state.overlay.clear()
    state.clock.reserve_ticks += 1
    if twin.core.replica is not None:
        twin.index.places.add(Clock(9, 9), 0)
        twin.core.replica.core.state.log.tail.clear()
        twin.core.replica.core.state.log.segments.clear()
    for stream in twin.index.streams.values():
        stream.entries[0].append(9)
        stream.latest.clear()
    twin.core.shards.new_write()
    assert machine.fingerprint() == before
    assert twin.fingerprint() != before


def test_a_page_half_read_is_copied_too() -> None:
    (machine,) = (each for name, each in stages() if name == "reading a page")
    twin = machine.clone()
    for begun in twin.state.readings.values():
        assert begun.runs
        begun.runs.clear()
    assert all(begun.runs for begun in machine.state.readings.values())


def test_numbers_are_not_used_twice_and_phases_follow_each_other() -> None:
    # The harness checks each number as it is used; here is what one incarnation comes to.
    bench = serving()
    for _ in range(5):
        bench.append("k", LONG)
    bench.feed()
    desk = bench.machine.core.shards.effects
    assert sorted(bench.used_writes) == list(range(1, desk.next_write))
    assert sorted(bench.used_reads) == list(range(1, desk.next_read))
    assert bench.state.phase is Phase.SERVING


def test_a_new_database_is_named_by_the_nonce_of_its_start() -> None:
    machine = StreamsMachine(512)
    bench = Bench()
    machine.step(Started(bench.now, nonce=99))
    bench.serve()
    assert bench.state.database == 1
    assert machine.state.nonce == 99


def test_the_essay_names_the_rules_of_the_code() -> None:
    essay = Path(__file__).parents[3] / "docs" / "internals" / "streams.md"
    listed = set(re.findall(r"^\| (S\d) \|", essay.read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"^(S\d)  ", machine_module.__doc__ or "", flags=re.MULTILINE))
    assert listed == named
