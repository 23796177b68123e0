"""What has happened on this replica, for its front ends: they know who watches, the machine does not.

The stream is no part of the replicated state. It has a *gap* if something is missing before what is
handed out: the machine was made anew from pages, or nobody took for too long. A front end that sees a gap
can no longer say what its clients missed, and lets them connect again.
"""

from __future__ import annotations

import msgspec

from motet.format.zookeeper.messages import WatchEvent
from motet.ids import SessionId, Zxid


class Applied(msgspec.Struct, frozen=True):
    """What one write did that somebody may wait for."""

    zxid: Zxid
    events: tuple[WatchEvent, ...] = ()
    #: sessions that were closed or have expired; their ephemeral nodes are among the events
    ended_sessions: tuple[SessionId, ...] = ()
    #: sessions that were attached again: whoever spoke for them before does so no longer
    moved_sessions: tuple[SessionId, ...] = ()


class Taken(msgspec.Struct, frozen=True):
    """All that happened since the last time, in order."""

    applied: tuple[Applied, ...]
    has_gap: bool


class Stream(msgspec.Struct):
    """What waits to be taken."""

    applied_max: int
    applied: list[Applied] = []
    has_gap: bool = False

    def add(self, applied: Applied) -> None:
        if len(self.applied) >= self.applied_max:
            self.cut()
        self.applied.append(applied)

    def cut(self) -> None:
        """What was not taken is lost."""
        self.applied, self.has_gap = [], True

    def take(self) -> Taken:
        taken = Taken(tuple(self.applied), self.has_gap)
        self.applied, self.has_gap = [], False
        return taken

    def clone(self) -> Stream:
        return Stream(self.applied_max, list(self.applied), self.has_gap)
