"""Decisions about tables: the rules T1 to T4 and the bounds, whatever of the past is still under way."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.tables.decisions import WALL_MS, Outcome, decide, limits, record_of
from tests.core.tables.harness import (
    REQUEST,
    SHOP,
    at,
    created,
    fed,
    publish,
    published,
    spec,
    staged,
    step,
    token,
)

from motet.core.onelog.record import Answered, Planned
from motet.core.tables.catalog import Catalog
from motet.core.tables.messages import (
    CreateTable,
    NoteWriter,
    PublishDone,
    TableReady,
    WriterNotedDone,
)
from motet.core.tables.part_name import of_block
from motet.core.tables.plan import Ahead, plan_table
from motet.core.tables.records import Published, TableRecord, WriterNoted, WriterStep
from motet.errors import BadInput, NoSuchTable, TableExists, TooLarge, WriterFenced
from motet.ids import TableId, WriterName

TABLES: list[TableRecord] = [created(1, spec()), created(2, spec("stock", shards=2))]
DONE: list[TableRecord] = [
    *TABLES,
    published(3, (staged(1), 1), (staged(2), 2), token=token("t")),
    published(4, (staged(3), 3), step=step(0, None, 5)),
    published(5, step=step(1, 5, 8)),
]
every_cut = pytest.mark.parametrize("durable", range(len(DONE) + 1))


@every_cut
def test_a_publication_is_answered_with_its_clock_and_names(durable: int) -> None:
    outcome = decide(DONE, durable, publish(staged(8), staged(9, "stock", 1)))
    assert isinstance(outcome, Planned)
    assert outcome.answer == PublishDone(REQUEST, at(6), False, (of_block(4), of_block(1)))


@every_cut
def test_a_repeated_token_is_answered_with_what_it_did_when_that_is_durable(durable: int) -> None:
    again = PublishDone(REQUEST, at(3), True, (of_block(1), of_block(2)))
    for parts in ((), (staged(9),)):
        outcome = decide(DONE, durable, publish(*parts, token=token("t")))
        assert outcome == Answered(again, at(3))


@every_cut
@pytest.mark.parametrize(
    "repeated",
    [step(1, 5, 8), step(0, None, 5), step(0, None, 1), step(1, 5, 7), step(9, 1, 8)],
)
def test_a_repeated_step_is_answered_when_the_last_one_is_durable(
    durable: int, repeated: WriterStep
) -> None:
    outcome = decide(DONE, durable, publish(staged(9), step=repeated))
    assert outcome == Answered(PublishDone(REQUEST, at(5), True, ()), at(5))


@every_cut
@pytest.mark.parametrize(
    "wrong",
    [
        step(1, 8, 9),
        step(3, 8, 9),
        step(2, 7, 9),
        step(2, 9, 10),
        step(2, None, 9),
        step(0, None, 9),
        step(1, None, 5, "new"),
        step(0, 4, 5, "new"),
    ],
)
def test_a_step_that_does_not_begin_where_the_writer_is_is_fenced(
    durable: int, wrong: WriterStep
) -> None:
    code, _ = refused(decide(DONE, durable, publish(step=wrong)))
    assert code == WriterFenced.code


@every_cut
def test_the_next_step_is_taken(durable: int) -> None:
    outcome = decide(DONE, durable, publish(step=step(2, 8, 9)))
    assert record_of(outcome) == Published(at(6), WALL_MS, (), None, step(2, 8, 9))


def refused(outcome: Outcome) -> tuple[str, str]:
    assert isinstance(outcome, tuple), outcome
    return outcome


@pytest.mark.parametrize("durable", [0, 1, 2])
def test_the_same_table_again_is_the_table_there_is(durable: int) -> None:
    again = msgspec.structs.replace(spec(), id=TableId("f" * 16))
    outcome = decide(TABLES, durable, CreateTable(REQUEST, again))
    assert outcome == Answered(TableReady(REQUEST, False, spec()), at(1))


@pytest.mark.parametrize("durable", [0, 1, 2])
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"schema": b"other"}, "another schema"),
        ({"order_by": ("key", "at")}, "order_by ('key',)"),
        ({"shards": 2}, "shards 1"),
        ({"engine": "replacing"}, "engine 'merge'"),
        ({"engine": "replacing", "version": "v"}, "engine 'merge'"),
        ({"version": "v"}, "version None"),
        ({"tombstone": "gone"}, "tombstone None"),
    ],
)
def test_another_table_of_a_name_is_refused_and_the_difference_named(
    durable: int, changed: dict[str, object], why: str
) -> None:
    other = msgspec.structs.replace(spec(), id=TableId("f" * 16), **changed)
    code, what = refused(decide(TABLES, durable, CreateTable(REQUEST, other)))
    assert code == TableExists.code
    assert why in what


@pytest.mark.parametrize("durable", [0, 1, 2])
def test_a_part_for_a_table_or_a_shard_that_is_not_there_is_refused(durable: int) -> None:
    foreign = msgspec.structs.replace(staged(2), table_id=TableId("f" * 16))
    for bad, code in (
        (staged(2, "nowhere"), NoSuchTable.code),
        (foreign, NoSuchTable.code),
        (staged(2, shard=1), BadInput.code),
        (staged(2, shard=-1), BadInput.code),
        (staged(2, "stock", 2), BadInput.code),
    ):
        for message in (publish(staged(1), bad), publish(bad, step=step(0, None, 5))):
            assert refused(decide(TABLES, durable, message))[0] == code
    nowhere = publish(token=token("t", "nowhere"))
    assert refused(decide(TABLES, durable, nowhere))[0] == NoSuchTable.code


@pytest.mark.parametrize("durable", [0, 1, 2])
def test_nothing_at_all_is_published_without_a_record(durable: int) -> None:
    outcome = decide(TABLES, durable, publish())
    assert outcome == Answered(PublishDone(REQUEST, at(3), False, ()), at(3))


@every_cut
def test_a_note_is_always_written(durable: int) -> None:
    outcome = decide(DONE, durable, NoteWriter(REQUEST, SHOP, "oh"))
    record = WriterNoted(at(6), WALL_MS, SHOP, "oh")
    assert outcome == Planned(record, WriterNotedDone(REQUEST, at(6)))


# Bounds


@every_cut
def test_a_table_takes_so_many_parts(durable: int) -> None:
    parts = (staged(7), staged(8), staged(9))
    with limits(table_parts_max=5):
        assert record_of(decide(DONE, durable, publish(*parts[:2]))) is not None
        code, _ = refused(decide(DONE, durable, publish(*parts)))
        assert code == TooLarge.code
        others = (staged(number, "stock") for number in range(10, 15))
        assert record_of(decide(DONE, durable, publish(*parts[:2], *others))) is not None


@every_cut
def test_a_table_remembers_so_many_tokens(durable: int) -> None:
    with limits(table_tokens_max=1):
        code, _ = refused(decide(DONE, durable, publish(token=token("u"))))
        assert code == TooLarge.code
        assert isinstance(decide(DONE, durable, publish(token=token("t"))), Answered)
        elsewhere = publish(token=token("u", "stock"))
        assert record_of(decide(DONE, durable, elsewhere)) is not None
    with limits(table_tokens_max=2):
        assert record_of(decide(DONE, durable, publish(token=token("u")))) is not None


@every_cut
def test_there_are_so_many_tables(durable: int) -> None:
    new = CreateTable(REQUEST, spec("new"))
    with limits(tables_max=2):
        assert refused(decide(DONE, durable, new))[0] == BadInput.code
        assert isinstance(decide(DONE, durable, CreateTable(REQUEST, spec())), Answered)
    with limits(tables_max=3):
        assert record_of(decide(DONE, durable, new)) is not None


@every_cut
def test_there_are_so_many_writers(durable: int) -> None:
    new = publish(step=step(0, None, 5, "new"))
    note = NoteWriter(REQUEST, WriterName("new"), "oh")
    with limits(writers_max=1):
        for message in (new, note):
            assert refused(decide(DONE, durable, message))[0] == TooLarge.code
        assert record_of(decide(DONE, durable, publish(step=step(2, 8, 9)))) is not None
        assert record_of(decide(DONE, durable, NoteWriter(REQUEST, SHOP, "oh"))) is not None
    with limits(writers_max=2):
        for message in (new, note):
            assert record_of(decide(DONE, durable, message)) is not None


def test_who_has_said_something_has_its_place_among_the_writers() -> None:
    for durable in (0, 1):
        history: list[TableRecord] = [WriterNoted(at(1), WALL_MS, SHOP, "oh")]
        with limits(writers_max=1):
            assert record_of(decide(history, durable, publish(step=step(0, None, 5)))) is not None
            other = publish(step=step(0, None, 5, "other"))
            assert refused(decide(history, durable, other))[0] == TooLarge.code


class Counting(Ahead):
    """Counts how often all that is under way is gone through."""

    walks = 0

    def _published(self) -> list[Published]:
        self.walks += 1
        return super()._published()


def test_many_parts_do_not_go_through_what_is_under_way_for_each_of_them() -> None:
    """A step of thousands of parts behind another one must not hold the node up."""
    walks = []
    for count in (1, 100):
        counting = Counting(Catalog(), DONE)
        parts = (staged(100 + number) for number in range(count))
        plan_table(counting, publish(*parts), at(6), WALL_MS)
        walks.append(counting.walks)
    assert walks[0] == walks[1]


@every_cut
def test_the_same_parts_again_are_a_repetition_and_change_nothing(durable: int) -> None:
    again = PublishDone(REQUEST, at(3), True, (of_block(1), of_block(2)))
    outcome = decide(DONE, durable, publish(staged(1), staged(2)))
    assert outcome == Answered(again, at(3))


@every_cut
@pytest.mark.parametrize("parts", [(1, 9), (2, 3), (3, 9)])
def test_a_part_is_never_published_twice(durable: int, parts: tuple[int, ...]) -> None:
    wanted = publish(*map(staged, parts))
    for message in (wanted, publish(*map(staged, parts), step=step(2, 8, 9))):
        code, what = refused(decide(DONE, durable, message))
        assert code == BadInput.code
        assert "published already" in what


@every_cut
def test_a_step_cannot_end_in_the_future(durable: int) -> None:
    future = WriterStep(WriterName(step(0, None, 1).writer), 2, fed(8), at(6))
    code, what = refused(decide(DONE, durable, publish(step=future)))
    assert code == BadInput.code
    assert "future" in what
