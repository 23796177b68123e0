"""The table of all cases: each is decided once, and as the rules say."""

from __future__ import annotations

import itertools

import pytest

from motet.core.vsr.wal_table import Case, Decision, Question, cases, decide

ALL = [Question(*bits) for bits in itertools.product([False, True], repeat=11)]


def is_contradictory(q: Question) -> bool:
    """Answers that no slot can give."""
    both = q.header_valid and q.prepare_valid and not (q.header_reserved or q.prepare_reserved)
    compared = q.checksums_equal or q.ops_equal or q.header_op_less or q.views_equal
    return (
        (q.header_reserved and not q.header_valid)
        or (q.prepare_reserved and not q.prepare_valid)
        or (q.prepare_is_max_op and (q.prepare_reserved or not q.prepare_valid))
        or (compared and not both)
        or (q.checksums_equal and not (q.ops_equal and q.views_equal))
        or (q.ops_equal and q.header_op_less)
    )


def by_the_rules(q: Question) -> str:
    """The same, as one would say it."""
    has_header = q.header_valid and not q.header_reserved
    has_prepare = q.prepare_valid and not q.prepare_reserved
    if q.beyond_prepare_max and (has_header or has_prepare):
        return "cut"
    if not q.prepare_valid:
        return "vsr"
    if not q.header_valid:
        if q.prepare_reserved:
            return "nil" if q.solo else "vsr"
        return "fix" if q.prepare_is_max_op or q.solo else "vsr"
    if not has_prepare:
        return "vsr" if has_header else "nil"
    if not has_header or q.header_op_less:
        return "fix"
    return "eql" if q.checksums_equal else "vsr"


def test_every_combination_has_exactly_one_row() -> None:
    assert len(ALL) == 2048
    for question in ALL:
        assert [case for case in cases() if case.matches(question)] == [decide(question)]


def test_no_combination_that_can_happen_is_unreachable() -> None:
    for question in ALL:
        if not is_contradictory(question):
            assert decide(question).decision == by_the_rules(question), question


def test_what_is_unreachable_contradicts_itself() -> None:
    for question in ALL:
        if decide(question).decision is Decision.UNREACHABLE:
            assert is_contradictory(question)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.letter)
def test_each_row_has_a_letter_a_reason_and_something_it_decides(case: Case) -> None:
    assert len(case.letter) == 1
    assert case.mark == f"wal_case_{case.letter}"
    assert case.why
    decided = [question for question in ALL if decide(question) == case]
    assert decided
    if case.decision is not Decision.UNREACHABLE:
        assert not all(is_contradictory(question) for question in decided)


def test_letters_are_used_once_and_in_order() -> None:
    letters = [case.letter for case in cases()]
    assert letters == sorted(dict.fromkeys(letters))
