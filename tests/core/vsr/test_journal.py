"""What a replica knows of its log: clean, dirty, faulty, and what it may deny."""

from __future__ import annotations

import pytest

from motet.core.vsr.header import Header
from motet.core.vsr.journal import Cached, Journal, Writing
from motet.ids import Op, WriteId
from motet.testing.scripts.vsr_damage import prepare_header

SLOTS = 8


@pytest.fixture
def journal() -> Journal:
    """Ops 1 to 3 are clean."""
    journal = Journal.empty(SLOTS)
    for op in range(4):
        write(journal, prepare_header(op))
    return journal


def write(journal: Journal, header: Header, number: int = 0) -> Header | None:
    journal.set_header(header)
    slot = header.op % SLOTS
    journal.writing[slot] = Writing(header.op, header.checksum, WriteId(number))
    return journal.written(slot, WriteId(number))


def test_a_header_is_dirty_until_its_prepare_is_durable(journal: Journal) -> None:
    header = prepare_header(4)
    journal.set_header(header)
    assert journal.has(header)
    assert not journal.is_clean(Op(4))
    assert not journal.is_faulty(Op(4))
    assert write(journal, header) == header
    assert journal.is_clean(Op(4))


def test_a_slot_is_of_one_op(journal: Journal) -> None:
    later = prepare_header(3 + SLOTS)
    journal.set_header(later)
    assert journal.header(Op(3)) is None
    assert not journal.is_clean(Op(3))
    assert journal.header(later.op) == later
    assert not journal.is_clean(later.op)


def test_the_write_of_a_prepare_that_was_replaced_makes_nothing_clean(journal: Journal) -> None:
    journal.set_header(prepare_header(4, "a"))
    journal.writing[4] = Writing(Op(4), prepare_header(4, "a").checksum, WriteId(1))
    journal.set_header(prepare_header(4, "b"))
    assert journal.written(4, WriteId(1)) is None
    assert not journal.is_clean(Op(4))


def test_an_older_write_of_the_same_slot_is_not_the_newest(journal: Journal) -> None:
    header = prepare_header(4)
    journal.set_header(header)
    journal.writing[4] = Writing(Op(4), header.checksum, WriteId(2))
    assert journal.written(4, WriteId(1)) is None
    assert not journal.is_clean(Op(4))


def test_what_the_disk_lost_is_faulty_until_it_is_written_again(journal: Journal) -> None:
    header = prepare_header(2)
    journal.mark_faulty(header)
    assert journal.is_faulty(Op(2))
    assert not journal.is_clean(Op(2))
    assert write(journal, header) == header
    assert not journal.is_faulty(Op(2))


def test_a_prepare_that_is_being_written_is_not_lost(journal: Journal) -> None:
    header = prepare_header(4)
    journal.set_header(header)
    journal.writing[4] = Writing(Op(4), header.checksum, WriteId(1))
    journal.mark_faulty(header)
    assert not journal.is_faulty(Op(4))


def test_a_slot_that_lost_something_unknown_stays_faulty_under_a_header(journal: Journal) -> None:
    journal.faulty[5] = True
    journal.set_header(prepare_header(5))
    assert journal.is_faulty(Op(5))


def test_a_slot_that_held_another_prepare_certainly_did_not_hold_this_one(
    journal: Journal,
) -> None:
    journal.mark_faulty(prepare_header(2))
    journal.set_header(prepare_header(2, "b"))
    assert not journal.is_faulty(Op(2))
    assert not journal.is_clean(Op(2))


def test_cutting_off_forgets_what_is_above_and_nothing_else(journal: Journal) -> None:
    journal.cache[Op(3)] = Cached(prepare_header(3), b"")
    journal.remove_above(Op(2), Op(3))
    assert journal.header(Op(3)) is None
    assert Op(3) not in journal.cache
    assert not journal.is_faulty(Op(3))
    assert journal.is_clean(Op(2))


def test_it_can_be_served_from_memory_or_from_disk(journal: Journal) -> None:
    header = prepare_header(4)
    assert not journal.can_serve(header)
    journal.set_header(header)
    assert not journal.can_serve(header)
    journal.cache[Op(4)] = Cached(header, b"")
    assert journal.can_serve(header)
    assert not journal.can_serve(prepare_header(4, "b"))
    assert journal.can_serve(prepare_header(3))


def test_its_invariants(journal: Journal) -> None:
    assert journal.invariants(Op(3)) == []
    assert [each.invariant for each in journal.invariants(Op(4))] == ["J1"]
    journal.faulty[3] = True
    assert [each.invariant for each in journal.invariants(Op(3))] == ["J3"]
