"""Becoming a replica by a snapshot: fetched piece by piece, then put in the place of whatever was there.

First the state comes, into memory, then the entries, into segments of a log of their own. What this node
had before stays as it is, and is what it answers for, until everything is durable: then one replacement of
the meta file puts the new log and the new state in its place. A crash before that leaves the old, and what
was fetched is removed at the next start.

W1  A member never becomes less by a snapshot of its own epoch: one that does not reach its head is not
    taken.
W2  Who is not a member becomes one if the snapshot has all that may have been acknowledged here: it was
    sent by the operator to this very life, or reaches a commit index of an epoch that this node was fenced
    in.
"""

from __future__ import annotations

from motet.core.machine import Replace
from motet.core.shardlog import reading, storage
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import Entry
from motet.core.shardlog.leader import stop_leading
from motet.core.shardlog.log import Log
from motet.core.shardlog.messages import (
    PieceRequest,
    PieceResponse,
    Refusal,
    Refused,
    SnapshotRequest,
    SnapshotResponse,
)
from motet.core.shardlog.meta import encode_state, state_file
from motet.core.shardlog.state import Installing, Status
from motet.errors import BadBytes
from motet.ids import Address, NodeId, Offset, WriteId
from motet.limits import shard_state_bytes_max


def on_snapshot_request(core: Core, sender: Address, message: SnapshotRequest) -> None:
    """Become what a snapshot is, if that is more than what there is."""
    state = core.state
    names_us = message.incarnation != 0 and message.incarnation == core.desk.nonce
    if message.epoch < state.epoch:
        core.refuse(sender, message, Refusal.INVALID_EPOCH)
        return
    was_fenced = state.fenced_epoch == message.epoch and state.epoch == message.epoch
    if not state.is_member and not names_us and not was_fenced:
        core.refuse(sender, message, Refusal.NOT_MEMBER, "it was not fenced in this epoch")
        return
    if message.epoch == state.epoch and state.status is Status.LEADER:
        core.refuse(sender, message, Refusal.NOT_FENCED)
        return
    if message.snapshot.state_bytes > shard_state_bytes_max or state.is_disk_full:
        core.refuse(sender, message, Refusal.DISK_FULL)
        return
    if _has_it(core, message):
        answer = SnapshotResponse(core.shard, state.epoch, state.log.head)
        core.send(sender, answer, storage.newest_meta(core))
        return
    installing = state.installing
    if installing is not None and installing.snapshot == message.snapshot:
        installing.asker = sender
        return
    _begin(core, sender, message, is_whole=names_us)


def _has_it(core: Core, message: SnapshotRequest) -> bool:
    """It is a member in this epoch already, and its log goes further (W1)."""
    state = core.state
    return (
        state.is_member
        and not state.is_damaged
        and message.epoch == state.epoch
        and message.snapshot.head_index <= state.log.runs.id_at(state.log.durable)
    )


def _begin(core: Core, sender: Address, message: SnapshotRequest, *, is_whole: bool) -> None:
    state, snapshot = core.state, message.snapshot
    if state.installing is not None:
        give_up(core, "another one is to be installed")
    if message.epoch > state.epoch:
        stop_leading(core)
        state.epoch, state.status, state.may_lead = message.epoch, Status.FENCED, False
    commit = message.commit_index
    covers = commit.epoch >= state.fenced_epoch > 0 and snapshot.head_index >= commit
    installing = Installing(snapshot, sender, is_whole=is_whole or state.is_member or covers)
    installing.log = Log.behind(snapshot.base_index)
    if snapshot.head_index == snapshot.base_index:
        installing.log.clock = snapshot.clock
    state.installing = installing
    core.note("installing", f"{snapshot.head_index} from {snapshot.source}")
    storage.write_meta(core)
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
    if core.state.is_disk_full:
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
        give_up(core, "it is gone")


def give_up(core: Core, why: str) -> None:
    """Leave things as they were."""
    state, installing = core.state, core.state.installing
    if installing is None or installing.is_switched:
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
    if installing is None or installing.is_switched or not _is_fetched(installing):
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
    installing.state_write = core.change(Replace(core.desk.new_write(), file, content))


def state_written(core: Core, write: WriteId) -> bool:
    """The state is durable; whether it was that."""
    installing = core.state.installing
    if installing is None or installing.state_write != write:
        return False
    installing.is_state_durable = True
    return True


def _switch(core: Core, installing: Installing) -> None:
    """All of it is durable: it takes the place of what was there."""
    state, snapshot = core.state, installing.snapshot
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
    installing.is_switched = True
    asker = installing.asker
    state.installing = None
    write = storage.write_meta(core)
    for segment in state.log.segments:
        segment.meta_version = state.meta_version
    core.note("installed", f"{head}, kept from {state.log.first}")
    core.send(asker, SnapshotResponse(core.shard, state.epoch, state.log.head), write)


def ask_again(core: Core) -> None:
    """A piece that does not come is asked for again."""
    installing = core.state.installing
    if installing is None or _is_fetched(installing):
        return
    if core.is_over(installing.asked_ns, core.config.resend_ms):
        _ask(core, installing)
