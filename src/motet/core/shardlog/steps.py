"""What a replica does, told in the steps of the model ``shard-log-steps``.

Two looks at a replica, before and after an event, and the actions of the model that lead from one to the
other: several for one event, or none. A line names an action with its arguments, and says what the replica
then is; the model must be able to take that step, or the replica has done what the protocol does not allow.

T1  A replica is looked at when its epoch is durable: before that it promises nothing in it.
T2  What it was before a crash is known to the model; the first look at a life is a restart.

Nothing here is ever asked by the protocol.
"""

from __future__ import annotations

from typing import Any

import msgspec

from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import Status
from motet.ids import NodeId


class Look(msgspec.Struct, frozen=True):
    """A replica as the model sees it."""

    status: str = "fenced"
    epoch: int = 0
    #: offsets; who was fenced may know of more that is committed than it has
    head: int = 0
    durable: int = 0
    commit: int = 0
    is_member: bool = False
    #: (epoch, last offset) of each run of the log, if it is known from its beginning
    log: tuple[tuple[int, int], ...] | None = ()
    #: of a leader, whom it has cursors for
    followers: tuple[NodeId, ...] = ()

    def as_state(self) -> dict[str, Any]:
        """As a line of a trace says it."""
        seen: dict[str, Any] = {
            "status": self.status,
            "epoch": self.epoch,
            "durable": self.durable,
            "commit": self.commit,
            "member": self.is_member,
        }
        if self.log is not None:
            seen["log"] = [list(run) for run in self.log]
        return seen


def look_at(replica: ShardReplica) -> Look | None:
    """What can be said of a replica now; ``None`` if nothing can (T1)."""
    core, state = replica.core, replica.core.state
    if state.status is Status.RECOVERING or not core.is_epoch_durable:
        return None
    runs = state.log.runs
    known: tuple[tuple[int, int], ...] | None = None
    if runs.base.offset == 0:
        lasts = [first - 1 for first in runs.firsts[1:]] + [runs.head.offset]
        known = tuple(
            (int(epoch), int(last)) for epoch, last in zip(runs.epochs, lasts, strict=True) if epoch
        )
    followers = tuple(state.cursors) if state.status is Status.LEADER else ()
    return Look(
        state.status.value,
        int(state.epoch),
        int(runs.head.offset),
        int(state.log.durable),
        int(state.commit_index.offset),
        state.is_member,
        known,
        followers,
    )


def steps_between(
    n: int, before: Look, after: Look, numbers: dict[NodeId, int], *, installed: bool = False
) -> list[dict[str, Any]]:
    """The actions that lead from one look to the next, in an order in which the model can take them."""
    steps = _Steps(n, before)
    joins = after.is_member and not before.is_member and not installed
    if joins and not after.head:
        steps.act("Join")  # it is founded, and says so in its answer to the fence
    if after.epoch > before.epoch and (after.status != "follower" or after.head < before.head):
        steps.act("Fence", epoch=after.epoch)
        steps.head, steps.status = steps.durable, "fenced"
    if installed:
        steps.act("Install", last=after.head, whole=after.is_member)
        steps.head = steps.durable = after.head
        steps.commit = max(before.commit, after.head)
    steps.become(after, numbers)
    if after.status == "leader" and after.head > steps.head:
        steps.act("Write", last=after.head)
    if after.durable > steps.durable:
        steps.act("Sync", last=after.durable)
    if after.commit > steps.commit:
        steps.act("Commit" if after.status == "leader" else "LearnCommit", upto=after.commit)
    if joins and after.head:
        steps.act("Join")
    if not steps.lines:
        steps.lines.append(
            {"action": None, "with": {}}
        )  # whatever has changed, the model must have it
    steps.lines[-1]["state"] = {"node": {str(n): after.as_state()}}
    return steps.lines


class _Steps:
    """The lines so far, and what the replica is after them."""

    def __init__(self, n: int, before: Look) -> None:
        self.n = n
        self.lines: list[dict[str, Any]] = []
        self.status, self.epoch = before.status, before.epoch
        self.head, self.durable, self.commit = before.head, before.durable, before.commit

    def act(self, action: str, **arguments: object) -> None:
        self.lines.append({"action": action, "with": {"n": self.n, **arguments}})

    def become(self, after: Look, numbers: dict[NodeId, int]) -> None:
        """Leader, follower, or neither any more."""
        if after.status == "leader" and self.status != "leader":
            self.act("BecomeLeader", others=sorted(numbers[name] for name in after.followers))
        elif after.status == "fenced" and self.status == "leader":
            self.act("Abdicate")
        elif after.status == "follower" and after.head < self.head:
            self.act("Truncate", keep=after.head)
            self.head, self.durable = after.head, min(self.durable, after.head)
        elif after.status == "follower":
            is_new = self.status != "follower" or after.epoch > self.epoch
            if after.head > self.head or is_new:
                self.act("Append", epoch=after.epoch, last=after.head)
                self.head = after.head


def restart_of(n: int, after: Look) -> dict[str, Any]:
    """The first look at a life of a node (T2)."""
    known = {"epoch": after.epoch, "last": after.head, "upto": after.commit}
    return {
        "action": "Restart",
        "with": {"n": n, "whole": after.is_member, **known},
        "state": {"node": {str(n): after.as_state()}},
    }
