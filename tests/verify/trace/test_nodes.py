"""Traces of several nodes, read for one shard; ``test_recorded`` has one of a real cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from motet.errors import BadInput
from motet.verify.models import model_named
from motet.verify.trace import Checked
from motet.verify.trace.merge import check_merged
from motet.verify.trace.nodes import NodeLine, is_of_a_node, read_of_nodes, read_shard, with_untold

N1 = """{"at":1,"node":"n1","shard":"s","action":"Join","with":{"n":"n1"}}
{"at":3,"node":"n1","shard":"s","action":"Fence","with":{"n":"n1","epoch":1}}
{"at":9,"node":"n1","shard":"s","action":"BecomeLeader","with":{"n":"n1","others":["n2"]}}
"""
N2 = """{"at":2,"node":"n2","shard":"s","action":"Join","with":{"n":"n2"}}
{"at":4,"node":"n2","shard":"s","action":"Fence","with":{"n":"n2","epoch":1},"state":{"node":{"n2":{"epoch":1}}}}
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = [tmp_path / "n1.ndjson", tmp_path / "n2.ndjson"]
    for file, text in zip(found, (N1, N2), strict=True):
        file.write_text(text)
    return found


def check(files: list[Path]) -> Checked:
    header, traces = read_of_nodes(files, None, None)
    return check_merged(model_named(header.model or "", header.settings), traces)


def test_lines_of_all_nodes_are_followed_together_whatever_their_clocks_say(
    files: list[Path],
) -> None:
    assert (check(files).verdict, check(files).lines) == ("explained", 5)
    files[1].write_text(N2.replace('"at":4', '"at":10'))
    assert (check(files).verdict, check(files).lines) == ("explained", 5)


def test_a_line_that_waits_for_nothing_that_anybody_has_is_named(files: list[Path]) -> None:
    files[1].write_text(N2.splitlines()[0])  # it joins, and is never fenced
    result = check(files)
    assert (result.verdict, result.file, result.line) == ("unexplained", "n1.ndjson", 3)


def test_a_shard_is_chosen(files: list[Path]) -> None:
    files[1].write_text(N2.replace('"shard":"s"', '"shard":"t"'))
    with pytest.raises(BadInput, match="of 2 shards; add --shard s or t"):
        read_shard(files, None)
    assert list(read_shard(files, "t").nodes) == ["n2"]
    with pytest.raises(BadInput, match="nothing is said of shard 'u'"):
        read_shard(files, "u")


def test_a_change_without_its_metadata_is_refused_and_not_called_unexplained(
    files: list[Path],
) -> None:
    change = '{"at":11,"node":"n1","shard":"s","action":"PrepareChange","with":{"n":"n1"}}'
    files[0].write_text(f"{N1}{change}\n")
    where = r"line 4 of n1\.ndjson: the ensemble of s is changed there; name the traces of the op"
    with pytest.raises(BadInput, match=where):
        read_of_nodes(files, None, None)
    with pytest.raises(BadInput, match="nothing is said of the metadata of s"):
        read_of_nodes(files, "shard-log-changes", None)


def test_a_malformed_line_is_named_with_its_file(files: list[Path]) -> None:
    files[1].write_text(N2 + '{"at":"noon"}\n')
    with pytest.raises(BadInput, match=r"line 3 of the trace n2\.ndjson is malformed"):
        read_shard(files, None)


def test_who_wrote_a_trace_is_seen_by_its_first_line() -> None:
    assert is_of_a_node(N1.encode().splitlines()[0])
    assert not is_of_a_node(b'{"model":"quorum"}')
    assert not is_of_a_node(b"nonsense")


def test_who_has_removed_its_files_and_comes_back_has_forgotten_everything(tmp_path: Path) -> None:
    file = tmp_path / "n1.ndjson"
    for back, expected in (
        ("Summon", ["Delete", "Forget", "Summon"]),
        ("Restart", ["Delete", "Restart"]),
        ("Forget", ["Delete", "Forget"]),
    ):
        lines = [
            f'{{"at":{at},"node":"n1","shard":"s","action":"{action}","with":{{"n":"n1","epoch":{at}}}}}'
            for at, action in ((2, "Delete"), (3, back))
        ]
        metadata = (
            '{"shard":"s","epoch":1,"status":"election","leader":null,"ensemble":["n1"],'
            '"replication_factor":1}'
        )
        lines.append(f'{{"at":1,"node":"n1","shard":"s","version":0,"metadata":{metadata}}}')
        file.write_text("\n".join(lines))
        (steps, _store) = read_of_nodes([file], None, None)[1]
        assert [step.line.action for step in steps] == expected


def lived(*steps: tuple[str, Mapping[str, object]]) -> list[tuple[str | None, dict[str, object]]]:
    """What is told of a node that wrote these lines."""
    lines = [
        NodeLine(at, "n1", "s", action, {"n": "n1", **said})
        for at, (action, said) in enumerate(steps)
    ]
    return [(line.action, line.arguments) for line in with_untold(lines)]


def test_what_was_on_disk_and_not_told_when_a_node_was_killed_is_told_for_it() -> None:
    back: dict[str, object] = {"epoch": 1, "last": 3, "upto": 0, "whole": True}
    none: dict[str, object] = {}
    joined = ("Join", none)
    led = (
        joined,
        ("Fence", {"epoch": 1}),
        ("BecomeLeader", none),
        ("Write", {"last": 2}),
    )
    assert lived(*led, ("Restart", back))[-2] == ("Write", {"n": "n1", "last": 3})
    followed = (joined, ("Fence", {"epoch": 1}), ("Append", {"epoch": 1, "last": 2}))
    untold = ("Append", {"n": "n1", "epoch": 1, "last": 3})
    assert lived(*followed, ("Restart", back))[-2] == untold
    later = ("Append", {"n": "n1", "epoch": 2, "last": 3})
    assert lived(*led, ("Restart", back | {"epoch": 2}))[-2] == later
    assert len(lived(*led, ("Restart", back | {"last": 2}))) == 5, "nothing is missing"
    became = ("Become", {"n": "n1", "last": 3})
    assert lived(("Summon", {"epoch": 1}), ("Restart", back))[-2] == became
