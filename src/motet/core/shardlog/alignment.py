"""Bringing a follower's log in line with the leader's: it is attached, cut first, or replaced by a snapshot.

A leader is told where a follower's log ends, by the operator or by the follower itself. If it has that very
entry, the logs are the same up to there. If not, the follower cuts its log, and says where it ends then.
That may be an entry of another leader again, so this is repeated until both share an entry. What the leader
no longer keeps, or the follower has lost, takes a snapshot.

A1  Each cut leaves a lower head: of an earlier epoch, or lower in the same one. So it comes to an end.
A2  A cut names the head that it is for, and so does a snapshot that replaces a log of a higher head. In one
    epoch entries that the leader does not have never come back to a follower once they are gone. So a
    request that comes late, after a restart too, changes nothing that was acknowledged.
A3  Each request has a round of its own, and an answer to an earlier one does not count.
A4  Who is not a member refuses with a number, another one for each time that it lost its log. When the
    leader hears of a new one, what the node confirmed before does not count any more; only then is a snapshot
    offered that names it.
"""

from __future__ import annotations

from motet.core.shardlog import quorum
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import NO_ENTRY, EntryId
from motet.core.shardlog.messages import (
    Refusal,
    Refused,
    SnapshotResponse,
    TruncateRequest,
    TruncateResponse,
)
from motet.core.shardlog.snapshot import offer_snapshot, release_snapshot
from motet.core.shardlog.state import Cursor, CursorState
from motet.ids import NodeId, Offset

HOPELESS = (Refusal.NOT_MEMBER, Refusal.UNSAFE)
"""Refusals of a follower that cannot be brought up from the log."""


def add_cursor(core: Core, follower: NodeId, head: EntryId) -> None:
    """Begin with a follower whose log ends here: attach it, cut its log first, or send it a snapshot."""
    state = core.state
    cursor = Cursor(follower, CursorState.ATTACHED, state.epoch)
    cursor.sent_ns = cursor.moved_ns = cursor.gained_ns = core.now_ns
    state.cursors[follower] = cursor
    if head == NO_ENTRY and state.elected_head != NO_ENTRY:
        # It has never had anything, or lost it: who can tell?
        lose(core, cursor, "has no log")
    else:
        _place(core, cursor, head)


def hear_again(core: Core, cursor: Cursor, head: EntryId) -> None:
    """The operator has said once more where the log of a follower ends; that may be long ago."""
    if not cursor.is_attached or head.offset >= cursor.confirmed:
        return
    if head == NO_ENTRY:
        lose(core, cursor, "has lost its log")
    else:
        _fall_back(core, cursor, head)


def _fall_back(core: Core, cursor: Cursor, head: EntryId) -> None:
    """A follower has lost the end of its log, or had it when this was said: push what is after it again.

    Only if its log is ours as far as it goes: who says otherwise was fenced in an earlier epoch, and is late.
    """
    if quorum.truncation_point(core.state.log.runs, head) == head:
        core.note("follower_fell_back", f"{cursor.node} to {head}")
        core.state.round += 1  # U2
        cursor.attach(head.offset, core.state.round, core.now_ns)


def _place(core: Core, cursor: Cursor, head: EntryId) -> None:
    """The log of a member ends here."""
    state = core.state
    runs = state.log.runs
    point = quorum.truncation_point(runs, head)
    if point is None:
        lose(core, cursor, f"ends at {head}, we begin after {runs.base}", replaces=head)
    elif point == head:
        cursor.attach(head.offset, state.round, core.now_ns)
        core.note("attached", f"{cursor.node} at {head}")
    else:
        state.round += 1  # A3
        cursor.state, cursor.attached_round = CursorState.PENDING_TRUNCATE, state.round
        cursor.truncate_from, cursor.truncate_to = head, point
        why = "offset" if head.epoch == state.elected_head.epoch else "epoch"
        core.note(f"truncation_by_{why}", f"{cursor.node} from {head} to {point}")
        send_truncate(core, cursor)


def send_truncate(core: Core, cursor: Cursor) -> None:
    """In the epoch that it was fenced in, even if ours is higher by now."""
    assert cursor.truncate_from is not None
    assert cursor.truncate_to is not None
    cursor.sent_ns = core.now_ns
    message = TruncateRequest(
        core.shard,
        cursor.fenced_epoch,
        cursor.truncate_to,
        cursor.truncate_from,
        cursor.attached_round,
    )
    core.send(cursor.node, message)


def on_truncate_response(core: Core, sender: NodeId, message: TruncateResponse) -> None:
    """A follower has cut its log, or ends elsewhere than we thought (A1)."""
    cursor = core.state.cursors.get(sender)
    is_awaited = cursor is not None and cursor.state is CursorState.PENDING_TRUNCATE
    if (
        cursor is None
        or not is_awaited
        or message.epoch != cursor.fenced_epoch
        or message.round != cursor.attached_round
    ):
        core.drop("late_answer")
    else:
        _place(core, cursor, message.head_index)


def on_hopeless(core: Core, cursor: Cursor, message: Refused) -> None:
    """A follower has lost its log, or cannot be cut so far."""
    if message.why is Refusal.NOT_MEMBER:
        is_new = message.loss not in (0, cursor.loss)
        if is_new:
            cursor.loss = message.loss  # A4
        if is_new or cursor.state is not CursorState.NEEDS_SNAPSHOT:
            lose(core, cursor, "is not a member")
    elif cursor.state is CursorState.PENDING_TRUNCATE:
        lose(core, cursor, "cannot be cut", replaces=cursor.truncate_from)


def lose(core: Core, cursor: Cursor, why: str, *, replaces: EntryId | None = None) -> None:
    """A follower cannot be brought up from the log: it needs a snapshot."""
    state = core.state
    core.note("needs_snapshot", f"{cursor.node} {why}")
    cursor.state = CursorState.NEEDS_SNAPSHOT
    cursor.pushed = cursor.confirmed = Offset(0)
    cursor.truncate_from = cursor.truncate_to = None
    cursor.replaces, cursor.fetched = replaces, 0
    cursor.land_all()
    state.round += 1  # what was confirmed before is not true any more (U2, A3)
    cursor.attached_round = state.round
    offer_snapshot(core, cursor, is_new=True)


def on_snapshot_response(core: Core, sender: NodeId, message: SnapshotResponse) -> None:
    """A follower has installed the snapshot that it was sent, or goes further by itself."""
    state = core.state
    cursor = state.cursors.get(sender)
    is_ours = core.is_leader and message.epoch == state.epoch
    if not is_ours or cursor is None or cursor.state is not CursorState.NEEDS_SNAPSHOT:
        core.drop("late_answer")
        return
    if message.round != cursor.attached_round:  # A3
        core.drop("late_answer")
        return
    if not state.log.runs.has(message.head_index):
        if message.head_index != cursor.replaces:
            release_snapshot(core, cursor)
            _place(core, cursor, message.head_index)
        return
    release_snapshot(core, cursor)
    state.round += 1
    cursor.attach(message.head_index.offset, state.round, core.now_ns)
    core.note("attached", f"{sender} at {message.head_index} by a snapshot")
