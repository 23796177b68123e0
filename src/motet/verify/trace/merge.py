"""Traces of several nodes, followed together although nobody knows how their lines come one after another.

The lines of one node come in their order. Between nodes there is no order but what the model itself says: a
follower cannot have an entry before its leader wrote it, nobody is fenced in an epoch before that is in the
store. So a line is taken as soon as the model can take it, and one that cannot be taken yet waits, and all of
its node with it, until lines of others have made it possible. When every node waits, no order explains what
they have written.

That is complete because waiting costs nothing: what makes a step possible is kept in the state of the model,
by epoch, and does not go away when others go on. (``tests/verify/trace/test_merge.py`` tries many orders.)

``at`` decides nothing, as nodes need not have one clock. It is a hint: which of the lines that are possible
is taken first, and which of several wrong ones is named if nothing else tells.

When every node waits, most of them wait for something that stands further on in the trace of another node,
which waits itself. One that nobody has anything for is where it begins to be wrong. Lines that wait for each
other in a circle are wrong together, and the one that reaches least far is named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from motet import limits
from motet.verify.model import Model
from motet.verify.trace.check import Checked, TooManyCandidates, Tracker
from motet.verify.trace.lines import TraceLine

_LEADS = ("BecomeLeader", "PrepareChange", "AbortChange", "CommitChange")
_RAISES = ("Found", "Elect", "BeginChange")

HELPS: Mapping[str, tuple[str, ...]] = {
    "Fence": _RAISES,
    "BecomeLeader": ("Fence", "Restart", "Join", *_RAISES),
    "Append": ("Write", *_LEADS),
    "Truncate": _LEADS,
    "Install": ("Commit", *_LEADS),
    "Join": ("Commit", "Write", "Found", *_LEADS),
    "Commit": ("Sync", "Append", "Truncate", "Install"),
    "LearnCommit": ("Commit",),
    "PrepareChange": ("BeginChange",),
    "AbortChange": ("BeginChange",),
    "CommitChange": ("OrderChange",),
    "Summon": ("BeginChange", *_LEADS),
    "Become": ("Commit", "BeginChange", *_LEADS),
    "Delete": ("Commit", *_LEADS),
    "Elected": ("BecomeLeader",),
    "OrderChange": ("Become", "PrepareChange"),
    "EndChange": ("CommitChange",),
    "CallOff": ("AbortChange",),
}
"""Of a step of the shard log: which steps of others may make it possible."""

_OFFSETS = ("last", "upto", "keep")
_FAR = 1 << 62


class Placed(msgspec.Struct, frozen=True):
    """A line, the epoch its node is in then, and when it was written, by a clock of its own."""

    line: TraceLine
    epoch: int = 0
    at: int = 0
    #: it cannot be right, whatever the others say
    wrong: str | None = None

    @property
    def offset(self) -> int | None:
        """How far in the log it reaches, if it says so."""
        said = (self.line.arguments.get(name) for name in _OFFSETS)
        return next((each for each in said if isinstance(each, int)), None)


def may_wait_for(waiting: Placed, other: Placed) -> bool:
    """Whether a line of another node may be what a line waits for."""
    if other.line.action not in HELPS.get(waiting.line.action or "", ()):
        return False
    if other.epoch != waiting.epoch:
        return False
    reached, wanted = other.offset, waiting.offset
    return reached is None or wanted is None or reached >= wanted


def first_wrong(rests: Sequence[Sequence[Placed]], lost: Collection[int]) -> Placed:
    """Of what is left of each trace, the head to name; ``lost`` wait for nobody."""
    waits = {
        one: set()
        if one in lost
        else {
            other
            for other, lines in enumerate(rests)
            if other != one and any(may_wait_for(rest[0], each) for each in lines)
        }
        for one, rest in enumerate(rests)
    }
    reached = {one: _reached(one, waits) for one in waits}
    named = [one for one in waits if all(one in reached[other] for other in reached[one])]
    return min((rests[one][0] for one in named), key=_order)


def _reached(one: int, waits: Mapping[int, set[int]]) -> set[int]:
    """For whom a head waits, and for whom those do."""
    found: set[int] = set()
    ways = list(waits[one])
    while ways:
        other = ways.pop()
        if other not in found:
            found.add(other)
            ways += waits[other]
    return found


def _order(head: Placed) -> tuple[int, bool, int, int]:
    """What follows from a line that is missing comes after what cannot be without it."""
    far = _FAR if head.offset is None else head.offset
    return head.epoch, head.wrong is not None, far, head.at


class Merge:
    """Where each of several traces stands."""

    def __init__(self, tracker: Tracker[Any], traces: Sequence[Sequence[Placed]]) -> None:
        self._tracker = tracker
        self._traces = [trace for trace in traces if trace]
        self._next = [0] * len(self._traces)
        self.taken = 0

    def heads(self) -> list[tuple[int, Placed]]:
        """The next line of each trace that has one, the earliest by its clock first."""
        found = [
            (number, trace[at])
            for number, (trace, at) in enumerate(zip(self._traces, self._next, strict=True))
            if at < len(trace)
        ]
        return sorted(found, key=lambda each: each[1].at)

    def first_wrong(self) -> Placed | None:
        """When nothing can be taken any more: the line that is wrong, if there is one left."""
        left = zip(self._traces, self._next, strict=True)
        rests = [trace[at:] for trace, at in left if at < len(trace)]
        if not rests:
            return None
        heads = (rest[0] for rest in rests)
        lost = [number for number, head in enumerate(heads) if self._is_lost(head)]
        return first_wrong(rests, lost)

    def _is_lost(self, head: Placed) -> bool:
        """It cannot be right; or it could be done, and what the node then saw is not what comes of it."""
        return head.wrong is not None or self._tracker.is_possible(head.line)

    def step(self) -> bool:
        """Take one line, whichever is possible; answers whether there was one."""
        for number, head in self.heads():
            if head.wrong is None and self._tracker.follow(head.line):
                self._next[number] += 1
                self.taken += 1
                return True
        return False


def check_merged(
    model: Model[Any],
    traces: Sequence[Sequence[Placed]],
    *,
    silent: Sequence[str] = (),
    silent_steps: int = 1,
) -> Checked:
    """Follow all of them to their ends, or until none can go on."""
    tracker = Tracker(model, silent=silent, silent_steps=silent_steps)
    merge = Merge(tracker, traces)
    try:
        while merge.step():
            pass
    except TooManyCandidates:
        first, most = merge.heads()[0][1].line, limits.trace_candidates_max
        reason = (f"more than {most:,} states of the model agree with the trace up to here",)
        return Checked("unknown", merge.taken + 1, most, first.number, reason, first.file)
    named = merge.first_wrong()
    if named is None:
        return Checked("explained", merge.taken, tracker.most)
    why = tracker.reasons(named.line) if named.wrong is None else (named.wrong,)
    where = named.line.number, why, named.line.file
    return Checked("unexplained", merge.taken + 1, tracker.most, *where)
