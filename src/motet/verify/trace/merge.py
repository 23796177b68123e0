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
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from motet import limits
from motet.verify.model import Model
from motet.verify.trace.check import Checked, TooManyCandidates, Tracker
from motet.verify.trace.waiting import Placed, first_wrong


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
