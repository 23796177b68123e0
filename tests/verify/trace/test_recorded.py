"""A trace of five real nodes: ensembles change, a change is aborted, an operator is killed and replaced.

``recorded/changes.ndjson`` was written by a cluster of processes. A shard of three replicas had one swapped,
then a swap was aborted because the new node was silent, a fourth replica was added, the operator was killed
in the middle of a second swap, the next one elected a leader instead, and the ensemble became three again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from motet.errors import BadInput
from motet.sim.dice import Dice
from motet.verify.models import model_named
from motet.verify.trace import Checked
from motet.verify.trace.merge import check_merged
from motet.verify.trace.nodes import CHANGES, STAYS, read_of_nodes

RECORDED = Path(__file__).parent / "recorded" / "changes.ndjson"

Lines = list[dict[str, Any] | None]
"""The lines, ``None`` for one that was taken out: so the others keep their numbers."""


def recorded() -> Lines:
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


SKEWS = pytest.mark.parametrize("seed", [None, *range(4)])
"""With one clock, and with others."""


def check(folder: Path, lines: Lines, seed: int | None = None) -> Checked:
    """The verdict; with a seed, after each node and each operator got another clock."""
    skew = None if seed is None else Dice(seed)
    clocks: dict[tuple[str, bool], int] = {}
    said: list[str] = []
    for line in lines:
        if line is None:
            said.append("")
            continue
        clock = line["node"], "metadata" in line
        if skew is not None and clock not in clocks:
            clocks[clock] = skew.between(0, 10_000_000)
        said.append(json.dumps(line | {"at": line["at"] + clocks.get(clock, 0)}))
    file = folder / "trace.ndjson"
    file.write_text("\n".join(said))
    header, traces = read_of_nodes([file], None, None)
    assert header.model == CHANGES
    return check_merged(model_named(CHANGES, header.settings), traces)


def number_of(lines: Lines, action: str, node: str, **arguments: int) -> int:
    """The number of the first such line of a node."""
    wanted = {"n": node, **arguments}
    return next(
        number
        for number, line in enumerate(lines, start=1)
        if line is not None
        and line.get("action") == action
        and wanted.items() <= line["with"].items()
    )


def version_at(lines: Lines, version: int) -> int:
    """The number of the first line that tells of a version of the metadata."""
    told = (line is not None and line.get("version") == version for line in lines)
    return list(told).index(True) + 1


def without(lines: Lines, *numbers: int) -> Lines:
    return [None if at in numbers else line for at, line in enumerate(lines, start=1)]


def test_it_is_explained_in_one_file_or_many(tmp_path: Path) -> None:
    lines = recorded()
    actions = {line["action"] for line in lines if line is not None and "action" in line}
    assert {"AbortChange", "CommitChange", "Summon", "Become", "Delete", "Restart"} <= actions
    assert check(tmp_path, lines).verdict == "explained"
    files: dict[str, Path] = {}
    for line in lines:
        assert line is not None
        file = files.setdefault(line["node"], tmp_path / f"{line['node']}.ndjson")
        with file.open("a") as out:
            out.write(json.dumps(line) + "\n")
    assert len(files) == 5
    header, traces = read_of_nodes(list(files.values()), None, None)
    result = check_merged(model_named(CHANGES, header.settings), traces)
    assert (result.verdict, result.candidates) == ("explained", 1)


@pytest.mark.parametrize("seed", range(8))
def test_clocks_do_not_matter(tmp_path: Path, seed: int) -> None:
    assert check(tmp_path, recorded(), seed).verdict == "explained"


@pytest.mark.parametrize("version", range(17))
def test_a_version_of_the_metadata_that_is_missing_is_noticed(tmp_path: Path, version: int) -> None:
    lines: Lines = [
        None if line is not None and line.get("version") == version else line for line in recorded()
    ]
    assert check(tmp_path, lines).verdict == "unexplained"


@SKEWS
def test_a_change_that_was_not_written_before_is_named(tmp_path: Path, seed: int | None) -> None:
    lines = recorded()
    begun, ordered = version_at(lines, 3), version_at(lines, 4)
    prepared = number_of(lines, "PrepareChange", "n0", epoch=2)
    committed = number_of(lines, "CommitChange", "n0")
    assert begun < prepared < ordered < committed
    for missing, named in ((begun, prepared), (ordered, committed)):
        result = check(tmp_path, without(lines, missing), seed)
        assert (result.verdict, result.line) == ("unexplained", named)


@SKEWS
def test_an_election_that_was_not_written_is_named(tmp_path: Path, seed: int | None) -> None:
    lines = recorded()
    elected = version_at(lines, 12)
    result = check(tmp_path, without(lines, elected), seed)
    fences = [number_of(lines, "Fence", node, epoch=6) for node in ("n0", "n1", "n2", "n3")]
    assert result.verdict == "unexplained"
    assert result.line in fences, "each of them is wrong; whichever is first by its clock is named"


@SKEWS
def test_an_entry_that_was_dropped_is_named(tmp_path: Path, seed: int | None) -> None:
    lines = recorded()
    missing = number_of(lines, "Append", "n2", epoch=2, last=5)
    result = check(tmp_path, without(lines, missing), seed)
    assert (result.verdict, result.line) == ("unexplained", missing + 1)
    assert result.why == ("node.2.epoch is 1",)


@SKEWS
def test_a_commit_without_a_quorum_is_named(tmp_path: Path, seed: int | None) -> None:
    lines = recorded()
    followers = [number_of(lines, "Sync", node, last=3) for node in ("n1", "n2")]
    result = check(tmp_path, without(lines, *followers), seed)
    committed = number_of(lines, "Commit", "n0", upto=3)
    assert (result.verdict, result.line) == ("unexplained", committed)


def test_a_follower_that_leaves_does_not_count(tmp_path: Path) -> None:
    """Of n0, n1 and n2 the second is being swapped: what it has is not enough for n0 to commit."""
    lines = recorded()
    numbers = [number_of(lines, "Append", "n2", epoch=2, last=5)]
    numbers += [numbers[0] + 1, number_of(lines, "Sync", "n2", last=5)]
    for number in numbers:
        line = lines[number - 1]
        assert line is not None
        assert line["node"] == "n2"
        line["node"] = line["with"]["n"] = "n1"
        line["state"] = {}
    result = check(tmp_path, lines)
    committed = number_of(lines, "Commit", "n0", upto=5)
    assert (result.verdict, result.line) == ("unexplained", committed)


def test_a_follower_of_the_old_ensemble_does_not_count(tmp_path: Path) -> None:
    """n1 has left: an entry of the epoch in which it did cannot reach it, nor be counted."""
    lines = recorded()
    number = number_of(lines, "Append", "n3", epoch=2, last=6)
    line = lines[number - 1]
    assert line is not None
    line["node"] = line["with"]["n"] = "n1"
    result = check(tmp_path, lines)
    assert (result.verdict, result.line) == ("unexplained", number)


def test_an_entry_that_a_killed_node_could_not_tell_of_is_explained(tmp_path: Path) -> None:
    lines = recorded()
    appended = number_of(lines, "Append", "n1", epoch=5, last=14)
    learnt = number_of(lines, "LearnCommit", "n1", upto=13)
    restarted = number_of(lines, "Restart", "n1", last=14)
    assert appended < learnt < restarted
    assert check(tmp_path, without(lines, appended, learnt)).verdict == "explained"


def test_metadata_that_is_told_differently_is_named(tmp_path: Path) -> None:
    lines = recorded()
    numbers = [
        number
        for number, line in enumerate(lines, start=1)
        if line is not None and line.get("version") == 11
    ]
    assert len(numbers) == 2, "the operator that was killed, and the next one"
    other = lines[numbers[1] - 1]
    assert other is not None
    other["metadata"]["leader"] = "n2"
    result = check(tmp_path, lines)
    assert (result.verdict, result.line) == ("unexplained", numbers[1])
    (why,) = result.why
    assert why.startswith("version 11 of the metadata is there twice: ")
    assert f"line {numbers[0]} of trace.ndjson tells of it differently" in why


def test_it_needs_the_model_with_changes() -> None:
    with pytest.raises(BadInput, match=f"leave the model out, or name {CHANGES}"):
        read_of_nodes([RECORDED], STAYS, None)
