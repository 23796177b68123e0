"""The traces of several nodes put together: one shard, its metadata, and numbers for the names of nodes.

A node writes what its replicas do (``debug.protocol``), each line with ``at``, ``node`` and ``shard``; its
operator writes what it knows to stand in the metadata store. Each node's lines are a trace of their own, and
so are the versions of the metadata, whoever has told of them: ``merge`` finds an order of all. Lines about
the keeper's replicas are in the same files, and read by ``view_changes``.

What a node has done and could not tell, because its process ended: told for it, from what it says next.

A node carries out what a step wants of its disk, then writes its line, and then lets messages go. Killed in
between, it has an entry on disk that no line tells of and nobody else knows of: its next life begins with it.
One that has removed its files has forgotten that, too, when it comes back: it begins with nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from motet.errors import BadInput
from motet.ids import NodeId
from motet.verify.trace import view_changes
from motet.verify.trace.lines import SHARD, Header, TraceLine, kind_of, read_lines
from motet.verify.trace.merge import Placed
from motet.verify.trace.metadata import StoreLine, deleted_in, read_versions, steps_of_store


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

    def before(self, action: str, **arguments: object) -> NodeLine:
        """A line that the node would have written before this one."""
        return NodeLine(
            *(self.at, self.node, self.shard, action, {"n": self.node, **arguments}),
            file=self.file,
            number=self.number,
        )

    @property
    def seen(self) -> Mapping[str, Any]:
        """What the node says that it then is."""
        nodes = self.state.get("node")
        found = nodes.get(self.node) if isinstance(nodes, dict) else None
        return found if isinstance(found, dict) else {}


def with_untold(lines: Sequence[NodeLine]) -> Iterator[NodeLine]:
    """The lines of a node, in their order, with those that are missing between its lives."""
    head, leads, epoch = 0, False, 0
    is_member = is_deleted = False
    for line in lines:
        if is_deleted and line.action not in ("Restart", "Forget"):
            yield line.before("Forget")
        if line.action == "Restart" and _number(line, "last") > head and not is_deleted:
            last, newest = _number(line, "last"), max(epoch, _number(line, "epoch"))
            if leads and newest == epoch:
                yield line.before("Write", last=last)
            elif line.arguments.get("whole") is True and not is_member:
                yield line.before("Become", last=last)
            else:
                yield line.before("Append", epoch=newest, last=last)
        yield line
        is_deleted = line.action == "Delete"
        epoch = _number(line, "epoch") or epoch
        is_member = bool(line.seen.get("member", is_member or line.action == "Join"))
        leads = _leads(line, leads)
        head = _head(line, head)


def _number(line: NodeLine, name: str) -> int:
    said = line.arguments.get(name)
    return said if isinstance(said, int) else 0


def _leads(line: NodeLine, before: bool) -> bool:
    status = line.seen.get("status")
    if status is not None:
        return bool(status == "leader")
    if line.action == "BecomeLeader":
        return True
    return before and line.action not in ("Fence", "Abdicate", "Restart", "Append", "Summon")


def _head(line: NodeLine, before: int) -> int:
    """Where its log ends then, as far as it says so."""
    log = line.seen.get("log")
    if isinstance(log, list):
        return log[-1][1] if log and isinstance(log[-1], list) else 0
    if line.action in ("Write", "Append", "Become", "Install", "Restart"):
        return _number(line, "last")
    return _number(line, "keep") if line.action == "Truncate" else before


STAYS, CHANGES = "shard-log-steps", "shard-log-changes"
"""The model of a shard whose ensemble stays, and of any: that one needs to know the metadata."""

LARGE = 1_000_000
OF_CHANGES = ("PrepareChange", "CommitChange", "AbortChange", "Summon", "Become", "Delete")
"""What a node does only when its ensemble is changed."""


class ShardTrace(msgspec.Struct, frozen=True):
    """All that is said of one shard."""

    shard: str
    #: in the order of each node
    nodes: dict[str, list[NodeLine]]
    #: by version, as often as somebody has told of it
    store: list[StoreLine]


def is_of_a_node(first: bytes) -> bool:
    """Whether a trace begins with a line of a node."""
    try:
        return kind_of(msgspec.json.decode(first)) is not None
    except msgspec.MsgspecError:
        return False


def read_of_nodes(
    files: Sequence[Path], model: str | None, shard: str | None
) -> tuple[Header, list[list[Placed]]]:
    """The steps of a shard, or of the keeper's replicas if that is what the model is of."""
    if model == view_changes.MODEL:
        header, lines = view_changes.steps_of(view_changes.read_looks(files))
        return header, [[Placed(line) for line in lines]]
    return numbered(read_shard(files, shard), model)


def read_shard(files: Sequence[Path], shard: str | None) -> ShardTrace:
    """The lines about one shard; without a name there must be but one shard."""
    lines = [
        msgspec.structs.replace(line, file=file, number=number)
        for file, number, line in read_lines(files, SHARD, NodeLine)
    ]
    shards = sorted({line.shard for line in lines})
    if not shards:
        hint = f"of the keeper's replicas it may be: add --model {view_changes.MODEL}"
        raise BadInput("nothing is said of a shard", hint=hint)
    if shard is None and len(shards) > 1:
        raise BadInput(
            f"the traces are of {len(shards)} shards", hint=f"add --shard {' or '.join(shards[:8])}"
        )
    chosen = shards[0] if shard is None else shard
    if chosen not in shards:
        raise BadInput(f"nothing is said of shard {chosen!r}", hint=f"of {', '.join(shards)} it is")
    nodes: dict[str, list[NodeLine]] = {}
    for line in sorted((line for line in lines if line.shard == chosen), key=lambda line: line.at):
        nodes.setdefault(line.node, []).append(line)
    return ShardTrace(chosen, nodes, read_versions(files, chosen))


def numbered(trace: ShardTrace, model: str | None) -> tuple[Header, list[list[Placed]]]:
    """The lines with numbers for nodes, and a model that is large enough for them."""
    chosen = model or (CHANGES if trace.store else STAYS)
    if chosen != CHANGES:
        _refuse_changes(trace)
    elif not trace.store:
        raise BadInput(
            f"nothing is said of the metadata of {trace.shard}",
            hint="name the traces of the operators, too",
        )
    names = dict.fromkeys(trace.nodes)
    for line in (line for lines in trace.nodes.values() for line in lines):
        names.update(dict.fromkeys(line.arguments.get("others", ())))
    for stored in trace.store:
        names.update(dict.fromkeys(stored.nodes()))
    numbers = {NodeId(name): at for at, name in enumerate(sorted(names))}
    large = {"entries": LARGE, "epochs": LARGE, "most_restarts": LARGE}
    header = Header(chosen, {"nodes": len(numbers), "founded": 0, **large})
    is_changing = chosen == CHANGES
    end = deleted_in(trace.store) if is_changing else None
    traces = [
        _placed(lines, numbers, with_factor=is_changing)
        for lines in (_until_deleted(lines, end) for lines in trace.nodes.values())
    ]
    return header, [*traces, steps_of_store(trace.store, numbers)] if is_changing else traces


def _refuse_changes(trace: ShardTrace) -> None:
    lines = [line for lines in trace.nodes.values() for line in lines if line.action in OF_CHANGES]
    if not lines:
        return
    first = min(lines, key=lambda line: line.at)
    hint = "name the traces of the operators, too"
    if trace.store:
        hint = f"leave the model out, or name {CHANGES}"
    raise BadInput(
        f"line {first.number} of {first.file}: the ensemble of {trace.shard} is changed there",
        hint=hint,
    )


def _until_deleted(lines: Sequence[NodeLine], epoch: int | None) -> Sequence[NodeLine]:
    """What a node does until the shard is deleted everywhere: that is not in the model."""
    if epoch is None:
        return lines
    is_end = (each.action == "Delete" and each.arguments["epoch"] >= epoch for each in lines)
    return lines[: next((at for at, each in enumerate(is_end) if each), len(lines))]


def _placed(
    lines: Sequence[NodeLine], numbers: Mapping[NodeId, int], *, with_factor: bool
) -> list[Placed]:
    """The lines of a node, each in the epoch that the node was last seen in."""
    placed: list[Placed] = []
    epoch = 0
    for line in with_untold(lines):
        said = line.arguments.get("epoch")
        epoch = said if isinstance(said, int) else epoch
        placed.append(Placed(_numbered(line, numbers, with_factor=with_factor), epoch, line.at))
    return placed


def _numbered(line: NodeLine, numbers: Mapping[NodeId, int], *, with_factor: bool) -> TraceLine:
    arguments = dict(line.arguments)
    for name in ("n", "others"):
        said = arguments.get(name)
        if isinstance(said, str):
            arguments[name] = numbers.get(NodeId(said), said)
        elif isinstance(said, list):
            arguments[name] = sorted(numbers.get(each, -1) for each in said)
    state = dict(line.state)
    if isinstance(state.get("node"), dict):
        state["node"] = {
            str(numbers.get(key, key)): seen if with_factor else _without_factor(seen)
            for key, seen in state["node"].items()
        }
    return TraceLine(line.action, arguments, state, line.number, line.file)


def _without_factor(seen: Any) -> Any:
    """How many replicas a leader expects is in one of the models only."""
    if not isinstance(seen, dict):
        return seen
    return {key: value for key, value in seen.items() if key != "factor"}
