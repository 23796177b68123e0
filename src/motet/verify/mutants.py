"""How good are the properties? Every variant of every model is explored, and must fail where it says.

A variant is a *mutant*: the model with one thing wrong. It is *caught* when its property is violated, and
*equivalent* when everything was explored and nothing is: at that size the difference does no harm. A mutant
that is caught by another property than its own, or that is equivalent and should not be, is a *surprise*.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from motet.verify.explore import Budget, explore
from motet.verify.model import Variant
from motet.verify.models import every_variant, model_class, variant_of

Fate: TypeAlias = Literal["caught", "equivalent", "unknown", "surprise"]


class Mutant(msgspec.Struct, frozen=True):
    """What became of one variant."""

    model: str
    variant: str
    what: str
    fate: Fate
    #: the property that was violated
    property: str | None
    #: states of the shortest trace
    trace_states: int
    distinct: int
    #: the size it was explored at
    settings: dict[str, int]


def run_mutants(name: str | None = None, *, seconds: float | None = None) -> Iterator[Mutant]:
    """Explore the variants of one model, or of all, one after the other; so long at most for each."""
    if name is not None:
        model_class(name)  # refuses one that is not there
    for model, variant, mutant in every_variant():
        if name in (None, model):
            yield _explored(model, variant, mutant, seconds)


def run_mutant(model: str, variant: str, *, seconds: float | None = None) -> Mutant:
    """Explore one variant."""
    return _explored(model, variant, variant_of(model, variant), seconds)


def _explored(model: str, variant: str, mutant: Variant, seconds: float | None) -> Mutant:
    result = explore(mutant.model(**mutant.settings), budget=Budget(seconds=seconds))
    return Mutant(
        model,
        variant,
        mutant.what,
        _fate(result.verdict, result.property, mutant.breaks),
        result.property,
        len(result.trace),
        result.distinct,
        result.settings,
    )


def _fate(verdict: str, violated: str | None, breaks: str | None) -> Fate:
    if verdict == "unknown":
        return "unknown"
    if violated != breaks:
        return "surprise"
    return "equivalent" if breaks is None else "caught"
