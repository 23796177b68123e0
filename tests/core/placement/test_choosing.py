"""Placement against naive checks: spread evenly, never twice on a node, deterministic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.core.placement.choosing import (
    Load,
    addition,
    handover,
    new_ensemble,
    ranked_leaders,
    removal,
)
from motet.ids import NodeId


def spread(load: Load, shards: int, replicas: int) -> list[tuple[NodeId, ...]] | None:
    """Ensembles for the shards of a stream, one after the other, as the operator founds them."""
    ensembles = []
    for _ in range(shards):
        ensemble = new_ensemble(load, replicas)
        if ensemble is None:
            return None
        load.place(ensemble)
        ensembles.append(ensemble)
    return ensembles


def named(count: int) -> list[NodeId]:
    return [NodeId(f"n{number}") for number in range(count)]


def apart(counts: dict[NodeId, int]) -> int:
    return max(counts.values()) - min(counts.values())


NODES = st.integers(1, 9)


@given(nodes=NODES, shards=st.integers(1, 40), replicas=st.integers(1, 9))
def test_spreading_is_even_and_never_twice_on_a_node(
    nodes: int, shards: int, replicas: int
) -> None:
    load = Load.of(named(nodes), [], [])
    ensembles = spread(load, shards, replicas)
    if replicas > nodes:
        assert ensembles is None
        return
    assert ensembles is not None
    assert len(ensembles) == shards
    for ensemble in ensembles:
        assert len(ensemble) == replicas == len(set(ensemble))
        assert set(ensemble) <= set(named(nodes))
    counted = {n: sum(n in ensemble for ensemble in ensembles) for n in named(nodes)}
    leads = {n: sum(n == ensemble[0] for ensemble in ensembles) for n in named(nodes)}
    assert counted == load.replicas
    assert leads == load.leads
    assert apart(counted) <= 1, "P2"
    assert apart(leads) <= 1, "P2"


@given(nodes=NODES, rounds=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), max_size=6))
def test_streams_that_come_one_after_the_other_stay_spread(
    nodes: int, rounds: list[tuple[int, int]]
) -> None:
    load = Load.of(named(nodes), [], [])
    for shards, replicas in rounds:
        spread(load, shards, min(replicas, nodes))
        assert apart(load.replicas) <= 1


@given(
    nodes=NODES,
    ensembles=st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True)),
    taken=st.sets(st.integers(0, 8)),
)
def test_an_addition_is_the_least_loaded_node_outside(
    nodes: int, ensembles: list[list[int]], taken: set[int]
) -> None:
    there = [[NodeId(f"n{number}") for number in each] for each in ensembles]
    load = Load.of(named(nodes), there, [each[0] for each in there])
    ensemble = [NodeId(f"n{number}") for number in sorted(taken)]
    chosen = addition(load, ensemble)
    outside = [node for node in named(nodes) if node not in ensemble]
    if not outside:
        assert chosen is None
        return
    assert chosen in outside
    least = min(sum(node in each for each in there) for node in outside)
    assert sum(chosen in each for each in there) == least
    assert addition(load, list(reversed(ensemble))) == chosen, "whatever the order"


@given(
    size=st.integers(1, 6),
    leader=st.integers(0, 5),
    loads=st.lists(st.integers(0, 3), min_size=6, max_size=6),
    unwanted=st.sets(st.integers(0, 5)),
)
def test_a_removal_takes_unwanted_nodes_first_and_never_the_leader(
    size: int, leader: int, loads: list[int], unwanted: set[int]
) -> None:
    ensemble = named(size)
    lead = ensemble[leader % size]
    replicas = dict(zip(named(6), loads, strict=True))
    bad = [NodeId(f"n{number}") for number in sorted(unwanted)]
    chosen = removal(ensemble, lead, replicas, bad)
    followers = [node for node in ensemble if node != lead]
    if not followers:
        assert chosen is None
        return
    assert chosen in followers
    assert chosen is not None
    group = [node for node in followers if node in bad] or followers
    assert chosen in group
    assert replicas[chosen] == max(replicas[node] for node in group)


@given(
    leads=st.lists(st.integers(0, 4), min_size=1, max_size=6), unwanted=st.sets(st.integers(0, 5))
)
def test_leaders_are_ranked_by_whether_they_stay_then_by_how_much_they_lead(
    leads: list[int], unwanted: set[int]
) -> None:
    ensemble = named(len(leads))
    counts = dict(zip(ensemble, leads, strict=True))
    bad = [NodeId(f"n{number}") for number in sorted(unwanted)]
    ranked = ranked_leaders(ensemble, counts, bad)
    assert sorted(ranked) == sorted(ensemble)
    keys = [(node in bad, counts[node]) for node in ranked]
    assert keys == sorted(keys)


def test_nodes_that_cannot_take_more_are_not_counted() -> None:
    load = Load.of(named(2), [[NodeId("n0"), NodeId("gone")]], [NodeId("gone")])
    assert load.replicas == {"n0": 1, "n1": 0}
    assert load.leads == {"n0": 0, "n1": 0}
    assert new_ensemble(load, 1) == ("n1",)


@given(
    nodes=st.integers(2, 6),
    shards=st.integers(1, 20),
    replicas=st.integers(1, 6),
    leaders=st.lists(st.integers(0, 5), min_size=20, max_size=20),
)
def test_handing_leaderships_on_ends_with_none_two_more_than_another_of_its_ensemble(
    nodes: int, shards: int, replicas: int, leaders: list[int]
) -> None:
    ensembles = spread(Load.of(named(nodes), [], []), shards, min(replicas, nodes))
    assert ensembles is not None
    led = [(each, each[leaders[i] % len(each)]) for i, each in enumerate(ensembles)]
    for _ in range(shards * nodes):
        leads = Load.of(named(nodes), [], [leader for _, leader in led]).leads
        found = handover(led, leads)
        if found is None:
            break
        number, node = found
        ensemble, before = led[number]
        assert node in ensemble
        assert leads[before] - leads[node] >= 2, "P4"
        led[number] = (ensemble, node)
    else:
        raise AssertionError("it does not end")
    for ensemble, leader in led:
        assert leads[leader] - min(leads[node] for node in ensemble) <= 1


def test_nobody_hands_over_to_one_that_cannot_lead() -> None:
    n0, n1, n2 = named(3)
    assert handover([((n0, n1), n0), ((n0, n1), n0)], {n0: 2}) is None
    assert handover([((n0, n2), n0), ((n0, n1), n0)], {n0: 2, n1: 0}) == (1, n1)
    assert handover([((n0, n1), n0)], {n0: 1, n1: 0}) is None
