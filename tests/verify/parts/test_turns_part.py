"""Transactions whose requests come several in a turn: nothing else may come of it."""

from __future__ import annotations

import os

import pytest

from motet.core.shardlog import storage
from motet.core.shardlog.context import Core
from motet.core.shardlog.log import Log
from motet.sim.simulate import simulate
from motet.verify.parts.transactions_turns import TurnsPart
from motet.verify.seed_range import run_seeds


def test_what_is_gathered_is_one_write_and_breaks_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def write_gathered(core: Core, log: Log) -> None:
        if log.unwritten is not None:
            written.append(len(log.unwritten.records))
        original(core, log)

    original = storage.write_gathered
    monkeypatch.setattr(storage, "write_gathered", write_gathered)
    outcome = simulate(TurnsPart(), 3)
    assert (outcome.verdict, outcome.violations) == ("ok", [])
    assert max(written) > 1


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_a_hundred_seeds_are_clean() -> None:
    result = run_seeds("transactions-in-turns", 1, 100, jobs=os.cpu_count() or 1)
    assert result.verdict == "ok"
