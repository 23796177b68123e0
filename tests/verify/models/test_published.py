"""The published models give the very counts that TLC gives for their originals."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from motet.verify.explore import explore
from motet.verify.models import model_named


class Tlc(NamedTuple):
    """What TLC printed for the same model at the same size."""

    model: str
    settings: dict[str, int]
    generated: int
    distinct: int
    depth: int


QUICK = [
    Tlc("log-trimming", {"replicas": 3, "records": 4}, 25_581, 4_354, 20),
    Tlc("quorum", {"replicas": 3, "quorum": 2, "records": 2, "reads": 2}, 89_761, 18_744, 18),
]
LONG = [
    Tlc("shard-log", {"operators": 1, "nodes": 3, "values": 1, "epochs": 2}, 100_226, 46_247, 38),
    Tlc("replication", {"replicas": 3, "records": 4}, 379_647, 71_116, 20),
    Tlc("quorum", {"replicas": 3, "quorum": 2, "records": 3, "reads": 1}, 383_177, 84_056, 23),
    Tlc("quorum", {"replicas": 3, "quorum": 2, "records": 3, "reads": 2}, 1_143_325, 245_232, 24),
]


WITHOUT_FOUR_NODES = {
    "OperatorStops",
    "NodeHandlesSnapshotRequest",
    "OperatorHandlesSnapshotResponse",
}


def check(tlc: Tlc) -> None:
    result = explore(model_named(tlc.model, tlc.settings))
    assert result.verdict == "ok"
    assert (result.generated, result.distinct, result.depth) == tlc[2:]
    never = {action for action, times in result.coverage.items() if not times}
    assert not never or tlc.model == "shard-log", "every action was taken at this size"
    assert all("Reconfig" in action or action in WITHOUT_FOUR_NODES for action in never)


@pytest.mark.parametrize("tlc", QUICK, ids=lambda tlc: f"{tlc.model}-{tlc.distinct}")
def test_counts_are_those_of_tlc(tlc: Tlc) -> None:
    check(tlc)


@pytest.mark.long
@pytest.mark.parametrize("tlc", LONG, ids=lambda tlc: f"{tlc.model}-{tlc.distinct}")
def test_larger_counts_are_those_of_tlc(tlc: Tlc) -> None:
    check(tlc)


@pytest.mark.long
def test_symmetric_counts_are_those_of_tlc() -> None:
    result = explore(model_named("quorum", {"records": 3, "reads": 2}), symmetry=True)
    assert (result.verdict, result.distinct, result.depth) == ("ok", 43_602, 24)


def test_smaller_counts_known_from_an_independent_search() -> None:
    trimming = explore(model_named("log-trimming", {"replicas": 2, "records": 3}))
    assert (trimming.distinct, trimming.depth) == (260, 12)
    size = {"replicas": 3, "quorum": 2, "records": 2, "reads": 1}
    assert explore(model_named("quorum", size)).distinct == 9_208
    size = {"replicas": 2, "quorum": 2, "records": 2, "reads": 2}
    assert explore(model_named("quorum", size)).distinct == 964
    assert explore(model_named("quorum-stale", size)).distinct == 964


@pytest.mark.parametrize(("name", "states"), [("MonotonicRead", 9), ("no-stale-read", 8)])
def test_stale_reads_are_found_on_the_shortest_way(name: str, states: int) -> None:
    size = {"replicas": 3, "quorum": 2, "records": 2, "reads": 2}
    result = explore(model_named("quorum-stale", size), properties=[name])
    assert (result.verdict, len(result.trace)) == ("violated", states)
    assert result.trace[-1].action.startswith("QuorumReadWithoutLin")


def test_stale_reads_do_no_harm_where_a_quorum_is_everybody() -> None:
    result = explore(model_named("quorum-stale", {"replicas": 2, "quorum": 2}))
    assert result.verdict == "ok"


def test_a_replica_is_lost_as_early_as_in_the_original() -> None:
    from motet.verify.model import invariant
    from motet.verify.models.log_trimming import LogTrimming, State

    class HasNotLostReplica(LogTrimming):
        @invariant
        def nobody_is_lost(self, s: State) -> bool:
            return not any(one.is_lost for one in s.replica)

    assert len(explore(HasNotLostReplica(replicas=3)).trace) == 6
    assert len(explore(HasNotLostReplica(replicas=2)).trace) == 5
