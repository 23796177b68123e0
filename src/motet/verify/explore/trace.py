"""A trace is found again by replay: the explorer keeps fingerprints, not states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from motet.verify.explore.instances import Instances
from motet.verify.explore.result import Step
from motet.verify.model import Record
from motet.verify.model.record import changes, show

S = TypeVar("S", bound=Record)


def replay(
    instances: Instances[S], path: Sequence[int], fingerprint: Callable[[S], int]
) -> tuple[Step, ...]:
    """The steps through states with these fingerprints, from an initial one."""
    state = next(s for s in instances.model.initial() if fingerprint(s) == path[0])
    steps = [Step("Init", (), show(state))]
    for wanted in path[1:]:
        label, after = next(
            step for step in instances.successors(state) if fingerprint(step[1]) == wanted
        )
        steps.append(Step(instances.show(label), tuple(changes(state, after)), show(after)))
        state = after
    return tuple(steps)
