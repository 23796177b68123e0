"""A journal says after `kill -9` what was done, and what may have been."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.demos.shop.writer import (
    Done,
    Journal,
    Line,
    Order,
    Refused,
    Try,
    Unknown,
    read_journal,
    undecided,
)

A, B = Order("a", "credo", 1), Order("b", "kyrie", 2)
LINES: list[Line] = [Try(A), Unknown("a"), Done("t1", "a", 3), Try(B), Refused("b", "conflict", 9)]


def test_what_is_written_is_read_again_while_it_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    for number, line in enumerate(LINES):
        journal.write(line)
        assert read_journal(path) == LINES[: number + 1]


def test_there_may_be_no_journal_yet(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "journal") == []


@pytest.mark.parametrize("kept_bytes", [1, 10, -1])
def test_a_line_that_was_cut_off_says_nothing(tmp_path: Path, kept_bytes: int) -> None:
    path = tmp_path / "journal"
    Journal(path).write(LINES[0])
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:kept_bytes])
    assert read_journal(path) == LINES[:1]


@pytest.mark.parametrize(
    ("lines", "open_"),
    [
        ([], []),
        ([Try(A)], [A]),
        ([Try(A), Unknown("a")], [A]),
        ([Try(A), Unknown("a"), Done("t1", "a", 0)], []),
        ([Try(A), Refused("a", "sold out", 0), Try(B)], [B]),
        ([Try(A), Done("t1", None, 0)], [A]),
    ],
)
def test_an_order_is_undecided_until_its_outcome_is_noted(
    lines: list[Line], open_: list[Order]
) -> None:
    assert undecided(lines) == open_
