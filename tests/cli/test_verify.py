"""``motet verify`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motet.cli import app as root
from motet.verify.models import MODELS


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, what was printed, and what was complained."""
    with pytest.raises(SystemExit) as exited:
        root.main(["verify", *arguments])
    printed = capsys.readouterr()
    return int(exited.value.code or 0), printed.out, printed.err


def test_the_last_line_is_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    line = "run log-trimming --set replicas=3 --set records=4 --json"
    code, out, err = run(capsys, *line.split())
    assert (code, err) == (0, "")
    result = json.loads(out.splitlines()[-1])
    assert result["model"] == "log-trimming"
    assert (result["distinct"], result["depth"], result["generated"]) == (4354, 20, 25581)
    assert result["verdict"] == "ok"
    assert result["seconds"] > 0
    assert result["property"] is None


def test_a_violation_has_its_property_and_trace(capsys: pytest.CaptureFixture[str]) -> None:
    line = "run quorum-stale --property MonotonicRead --output json"
    code, out, _ = run(capsys, *line.split())
    result = json.loads(out)
    assert (code, result["verdict"], result["property"]) == (1, "violated", "MonotonicRead")
    assert len(result["trace"]) == 9
    assert result["trace"][0]["action"] == "Init"
    assert result["trace"][-1]["changed"] == ["history: + (kind=Read record_id=0)"]


def test_people_read_the_steps_and_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "run", "log-trimming", "--variant", "wake-lost")
    assert code == 1
    assert "ReplicaBecomeActive(r0)\n          replica[0].is_active: no → yes" in out
    assert out.splitlines()[-1] == "violated: ValidLogPointer, in 6 states"


def test_a_behaviour_without_end_shows_where_it_goes_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, "run", "quorum", "--variant", "stuck-after-failure")
    assert "for ever" in out


def test_a_budget_ends_in_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "run", "quorum", "--states", "500")
    assert code == 1
    assert "unknown: the budget of 500 states is used up" in out


def test_a_variant_that_begins_later_says_after_what(capsys: pytest.CaptureFixture[str]) -> None:
    line = "run shard-log-changes --variant leaving-counts --json"
    code, out, _ = run(capsys, *line.split())
    result = json.loads(out.splitlines()[-1])
    assert (code, result["property"], len(result["trace"])) == (1, "NoLossOfConfirmedWrite", 4)
    assert result["begins_after"][-2:] == ["Fence(n2, e3)", "Fence(n3, e3)"]
    assert f"it begins after {len(result['begins_after'])} steps: Fence(n0, e1), " in out


def test_the_list_has_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list")
    assert code == 0
    for name in MODELS:
        assert f"{name}: " in out
    _, out, _ = run(capsys, "list", "--output", "json")
    assert [row["model"] for row in json.loads(out)] == [*MODELS]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("run quorom", "there is no model 'quorom'"),
        ("run quorum --set replicas", "--set replicas sets nothing"),
        ("run quorum --set replicas=x", "not 'x'"),
        ("run quorum --set quorum=5", "a quorum of 5 cannot be had from 3 replicas"),
        ("run quorum --variant fresh", "no variant 'fresh'"),
        ("run quorum --property faith", "no property 'faith'"),
    ],
)
def test_what_cannot_be_run_is_refused(
    line: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *line.split())
    assert (code, out) == (1, "")
    assert err.startswith("BAD_INPUT ")
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_a_trace_is_explained_or_its_line_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "trace.ndjson"
    file.write_text(
        '{"model": "log-trimming", "set": {"replicas": 2}}\n'
        '{"action": "Insert", "with": {"r": 0}, "at": "12:00"}\n'
        '{"action": "ExecuteLog", "with": {"r": 1}, "state": {"replica": {"1": {"log_pointer": 2}}}}\n'
    )
    code, out, _ = run(capsys, "trace", str(file))
    assert (code, out.split(":")[0]) == (0, "explained")
    with file.open("a") as more:
        more.write('{"action": "ExecuteLog", "with": {"r": 1}}\n')
    code, out, _ = run(capsys, "trace", str(file), "--output", "json")
    result = json.loads(out)
    assert (code, result["verdict"], result["line"]) == (1, "unexplained", 4)
    code, out, _ = run(capsys, "trace", str(file))
    assert out.splitlines()[-1] == "unexplained: line 4: no behaviour explains it"


def test_a_trace_that_cannot_be_read_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = run(capsys, "trace", str(tmp_path / "none"), "--model", "quorum")
    assert code == 1
    assert "cannot be read" in err
    file = tmp_path / "trace.ndjson"
    file.write_text('{"action": "Insert"}\n')
    code, _, err = run(capsys, "trace", str(file))
    assert code == 1
    assert "which model" in err


def test_mutants_are_told_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "mutants", "zero-copy-exclusive")
    assert code == 0
    assert "caught     zero-copy-exclusive two-move-at-once: OneCopy, 9 states" in out
    assert out.splitlines()[-1] == "5 mutants: 5 caught"


def test_a_page_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = ["run", "zero-copy-exclusive", "--variant", "two-move-at-once", "--html"]
    code, _, _ = run(capsys, *line, str(tmp_path / "page.html"))
    assert code == 1
    assert "OneCopy" in (tmp_path / "page.html").read_text()
    code, _, err = run(capsys, *line, str(tmp_path / "none" / "page.html"))
    assert "cannot be written" in err


HISTORY = """{"checker": "bank", "initial": {"a": 5, "b": 5}}
{"event":"invoke","op":0,"process":"c1","function":"transfer","key":null,"value":["a","b",2],"at":0}
{"event":"ok","op":0,"value":true,"at":1}
{"event":"invoke","op":1,"process":"c2","function":"read","key":null,"value":null,"at":2}
{"event":"ok","op":1,"value":[["a",%d],["b",7]],"at":3}
"""


def test_a_history_is_judged_and_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, page, drawing = tmp_path / "run.ndjson", tmp_path / "run.html", tmp_path / "run.svg"
    file.write_text(HISTORY % 3)
    code, out, err = run(capsys, "history", str(file))
    assert (code, out, err) == (0, "ok (2 operations, 5 steps)\n", "")
    file.write_text(HISTORY % 4)
    code, out, _ = run(
        capsys, "history", str(file), "--html", str(page), "--svg", str(drawing), "--output", "json"
    )
    result = json.loads(out)
    assert (code, result["checker"], result["status"]) == (1, "bank", "violated")
    assert result["witness"]["fault"] == "total"
    assert result["witness"]["operations"][0]["process"] == "c2"
    assert "11 in all, but there is 10" in page.read_text()
    assert drawing.read_text().startswith("<svg")
    code, out, _ = run(
        capsys, "history", str(file), "--checker", "bank-snapshots", "--initial", '{"a": 6, "b": 5}'
    )
    assert code == 0


def test_a_history_that_cannot_be_judged_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = run(capsys, "history")
    assert code == 0
    assert "bank-snapshots" in out
    file = tmp_path / "run.ndjson"
    for text, options, complaint in (
        ("{}\n{", [], "line 2 of the history"),
        ("", [], "nobody says"),
        (HISTORY % 3, ["--checker", "banq"], "no checker 'banq'"),
        (HISTORY % 3, ["--checker", "queue", "--initial", "null"], "function 'transfer'"),
        (HISTORY % 3, ["--initial", "{"], "--initial is no JSON"),
        (HISTORY % 3, ["--html", str(tmp_path / "none" / "x")], "cannot be written"),
    ):
        file.write_text(text)
        code, _, err = run(capsys, "history", str(file), *options)
        assert code == 1
        assert complaint in err
        assert len(err.splitlines()) == 1
    code, _, err = run(capsys, "history", str(tmp_path / "none"))
    assert "cannot be read" in err
