"""Models that hold do; what must fail fails, in the property it names, with a trace."""

from __future__ import annotations

from typing import Any

import pytest

from motet.verify.explore import explore
from motet.verify.explore.instances import led
from motet.verify.model import Variant
from motet.verify.models import every_variant, model_named
from motet.verify.models.view_change import ViewChange
from motet.verify.models.view_change.records import Disk, DoViewChange, Slot

VARIANTS = list(every_variant())
LONG = {
    ("shard-log", "one-answer-election"),
    ("shard-log", "lowest-head-leader"),
    ("shard-log", "commit-old-epochs"),
    ("shard-log-repaired", "stalled-swap"),
    ("shard-log-repaired", "stalled-expand"),
    ("shard-log-repaired", "two-operators"),
    ("shard-log-core", "one-answer-elects"),
    ("shard-log-steps", "minority-elects"),
    ("shard-log-steps", "lowest-head-leads"),
    ("shard-log-steps", "no-truncation"),
    ("shard-log-changes", "stalled-swap"),
    ("shard-log-changes", "stalled-expand"),
    ("shard-log-changes", "stalled-contract"),
}
"""They hold or fail like the others, and take some seconds."""

REPAIRED: dict[str, dict[str, int]] = {
    "log-trimming-repaired": {"replicas": 2, "records": 2},
    "replication-repaired": {"replicas": 2, "records": 4},
    "quorum-repaired": {"replicas": 2, "quorum": 2, "records": 2, "reads": 1},
    "shard-log-steps": {"nodes": 2, "founded": 0},
    "shard-log-changes": {"nodes": 2, "ensemble": 1, "entries": 2, "epochs": 2},
    "zero-copy": {"replicas": 2, "copies": 2},
    "zero-copy-exclusive": {"replicas": 2},
    "cluster-clock": {"transactions": 1},
    "vsr-view-change": {"most_faults": 0},
}
NEVER_TAKEN = {
    "vsr-view-change": {"Corrupt", "Restart"},
    "shard-log-steps": {"Install", "Restart", "Truncate"},
    "shard-log-changes": {"Found", "Restart", "Truncate"},
}
"""What a model without faults does not do, one that is founded from the beginning, or one whose logs never
diverge: two nodes need each other for every epoch."""


@pytest.mark.parametrize("name", REPAIRED)
def test_repaired_models_hold(name: str) -> None:
    result = explore(model_named(name, REPAIRED[name]))
    assert (result.verdict, result.property) == ("ok", None)
    never = {action for action, times in result.coverage.items() if not times}
    assert never == NEVER_TAKEN.get(name, set()), "every other action was taken at this size"


def test_an_op_that_all_deny_is_cut_and_one_that_none_can_read_is_waited_for() -> None:
    model = ViewChange(replicas=3)
    disks: tuple[Disk, ...] = ("written", "dirty", "faulty")
    written, dirty, faulty = (Slot(0, disk) for disk in disks)

    def decide(*logs: tuple[Slot, ...]) -> tuple[int, ...] | None:
        decision = model.decide([DoViewChange(1, r, 0, log, 0) for r, log in enumerate(logs)])
        return None if decision is None else decision.headers

    assert decide((dirty,), ()) == ()
    assert decide((faulty,), ()) is None
    assert decide((faulty,), (), ()) == ()
    assert decide((faulty,), (), (written,)) == (0,)


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
