"""Planted bugs: each changes what it says, breaks a rule that is written down, and is found soon enough."""

from __future__ import annotations

import inspect
import os
import re
from importlib import import_module

import pytest

from motet.errors import BadInput
from motet.sim.faults import Faults
from motet.sim.storm import Outcome, simulate
from motet.sim.world import World
from motet.verify.plants import PLANTS, Plant, Search, kind_of, named, search_for
from motet.verify.seed_range import find_plant
from motet.verify.storms import PARTS, planting, storm_named

SEARCHES = [(plant, search) for plant in PLANTS for search in plant.searches]
QUICK = [(search.part, plant.name) for plant, search in SEARCHES if search.is_quick]
LONG = [(search.part, plant.name) for plant, search in SEARCHES if not search.is_quick]
SOON_MS = 1_000


def labelled(row: object) -> str:
    if isinstance(row, Plant):
        return f"{row.searches[0].part}-{row.name}"
    return row.part if isinstance(row, Search) else str(row)


# The table


def test_a_part_has_every_planted_bug_once() -> None:
    rows = [(search.part, plant.name) for plant, search in SEARCHES]
    assert len({*rows}) == len(rows)
    planted = [(part, plant) for part in PARTS for plant in storm_named(part).plants]
    assert sorted(rows) == sorted(planted)


def test_every_part_has_a_bug_that_is_looked_for_in_every_run() -> None:
    assert {part for part, _ in QUICK} == {*PARTS}


@pytest.mark.parametrize(("plant", "search"), SEARCHES, ids=labelled)
def test_a_search_has_rules_and_seeds(plant: Plant, search: Search) -> None:
    assert plant.rule
    assert search.by
    assert len(search.seeds) == search.within >= 100


def test_an_unknown_bug_is_refused_and_plants_nothing() -> None:
    with pytest.raises(BadInput, match="known: ack-before-durable"):
        search_for("database", "moth")
    assert kind_of("streams", "moth", Outcome) is Outcome
    assert kind_of("streams", "direct-commit", Outcome) is Outcome, "a bug of another kind of node"


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant.rule_id], ids=labelled)
def test_the_rule_is_written_down_where_the_row_says(plant: Plant) -> None:
    module, rule = plant.rule_id.split()
    essay = import_module(f"motet.core.{module}").__doc__ or ""
    assert re.search(rf"^{rule} ", essay, flags=re.MULTILINE), plant.rule_id


# What is changed


@pytest.mark.parametrize("plant", PLANTS, ids=labelled)
def test_the_target_is_what_the_bug_changes(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    named(plant.target)  # fails where there is nothing of that name any more
    changes = {"replaces": is_replaced, "overrides": is_overridden, "bypasses": is_bypassed}
    assert changes[plant.how](plant, monkeypatch), plant.target


def is_replaced(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether another function stands in its place while a machine of the part takes a step."""
    replaced: set[str] = set()

    def put(owner: object, name: str, value: object) -> None:
        module = getattr(owner, "__module__", None)
        path = owner.__name__ if inspect.ismodule(owner) else f"{module}.{owner.__qualname__}"  # type: ignore[attr-defined]
        replaced.add(f"{path}.{name}")
        setattr(owner, name, value)

    monkeypatch.setattr(planting, "_put", put)
    world = World(1, Faults())
    storm_named(plant.searches[0].part).prepare(world, plant.name)
    for node in world.nodes.values():
        world.start(node)
    world.run(SOON_MS, lambda: plant.target in replaced)
    return plant.target in replaced


def is_overridden(plant: Plant, _monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether what plants the bug is a class with another method of that name, or uses such a class."""
    owner_name, _, name = plant.target.rpartition(".")
    owner, kind = named(owner_name), named(plant.planted_by)
    module = import_module(kind.__module__)
    candidates = [
        each
        for each in (kind, *vars(module).values())
        if isinstance(each, type) and issubclass(each, owner) and each is not owner
    ]
    source = inspect.getsource(kind)
    return any(
        name in vars(each) for each in candidates if re.search(rf"\b{each.__name__}\b", source)
    )


def is_bypassed(plant: Plant, _monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether what plants the bug touches a field, or makes use of a class or function, of that name."""
    name = plant.target.rpartition(".")[2]
    return re.search(rf"\b{name}\b", inspect.getsource(named(plant.planted_by))) is not None


# What is found


def is_found(part: str, name: str, jobs: int) -> None:
    found = find_plant(part, name, jobs=jobs)
    assert found is not None, f"{name} is not found in {part}"
    honest = simulate(storm_named(part), found.seed, profile=found.profile)
    assert honest.verdict == "ok", honest.replay_command()


@pytest.mark.parametrize(("part", "name"), QUICK)
def test_a_planted_bug_is_found(part: str, name: str) -> None:
    is_found(part, name, jobs=1)


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize(("part", "name"), LONG)
def test_a_planted_bug_that_takes_longer_is_found(part: str, name: str) -> None:
    is_found(part, name, jobs=os.cpu_count() or 1)


def test_a_search_that_ends_in_vain_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plant, _ = search_for("time", "a-third-follows")
    other = Search("time", 3, ("T1",))
    monkeypatch.setattr("motet.verify.seed_range.search_for", lambda *_: (plant, other))
    assert find_plant("time", "a-third-follows") is None
