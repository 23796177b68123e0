"""Leading a model to the place where something interesting begins.

Some faults lie behind thirty steps that everybody can write down, and the states beside that way are not
worth a thought. A script names those steps; the explorer begins where they end. Since every step is an
action of the model, what it finds from there is reachable from its beginning too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from motet.verify.explore.instances import Instances
from motet.verify.model import Model, Record

S = TypeVar("S", bound=Record)


def led(model: Model[S], start: S, script: Iterable[str]) -> S:
    """The state after these steps, each named by the beginning of its line in a trace."""
    instances = Instances(model)
    state = start
    for line in script:
        steps = [(instances.show(label), after) for label, after in instances.successors(state)]
        chosen = next((after for name, after in steps if name.startswith(line)), None)
        if chosen is None:
            raise AssertionError(f"{line} is not possible; possible are {[n for n, _ in steps]}")
        state = chosen
    return state
