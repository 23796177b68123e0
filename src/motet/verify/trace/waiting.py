"""Which of the lines that wait is the one to name, when every node waits.

Most of them wait for something that stands further on in the trace of another node, which waits itself. One
that nobody has anything for is where it begins to be wrong. Lines that wait for each other in a circle are
wrong together, and the one that reaches least far is named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

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
