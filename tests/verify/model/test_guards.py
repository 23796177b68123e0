"""An action whose guards were rewritten does what it did before."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import pytest

from motet.verify.explore.instances import Instances
from motet.verify.explore.kernels import _all_states
from motet.verify.model import NotEnabled, require
from motet.verify.model.action import without_raising
from motet.verify.models import MODELS, model_named
from motet.verify.models.quorum_variants import JoinWithoutFetch

SMALL: dict[str, dict[str, int]] = {
    "log-trimming": {"replicas": 2, "records": 2},
    "replication": {"replicas": 2, "records": 3},
    "quorum": {"replicas": 2, "records": 1, "reads": 1},
    "shard-log": {"values": 0, "epochs": 1},
}


@pytest.mark.parametrize("name", SMALL)
def test_guards_mean_the_same_without_exceptions(name: str) -> None:
    model = model_named(name, SMALL[name])
    states, _ = _all_states(model, Instances(model))
    assert len(states) > 10
    for action in model.actions():
        quick = without_raising(action.function)
        for state in states:
            for argument in action.domains[0].values(model, state) if action.domains else [None]:
                if len(action.domains) < 2:
                    arguments = () if argument is None else (argument,)
                    assert quiet(quick, model, state, *arguments) == quiet(
                        action.function, model, state, *arguments
                    )


def quiet(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except NotEnabled:
        return None


def test_most_actions_are_rewritten_and_a_line_number_stays() -> None:
    for name in MODELS:
        for action in MODELS[name].actions():
            quick = without_raising(action.function)
            assert quick.__code__.co_filename == action.function.__code__.co_filename
    quick = without_raising(MODELS["quorum"].update_quorum)  # type: ignore[attr-defined]
    assert "require" not in quick.__code__.co_names


def test_what_closes_over_something_is_left_alone() -> None:
    assert without_raising(JoinWithoutFetch.update_quorum) is JoinWithoutFetch.update_quorum

    def elsewhere(state: int) -> int:
        require(state)
        return state

    foreign = {"require": bool}
    assert without_raising(len) is len
    made = FunctionType(elsewhere.__code__, foreign)
    assert without_raising(made) is made
