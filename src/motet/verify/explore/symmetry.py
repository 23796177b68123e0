"""States that differ only by the names of interchangeable things are one state.

A canonical state is the least, by its encoding, of all renamings that put the values in the order of the
model's ``rank``. Values with equal ranks are tried in every order, so a coarse rank costs time and is never
wrong; a rank that depends on names would be, and ``check_symmetry`` of the tests looks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, permutations, product
from typing import Any, TypeVar

from motet.errors import BadInput
from motet.verify.model import Model, Record

S = TypeVar("S", bound=Record)


def canonical_encoder(model: Model[S], encode: Callable[[Any], bytes]) -> Callable[[S], bytes]:
    """A function that encodes the canonical form of a state."""
    values = model.symmetry.fixed(model) if model.symmetry is not None else None
    if values is None:
        raise BadInput(f"{model.name} declares no symmetry", hint="explore it without --symmetry")
    identity = tuple(values)

    def canonical(state: S) -> bytes:
        candidates = [
            encode(state if order == identity else model.renamed(state, order))
            for order in _orders(model, state, identity)
        ]
        return candidates[0] if len(candidates) == 1 else min(candidates)

    return canonical


def _orders(model: Model[S], state: S, values: Sequence[int]) -> Iterator[tuple[int, ...]]:
    ranks = [model.rank(state, value) for value in values]
    ordered = sorted(values, key=ranks.__getitem__)
    groups = [list(group) for _, group in groupby(ordered, key=ranks.__getitem__)]
    for choice in product(*(permutations(group) for group in groups)):
        yield tuple(value for group in choice for value in group)
