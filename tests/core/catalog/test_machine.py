"""Streams with their catalog: defined first, created then, and complete after any crash."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.core.catalog.harness import CatalogBench, serving

from motet.core.catalog.state import Phase
from motet.core.metadata.definitions import (
    DatabaseIdentity,
    decode_database_identity,
    encode_database_identity,
)
from motet.core.metadata.messages import SessionBegun, SessionEnded, Written
from motet.core.onelog.messages import CreateStream, Describe, StreamReady, StreamsRefused
from motet.errors import BadRecord
from motet.ids import RequestId, StreamName, Zxid
from motet.limits import definition_bytes_max


def test_a_stream_is_in_the_keeper_before_it_is_in_the_log() -> None:
    bench = serving()
    request = bench.send_create("orders", shards=3)
    assert not bench.pending, "C1: nothing is written before the keeper has it"
    answer = bench.keep()
    kept = json.loads(bench.stored("/motet/streams/orders"))
    assert (kept["kind"], kept["name"], kept["shards"], kept["schema"]) == (
        "stream",
        "orders",
        3,
        None,
    )
    assert request not in bench.answers
    bench.tell(answer)
    assert request not in bench.answers, "C1: and nothing is told before the log has it"
    bench.finish()
    ready = bench.answers[request]
    assert isinstance(ready, StreamReady)
    assert (ready.created, ready.info.shards) == (True, 3)
    assert bench.described() == {"orders": (3, None)}


def test_the_same_once_more_is_fine_and_asks_the_keeper_nothing() -> None:
    bench = serving()
    bench.create("orders", 2)
    request = bench.send_create("orders", 2)
    assert not bench.asked
    again = bench.answers[request]
    assert isinstance(again, StreamReady)
    assert not again.created


def test_something_else_of_that_name_exists_already() -> None:
    bench = serving()
    bench.create("orders", 2)
    assert bench.refused(CreateStream(bench.request(), StreamName("orders"), 3)) == "STREAM_EXISTS"


def test_of_two_at_once_the_first_in_the_keeper_is_right() -> None:
    bench = serving()
    first, same, other = (bench.send_create("orders", shards) for shards in (2, 2, 3))
    assert len(bench.asked) == 3
    bench.finish()
    ready, again = bench.answers[first], bench.answers[same]
    assert isinstance(ready, StreamReady)
    assert isinstance(again, StreamReady)
    assert ready.info == again.info
    assert bench.code(other) == "STREAM_EXISTS"
    assert bench.described() == {"orders": (2, None)}


def test_what_makes_no_sense_never_gets_to_the_keeper() -> None:
    bench = serving()
    assert bench.refused(CreateStream(bench.request(), StreamName("no/name"), 1)) == "BAD_INPUT"
    assert bench.refused(CreateStream(bench.request(), StreamName("none"), 0)) == "BAD_INPUT"
    large = bytes(definition_bytes_max)
    assert bench.refused(CreateStream(bench.request(), StreamName("big"), 1, large)) == "TOO_LARGE"
    assert bench.below("/motet/streams") == []


def test_a_keeper_that_fails_is_told_to_whoever_asked() -> None:
    bench = serving()
    request = bench.send_create("orders")
    bench.fail_keeper()
    assert bench.code(request) == "NODE"
    assert bench.create("orders").created


def test_a_birth_that_is_refused_can_be_had_later() -> None:
    bench = serving()
    request = bench.send_create("orders", 2)
    bench.tell(bench.keep())
    while bench.pending:
        bench.fail(bench.pending[0])
    assert bench.code(request) == "DISK_FULL"
    assert bench.described() == {}
    bench.finish()
    assert bench.refused(CreateStream(bench.request(), StreamName("orders"), 3)) == "STREAM_EXISTS"
    assert bench.create("orders", 2).created


# Starting


def serves(bench: CatalogBench) -> bool:
    return bench.catalog.is_serving


def test_nothing_is_answered_before_the_catalog_is_read() -> None:
    bench = CatalogBench()
    bench.start()
    while bench.reads or bench.pending:
        if bench.reads:
            bench.read_back()
        else:
            bench.done(bench.pending[0])
    assert len(bench.asked) == 1
    for message in (
        Describe(bench.request()),
        CreateStream(bench.request(), StreamName("orders"), 1),
    ):
        assert bench.code(bench.send(message)) == "NODE"
    bench.finish()
    assert bench.catalog.is_serving


def test_a_keeper_that_cannot_be_read_is_asked_again() -> None:
    bench = serving()
    bench.create("orders")
    bench.start()
    bench.finish_disk()
    late = bench.asked[0]
    bench.fail_keeper()
    assert not serves(bench)
    bench.fire()
    assert len(bench.asked) == 1
    bench.tell(bench.tree.answer(late))  # of what was asked first: too late
    assert not serves(bench)
    bench.finish()
    assert serves(bench)
    assert bench.described() == {"orders": (1, None)}


def test_what_was_asked_under_a_session_that_ended_is_unknown_and_goes_on_under_the_next() -> None:
    bench = serving()
    request = bench.send_create("orders", 2)
    kept = bench.keep()  # the keeper has it
    session = bench.catalog.state.session
    bench.tell(SessionEnded(session))
    assert bench.code(request) == "OUTCOME_UNKNOWN"
    before = bench.catalog.fingerprint()
    bench.tell(kept)
    assert bench.catalog.fingerprint() == before, "it is of the former session"
    bench.tree.end_session(session)
    assert bench.refused(CreateStream(bench.request(), StreamName("orders"), 2)) == "NODE"
    bench.tell(SessionBegun(bench.tree.begin_session()))
    assert bench.create("orders", 2).created


def test_what_is_in_the_log_and_not_in_the_keeper_is_refused() -> None:
    bench = serving()
    bench.create("orders")
    bench.remove("/motet/streams/orders")
    bench.serve()
    assert_broken(bench, "does not define")


def test_what_is_defined_otherwise_is_refused() -> None:
    bench = serving()
    bench.create("orders", 2)
    path = "/motet/streams/orders"
    bench.put(path, bench.stored(path).replace(b'"shards":2', b'"shards":3'))
    bench.serve()
    assert_broken(bench, "does not define")


def test_the_keeper_of_another_database_is_refused() -> None:
    bench = serving()
    bench.create("orders")
    identity = DatabaseIdentity("a1b2", "0123456789abcdef")
    bench.put("/motet/database", encode_database_identity(identity))
    bench.serve()
    assert_broken(bench, "another")


def test_a_keeper_whose_database_has_no_number_yet_gets_that_of_its_log() -> None:
    bench = serving()
    bench.put("/motet/database", encode_database_identity(DatabaseIdentity("a1b2")))
    bench.serve()
    identity = decode_database_identity(bench.stored("/motet/database"))
    assert identity.incarnation == "a1b2"
    assert identity.number == f"{bench.catalog.streams.state.database:016x}"
    assert bench.catalog.is_serving


def test_a_database_that_says_nothing_of_itself_is_refused() -> None:
    for data in (b"0123456789abcdef", b"{}", b'{"incarnation":"x","number":""}', b"\xff"):
        bench = serving()
        bench.put("/motet/database", data)
        bench.serve()
        assert_broken(bench, "/motet/database does not say")


def test_a_keeper_that_is_there_without_its_log_is_refused() -> None:
    bench = serving()
    bench.create("orders")
    bench.files = {}
    bench.serve()
    assert_broken(bench, "another")


def test_a_definition_that_is_none_is_refused() -> None:
    for data in (b"", b"{}", b'{"kind":"heap","name":"x"}', b"\xff\xfe"):
        bench = serving()
        bench.put("/motet/streams/orders", data)
        bench.serve()
        assert_broken(bench, "/motet/streams/orders is no definition")


def assert_broken(bench: CatalogBench, why: str) -> None:
    assert bench.catalog.state.phase is Phase.BROKEN
    assert bench.catalog.broken is not None
    code, what, advice = bench.catalog.broken
    assert code == BadRecord.code
    assert why in what
    assert advice
    answer = bench.ask(Describe(bench.request()))
    assert isinstance(answer, StreamsRefused)
    assert why in answer.what


def test_strange_messages_of_the_keeper_change_nothing() -> None:
    bench = serving()
    before = bench.catalog.fingerprint()
    bench.tell(Written(RequestId(99), Zxid(9), ("/motet/streams/x",)))
    bench.tell(Describe(bench.request()))
    assert bench.catalog.fingerprint() == before
    assert bench.notes[-2:] == ["catalog_unasked", "catalog_foreign_message"]


# Crashes

Step = Callable[[CatalogBench], object]


def create_both(bench: CatalogBench) -> None:
    bench.send_create("orders", 2)
    bench.send_create("stock")


def advance(bench: CatalogBench, moves: int) -> int:
    """Let so many things happen, one by one; how many did."""
    for done in range(moves):
        if bench.asked:
            bench.tell(bench.keep())
        elif bench.reads:
            bench.read_back()
        elif bench.pending:
            bench.done(bench.pending[0])
        else:
            return done
    return moves


def moves_of_creating() -> int:
    bench = serving()
    create_both(bench)
    return advance(bench, 1_000)


@pytest.mark.parametrize("moves", range(moves_of_creating() + 1))
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_crash_anywhere_leaves_nothing_half_done(moves: int, is_kept: bool) -> None:
    bench = serving()
    create_both(bench)
    advance(bench, moves)
    if is_kept and bench.asked:
        bench.keep()  # the keeper has it, and nobody hears of it any more
    told = dict(bench.answers)
    bench.crash()
    bench.serve()
    assert bench.catalog.is_serving
    streams = list(bench.described())
    assert [f"/motet/streams/{name}" for name in streams] == bench.below("/motet/streams")
    for answer in told.values():
        assert isinstance(answer, StreamReady), answer
        assert answer.info.name in streams
    bench.create("orders", 2)
    bench.create("stock")
    bench.append("k", stream="orders")


def test_what_is_completed_at_the_start_is_completed_after_a_crash_too() -> None:
    bench = serving()
    for name in ("b", "a", "c"):
        bench.send_create(name)
        bench.keep()
    moves = 0
    while True:
        bench.crash()
        bench.start()
        if advance(bench, moves) < moves:
            break
        moves += 1
    assert list(bench.described()) == ["b", "a", "c"], "in the order of their definition"
