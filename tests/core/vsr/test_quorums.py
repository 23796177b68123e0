"""How many replicas it takes: the table, and why its numbers are safe."""

from __future__ import annotations

import itertools

import pytest

from motet.core.vsr.quorums import Quorums, quorums, replicas_max

TABLE = [
    # replicas, replication, view_change, nack, majority
    Quorums(1, 1, 1, 1, 1),
    Quorums(2, 2, 2, 1, 2),
    Quorums(3, 2, 2, 2, 2),
    Quorums(4, 2, 3, 3, 3),
    Quorums(5, 3, 3, 3, 3),
    Quorums(6, 3, 4, 4, 4),
]


@pytest.mark.parametrize("expected", TABLE)
def test_the_table(expected: Quorums) -> None:
    assert quorums(expected.replicas) == expected


@pytest.mark.parametrize("count", range(1, replicas_max + 1))
def test_every_view_change_meets_every_commit(count: int) -> None:
    sizes = quorums(count)
    replicas = range(count)
    for committed in itertools.combinations(replicas, sizes.replication):
        for voted in itertools.combinations(replicas, sizes.view_change):
            assert set(committed) & set(voted)


@pytest.mark.parametrize("count", range(1, replicas_max + 1))
def test_two_view_changes_have_a_replica_in_common(count: int) -> None:
    sizes = quorums(count)
    for one in itertools.combinations(range(count), sizes.view_change):
        for other in itertools.combinations(range(count), sizes.view_change):
            assert set(one) & set(other)


@pytest.mark.parametrize("count", range(1, replicas_max + 1))
def test_what_a_nack_quorum_denies_was_not_committed(count: int) -> None:
    sizes = quorums(count)
    for deniers in itertools.combinations(range(count), sizes.nack):
        assert count - len(deniers) < sizes.replication


@pytest.mark.parametrize("count", [0, 7])
def test_there_are_one_to_six_replicas(count: int) -> None:
    with pytest.raises(AssertionError):
        quorums(count)
