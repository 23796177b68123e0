"""Traces made by walking through a model: explained by it, by construction."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from motet.verify.explore.instances import Instances
from motet.verify.model import Model, Record


def walk(model: Model[Any], seed: int, steps: int) -> list[dict[str, Any]]:
    """The lines of a walk, with all that can be seen of the state."""
    chance = random.Random(seed)
    instances = Instances(model)
    (state,) = model.initial()
    lines: list[dict[str, Any]] = []
    for _ in range(steps):
        possible = instances.successors(state)
        if not possible:
            break
        (index, arguments), state = chance.choice(possible)
        action = instances.actions[index]
        names = action.function.__code__.co_varnames[2:]
        known = dict(zip(names, arguments, strict=False))
        lines.append({"action": action.title, "with": plain(known), "state": seen(state)})
    return lines


def seen(state: Record) -> dict[str, Any]:
    """All of a state, by field."""
    return {name: plain(getattr(state, name)) for name in state.__struct_fields__}


def plain(value: object) -> Any:
    """As JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(value, order="deterministic"))
