"""Whole runs: the same seed does the same, a planted bug ends a range, and old findings stay found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.toy.storm import ToyPart

from motet.errors import BadInput
from motet.sim.storm import simulate
from motet.sim.trace import GLYPHS, Trace
from motet.verify.seed_range import run_seeds
from motet.verify.storms import PARTS, storm_named

ROOT = Path(__file__).parents[2]
SEEDS = tomllib.loads((Path(__file__).parent / "seeds.toml").read_text())["seed"]
LARGE = (
    "vsr",
    "view-change",
    "keeper",
    "streams",
    "shard-log",
    "shard-changes",
    "transactions",
    "transactions-in-turns",
    "tables",
    "restored-tables",
    "wrong-wall",
)
"""Parts whose seeds take a second each: their ranges have tests of their own."""

SMALL = [name for name in PARTS if name not in LARGE]


@pytest.mark.parametrize("part", PARTS)
def test_a_seed_gives_one_trace_whatever_the_hash_seed(part: str) -> None:
    digests = set()
    for hash_seed in ("0", "1", "4242"):
        command = [sys.executable, "-m", "motet", "simulate", part, "--seed", "11", "-o", "json"]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        digests.add(done.stdout)
    assert len(digests) == 1
    assert json.loads(digests.pop())["trace_lines"] > 100


@pytest.mark.parametrize("part", PARTS)
def test_two_runs_of_a_seed_have_the_same_lines_and_another_seed_has_others(part: str) -> None:
    lines = []
    for seed in (5, 5, 6):
        trace = Trace()
        simulate(storm_named(part), seed, profile="all", trace=trace)
        lines.append(trace.lines)
    assert lines[0] == lines[1] != lines[2]


def test_every_line_of_a_trace_has_its_columns() -> None:
    trace = Trace()
    simulate(ToyPart(), 3, profile="all", trace=trace)
    for line in trace.lines:
        at, who, glyph, _what = line.split(maxsplit=3)
        assert float(at) >= 0
        assert who
        assert glyph in GLYPHS


def test_a_trace_that_keeps_few_lines_has_the_digest_of_all() -> None:
    whole, short = Trace(), Trace(lines_max=10)
    for trace in (whole, short):
        simulate(ToyPart(), 3, trace=trace)
    assert whole.digest() == short.digest()
    assert whole.lines[-10:] == short.lines


@pytest.mark.parametrize("part", SMALL)
def test_a_range_of_seeds_is_ok_and_has_seen_every_coverage_mark(part: str) -> None:
    result = run_seeds(part, 1, 60)
    assert (result.verdict, result.missing_marks, result.failure) == ("ok", [], None)


@pytest.mark.long
@pytest.mark.parametrize("part", SMALL)
def test_many_more_seeds_are_ok(part: str) -> None:
    result = run_seeds(part, 1_000, 3_000, jobs=os.cpu_count() or 1)
    assert result.verdict == "ok", result.failure


@pytest.mark.parametrize("part", ["time", "database"])
def test_a_planted_bug_ends_a_range_and_replays(part: str) -> None:
    result = run_seeds(part, 1, 1_000, plant=storm_named(part).plants[0])
    assert result.verdict == "violated"
    assert result.failure is not None
    words = result.failure.replay_command().split()
    command = [sys.executable, "-m", *words, "--output", "json"]
    replayed = subprocess.run(command, capture_output=True, check=False)
    assert replayed.returncode == 1
    again = json.loads(replayed.stdout)
    assert again["violations"] == [
        {"invariant": v.invariant, "what": v.what} for v in result.failure.violations
    ]


def test_a_range_that_missed_a_mark_fails_and_names_it() -> None:
    result = run_seeds("time", 1, 3, profile="none")
    assert result.verdict == "uncovered"
    assert "crash" in result.missing_marks


def test_the_lowest_failing_seed_is_reported_whatever_the_number_of_processes() -> None:
    alone = run_seeds("database", 1, 200, plant="ack-before-durable", jobs=1)
    together = run_seeds("database", 1, 200, plant="ack-before-durable", jobs=2)
    assert alone.failure == together.failure


def test_an_unknown_part_or_plant_is_refused() -> None:
    with pytest.raises(BadInput, match="database"):
        storm_named("no-such-part")
    with pytest.raises(BadInput, match="ack-before-durable"):
        simulate(storm_named("database"), 1, plant="no-such-bug")


def label(case: dict[str, object]) -> str:
    return f"{case['part']}-{case['seed']}"


@pytest.mark.parametrize("case", [case for case in SEEDS if "kept_by" not in case], ids=label)
def test_a_seed_that_once_found_a_bug_is_ok_now(case: dict[str, object]) -> None:
    is_ok_now(case)


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in SEEDS if "kept_by" in case], ids=label)
def test_a_seed_whose_bug_has_a_test_of_its_own_is_ok_now(case: dict[str, object]) -> None:
    is_ok_now(case)


def is_ok_now(case: dict[str, object]) -> None:
    part, seed, profile = str(case["part"]), case["seed"], str(case["profile"])
    assert isinstance(seed, int)
    outcome = simulate(storm_named(part), seed, profile=profile)
    assert outcome.verdict == "ok", outcome.violations


@pytest.mark.parametrize("case", [case for case in SEEDS if "kept_by" in case], ids=label)
def test_the_test_that_keeps_a_bug_found_is_there(case: dict[str, object]) -> None:
    file, _, function = str(case["kept_by"]).partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not function or f"def {function}(" in text
