"""The examples of docs/internals/clock.md do what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from motet.core.clock import cluster_time, node_clock, reservation

ESSAY = Path(__file__).parents[3] / "docs" / "internals" / "clock.md"


def test_the_examples_run() -> None:
    # The closing fence stands behind an empty line, so that it is not taken for expected output.
    failed, tried = doctest.testfile(str(ESSAY), module_relative=False)
    assert tried > 10
    assert failed == 0


def test_the_essay_lists_the_invariants_of_the_code() -> None:
    listed = set(re.findall(r"^\| ([KT]\d) \|", ESSAY.read_text(), flags=re.MULTILINE))
    named: set[str] = set()
    for module in (reservation, node_clock, cluster_time):
        named |= set(re.findall(r"^([KT]\d)  ", module.__doc__ or "", flags=re.MULTILINE))
    assert listed == named
