"""Whether a transaction that met a conflict is tried again, and how long it waits before."""

from __future__ import annotations

import pytest

from motet.client.transaction import AsyncTransaction, Attempts, pause_ms_max
from motet.errors import BadInput, Conflict
from motet.real.process import RealEntropy


def begin() -> AsyncTransaction:
    raise AssertionError("nobody asked for one")


def test_pauses_grow_to_a_bound() -> None:
    tries = Attempts(begin, 200, RealEntropy())
    pauses = [tries.pause_seconds(Conflict("in the way")) for _ in range(199)]
    assert pauses[0] < 0.001
    assert max(pauses) < pause_ms_max / 1000


def test_the_conflict_of_the_last_attempt_is_raised() -> None:
    tries = Attempts(begin, 2, RealEntropy())
    tries.pause_seconds(Conflict("the first"))
    with pytest.raises(Conflict, match="the last"):
        tries.pause_seconds(Conflict("the last"))


@pytest.mark.parametrize("attempts", [0, -1, True, 10_001])
def test_how_often_is_a_whole_number(attempts: int) -> None:
    with pytest.raises(BadInput, match="attempts"):
        Attempts(begin, attempts, RealEntropy())
