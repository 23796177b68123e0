"""Tables through the whole machine, where the disk ends writes in any order, fails them, or crashes."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.tables.harness import SHOP, TablesBench, spec, staged, step, token

from motet.core.machine import Write
from motet.core.tables.checks import part_rows_max
from motet.core.tables.messages import (
    CreateTable,
    ListTables,
    ListWriters,
    NoteWriter,
    TableReady,
)
from motet.core.tables.part_name import of_block
from motet.errors import DiskFull, WriterFenced
from motet.limits import part_bytes_max


def two() -> TablesBench:
    return TablesBench(spec(), spec("stock"))


def test_a_repetition_waits_for_the_first_whatever_becomes_durable_before() -> None:
    bench = two()
    first = bench.send_publish(staged(1), staged(2, "stock"), step=step(0, None, 5))
    again = bench.send_publish(staged(1), staged(2, "stock"), step=step(0, None, 5))
    by_token = bench.send_publish(staged(3), token=token("t"))
    token_again = bench.send_publish(staged(3), token=token("t"))
    one, other = bench.writes()
    bench.done(other)
    assert not {first, again, by_token, token_again} & set(bench.answers)
    bench.done(one)
    done, repeated = bench.done_of(first), bench.done_of(again)
    assert (done.duplicate, repeated.duplicate) == (False, True)
    assert repeated.clock == done.clock
    assert bench.done_of(token_again) == msgspec.structs.replace(
        bench.done_of(by_token), request=token_again, duplicate=True
    )
    assert bench.ids() == [1, 3]
    assert bench.ids("stock") == [2]


def test_a_write_that_fails_takes_with_it_what_was_judged_against_it() -> None:
    bench = two()
    bench.publish(staged(1), step=step(0, None, 5))
    table = bench.send(CreateTable(bench.request(), spec("late")))
    same = bench.send(CreateTable(bench.request(), spec("late")))
    requests = [
        bench.send_publish(staged(2), staged(3, "stock"), step=step(1, 5, 6)),
        bench.send_publish(staged(2), staged(3, "stock"), step=step(1, 5, 6)),
        bench.send_publish(staged(4), step=step(2, 6, 7)),
        bench.send_publish(staged(5, "late"), token=token("t", "late")),
        bench.send_publish(staged(5, "late"), token=token("t", "late")),
        bench.send(NoteWriter(bench.request(), SHOP, "oh")),
    ]
    failing, *rest = bench.writes()
    for write in rest:
        bench.done(write)
    bench.fail(failing)
    bench.finish()
    assert {bench.code(each) for each in (table, same, *requests)} == {DiskFull.code}
    assert bench.ids() == [1]
    assert bench.ids("stock") == []
    known = bench.writer()
    assert known is not None
    assert (known.step, known.error) == (step(0, None, 5), "")
    # None of it is remembered: the retries are the first, with the numbers that come next.
    assert bench.send_publish(step=step(2, 6, 7)) in bench.answers
    done = bench.publish(staged(2), staged(3, "stock"), step=step(1, 5, 6))
    assert (done.duplicate, done.names) == (False, (of_block(2), of_block(1)))
    created = bench.ask(CreateTable(bench.request(), spec("late", shards=2)))
    assert isinstance(created, TableReady)
    assert created.created
    bench.crash()
    bench.serve()
    assert (bench.ids(), bench.ids("stock"), bench.ids("late")) == ([1, 2], [3], [])


def test_a_step_behind_one_that_failed_is_fenced_and_not_taken_for_the_next() -> None:
    bench = two()
    bench.send_publish(staged(1), step=step(0, None, 5))
    bench.fail(bench.writes()[0])
    late = bench.send_publish(staged(2), step=step(1, 5, 6))
    bench.finish()
    assert bench.code(late) == WriterFenced.code
    assert bench.writer() is None


@pytest.mark.parametrize("eighths", range(8))
def test_a_torn_publication_is_in_none_of_its_tables(eighths: int) -> None:
    bench = two()
    bench.publish(staged(1), staged(2, "stock"), step=step(0, None, 5))
    bench.send_publish(staged(3), staged(4, "stock"), step=step(1, 5, 6))
    bench.send_publish(staged(5), staged(6, "stock"), step=step(2, 6, 7))
    torn, whole = bench.writes()
    assert isinstance(torn, Write)
    bench.crash(keep=[whole], torn=(torn, len(torn.data) * eighths // 8))
    bench.serve()
    assert (bench.ids(), bench.ids("stock")) == ([1], [2])
    done = bench.publish(staged(3), staged(4, "stock"), step=step(1, 5, 6))
    assert not done.duplicate
    assert (bench.ids(), bench.ids("stock")) == ([1, 3], [2, 4])


def test_what_survived_a_crash_unconfirmed_is_a_repetition() -> None:
    bench = two()
    bench.send_publish(staged(1), staged(2, "stock"), step=step(0, None, 5))
    bench.send_publish(staged(3), token=token("t"))
    bench.crash(keep=bench.writes())
    bench.serve()
    assert bench.publish(staged(1), staged(2, "stock"), step=step(0, None, 5)).duplicate
    assert bench.publish(staged(3), token=token("t")).names == (of_block(2),)
    assert (bench.ids(), bench.ids("stock")) == ([1, 3], [2])


def test_a_snapshot_stays_as_it_was_over_later_publications_and_a_crash() -> None:
    bench = two()
    first = bench.publish(staged(1), staged(2, "stock"))
    now = bench.read_table()
    bench.send_publish(staged(3), staged(4, "stock"))
    assert bench.read_table("sales", first.clock).parts == now.parts
    bench.finish()
    bench.crash()
    bench.serve()
    for clock in (first.clock, now.clock):
        assert (bench.ids("sales", clock), bench.ids("stock", clock)) == ([1], [2])
    assert (bench.ids(), bench.ids("stock")) == ([1, 3], [2, 4])


def test_the_largest_parts_there_can_be_add_up_to_an_answer_that_can_be_sent() -> None:
    bench = TablesBench(segment_bytes=1 << 20)
    parts = [staged(number, rows=part_rows_max) for number in range(8)]
    large = [msgspec.structs.replace(part, size_bytes=part_bytes_max) for part in parts]
    bench.publish(*large, step=step(0, None, 5))
    for message in (ListTables(bench.request()), ListWriters(bench.request())):
        assert msgspec.msgpack.encode(bench.ask(message))
