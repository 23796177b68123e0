"""Network tests run on both kinds of event loop."""

from __future__ import annotations

import pytest
from tests.real.tcp import Play, play_on


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a test's coroutine on each kind of loop."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return play_on(request.param)
