"""The demo, as a newcomer runs it: its report says what it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def demo(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "motet", "demo", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_clock_demo_survives_its_own_kill(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = demo("clock", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())
    assert report["ok"] is True
    clock = report["clock"]
    assert (clock["repeated"], clock["went_back"]) == (0, 0)
    assert clock["ticks_after_restart"] > 0
    assert "×" in done.stdout


def test_the_storm_demo_finds_its_planted_bug(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = demo("storm", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    storm = json.loads(file.read_text())["storm"]
    assert storm["violated"] == 0
    assert storm["replay"] in done.stdout


def test_the_consensus_demo_loses_nothing_and_repairs_what_rots(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = demo("consensus", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())["consensus"]
    assert (report["lost"], report["doubled"], report["stale_barriers"]) == (0, 0, 0)
    assert (report["linearizable"], report["kills"]) == (True, 2)
    assert report["acknowledged"] > 100
    assert report["view_changes"] >= 2
    assert report["repaired_prepares"] >= report["rotten_prepares"] > 0
    assert report["repaired_blocks"] >= report["rotten_blocks"] == 1
    assert "kill -9 of" in done.stdout


def test_the_log_demo_loses_nothing_while_its_ensemble_changes(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = demo("log", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())["log"]
    assert (report["lost"], report["doubled"], report["out_of_order"]) == (0, 0, 0)
    assert report["readers_saw_the_same"] is True
    assert (report["kills"], report["changes_of_the_ensemble"]) == (2, 5)
    assert report["acknowledged"] > 100
    assert "the active operator" in done.stdout


def test_an_unknown_demo_is_refused_and_the_known_ones_are_named() -> None:
    done = demo("opera")
    assert done.returncode == 1
    assert done.stderr.startswith("BAD_INPUT there is no demo 'opera'; choose one of clock, storm")
