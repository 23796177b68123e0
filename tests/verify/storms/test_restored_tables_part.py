"""Tables and a keeper whose files are replaced by an older copy, in their storm."""

from __future__ import annotations

from motet.verify.seed_range import run_seeds


def test_a_range_of_seeds_is_ok_and_has_seen_every_coverage_mark() -> None:
    found = run_seeds("restored-tables", 1, 40)
    assert (found.verdict, found.missing_marks) == ("ok", []), found.failure
