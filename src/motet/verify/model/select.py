"""Which properties of a model are asked for, by any spelling of their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from motet.errors import BadInput
from motet.verify.model.base import Model, Property


def wanted_properties(
    model: Model[Any], names: Iterable[str] | None, *, liveness: bool = True
) -> tuple[Property, ...]:
    """All properties, or the named ones: ``NoStaleRead``, ``no-stale-read`` and ``no_stale_read`` are one."""
    every = model.properties()
    if names is not None:
        known = {_plain(item.name): item for item in every}
        chosen = []
        for name in names:
            if _plain(name) == "typeok":
                continue
            if _plain(name) not in known:
                raise BadInput(
                    f"{model.name} has no property {name!r}",
                    hint="it has " + ", ".join(item.title for item in every),
                )
            chosen.append(known[_plain(name)])
        every = tuple(chosen)
    return tuple(item for item in every if liveness or item.kind in ("invariant", "step"))


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
