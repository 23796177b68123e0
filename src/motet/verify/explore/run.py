"""Which engine explores a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from motet import limits
from motet.errors import BadInput, MissingLibrary
from motet.verify.explore.breadth import explore_readable
from motet.verify.explore.result import Budget, Exploration, Progress
from motet.verify.explore.vector import explore_packed, kernels_of
from motet.verify.model import Model
from motet.verify.model.base import wanted_properties

ENGINES = ("auto", "readable", "vectorised")


def explore(
    model: Model[Any],
    *,
    engine: str = "readable",
    properties: Iterable[str] | None = None,
    symmetry: bool = False,
    liveness: bool = True,
    budget: Budget | None = None,
    progress: Callable[[Progress], None] | None = None,
    workers: int = 1,
) -> Exploration:
    """Explore a model; ``properties`` restricts what is checked. Symmetry leaves liveness out.

    ``auto`` takes the kernels where a model offers them for this size and what is asked is in them.
    More than one worker is for the readable engine; a script that asks for them is imported by each, so it
    must not run by being imported.
    """
    if not 1 <= workers <= limits.explore_workers_max:
        raise BadInput(
            f"{workers} workers are impossible", hint=f"choose 1 to {limits.explore_workers_max}"
        )
    if workers > 1:
        if model.is_of_one_process:
            raise BadInput(f"{model.name} is explored in one process", hint="leave out --workers")
        if engine == "vectorised":
            raise BadInput("the vectorised engine is one process", hint="leave out --workers")
        engine = "readable"
    if engine not in ENGINES:
        raise BadInput(f"there is no engine {engine!r}", hint=f"choose {', '.join(ENGINES)}")
    names = None if properties is None else list(properties)
    if engine == "auto":
        engine = "vectorised" if _has_kernels(model, names, liveness) else "readable"
    if engine == "vectorised":
        return explore_packed(
            model, properties=names, symmetry=symmetry, budget=budget, progress=progress
        )
    return explore_readable(
        model,
        properties=names,
        symmetry=symmetry,
        liveness=liveness,
        budget=budget,
        progress=progress,
        workers=workers,
    )


def _has_kernels(model: Model[Any], names: list[str] | None, liveness: bool) -> bool:
    wanted = wanted_properties(model, names, liveness=liveness)
    if any(item.kind != "invariant" for item in wanted):
        return False
    try:
        return not isinstance(kernels_of(model), str)
    except MissingLibrary:
        return False
