"""The state of the step model. A log is kept as runs: which epoch its entries are of, up to which offset.

``((1, 3), (2, 4))`` has three entries of epoch 1 and then one of epoch 2. An entry is known by its epoch and
its offset, so two logs that have the same entry at an offset have the same entries before it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from motet.verify.model import Record
from motet.verify.models.merge_tree import Natural

Run = tuple[Natural, Natural]
Log = tuple[Run, ...]
Status = Literal["fenced", "follower", "leader"]


def length(log: Log) -> int:
    """The offset of the last entry."""
    return log[-1][1] if log else 0


def head(log: Log) -> Run:
    """Epoch and offset of the last entry."""
    return log[-1] if log else (0, 0)


def epoch_at(log: Log, offset: int) -> int:
    """The epoch of an entry."""
    return next(epoch for epoch, last in log if offset <= last)


def cut(log: Log, keep: int) -> Log:
    """The log up to an offset."""
    kept: list[Run] = []
    for epoch, last in log:
        if length(tuple(kept)) >= keep:
            break
        kept.append((epoch, min(last, keep)))
    return tuple(kept)


def grown(log: Log, epoch: int, last: int) -> Log:
    """The log with entries of an epoch after it, up to an offset."""
    if log and log[-1][0] == epoch:
        return (*log[:-1], (epoch, last))
    return (*log, (epoch, last))


def common(one: Log, other: Log) -> int:
    """Up to where two logs have the same entries."""
    shared = 0
    for (epoch, last), (other_epoch, other_last) in zip(one, other, strict=False):
        if epoch != other_epoch:
            break
        shared = min(last, other_last)
        if last != other_last:
            break
    return shared


def highest_of(log: Log, epoch: int) -> Run:
    """The last entry of this epoch or an earlier one."""
    return max((run for run in log if run[0] <= epoch), default=(0, 0))


def is_prefix(one: Log, other: Log) -> bool:
    """Whether the other begins with all of the one."""
    return common(one, other) == length(one)


NOBODY = -1
Somebody = Annotated[int, msgspec.Meta(ge=NOBODY)]


class Change(Record, frozen=True):
    """A change of the ensemble: who leaves it, and who joins it."""

    op: Literal["swap", "expand", "contract"]
    old: Somebody = NOBODY
    new: Somebody = NOBODY

    def applied_to(self, ensemble: tuple[int, ...]) -> tuple[int, ...]:
        """The ensemble when it is complete."""
        kept = tuple(n for n in ensemble if n != self.old)
        return kept if self.new == NOBODY else tuple(sorted((*kept, self.new)))


class Node(Record, frozen=True):
    """A replica. What is after ``durable`` may be lost in a crash."""

    status: Status = "fenced"
    epoch: Natural = 0
    #: it has all that it ever acknowledged; who is none does not count in an election
    member: bool = True
    #: it was fenced in this epoch, and has neither led, followed nor crashed since
    may_lead: bool = False
    log: Log = ()
    durable: Natural = 0
    commit: Natural = 0
    #: where ensembles change: of a leader, how many replicas it takes the ensemble to have
    factor: Natural = 0
    #: and of one that has left: its files are being removed, and nothing that it has counts
    gone: bool = False


class Leadership(Record, frozen=True):
    """An epoch that has a leader: everything that was ever in its log, and what it has committed."""

    epoch: Natural
    leader: Natural
    #: its log when the epoch began, and with all it has written since
    elected: Log
    log: Log
    #: the highest commit index that it has told anybody
    told: Natural = 0
    #: where ensembles change: who counts, the change that it has prepared, and what was committed then;
    #: and how far its log went when it was elected, maybe in an earlier epoch
    members: tuple[Natural, ...] = ()
    change: Change | None = None
    floor: Natural = 0
    inherited: Natural = 0


class Stored(Record, frozen=True):
    """What the metadata store says of an epoch, in the end."""

    epoch: Natural
    ensemble: tuple[Natural, ...]
    #: nobody as long as one is elected
    leader: Somebody = NOBODY
    change: Change | None = None
    #: the change is in its commit phase
    is_ordered: bool = False
    #: who may be fenced in it
    asked: tuple[Natural, ...] = ()
    #: whom the change of this epoch takes in, also when it has been called off
    invited: Somebody = NOBODY
    is_installed: bool = False


class State(Record, frozen=True):
    """Replicas, and what was said: it may arrive late, twice, or never."""

    node: tuple[Node, ...]
    #: (epoch, node, epoch and offset of its head) of every node that was fenced
    fences: frozenset[tuple[Natural, Natural, Natural, Natural]] = frozenset()
    #: by epoch
    leaderships: tuple[Leadership, ...] = ()
    #: (epoch, node, offset): the highest that a follower has acknowledged in an epoch
    acks: frozenset[tuple[Natural, Natural, Natural]] = frozenset()
    #: the longest log that was ever committed
    committed: Log = ()
    restarts: Natural = 0
    #: by epoch, where ensembles change
    stored: tuple[Stored, ...] = ()
