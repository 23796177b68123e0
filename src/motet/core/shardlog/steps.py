"""What a replica does, told in the steps of the models ``shard-log-steps`` and ``shard-log-changes``.

Two looks at a replica, before and after an event, and the actions of the model that lead from one to the
other: several for one event, or none. A line names an action with its arguments, and says what the replica
then is; the model must be able to take that step, or the replica has done what the protocol does not allow.

T1  What a replica does is told when its epoch is durable: before that it promises nothing in it.
T2  What it was before a crash is known to the model; the first look at a life is a restart.
T3  A snapshot that has taken the place of a log is told of when the meta file that names it is durable:
    after a crash before that, the old log is there again.
T4  A driver that replaces a file before anybody looks (``replaced_at_once``) need not wait for T1 and T3. It
    must not, either: what waits for the meta file leaves such a node before the replica is told.

Nothing here is ever asked by the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from motet.core.machine import Effect, Note
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import Status
from motet.ids import LogName, NodeId

Line: TypeAlias = dict[str, Any]


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
    may_lead: bool = False
    #: of a leader, whom it has cursors for
    followers: tuple[NodeId, ...] = ()
    #: of a leader: how many replicas there are, since which epoch it leads, whether it has prepared a
    #: change of the ensemble, and the epoch of the last one that it has committed
    factor: int = 0
    elected: int = 0
    is_changing: bool = False
    changed: int = 0

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


class Installed(msgspec.Struct, frozen=True):
    """A snapshot that has taken the place of a log."""

    epoch: int
    head: int
    is_member: bool
    #: the operator wanted it, for a change of the ensemble
    is_told: bool
    may_lead: bool
    #: of the meta file that names it
    meta_version: int


def look_at(replica: ShardReplica) -> Look | None:
    """What a replica is now; ``None`` as long as it reads its files."""
    state = replica.core.state
    if state.status is Status.RECOVERING:
        return None
    runs = state.log.runs
    known: tuple[tuple[int, int], ...] | None = None
    if runs.base.offset == 0:
        lasts = [first - 1 for first in runs.firsts[1:]] + [runs.head.offset]
        known = tuple(
            (int(epoch), int(last)) for epoch, last in zip(runs.epochs, lasts, strict=True) if epoch
        )
    look = Look(
        state.status.value,
        int(state.epoch),
        int(runs.head.offset),
        int(state.log.durable),
        int(state.commit_index.offset),
        state.is_member,
        known,
        state.may_lead,
    )
    if state.status is not Status.LEADER:
        return look
    change = state.committed_change
    return msgspec.structs.replace(
        look,
        followers=tuple(state.cursors),
        factor=state.replication_factor,
        elected=int(state.elected_epoch),
        is_changing=state.reconfiguring is not None,
        changed=0 if change is None else int(change.epoch),
    )


class Chronicle:
    """Keeps what was last seen of a replica of one node, and tells what it has done since."""

    def __init__(
        self, shard: LogName, n: int, *, with_factor: bool = False, replaced_at_once: bool = False
    ) -> None:
        self._shard = shard
        self._n = n
        self._at_once = replaced_at_once
        #: whether lines say how many replicas a leader expects
        self._with_factor = with_factor
        self._look = Look()
        #: what it was since then, the last of each epoch, and could not be told yet (T1, T3)
        self._untold: list[Look] = []
        self._installed: Installed | None = None
        self._is_deleted = False

    def saw(
        self, replica: ShardReplica, effects: Sequence[Effect], numbers: Mapping[NodeId, int]
    ) -> list[Line]:
        """The steps that a replica has taken since it was last seen, if they can be told now."""
        look = look_at(replica)
        if look is None:
            return []
        if self._note(effects, "shard_installed") is not None:
            self._installed = _installed(replica)
        if not self._is_on_disk(replica) or self._is_being_founded(replica, look):
            self._untold = [each for each in self._untold if each.epoch < look.epoch] + [look]
            return []
        if look == self._look and self._installed is None:
            return []
        lines: list[Line] = []
        if self._is_deleted:
            lines.append({"action": "Forget", "with": {"n": self._n}})
        return self._told(lines + self._steps_to(look, numbers), look)

    def restarted(self, replica: ShardReplica) -> list[Line]:
        """The first look at a life, as soon as there can be one (T2)."""
        look = look_at(replica)
        if look is None or not self._is_on_disk(replica):
            return []
        lines: list[Line] = []
        if look.head > self._look.head and self._untold:
            lines += self._steps_to(self._untold[-1], {})  # more was on disk than could be told
        return self._told([*lines, restart_of(self._n, look)], look)

    def gone(self, effects: Sequence[Effect]) -> list[Line]:
        """There is no replica: was it deleted just now?"""
        said = self._note(effects, "shard_deleted")
        if said is None or self._look == Look():
            return []
        self._look, self._untold, self._installed, self._is_deleted = Look(), [], None, True
        epoch = int(said.rpartition(" ")[2])
        return [{"action": "Delete", "with": {"n": self._n, "epoch": epoch}}]

    def _is_on_disk(self, replica: ShardReplica) -> bool:
        """T1, T3, T4."""
        core, installed = replica.core, self._installed
        if self._at_once:
            return True
        is_named = installed is None or core.state.meta_durable >= installed.meta_version
        return is_named and core.is_epoch_durable

    def _is_being_founded(self, replica: ShardReplica, look: Look) -> bool:
        """It is a member from now on, and its disk does not say so yet; nobody was told."""
        is_new = look.is_member and not look.head and not self._look.is_member
        state = replica.core.state
        return is_new and not self._at_once and state.meta_durable < state.meta_version

    def _steps_to(self, look: Look, numbers: Mapping[NodeId, int]) -> list[Line]:
        """By way of epochs in which entries came that are there still."""
        lines: list[Line] = []
        before, installed = self._look, self._installed
        between = [each for each in self._untold if each.epoch < look.epoch]
        for after in (*between, look):
            if after is not look and after.head <= before.head:
                continue
            is_here = installed is not None and installed.epoch <= after.epoch
            new = installed if is_here else None
            lines += steps_between(self._n, before, after, numbers, installed=new)
            before, installed = after, None if is_here else installed
        return lines

    def _note(self, effects: Sequence[Effect], what: str) -> str | None:
        for effect in effects:
            if isinstance(effect, Note) and effect.what == what:
                shard, _, detail = effect.detail.partition(" ")
                if shard == self._shard:
                    return detail
        return None

    def _told(self, lines: list[Line], look: Look) -> list[Line]:
        self._look, self._untold, self._installed, self._is_deleted = look, [], None, False
        seen = look.as_state()
        if self._with_factor:
            seen["factor"] = look.factor
        lines[-1]["state"] = {"node": {str(self._n): seen}}
        return lines


def _installed(replica: ShardReplica) -> Installed:
    state = replica.core.state
    return Installed(
        int(state.epoch),
        int(state.log.head.offset),
        state.is_member,
        state.installed_epoch == state.epoch,
        state.may_lead,
        state.meta_version,
    )


def steps_between(
    n: int,
    before: Look,
    after: Look,
    numbers: Mapping[NodeId, int],
    *,
    installed: Installed | None = None,
) -> list[Line]:
    """The actions that lead from one look to the next, in an order in which the model can take them."""
    steps = _Steps(n, before)
    joins = after.is_member and not before.is_member and installed is None
    if joins and not after.head:
        steps.act("Join")  # it is founded, and says so in its answer to the fence
    if installed is not None:
        steps.install(installed)
    if _leads_on(before, after):
        steps.change(before, after)
    elif after.epoch > steps.epoch and (after.status != "follower" or after.head < steps.head):
        if after.status == "fenced" and after.durable > steps.durable:
            steps.sync(after.durable)  # a fence leaves nothing that is not durable
        steps.take_epoch(after.epoch, is_fenced=after.may_lead or after.status != "fenced")
    steps.become(after, numbers)
    if after.status == "leader" and after.head > steps.head:
        steps.act("Write", last=after.head)
    if after.durable > steps.durable:
        steps.sync(after.durable)
    if after.changed != before.changed and after.changed == after.epoch:
        steps.act("CommitChange")
    if after.commit > steps.commit:
        steps.act("Commit" if after.status == "leader" else "LearnCommit", upto=after.commit)
    if joins and after.head:
        steps.act("Join")
    if not steps.lines:  # whatever has changed, the model must have it
        steps.lines.append({"action": None, "with": {}})
    return steps.lines


def _leads_on(before: Look, after: Look) -> bool:
    """Whether it has led all the time, if in a higher epoch now."""
    return before.status == after.status == "leader" and before.elected == after.elected


class _Steps:
    """The lines so far, and what the replica is after them."""

    def __init__(self, n: int, before: Look) -> None:
        self.n = n
        self.lines: list[Line] = []
        self.status, self.epoch = before.status, before.epoch
        self.head, self.durable, self.commit = before.head, before.durable, before.commit

    def act(self, action: str, **arguments: object) -> None:
        self.lines.append({"action": action, "with": {"n": self.n, **arguments}})

    def sync(self, last: int) -> None:
        self.act("Sync", last=last)
        self.durable = last

    def take_epoch(self, epoch: int, *, is_fenced: bool) -> None:
        """It was fenced, or is told to become a snapshot; only a fence gives up what is not durable."""
        self.act("Fence" if is_fenced else "Summon", epoch=epoch)
        self.status, self.epoch = "fenced", epoch
        if is_fenced:
            self.head = self.durable

    def install(self, installed: Installed) -> None:
        if installed.epoch > self.epoch:
            self.take_epoch(installed.epoch, is_fenced=installed.may_lead)
        if installed.is_told:
            self.act("Become", last=installed.head)
        else:
            self.act("Install", last=installed.head, whole=installed.is_member)
        self.head = self.durable = installed.head
        self.commit = max(self.commit, installed.head)

    def change(self, before: Look, after: Look) -> None:
        """A leader prepares a change of its ensemble, or gives one up."""
        is_higher = after.epoch > before.epoch
        is_over = before.is_changing and not after.is_changing and after.changed != after.epoch
        if is_higher and (after.is_changing or after.changed == after.epoch):
            self.act("PrepareChange", epoch=after.epoch)
        elif is_higher or is_over:
            self.act("AbortChange", epoch=after.epoch)
        self.epoch = after.epoch

    def become(self, after: Look, numbers: Mapping[NodeId, int]) -> None:
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


def restart_of(n: int, after: Look) -> Line:
    """The first look at a life of a node (T2)."""
    known = {"epoch": after.epoch, "last": after.head, "upto": after.commit}
    return {"action": "Restart", "with": {"n": n, "whole": after.is_member, **known}}
