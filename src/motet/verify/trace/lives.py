"""What a node has done and could not tell, because its process ended: told for it, from what it says next.

A node carries out what a step wants of its disk, then writes its line, and then lets messages go. Killed in
between, it has an entry on disk that no line tells of and nobody else knows of: its next life begins with it.
One that has removed its files has forgotten that, too, when it comes back: it begins with nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec


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
