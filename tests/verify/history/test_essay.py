"""The examples of docs/internals/histories.md do what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from types import ModuleType

import pytest

from motet.verify.history import banks, causal, feeds, queues, sessions, sets

ESSAY = Path(__file__).parents[3] / "docs" / "internals" / "histories.md"


def test_the_examples_run() -> None:
    failed, tried = doctest.testfile(str(ESSAY), module_relative=False)
    assert tried > 10
    assert failed == 0


@pytest.mark.parametrize("module", [sets, queues, banks, causal, sessions, feeds])
def test_the_essay_lists_every_fault(module: ModuleType) -> None:
    faults = re.findall(r"^``([a-z-]+)``", module.__doc__ or "", flags=re.MULTILINE)
    listed = re.findall(r"^\| ([a-z-]+) \|", ESSAY.read_text(), flags=re.MULTILINE)
    assert faults
    assert set(faults) <= set(listed)
