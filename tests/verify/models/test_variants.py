"""Repaired models hold; what must fail fails, in the property it names, with a trace."""

from __future__ import annotations

from typing import Any

import pytest

from motet.verify.explore import explore
from motet.verify.explore.script import led
from motet.verify.model import Variant
from motet.verify.models import every_variant, model_named

VARIANTS = list(every_variant())
LONG = {
    ("shard-log", "one-answer-election"),
    ("shard-log", "lowest-head-leader"),
    ("shard-log", "commit-old-epochs"),
    ("shard-log-repaired", "stalled-swap"),
    ("shard-log-repaired", "stalled-expand"),
    ("shard-log-repaired", "two-operators"),
}
"""They hold or fail like the others, and take some seconds."""

REPAIRED: dict[str, dict[str, int]] = {
    "log-trimming-repaired": {"replicas": 2, "records": 2},
    "replication-repaired": {"replicas": 2, "records": 4},
    "quorum-repaired": {"replicas": 2, "quorum": 2, "records": 2, "reads": 1},
}


@pytest.mark.parametrize("name", REPAIRED)
def test_repaired_models_hold(name: str) -> None:
    result = explore(model_named(name, REPAIRED[name]))
    assert (result.verdict, result.property) == ("ok", None)
    assert all(result.coverage.values()), "every action was taken at this size"


@pytest.mark.long
@pytest.mark.parametrize("name", REPAIRED)
def test_repaired_models_hold_at_their_own_size(name: str) -> None:
    result = explore(model_named(name, {}))
    assert (result.verdict, result.property) == ("ok", None)


def parameters() -> list[Any]:
    return [
        pytest.param(
            variant,
            id=f"{model}-{name}",
            marks=[pytest.mark.long] if (model, name) in LONG else [],
        )
        for model, name, variant in VARIANTS
    ]


@pytest.mark.parametrize("variant", parameters())
def test_what_must_fail_fails_where_it_says(variant: Variant) -> None:
    result = explore(variant.model(**variant.settings))
    if variant.breaks is None:
        assert (result.verdict, result.property) == ("ok", None)
    else:
        assert (result.verdict, result.property) == ("violated", variant.breaks)
        assert result.trace


def test_a_step_that_a_script_cannot_take_is_named() -> None:
    model = model_named("shard-log", {})
    (start,) = model.initial()
    with pytest.raises(AssertionError, match=r"Write\(n0 is not possible.*OperatorStarts\(o0\)"):
        led(model, start, ["Write(n0"])
