"""The looks at the replicas of a cluster that its nodes have written, as steps of the view-change model.

A node writes what its replica is after each step (``debug.protocol``). The lines of all nodes are put
together by ``at``, which must be one clock, and each becomes the actions that lead from the look before it to
this one. They must begin when the cluster was formatted: the model knows nothing of an older log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from motet.core.vsr.look import LookLine, Observed
from motet.errors import BadInput
from motet.verify.trace.files import REPLICA, Found, read_lines
from motet.verify.trace.lines import Header, TraceLine
from motet.verify.trace.view_changes import ViewChangeSteps

MODEL = "vsr-view-change"


def read_looks(files: Sequence[Path]) -> list[Found[LookLine]]:
    """The looks of all nodes, in their order."""
    found = read_lines(files, REPLICA, LookLine)
    if not found:
        raise BadInput("nothing is said of a replica of the keeper", hint="name another file")
    sizes = sorted({each.line.replicas for each in found})
    if len(sizes) > 1 or any(not 0 <= each.line.replica < sizes[0] for each in found):
        raise BadInput("these are traces of several clusters", hint="name the files of one")
    return sorted(found, key=lambda each: each.line.at)


def steps_of(looks: Sequence[Found[LookLine]]) -> tuple[Header, Iterator[TraceLine]]:
    """The steps, and a model that is large enough for them."""
    lines = [each.line for each in looks]
    settings = {
        "replicas": lines[0].replicas,
        "ops": max(1, *(line.op for line in lines)),
        "views": max(line.view for line in lines),
        "most_faults": 0,
        "most_restarts": sum(line.restarted for line in lines),
    }
    return Header(MODEL, settings), _steps(looks, lines[0].replicas)


def _steps(looks: Sequence[Found[LookLine]], replicas: int) -> Iterator[TraceLine]:
    steps = ViewChangeSteps(replicas)
    for file, number, line in looks:
        before = Observed() if line.restarted else steps.before(line.replica)
        after = line.after(before)
        told = steps.saw(line.replica, after, sends=line.sends, restarted=line.restarted)
        for step in told:
            yield TraceLine(
                step["action"], step.get("with", {}), step.get("state", {}), number, file
            )
