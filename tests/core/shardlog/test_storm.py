"""Everything at once: crashes, losses, full disks, elections and changes of the ensemble, by seed."""

from __future__ import annotations

import pytest
from tests.core.shardlog.operating import OperatedWorld
from tests.core.shardlog.world import Odds

STORMS = {
    "network": Odds(crash=0, fill=0),
    "crashes": Odds(crash=8),
    "wipes": Odds(wipe=5),
    "bad sectors": Odds(fail_read=50),
}


def storm(seed: int, odds: Odds, turns: int = 3000) -> OperatedWorld:
    """A run; what must hold is checked at every step, and at the end everybody agrees."""
    world = OperatedWorld(seed, odds=odds)
    for _ in range(turns):
        world.turn()
    world.heal()
    return world


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", STORMS)
def test_nothing_is_lost_in_a_storm(kind: str, seed: int) -> None:
    world = storm(seed, STORMS[kind])
    assert world.serving() is not None


@pytest.mark.long
@pytest.mark.parametrize("kind", STORMS)
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_nothing_is_lost_in_many_storms(kind: str, first: int) -> None:
    for seed in range(first, first + 10):
        storm(seed, STORMS[kind], turns=5000)


def test_a_storm_comes_by_everything() -> None:
    """What the storms above are worth: each of these happened in some of them."""
    seen: dict[str, int] = {}
    for seed in range(12):
        for kind in ("network", "wipes"):
            seen |= storm(seed, STORMS[kind], turns=4000).marks
    wanted = (
        "truncated",
        "truncation_by_epoch",
        "installed",
        "prepared_node_swap",
        "prepared_expand",
        "committed_contract",
        "aborted_expand",
        "trimmed",
        "state_on_disk",
        "tail_cut",
        "disk_has_room",
        "pushed_again",
        "deleted",
    )
    assert [mark for mark in wanted if f"shard_{mark}" not in seen] == []
