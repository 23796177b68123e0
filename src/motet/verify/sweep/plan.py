"""The jobs of a sweep, from what people write: ``streams=1-100``, ``quorum records=1-3 reads=1,2``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from motet import limits
from motet.errors import BadInput
from motet.verify.models import every_variant, model_class, model_named
from motet.verify.storms import storm_named
from motet.verify.sweep.jobs import Job


def plan_seeds(text: str) -> Iterator[Job]:
    """``streams=1-100``: a part, and seeds of it."""
    name, equals, seeds = text.partition("=")
    storm_named(name)  # refuses one that is not there
    if not equals:
        raise BadInput(f"{text} has no seeds", hint=f"write {name}=1-100")
    for seed in numbers(seeds):
        yield Job("seed", name, seed=seed)


def plan_mutants(name: str, seconds: float = 0.0) -> Iterator[Job]:
    """The variants of a model, or of all of them."""
    if name != "all":
        model_class(name)
    for model, variant, _ in every_variant():
        if name in ("all", model):
            yield Job("mutant", model, variant=variant, seconds=seconds)


def plan_grid(text: str, seconds: float = 0.0) -> Iterator[Job]:
    """``quorum records=1-3 reads=1,2``: a model at every size of these."""
    name, *settings = text.split()
    choices: list[list[tuple[str, str]]] = []
    for setting in settings:
        key, equals, values = setting.partition("=")
        if not equals:
            raise BadInput(f"{setting} sets nothing", hint="write records=1-3 or records=1,2,3")
        choices.append([(key, str(value)) for value in numbers(values)])
    for chosen in product(*choices):
        model_named(name, dict(chosen))  # refuses a size that cannot be
        yield Job("model", name, settings=dict(chosen), seconds=seconds)


def plan_histories(pattern: str, checker: str = "", steps: int = 0) -> Iterator[Job]:
    """The files of a pattern, each checked as it says of itself, or as told."""
    base = Path(pattern).anchor
    files = sorted(Path(base).glob(pattern.removeprefix(base)))
    if not files:
        raise BadInput(f"no history is at {pattern}", hint="write a pattern, as in 'runs/*.ndjson'")
    for file in files:
        yield Job("history", checker, file=str(file), steps=steps)


def numbers(text: str) -> list[int]:
    """``1-3,7`` is 1, 2, 3 and 7."""
    found: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.partition("-")
        try:
            low, high = int(first), int(last if dash else first)
        except ValueError:
            raise BadInput(f"{text!r} is no list of numbers", hint="write 1-3 or 1,2,3") from None
        if high < low or high - low >= limits.sweep_jobs_max:
            raise BadInput(f"{piece} is no range of numbers", hint="write the lower one first")
        found += range(low, high + 1)
    return found
