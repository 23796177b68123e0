"""Follow cursors: how far a leader has come with each of its followers.

::

    PENDING_TRUNCATE ──▶ ATTACHED        its log had to be cut first, perhaps more than once
    NEEDS_SNAPSHOT ────▶ ATTACHED        it has lost its log, or lags behind what is kept

``is_leaving`` is the text's *pending removal*: a change of the ensemble has been prepared that takes the
node out. It gets nothing any more and does not count.

U1  confirmed <= pushed <= head. ``confirmed`` rises, but when the node says that it has lost its log, or the
    end of it: damage in the last record cannot be told from a write that was cut short.
U2  Answers to what was sent before the cursor was attached do not count. A request to cut a log, or to
    install a snapshot, has a round of its own, and only the answer to the newest one counts.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.shardlog.entry import EntryId
from motet.ids import Epoch, NodeId, Offset


class CursorState(StrEnum):
    """What a leader does with a follower."""

    ATTACHED = "attached"
    PENDING_TRUNCATE = "pending_truncate"
    NEEDS_SNAPSHOT = "needs_snapshot"


class Cursor(msgspec.Struct):
    """One follower."""

    node: NodeId
    state: CursorState
    #: it was fenced in this epoch, and is told to cut its log in it
    fenced_epoch: Epoch
    #: last pushed
    pushed: Offset = Offset(0)
    #: last confirmed: it has everything up to here on disk
    confirmed: Offset = Offset(0)
    is_leaving: bool = False
    #: the head that it was told to cut its log from, and to
    truncate_from: EntryId | None = None
    truncate_to: EntryId | None = None
    #: the snapshot that it was told to fetch
    snapshot: int | None = None
    #: the head that the snapshot replaces, if that is not one of ours
    replaces: EntryId | None = None
    #: which loss of its log it has told of last; 0: none
    loss: int = 0
    #: the round in which it was attached, or told to cut its log or to fetch a snapshot (U2)
    attached_round: int = 0
    #: the newest round that it has answered
    round: int = 0
    #: what is under way to it: the last entry of each message, and its bytes
    flying: list[tuple[Offset, int]] = msgspec.field(default_factory=list)
    flying_bytes: int = 0
    #: when anything was last sent, and when it last made progress
    sent_ns: int = 0
    moved_ns: int = 0
    #: when it last got something new, or lacked nothing
    gained_ns: int = 0
    #: how much of its snapshot it has asked for
    fetched: int = 0
    #: entries for it are being read from disk
    is_reading: bool = False
    #: the commit index and the first offset that it was last told, and when it was first told these; when it
    #: last answered
    told: tuple[Offset, Offset] = (Offset(0), Offset(0))
    told_ns: int = 0
    answered_ns: int = 0

    @property
    def is_attached(self) -> bool:
        return self.state is CursorState.ATTACHED and not self.is_leaving

    def attach(self, head: Offset, in_round: int, now_ns: int) -> None:
        """Its log is ours up to here: begin to push behind it."""
        self.state = CursorState.ATTACHED
        self.truncate_from = self.truncate_to = self.replaces = None
        self.snapshot = None
        self.pushed = self.confirmed = head
        self.attached_round, self.moved_ns, self.gained_ns = in_round, now_ns, now_ns
        self.land_all()

    def tell(self, commit: Offset, first: Offset, now_ns: int) -> None:
        """A message with this commit index, of a log that begins there, is on its way."""
        if (commit, first) != self.told:
            self.told, self.told_ns = (commit, first), now_ns

    def is_at_rest(self, first: Offset, head: Offset) -> bool:
        """It has the whole log, all of it committed, and has answered since it was told so."""
        return (
            self.state is CursorState.ATTACHED
            and self.confirmed == head
            and self.told == (head, first)
            and self.answered_ns > self.told_ns
        )

    def fly(self, last: Offset, size_bytes: int, now_ns: int) -> None:
        """Entries up to this one are on their way."""
        if not self.flying:
            self.moved_ns = now_ns
        self.pushed, self.sent_ns = last, now_ns
        self.flying.append((last, size_bytes))
        self.flying_bytes += size_bytes

    def land(self, confirmed: Offset, now_ns: int) -> None:
        """Everything up to here has arrived, and is durable there."""
        self.confirmed = confirmed
        self.pushed = max(self.pushed, confirmed)
        self.moved_ns = self.gained_ns = now_ns
        landed = 0
        for last, size_bytes in self.flying:
            if last > confirmed:
                break
            self.flying_bytes -= size_bytes
            landed += 1
        del self.flying[:landed]

    def land_all(self) -> None:
        """Nothing is on its way, or all of it is taken to be lost."""
        self.flying, self.flying_bytes = [], 0

    def push_again(self, now_ns: int) -> None:
        """Push again what was not confirmed."""
        self.pushed = self.confirmed
        self.moved_ns = now_ns
        self.land_all()
