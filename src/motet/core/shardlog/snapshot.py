"""Giving snapshots: the state machine as it is applied, and the entries that are kept up to there.

A snapshot is fetched from here piece by piece by the node that wants to become a replica. Its state is a
copy in memory, which is forgotten when nobody asks for it any more; its entries are read from the log, and
everything in it is committed, so it stays true whatever happens to the leadership.
"""

from __future__ import annotations

from motet.core.shardlog import reading
from motet.core.shardlog.context import Core
from motet.core.shardlog.cursors import Cursor
from motet.core.shardlog.messages import (
    PieceRequest,
    PieceResponse,
    Refusal,
    Snapshot,
    SnapshotRequest,
)
from motet.core.shardlog.state import Given, Purpose, Reading
from motet.ids import Address, NodeId
from motet.limits import shard_piece_bytes


def take_snapshot(core: Core) -> Snapshot:
    """A snapshot of what is applied now."""
    state, log = core.state, core.state.log
    state.snapshots += 1
    data = core.machine.snapshot()
    snapshot = Snapshot(
        # Nobody may take it for one of an earlier life of this node.
        number=(core.effects.nonce & 0xFFFFFFFF) << 24 | state.snapshots & 0xFFFFFF,
        source=core.own,
        head_index=log.runs.id_at(state.applied),
        first_offset=log.first,
        state_bytes=len(data),
        base_index=log.base,
        clock=state.applied_clock,
    )
    while len(state.given) >= core.config.snapshots_given_max:
        forget_snapshot(core, min(state.given, key=lambda number: state.given_ns[number]))
    state.given[snapshot.number] = Given(snapshot, data)
    state.given_ns[snapshot.number] = core.now_ns
    core.note("snapshot_taken", f"at {snapshot.head_index}, {len(data)} bytes of state")
    return snapshot


def forget_snapshot(core: Core, number: int | None) -> None:
    """Nobody will fetch it any more."""
    if number is not None:
        core.state.given.pop(number, None)
        core.state.given_ns.pop(number, None)


def forget_idle_snapshots(core: Core) -> None:
    """Those that nobody has asked for in a long time."""
    state = core.state
    for number, asked_ns in list(state.given_ns.items()):
        if core.is_over(asked_ns, core.config.snapshot_idle_ms):
            core.note("snapshot_forgotten", str(number))
            forget_snapshot(core, number)


def release_snapshot(core: Core, cursor: Cursor) -> None:
    """A follower does not need its snapshot any more; others may be fetching the same one."""
    number, cursor.snapshot = cursor.snapshot, None
    if all(other.snapshot != number for other in core.state.cursors.values()):
        forget_snapshot(core, number)


def offer_snapshot(core: Core, cursor: Cursor, *, is_new: bool = False) -> None:
    """Tell a follower to fetch a snapshot; again and again until it has."""
    state = core.state
    given = None if cursor.snapshot is None else state.given.get(cursor.snapshot)
    is_due = is_new or core.is_over(cursor.sent_ns, core.config.resend_ms)
    if given is not None and not is_due:
        return
    if given is None or not _is_kept(core, given):
        release_snapshot(core, cursor)
        snapshot = _shared_snapshot(core) or take_snapshot(core)
        cursor.snapshot = snapshot.number
    else:
        snapshot = given.snapshot
    cursor.sent_ns = core.now_ns
    state.given_ns[snapshot.number] = core.now_ns
    message = SnapshotRequest(
        core.shard,
        state.epoch,
        snapshot,
        state.commit_index,
        loss=cursor.loss,
        replaces=cursor.replaces,
        round=cursor.attached_round,
    )
    core.send(cursor.node, message)


def _shared_snapshot(core: Core) -> Snapshot | None:
    """The one that another follower fetches now.

    Were each to get its own, many that need one would push each other's out, and none would ever be whole.
    """
    state = core.state
    for other in state.cursors.values():
        given = None if other.snapshot is None else state.given.get(other.snapshot)
        if given is not None and _is_kept(core, given):
            return given.snapshot
    return None


def _is_kept(core: Core, given: Given) -> bool:
    """Whether its entries are still there."""
    return given.snapshot.base_index.offset >= core.state.log.base.offset


# Pieces


def on_piece_request(core: Core, sender: Address, message: PieceRequest) -> None:
    """A node fetches the next piece."""
    state, log = core.state, core.state.log
    given = state.given.get(message.number)
    if given is None or not _is_kept(core, given):
        core.refuse(sender, message, Refusal.SNAPSHOT_GONE)
        return
    state.given_ns[message.number] = core.now_ns
    _note_progress(core, sender, message)
    head = given.snapshot.head_index.offset
    if 0 <= message.state_offset < len(given.state):
        piece = given.state[message.state_offset : message.state_offset + shard_piece_bytes]
        _send_piece(core, sender, message.number, message.state_offset, piece)
    elif log.base.offset <= message.after < head:
        asked = Reading(
            Purpose.PIECE,
            message.after,
            head,
            core.config.message_bytes,
            number=message.number,
            node=sender,
        )
        if any(
            each.purpose is Purpose.PIECE and each.node == sender
            for each in state.readings.values()
        ):
            return  # it is being read already
        if reading.begin(core, asked):
            piece_read(core, asked)
    else:
        core.refuse(sender, message, Refusal.SNAPSHOT_GONE, "it has no such piece")


def _note_progress(core: Core, sender: Address, message: PieceRequest) -> None:
    """A follower that asks for a later piece gets on."""
    cursor = core.state.cursors.get(NodeId(sender))
    fetched = message.state_offset + message.after + 1
    if cursor is not None and message.number == cursor.snapshot and fetched > cursor.fetched:
        cursor.fetched, cursor.gained_ns = fetched, core.now_ns


def piece_read(core: Core, done: Reading) -> None:
    """Entries of a snapshot have been read."""
    assert done.node is not None
    given = core.state.given.get(done.number)
    if given is not None and done.entries:
        response = PieceResponse(
            core.shard,
            core.state.epoch,
            done.number,
            len(given.state),
            b"",
            tuple(done.entries),
        )
        core.send(done.node, response)


def _send_piece(core: Core, to: Address, number: int, offset: int, piece: bytes) -> None:
    core.send(to, PieceResponse(core.shard, core.state.epoch, number, offset, piece, ()))
