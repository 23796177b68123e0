"""Repaired models hold; what must fail fails, in the property it names, with a trace."""

from __future__ import annotations

import pytest

from motet.verify.explore import explore
from motet.verify.model import Variant
from motet.verify.models import every_variant, model_named

VARIANTS = list(every_variant())

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


@pytest.mark.parametrize(
    "variant", [item for _, _, item in VARIANTS], ids=[f"{m}-{v}" for m, v, _ in VARIANTS]
)
def test_what_must_fail_fails_where_it_says(variant: Variant) -> None:
    result = explore(variant.model(**variant.settings))
    assert (result.verdict, result.property) == ("violated", variant.breaks)
    assert len(result.trace) > 1
