"""A planted bug as a record: the rule it breaks, the code it changes, and the seeds that have to find it."""

from __future__ import annotations

from functools import partial
from typing import Literal

import msgspec

SEEDS_FEW, SEEDS_SOME, SEEDS_MANY = 100, 300, 1_000
"""Within how many seeds a bug has to be found: at least three times what it took when this was chosen.

A search ends with the first seed that finds the bug, so a large figure costs nothing as long as it is found.
"""


class Search(msgspec.Struct, frozen=True):
    """One part of the simulation in which a planted bug has to be found."""

    part: str
    #: so many seeds, from ``first_seed`` on
    within: int
    #: the rules by which it is found there, as the checks of the part name them; any of them will do
    by: tuple[str, ...]
    first_seed: int = 1
    #: which faults there are: a bug that needs certain ones is found sooner where there are no others
    profile: str = "swarm"
    #: cheap enough for every run of the tests; the others are in the long tier
    is_quick: bool = False

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.within)


class Plant(msgspec.Struct, frozen=True):
    """A bug that can be planted into a part: the real code with one rule left out."""

    name: str
    #: the rule that is left out, in words
    rule: str
    #: where that rule is written down: a module below ``motet.core`` and the rule's name there; or nothing
    rule_id: str
    #: ``replaces``: another function stands in its place while the machine takes a step;
    #: ``overrides``: a subclass has another one;
    #: ``bypasses``: what it says, or is told, is changed on the way
    how: Literal["replaces", "overrides", "bypasses"]
    #: the function, class or field that is changed, as a dotted name
    target: str
    #: what changes it, a class or a function: ``module:name``
    planted_by: str
    searches: tuple[Search, ...]


def _plant(
    how: Literal["replaces", "overrides", "bypasses"],
    name: str,
    *searches: Search,
    rule: str,
    rule_id: str = "",
    target: str,
    by: str,
) -> Plant:
    return Plant(name, rule, rule_id, how, target, by, searches)


replaces, overrides, bypasses = (
    partial(_plant, "replaces"),
    partial(_plant, "overrides"),
    partial(_plant, "bypasses"),
)
