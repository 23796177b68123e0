"""Whatever a peer or a client says, in any state of a cluster: no machine breaks, and nothing is damaged for
good.

Quick: few seeds of each part. Long: many. A failure names the part, the mode and the seed, and what was said
last.
"""

from __future__ import annotations

import pytest
from tests.fuzz.hostile import LIES, NONSENSE, never_made
from tests.fuzz.liars import DOORS, Verdict, lie_to

QUICK = (
    ("vsr", NONSENSE, 1),
    ("vsr", LIES, 2),
    ("keeper", NONSENSE, 3),
    ("keeper", LIES, 4),
    ("streams", NONSENSE, 3),
    ("streams", LIES, 4),
    ("transactions", NONSENSE, 3),
    ("transactions", LIES, 4),
    ("database", NONSENSE, 1),
    ("database", LIES, 2),
    ("time", NONSENSE, 1),
)
FOUND = (("keeper", LIES, 140), ("streams", NONSENSE, 131), ("transactions", NONSENSE, 128))
"""An entry that a keeper's log refuses; twice a shard that a peer has had deleted."""

LONG = (
    *(("vsr", mode, seed) for mode in (NONSENSE, LIES) for seed in range(100, 160)),
    *(("keeper", mode, seed) for mode in (NONSENSE, LIES) for seed in range(100, 160)),
    *(("streams", mode, seed) for mode in (NONSENSE, LIES) for seed in range(100, 140)),
    *(("transactions", mode, seed) for mode in (NONSENSE, LIES) for seed in range(100, 140)),
    *(("database", mode, seed) for mode in (NONSENSE, LIES) for seed in range(100, 130)),
    *(("time", mode, seed) for mode in (NONSENSE, LIES) for seed in range(100, 110)),
)


def check(part: str, mode: str, seed: int, storm_ms: int) -> Verdict:
    verdict = lie_to(part, seed, mode, storm_ms=storm_ms)
    told = "\n".join(line[:500] for line in verdict.last)
    assert verdict.findings == [], (
        f"lie_to({part!r}, {seed}, {mode!r}, storm_ms={storm_ms})\n{told}"
    )
    assert verdict.said > 100, "somebody has lied"
    return verdict


@pytest.mark.parametrize(("part", "mode", "seed"), QUICK)
def test_a_liar_does_no_lasting_harm(part: str, mode: str, seed: int) -> None:
    verdict = check(part, mode, seed, storm_ms=2_000)
    assert never_made(verdict.forgers) == [], "every kind of message was said"


@pytest.mark.parametrize(("part", "mode", "seed"), FOUND)
def test_a_liar_that_did_harm_once(part: str, mode: str, seed: int) -> None:
    check(part, mode, seed, storm_ms=5_000)


@pytest.mark.long
@pytest.mark.parametrize(("part", "mode", "seed"), LONG)
def test_many_liars_do_no_lasting_harm(part: str, mode: str, seed: int) -> None:
    check(part, mode, seed, storm_ms=5_000)


def test_every_machine_of_a_node_has_a_door() -> None:
    """Whoever adds a machine to a node adds it here: what it decodes is what it is lied to in."""
    names = sorted(kind.__name__ for kind in DOORS)
    assert names == [
        "DataNode",
        "KeeperNode",
        "Replica",
        "StoredOperator",
        "StreamsMachine",
        "TimePeer",
    ]
