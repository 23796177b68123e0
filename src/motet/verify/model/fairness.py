"""Which actions cannot be put off for ever.

*Weak*: an action that stays enabled is taken some day. *Strong*: an action that is enabled again and
again is taken some day. ``each=True`` asks it of every instance of the action, with its arguments;
without it, of the action as a whole.
"""

from __future__ import annotations

from typing import NamedTuple


class Fairness(NamedTuple):
    """The promise that one action makes."""

    action: str
    strong: bool
    each: bool


def weak(*actions: str, each: bool = False) -> tuple[Fairness, ...]:
    """What stays possible happens: ``fairness = weak("execute_log", each=True)``."""
    return tuple(Fairness(name, strong=False, each=each) for name in actions)


def strong(*actions: str, each: bool = False) -> tuple[Fairness, ...]:
    """What is possible again and again happens."""
    return tuple(Fairness(name, strong=True, each=each) for name in actions)
