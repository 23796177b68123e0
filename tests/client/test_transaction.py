"""How long a transaction that met a conflict waits before it is tried again."""

from __future__ import annotations

from motet.client.transaction import pause_ms_max, pauses_seconds
from motet.real.entropy import RealEntropy


def test_pauses_grow_to_a_bound() -> None:
    pauses = list(pauses_seconds(200, RealEntropy()))
    assert len(pauses) == 199
    assert pauses[0] < 0.001
    assert max(pauses) < pause_ms_max / 1000
