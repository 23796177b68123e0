"""Snapshots: the state machine as it is applied, and the entries that are kept up to there.

A snapshot is fetched piece by piece by the node that wants to become a replica. At the node that gives it
the state is a copy in memory, which is forgotten when nobody asks for it any more; its entries are read
from the log, and everything in it is committed, so it stays true whatever happens to the leadership.

A node becomes a replica by it in the place of whatever was there. First the state comes, into memory, then
the entries, into segments of a log of their own. What the node had before stays as it is, and is what it
answers for, until everything is durable: then one replacement of the meta file puts the new log and the new
state in its place. A crash before that leaves the old, and what was fetched is removed at the next start.

W1  A member never becomes less by a snapshot of its own epoch: one that does not reach its head is not
    taken. Unless the leader does not have that very head: then it was never committed, and is given up.
    Who is not a member, and has a log of this leader already, becomes no less either.
W2  Who is not a member becomes one if the snapshot has all that may have been acknowledged here: it was
    sent by the operator to this very life, or by a leader that knows of this very loss, and reaches a commit
    index of an epoch that this node was fenced in. If it does not yet, the log has to get there: a commit
    index of a message that was sent before the leader knew of the loss is not enough.
"""

from __future__ import annotations

from motet.core.machine import Replace
from motet.core.shardlog import reading, storage
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import Entry, EntryId
from motet.core.shardlog.log import Log
from motet.core.shardlog.messages import (
    PieceRequest,
    PieceResponse,
    Refusal,
    Refused,
    Snapshot,
    SnapshotRequest,
    SnapshotResponse,
)
from motet.core.shardlog.meta import encode_state, state_file
from motet.core.shardlog.state import Cursor, Given, Installing, Purpose, Reading, Status
from motet.errors import BadBytes
from motet.ids import Address, NodeId, Offset, WriteId
from motet.limits import shard_piece_bytes, shard_state_bytes_max


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


def on_snapshot_request(core: Core, sender: Address, message: SnapshotRequest) -> None:
    """Become what a snapshot is, if that is more than what there is."""
    state = core.state
    why = _objection(core, message)
    if why is not None:
        core.refuse(sender, message, *why)
        return
    installing = state.installing
    if installing is not None and installing.snapshot == message.snapshot:
        installing.asker, installing.round = sender, message.round
        installing.replaces = message.replaces
        return
    if message.epoch > state.epoch:
        state.stop_leading()
        give_up(core, "a higher epoch")
        state.epoch, state.status, state.may_lead = message.epoch, Status.FENCED, False
        storage.write_meta(core)
    if message.incarnation and state.installed_epoch == message.epoch:
        _answer(core, sender, message.round)  # it is done, and the answer got lost
    elif not message.incarnation and _is_more(core, message.snapshot, message.replaces):
        _answer_with_more(core, sender, message.snapshot, message.round)
    else:
        _begin(core, sender, message)


def _objection(core: Core, message: SnapshotRequest) -> tuple[Refusal, str] | None:
    state = core.state
    if message.epoch < state.epoch:
        return Refusal.INVALID_EPOCH, ""
    if message.incarnation not in (0, core.effects.nonce):
        return Refusal.NOT_MEMBER, "it is for another life of this node"
    was_fenced = state.fenced_epoch == state.epoch == message.epoch
    if not state.is_member and not message.incarnation:
        if not was_fenced:
            return Refusal.NOT_MEMBER, "it was not fenced in this epoch"
        if message.loss != core.loss:
            return Refusal.NOT_MEMBER, "it has lost its log since"
    if message.epoch == state.epoch and state.status is Status.LEADER:
        return Refusal.NOT_FENCED, ""
    if message.snapshot.state_bytes > shard_state_bytes_max or state.is_disk_full:
        return Refusal.DISK_FULL, ""
    if core.effects.is_ahead(message.snapshot.clock):
        return Refusal.CLOCK_DRIFT, f"{message.snapshot.clock} is too far ahead"
    return None


def _is_more(core: Core, snapshot: Snapshot, replaces: EntryId | None) -> bool:
    """This node is a member, or is being repaired by this leader, and its log goes at least as far (W1)."""
    state, head = core.state, core.state.log.head
    is_answered_for = state.is_member or state.repair_epoch == state.epoch
    if not is_answered_for or snapshot.head_index > head:
        return False
    is_committed = snapshot.head_index.offset < state.commit_index.offset
    return head != replaces or state.log.durable < head.offset or is_committed


def _answer_with_more(core: Core, asker: Address, snapshot: Snapshot, in_round: int) -> None:
    """Say where the log ends, unless too little of it is durable yet: then it is asked again."""
    state = core.state
    if state.log.runs.id_at(state.log.durable) >= snapshot.head_index:
        _answer(core, asker, in_round)


def _answer(core: Core, asker: Address, in_round: int) -> None:
    head = core.state.log.runs.id_at(core.state.log.durable)
    answer = SnapshotResponse(core.shard, core.state.epoch, head, in_round)
    core.send(asker, answer, storage.newest_meta(core))


def _begin(core: Core, sender: Address, message: SnapshotRequest) -> None:
    state, snapshot = core.state, message.snapshot
    give_up(core, "another one is to be installed")
    commit, is_told = message.commit_index, message.incarnation != 0
    covers = commit.epoch >= state.fenced_epoch > 0 and snapshot.head_index >= commit
    log = Log.after(snapshot.base_index)
    if snapshot.head_index == snapshot.base_index:
        log.clock = snapshot.clock
    is_whole = is_told or state.is_member or covers
    state.installing = installing = Installing(
        snapshot, sender, is_told, is_whole, commit, message.replaces, message.round, log=log
    )
    core.note("installing", f"{snapshot.head_index} from {snapshot.source}")
    _ask(core, installing)


def _ask(core: Core, installing: Installing) -> None:
    snapshot = installing.snapshot
    installing.asked_ns = core.now_ns
    request = PieceRequest(
        core.shard,
        core.state.epoch,
        snapshot.number,
        installing.state_bytes,
        installing.log.head.offset,
    )
    core.send(snapshot.source, request)


def on_piece_response(core: Core, sender: Address, message: PieceResponse) -> None:
    """The next piece, of the state or of the log."""
    installing = core.state.installing
    if (
        installing is None
        or NodeId(sender) != installing.snapshot.source
        or message.number != installing.snapshot.number
        or message.state_offset != installing.state_bytes
        or installing.state_number
    ):
        core.drop("late_piece")
        return
    if message.state and installing.state_bytes < installing.snapshot.state_bytes:
        installing.pieces.append(message.state)
        installing.state_bytes += len(message.state)
    elif not _take_entries(core, installing, message.entries):
        core.drop("late_piece")
        return
    if not _is_fetched(installing):
        _ask(core, installing)


def _take_entries(core: Core, installing: Installing, entries: tuple[Entry, ...]) -> bool:
    log, head = installing.log, installing.snapshot.head_index
    if not entries or entries[0].id.offset != log.head.offset + 1 or entries[-1].id > head:
        return False
    if core.state.is_disk_full or any(core.effects.is_ahead(entry.clock) for entry in entries):
        return False  # they are asked for again
    storage.append(core, log, entries)
    return True


def _is_fetched(installing: Installing) -> bool:
    snapshot = installing.snapshot
    return (
        installing.state_bytes >= snapshot.state_bytes
        and installing.log.head == snapshot.head_index
    )


def on_refused(core: Core, sender: Address, message: Refused) -> None:
    """The source does not have the snapshot any more."""
    installing = core.state.installing
    if (
        installing is not None
        and message.why is Refusal.SNAPSHOT_GONE
        and NodeId(sender) == installing.snapshot.source
        and message.epoch == core.state.epoch
    ):
        asker, epoch = installing.asker, core.state.epoch
        give_up(core, "it is gone")
        name = SnapshotRequest.__name__
        core.send(asker, Refused(core.shard, epoch, Refusal.SNAPSHOT_GONE, name, epoch))


def give_up(core: Core, why: str) -> None:
    """Leave things as they were."""
    state, installing = core.state, core.state.installing
    if installing is None:
        return
    core.note("install_given_up", why)
    state.installing = None
    storage.discard(core, [segment.number for segment in installing.log.segments])
    storage.discard_state(core, installing.state_number)
    storage.write_meta(core)


# From fetched to installed


def progress(core: Core) -> None:
    """Go on with what has become possible."""
    installing = core.state.installing
    if installing is None or not _is_fetched(installing):
        return
    if installing.state_number == 0 or installing.state_write is None:
        _write_state(core, installing)
    elif installing.is_state_durable and not installing.log.pending:
        _switch(core, installing)


def _write_state(core: Core, installing: Installing) -> None:
    state, snapshot = core.state, installing.snapshot
    if state.is_disk_full:
        return
    if installing.state_number == 0:
        installing.state_number = state.next_number
        state.next_number += 1
    content = encode_state(
        core.shard, snapshot.head_index, snapshot.clock, b"".join(installing.pieces)
    )
    file = state_file(core.shard, installing.state_number)
    installing.state_write = core.change(Replace(core.effects.new_write(), file, content))


def state_written(core: Core, write: WriteId) -> bool:
    """The state is durable; whether it was that."""
    installing = core.state.installing
    if installing is None or installing.state_write != write:
        return False
    installing.is_state_durable = True
    return True


def _switch(core: Core, installing: Installing) -> None:
    """All of it is durable: it takes the place of what was there, unless that has become more."""
    state, snapshot = core.state, installing.snapshot
    if not installing.is_told and _is_more(core, snapshot, installing.replaces):
        give_up(core, "the log goes further by now")
        _answer_with_more(core, installing.asker, snapshot, installing.round)
        return
    twin = core.machine.clone()
    try:
        twin.restore(b"".join(installing.pieces))
    except BadBytes as error:
        give_up(core, f"the state cannot be used: {error.what}")
        return
    core.machine = twin
    storage.discard(core, [segment.number for segment in state.log.segments])
    storage.discard(core, state.damaged)
    state.damaged = []
    storage.discard_state(core, state.state_number)
    if state.state_write is not None:
        storage.discard_state(core, state.state_write[1])
        state.state_write = None
    reading.drop_all(core, "a snapshot was installed")
    state.log, head = installing.log, snapshot.head_index
    state.is_member, state.is_damaged = installing.is_whole, False
    state.state_number, state.state_head = installing.state_number, head
    state.commit_index = max(state.commit_index, head)
    state.applied, state.applied_clock, state.applied_bytes = head.offset, snapshot.clock, 0
    state.acknowledged = Offset(0)
    state.installed_epoch = state.epoch if installing.is_told else state.installed_epoch
    state.repair_epoch, state.repair_commit = state.epoch, installing.commit_index
    state.installing = None
    storage.write_meta(core)
    for segment in state.log.segments:
        segment.meta_version = state.meta_version
    core.note("installed", f"{head}, kept from {state.log.first}")
    _answer(core, installing.asker, installing.round)


def ask_again(core: Core) -> None:
    """A piece that does not come is asked for again."""
    installing = core.state.installing
    if installing is None or _is_fetched(installing):
        return
    if core.is_over(installing.asked_ns, core.config.resend_ms):
        _ask(core, installing)
