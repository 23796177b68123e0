"""A ZooKeeper and a keeper of ours are asked the same, and answer the same.

What is left out, and why, is in ``steps.BY_DESIGN``. A failure names the seed, the step and the steps before:
the seed alone replays it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.contract.keeper.servers import Motet, Zookeeper
from tests.system.back_to_back.pair import Difference, Pair
from tests.system.back_to_back.steps import Author

QUICK_STEPS = 600
LONG_STEPS = 3_000


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where the two are."""
    theirs = Zookeeper(tmp_path_factory.mktemp("zookeeper"))
    try:
        ours = Motet(tmp_path_factory.mktemp("motet"))
        try:
            yield theirs.endpoints, ours.endpoints
        finally:
            ours.close()
    finally:
        theirs.close()


def compare(both: tuple[str, str], seed: int, steps: int) -> Pair:
    pair = Pair(*both, Author(seed, f"/stream-{seed}"))
    try:
        asyncio.run(pair.run(steps))
    except Difference as difference:
        difference.add_note(
            f"replay: pytest tests/system/test_keeper_back_to_back.py -k '[{seed}]'"
        )
        raise
    print(f"{len(pair.steps)} steps, {pair.events} events, answers: {pair.answers}")
    return pair


@pytest.mark.parametrize("seed", [1, 2])
def test_a_stream_of_operations(both: tuple[str, str], seed: int) -> None:
    pair = compare(both, seed, QUICK_STEPS)
    assert pair.events > 0, "some watches have fired"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 104))
def test_long_streams(both: tuple[str, str], seed: int) -> None:
    compare(both, seed, LONG_STEPS)
