"""Which loop a program runs on."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys

import pytest

from motet.real.process import run


async def loop_module() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_it_runs_on_uvloop_when_that_is_installed() -> None:
    has_uvloop = importlib.util.find_spec("uvloop") is not None
    assert run(loop_module()).startswith("uvloop") is has_uvloop


def test_it_runs_without_uvloop() -> None:
    script = (
        "import sys; sys.modules['uvloop'] = None\n"
        "import asyncio; from motet.real.process import run\n"
        "async def main(): return type(asyncio.get_running_loop()).__module__\n"
        "print(run(main()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("asyncio")


def test_it_gives_back_the_result_and_the_error() -> None:
    async def answer() -> int:
        return 7

    async def fail() -> None:
        raise ValueError("no")

    assert run(answer()) == 7
    with pytest.raises(ValueError, match="no"):
        run(fail())
