"""Following: taking entries in, cutting the log when told to, acknowledging what is durable.

C1  The log has no gap: entries that do not follow its head are refused.
C2  An answer says what is durable, and carries the epoch after the request, which is durable too.
C3  A log is cut only in the very epoch of its node, while it ends at the entry that the leader says it does
    not have, and never below what is committed.
C4  What is known to be committed rises, and only as far as the leader's message shows the logs to be equal.
C5  A message with a clock that is too far ahead of the time is refused as a whole: nothing of it is adopted,
    logged or acknowledged.
"""

from __future__ import annotations

from motet.core.clock.hlc import Clock
from motet.core.shardlog import storage
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import Entry, EntryId
from motet.core.shardlog.messages import (
    AddEntryRequest,
    AddEntryResponse,
    Refusal,
    TruncateRequest,
    TruncateResponse,
)
from motet.core.shardlog.snapshot import give_up
from motet.core.shardlog.state import Status
from motet.ids import Address, NodeId, Offset


def on_add_entry_request(core: Core, sender: NodeId, message: AddEntryRequest) -> None:
    """Entries of the leader, or its beat."""
    state = core.state
    address = Address(sender)
    if message.epoch < state.epoch:
        core.refuse(address, message, Refusal.INVALID_EPOCH)
        return
    ahead = _too_far_ahead(core, message)
    if ahead is not None:
        core.refuse(address, message, Refusal.CLOCK_DRIFT, f"{ahead} is too far ahead")  # C5
        return
    core.effects.observe_clock(message.clock)
    if not _may_follow(core, message):
        core.refuse(address, message, Refusal.NOT_MEMBER)
    elif state.status is Status.LEADER and message.epoch == state.epoch:
        core.refuse(address, message, Refusal.NOT_FOLLOWER)
    elif not state.log.runs.has(message.previous):
        core.refuse(address, message, Refusal.GAP, f"its head is {state.log.head}")  # C1
    elif message.entries and state.is_disk_full:
        core.refuse(address, message, Refusal.DISK_FULL)
    elif not _fits(core, message):
        core.refuse(address, message, Refusal.GAP, f"its head is {state.log.head}")
    else:
        _follow(core, sender, message)
        _take(core, message)


def _too_far_ahead(core: Core, message: AddEntryRequest) -> Clock | None:
    effects = core.effects
    if effects.ceiling_ms is None:
        return None
    if effects.is_ahead(message.clock):
        return message.clock
    return next((entry.clock for entry in message.entries if effects.is_ahead(entry.clock)), None)


def _may_follow(core: Core, message: AddEntryRequest) -> bool:
    """Who has lost its log gets a snapshot first, for this loss and in the epoch that it was fenced in."""
    state = core.state
    if state.is_member:
        return True
    is_fenced = state.fenced_epoch >= message.epoch
    return is_fenced and state.repair_epoch == message.epoch and not state.is_damaged


def _fits(core: Core, message: AddEntryRequest) -> bool:
    """Whether the entries follow each other, and are the ones we have where we have some."""
    runs = core.state.log.runs
    previous = message.previous
    for entry in message.entries:
        if entry.id.offset != previous.offset + 1 or not previous.epoch <= entry.id.epoch:
            return False
        if entry.id.epoch > message.epoch:
            return False
        previous = entry.id
    last = min(previous.offset, runs.head.offset)
    if last > message.previous.offset:
        return runs.id_at(last) == message.entries[last - message.previous.offset - 1].id
    return True


def _follow(core: Core, sender: NodeId, message: AddEntryRequest) -> None:
    state = core.state
    give_up(core, "the leader pushes")
    if message.epoch > state.epoch:
        state.stop_leading()
        state.epoch, state.heard_round = message.epoch, 0
        storage.write_meta(core)
    if state.status is not Status.FOLLOWER:
        core.note("follows", f"{sender} in epoch {message.epoch}")
    state.status, state.may_lead = Status.FOLLOWER, False
    if state.leader != sender:
        state.leader, state.heard_round = sender, 0


def _take(core: Core, message: AddEntryRequest) -> None:
    state, log = core.state, core.state.log
    new: tuple[Entry, ...] = message.entries[max(0, log.head.offset - message.previous.offset) :]
    if new:
        storage.append(core, log, new)
    state.heard_round = max(state.heard_round, message.round)
    if message.first_offset > state.leader_first:
        state.leader_first, state.is_trim_due = message.first_offset, True
    covered = message.entries[-1].id if message.entries else message.previous
    commit = min(message.commit_index, covered)  # C4
    if commit.offset > state.commit_index.offset:
        if log.runs.has(commit):
            state.commit_index = commit
        else:
            core.drop("impossible_commit")
    _become_member(core, message, covered)
    if not new:
        acknowledge(core)


def _become_member(core: Core, message: AddEntryRequest, covered: EntryId) -> None:
    """Everything that was ever acknowledged here is back when the log reaches such a commit index.

    Only as far as the message shows the logs to be equal (C4); and one of a message that comes late may be
    lower than what was committed when the leader began to repair this replica.
    """
    state = core.state
    wanted = max(message.commit_index, state.repair_commit)
    if state.is_member or wanted.epoch < state.fenced_epoch:
        return
    if min(state.log.durable, covered.offset) >= wanted.offset:
        state.is_member = True
        storage.write_meta(core)
        core.note("member_again", f"head {state.log.head}")


def acknowledge(core: Core) -> None:
    """Tell the leader how far the log is on disk (C2)."""
    state = core.state
    if state.status is not Status.FOLLOWER or state.leader is None or not core.is_epoch_durable:
        return
    state.acknowledged = state.log.durable
    head = state.log.runs.id_at(state.log.durable)
    response = AddEntryResponse(
        core.shard, state.epoch, head, state.heard_round, core.effects.clock
    )
    core.send(state.leader, response)


def acknowledge_progress(core: Core) -> None:
    """The same, when there is something new; of what is written together, once."""
    state = core.state
    if state.log.durable > state.acknowledged and not state.log.pending:
        acknowledge(core)


# Cutting


def on_truncate_request(core: Core, sender: NodeId, message: TruncateRequest) -> None:
    """Keep nothing above an entry."""
    state, log = core.state, core.state.log
    address = Address(sender)
    if message.epoch < state.epoch:
        core.refuse(address, message, Refusal.INVALID_EPOCH)
        return
    if message.epoch > state.epoch:
        core.refuse(address, message, Refusal.NOT_FENCED)
        return
    if not state.is_member:
        core.refuse(address, message, Refusal.NOT_MEMBER)
        return
    if state.status is Status.LEADER:
        core.drop("truncate_while_leader")
        return
    if log.head != message.from_index or log.durable < log.head.offset:  # C3
        # It was done before, and the answer got lost; or it is late, and the leader knows better by now.
        _answer_truncate(core, sender, message.round)
        return
    keep = log.runs.highest_of(message.head_index.epoch)
    if keep is None or min(keep.offset, message.head_index.offset) < log.base.offset:
        core.refuse(address, message, Refusal.UNSAFE, f"it begins after {log.base}")
        return
    offset = Offset(min(keep.offset, message.head_index.offset))
    if offset < state.commit_index.offset:
        core.refuse(address, message, Refusal.UNSAFE, f"{state.commit_index} is committed")
        return
    _cut(core, offset)
    state.status, state.may_lead = Status.FOLLOWER, False
    state.leader, state.heard_round = sender, 0
    _answer_truncate(core, sender, message.round)


def _cut(core: Core, keep: Offset) -> None:
    state, log = core.state, core.state.log
    if keep == log.head.offset:
        return
    core.note("truncated", f"from {log.head} to {log.runs.id_at(keep)}")
    gone = log.cut(keep)
    storage.discard(core, gone)
    state.acknowledged = log.durable  # the answer says so
    storage.write_meta(core)


def _answer_truncate(core: Core, sender: NodeId, in_round: int) -> None:
    """What is kept must be durable, too, before the leader counts on it; until then less is said."""
    state = core.state
    head = state.log.runs.id_at(state.log.durable)
    response = TruncateResponse(core.shard, state.epoch, head, in_round)
    core.send(sender, response, storage.newest_meta(core))
