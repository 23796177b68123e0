"""`motet clock` against a real node."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from motet.core.clock.hlc import Clock
from motet.testing import LocalCluster


def motet(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "motet", *words]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )


def test_clock_shows_and_ticks_and_never_goes_back() -> None:
    with LocalCluster(1, roles=()) as cluster:
        where = cluster.endpoint(0)
        first = motet("clock", "--endpoint", where, "--tick", "--output", "json")
        shown = motet("clock", "-o", "json", MOTET_ENDPOINT=where)
        second = motet("clock", "--endpoint", where, "--tick")
    (ticked,) = json.loads(first.stdout)
    (state,) = json.loads(shown.stdout)
    assert Clock.parse(ticked["clock"]) == Clock.parse(state["clock"])
    assert Clock.parse(state["bound"]) >= Clock.parse(state["clock"])
    assert second.stdout.splitlines()[0].split() == ["clock"]
    assert Clock.parse(second.stdout.splitlines()[1]) > Clock.parse(ticked["clock"])


def test_nobody_there_is_one_clear_line() -> None:
    done = motet("clock", "--endpoint", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("NODE nothing answers at 127.0.0.1:1")
    assert len(done.stderr.splitlines()) == 1


def test_a_bad_endpoint_is_one_clear_line() -> None:
    done = motet("clock", "--endpoint", "nonsense")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("BAD_INPUT 'nonsense' is not an endpoint")
