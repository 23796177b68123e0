"""The reaper kills what is still there when its pipe ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from motet.testing.reaper import Reaper, reap

SLEEPER = (sys.executable, "-S", "-c", "import signal; signal.pause()")


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [subprocess.Popen(SLEEPER) for _ in range(2)]
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def test_what_has_not_ended_is_killed(sleepers: list[subprocess.Popen[bytes]]) -> None:
    first, second = sleepers
    reap([f"+{first.pid}\n", f"+{second.pid}\n", f"-{first.pid}\n"])
    assert second.wait(20) == -9
    assert first.poll() is None


def test_what_is_gone_already_is_fine(sleepers: list[subprocess.Popen[bytes]]) -> None:
    gone, alive = sleepers
    gone.kill()
    gone.wait()
    reap([f"+{gone.pid}\n", f"+{alive.pid}\n", "-1\n"])
    assert alive.wait(20) == -9


def test_closing_the_pipe_lets_the_reaper_do_its_work(
    sleepers: list[subprocess.Popen[bytes]],
) -> None:
    kept, left = sleepers
    reaper = Reaper()
    reaper.started(kept.pid)
    reaper.started(left.pid)
    reaper.ended(kept.pid)
    reaper.close()
    assert left.wait(20) == -9
    assert kept.poll() is None
