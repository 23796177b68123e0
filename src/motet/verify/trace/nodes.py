"""The traces of several nodes put together: one order, one shard, and numbers for the names of nodes.

A node writes what its replicas do (``debug.protocol``), each line with ``at``, ``node`` and ``shard``. The
lines of all nodes are merged by ``at``, which must be one clock: nodes of one machine have that. Lines about
the keeper's replicas are in the same files, and read by ``consensus``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from motet.errors import BadInput
from motet.verify.trace import consensus
from motet.verify.trace.files import SHARD, kind_of, read_lines
from motet.verify.trace.lines import Header, TraceLine

MODEL = "shard-log-steps"
LARGE = 1_000_000

CHANGES = ("PrepareChange", "CommitChange", "AbortChange")
"""What a leader does when its ensemble is changed; what operators write for it, no trace of nodes says."""


class NodeLine(msgspec.Struct, frozen=True):
    """A line as a node writes it."""

    at: int
    node: str
    shard: str
    action: str | None
    arguments: dict[str, Any] = msgspec.field(name="with")
    state: dict[str, Any] = msgspec.field(default_factory=dict)
    #: where it was found
    file: str = ""
    number: int = 0


def is_of_a_node(first: bytes) -> bool:
    """Whether a trace begins with a line of a node."""
    try:
        return kind_of(msgspec.json.decode(first)) is not None
    except msgspec.MsgspecError:
        return False


def read_of_nodes(
    files: Sequence[Path], model: str | None, shard: str | None
) -> tuple[Header, Iterable[TraceLine]]:
    """The steps of a shard, or of the keeper's replicas if that is what the model is of."""
    if model == consensus.MODEL:
        return consensus.steps_of(consensus.read_looks(files))
    return numbered(read_nodes(files, shard))


def read_nodes(files: Sequence[Path], shard: str | None) -> list[NodeLine]:
    """The lines about one shard, in their order; without a name there must be but one shard."""
    lines = [
        msgspec.structs.replace(line, file=file, number=number)
        for file, number, line in read_lines(files, SHARD, NodeLine)
    ]
    shards = sorted({line.shard for line in lines})
    if not shards:
        hint = f"of the keeper's replicas it may be: add --model {consensus.MODEL}"
        raise BadInput("nothing is said of a shard", hint=hint)
    if shard is None and len(shards) > 1:
        raise BadInput(
            f"the traces are of {len(shards)} shards", hint=f"add --shard {' or '.join(shards[:8])}"
        )
    chosen = shards[0] if shard is None else shard
    if chosen not in shards:
        raise BadInput(f"nothing is said of shard {chosen!r}", hint=f"of {', '.join(shards)} it is")
    found = sorted((line for line in lines if line.shard == chosen), key=lambda line: line.at)
    changing = next((line for line in found if line.action in CHANGES), None)
    if changing is not None:
        raise BadInput(
            f"line {changing.number} of {changing.file}: the ensemble of {chosen} is changed there",
            hint="a trace of nodes can be explained while the ensemble stays; "
            "`motet simulate shard-changes` follows its changes",
        )
    return found


def numbered(lines: Sequence[NodeLine]) -> tuple[Header, list[TraceLine]]:
    """The lines with numbers for nodes, and a model that is large enough for them."""
    names = dict.fromkeys(line.node for line in lines)
    for line in lines:
        names.update(dict.fromkeys(line.arguments.get("others", ())))
    numbers = {name: at for at, name in enumerate(sorted(names))}
    large = {"entries": LARGE, "epochs": LARGE, "most_restarts": LARGE}
    settings = {"nodes": len(numbers), "founded": 0, **large}
    return Header(MODEL, settings), [_numbered(line, numbers) for line in lines]


def _numbered(line: NodeLine, numbers: Mapping[str, int]) -> TraceLine:
    arguments = dict(line.arguments)
    for name in ("n", "others"):
        said = arguments.get(name)
        if isinstance(said, str):
            arguments[name] = numbers.get(said, said)
        elif isinstance(said, list):
            arguments[name] = sorted(numbers.get(each, -1) for each in said)
    state = dict(line.state)
    if isinstance(state.get("node"), dict):
        state["node"] = {str(numbers.get(key, key)): seen for key, seen in state["node"].items()}
    return TraceLine(line.action, arguments, state, line.number, line.file)
