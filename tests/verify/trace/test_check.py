"""What a model did is explained by it, and what it cannot have done is found on its line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from motet.errors import BadInput
from motet.verify.models import model_named
from motet.verify.trace import Checked, check_trace, read_trace

from .walks import walk


def written(lines: Iterable[dict[str, Any]]) -> list[bytes]:
    return [msgspec.json.encode(line) for line in lines]


def checked(name: str, lines: Iterable[dict[str, Any]], **options: Any) -> Checked:
    _, steps = read_trace(written(lines))
    return check_trace(model_named(name, {}), steps, **options)


@pytest.mark.parametrize(
    "name", ["log-trimming", "quorum", "shard-log", "zero-copy", "cluster-clock", "vsr-view-change"]
)
def test_a_walk_through_a_model_is_explained(name: str) -> None:
    for seed in range(3):
        lines = walk(model_named(name, {}), seed, 20)
        assert len(lines) > 3
        assert checked(name, lines) == Checked("explained", len(lines), 1)


def test_what_was_not_seen_is_left_open() -> None:
    lines = [{"action": line["action"]} for line in walk(model_named("log-trimming", {}), 2, 12)]
    result = checked("log-trimming", lines)
    assert (result.verdict, result.lines) == ("explained", 12)
    assert result.candidates > 1


def test_the_first_line_that_nothing_explains_is_named() -> None:
    lines = walk(model_named("log-trimming", {}), 1, 20)
    lines[13]["state"]["deleted_prefix"] += 1
    result = checked("log-trimming", lines)
    assert (result.verdict, result.line) == ("unexplained", 14)
    assert result.why[0].startswith("deleted_prefix is ")


def test_an_action_that_is_not_possible_is_found() -> None:
    insert = {"action": "insert", "with": {"r": 0}}
    lines = [insert, insert, {"action": "ReplicaBecomeActive", "with": {"r": 1}}]
    result = checked("log-trimming", lines)
    assert (result.verdict, result.line) == ("unexplained", 3)
    assert result.why[0] == "ReplicaBecomeActive is not possible in the one state it could be in"


def test_silent_actions_may_come_between() -> None:
    lines = [
        {"action": "upload", "with": {"r": 0}},
        {"action": "fetch-ask", "with": {"r": 1}},
        {"action": "fetch-lock", "with": {"r": 1}, "state": {"temporary": [[0, 1]]}},
    ]
    assert checked("zero-copy", lines).line == 2
    assert checked("zero-copy", lines, silent=["commit_insert"]).verdict == "explained"
    assert checked("zero-copy", lines, silent=["commit_insert"], silent_steps=0).line == 2


def test_a_line_without_an_action_only_looks() -> None:
    lines: list[dict[str, Any]] = [
        {"action": "insert", "with": {"r": 0}},
        {"state": {"replica": {"1": {"log_pointer": 1}}}},
        {"state": {"replica": {"1": {"log_pointer": 2}}}},
    ]
    assert checked("log-trimming", lines).line == 3
    assert checked("log-trimming", lines, silent=["execute_log"]).verdict == "explained"


def test_too_many_explanations_are_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.limits.trace_candidates_max", 2)
    lines = [{"action": "insert"}, {"action": "execute_log"}]
    result = checked("log-trimming", lines)
    assert (result.verdict, result.line) == ("unknown", 2)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "the trace is empty"),
        ([b'{"action": "insert"}', b"{"], "line 2 of the trace is malformed"),
        ([b'{"action": "insert"}', b"", b"[1]"], "line 3 of the trace is malformed"),
        ([b'{"action": 7}'], "line 1 of the trace is malformed"),
        ([b'{"set": {"replicas": "many"}}'], "line 1 of the trace is malformed"),
        ([b'{"at": 12}'], "line 1 of the trace says nothing"),
        ([b'{"action": "pray"}'], "line 1: log-trimming has no action 'pray'"),
        ([b'{"action": "insert", "with": {"x": 0}}'], "line 1: Insert has no argument 'x'"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused_by_its_number(lines: list[bytes], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        check_trace(model_named("log-trimming", {}), read_trace(lines)[1])


def test_a_line_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.limits.trace_line_bytes_max", 30)
    lines = [b'{"action": "insert"}', b'{"action": "insert", "with": {"r": 0}}']
    with pytest.raises(BadInput, match="line 2 of the trace has 38 bytes"):
        check_trace(model_named("log-trimming", {}), read_trace(lines)[1])
