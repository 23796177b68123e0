"""``motet simulate`` as a user meets it: clear refusals, exit codes, JSON, and a line that replays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from motet.cli import app as root
from motet.verify.plants import plants_of
from motet.verify.storms import PARTS

PLANT = "ack-before-durable"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, what was printed, and what was complained."""
    with pytest.raises(SystemExit) as exited:
        root.main(["simulate", *arguments])
    printed = capsys.readouterr()
    return int(exited.value.code or 0), printed.out, printed.err


REFUSED: dict[str, list[str]] = {
    "no-such-part": [f"choose one of {', '.join(PARTS)}"],
    "time --profile tempest": ["tempest", "swarm"],
    "database --plant moth": ["moth", PLANT],
    "time --seeds 5-1": ["'5-1'", "1-500"],
    "time --seeds a-b": ["'a-b'", "1-500"],
    "time --seeds 7": ["'7'", "1-500"],
    "time --seeds 1-2-3": ["'1-2-3'", "1-500"],
    "time --seeds -5": ["'-5'", "1-500"],
    "time --seed 1 --seeds 1-2": ["--seeds", "--seed"],
    "time --seeds 1-2 --trace": ["--seeds", "--trace"],
    "time --seeds 1-2 --history run": ["--seeds", "--history"],
    "time --history run": ["clients of time", "choose one of vsr"],
    "time --seeds 1-20 --jobs 2 --profile tempest": ["tempest", "swarm"],
    "database --seeds 1-20 --jobs 2 --plant moth": ["moth", PLANT],
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_run_is_refused_in_one_line(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *line.split())
    assert (code, out) == (1, "")
    (complaint,) = err.splitlines()
    assert complaint.startswith("BAD_INPUT ")
    assert all(word in complaint for word in REFUSED[line])


@pytest.mark.parametrize(
    "line", ["time --seed x", "time --jobs -1", "time --output yaml", "time time"]
)
def test_what_cannot_be_understood_is_a_wrong_call(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *line.split())
    assert (code, out) == (2, "")
    assert "motet simulate --help" in err


def test_the_help_names_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    text = " ".join(out.split()).replace("- ", "-")  # a line may end at the hyphen of a name
    named = text.partition("What to simulate: ")[2].partition(".")[0]
    assert named.split(", ") == [*PARTS]


def test_the_help_names_every_bug_that_can_be_planted(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    listed = " ".join(out.partition("Bugs that can be planted")[2].split()).replace("- ", "-")
    for part in PARTS:
        assert f"{part}: {', '.join(plants_of(part))}" in listed


# One seed


def test_an_ok_seed_says_so_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "time", "--seed", "3", "--profile", "none")
    assert (code, err) == (0, "")
    assert out.startswith("time seed 3 profile none: ok after ")
    assert "replay" not in out


def test_without_a_part_or_a_seed_it_is_the_database_and_seed_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(capsys)[1] == run(capsys, "database", "--seed", "1")[1]


def test_json_of_one_seed_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "time", "--seed", "3", "-o", "json")
    assert code == 0
    document = json.loads(out)
    assert (document["part"], document["seed"], document["verdict"]) == ("time", 3, "ok")
    assert document["replay"] == "motet simulate time --seed 3 --profile swarm --trace"
    assert len(document["trace_digest"]) == 32
    assert "tail" not in document


def test_the_trace_has_as_many_lines_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "time", "--seed", "3", "--trace", "--output", "json")
    assert code == 0
    document = json.loads(out)
    assert len(document["tail"]) == document["trace_lines"] > 100
    printed = run(capsys, "time", "--seed", "3", "--trace")[1].splitlines()
    assert printed[: document["trace_lines"]] == document["tail"]


def test_a_seed_with_a_planted_bug_exits_with_1_and_is_replayed_by_its_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "database", "--seeds", "1-100", "--plant", PLANT, "-o", "json")
    assert code == 1
    found = json.loads(out)
    assert found["verdict"] == found["failure"]["verdict"] == "violated"
    words = found["replay"].split()
    assert words[:2] == ["motet", "simulate"]
    first, second = (run(capsys, *words[2:]) for _ in range(2))
    assert first == second
    assert first[0] == 1
    (violation,) = found["failure"]["violations"]
    assert f"violates {violation['invariant']}: {violation['what']}" in first[1]


def test_the_line_that_is_printed_replays_to_the_byte_in_other_processes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, "database", "--seeds", "1-100", "--plant", PLANT)
    (line,) = [line for line in out.splitlines() if line.startswith("replay: ")]
    command = [sys.executable, "-m", *line.removeprefix("replay: ").split()]
    traces = {
        subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=False
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1
    assert traces.pop().count(b"\n") > 100


def test_what_clients_saw_is_written_down_for_the_checkers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one, several = tmp_path / "one.ndjson", tmp_path / "run.ndjson"
    code, out, _ = run(capsys, "vsr", "--seed", "2", "--history", str(one), "--output", "json")
    assert (code, json.loads(out)["histories"]) == (0, [str(one)])
    assert json.loads(one.read_text().splitlines()[0])["checker"] == "keyed"
    plain = run(capsys, "database", "--seed", "3")[1]
    code, out, _ = run(capsys, "database", "--seed", "3", "--history", str(several))
    advice = [line for line in out.splitlines() if line.startswith("judge what clients saw")]
    assert (code, out) == (0, plain + "".join(f"{line}\n" for line in advice))
    written = [line.rpartition(" ")[2] for line in advice]
    assert written == [
        str(tmp_path / f"run-{kind}.ndjson") for kind in ("feed", "causal", "bank-snapshots")
    ]
    for file in (str(one), *written):
        with pytest.raises(SystemExit) as exited:
            root.main(["verify", "history", file])
        assert exited.value.code == 0
        assert capsys.readouterr().out.startswith("ok (")
    code, _, err = run(capsys, "database", "--seed", "3", "--history", str(tmp_path / "no" / "run"))
    assert (code, "cannot be written" in err) == (1, True)


# A range


def test_a_range_that_is_ok_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "time", "--seeds", "1-20", "--output", "json")
    assert code == 0
    document = json.loads(out)
    assert (document["verdict"], document["seeds_run"]) == ("ok", 20)
    assert document["replay"] is document["failure"] is None
    assert document["missing_marks"] == []


def test_a_range_that_missed_a_mark_exits_with_1_and_names_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "time", "--seeds", "1-3", "--profile", "none")
    assert code == 1
    assert "uncovered" in out
    assert "never seen: clock_jump, crash, crash_all" in out


def test_interrupting_a_range_stops_it_without_a_traceback() -> None:
    """^C goes to the whole group of processes, in the middle of a range that would take hours."""
    terminal, stderr = os.openpty()
    command = [sys.executable, "-m", "motet", "simulate", "time", "--seeds", "1-10000000"]
    # Whoever starts the suite in the background of a shell has it ignore ^C, and children inherit that.
    as_in_a_terminal = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*command, "--jobs", "2"], stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
    )
    signal.signal(signal.SIGINT, as_in_a_terminal)
    os.close(stderr)
    shown = b""
    while b"of 10000000 seeds" not in shown:
        shown += os.read(terminal, 1_000)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    shown += drained(terminal)
    os.close(terminal)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in shown


def drained(terminal: int) -> bytes:
    """All that is left to read from a terminal whose other side is closed."""
    found = b""
    try:
        while data := os.read(terminal, 1_000):
            found += data
    except OSError:  # how Linux says that the other side is closed
        pass
    return found
