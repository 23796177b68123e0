"""Fences and elections as a node sees them: it stops, says how far its log goes, and leads when it is told
to.

F1  The epoch never falls, and is durable before anything is answered in it.
F2  A node leads an epoch at most once: only if it was fenced in it in this life, and has neither led nor
    followed since. A leader that was restarted may have lost entries that it had pushed; leading on, it
    would give their ids to others.
F3  Who is not a member has forgotten what it promised: it is fenced only by a request that names its
    incarnation, and says of itself that it does not count.
"""

from __future__ import annotations

from motet.core.shardlog import alignment, leader, reading, snapshot, storage
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import NO_ENTRY
from motet.core.shardlog.log import Log
from motet.core.shardlog.messages import (
    AddFollowerRequest,
    AddFollowerResponse,
    BecomeLeaderRequest,
    BecomeLeaderResponse,
    FenceRequest,
    FenceResponse,
    Refusal,
)
from motet.core.shardlog.state import CursorState, Status
from motet.ids import Address, Epoch, Offset
from motet.limits import shard_replicas_max


def on_fence_request(core: Core, sender: Address, message: FenceRequest) -> None:
    """Stop, and say how far the log goes."""
    state = core.state
    names_us = message.incarnation != 0 and message.incarnation == core.effects.nonce
    if message.epoch < state.epoch:
        core.refuse(sender, message, Refusal.INVALID_EPOCH)
        return
    if message.epoch == state.epoch and state.status is not Status.FENCED:
        core.refuse(sender, message, Refusal.NOT_FENCED, f"it is {state.status.value}")
        return
    if not state.is_member and not names_us:  # F3
        core.refuse(
            sender, message, Refusal.NOT_MEMBER, "the fence is for another life of this node"
        )
        return
    if message.epoch > state.epoch:
        _fence(core, message.epoch)
    if message.founds and not state.is_member and not state.is_damaged and state.log.is_empty:
        state.is_member = True
        storage.write_meta(core)
        core.note("founded")
    state.fenced_epoch = message.epoch
    head = state.log.runs.id_at(state.log.durable) if state.is_member else NO_ENTRY
    answer = FenceResponse(core.shard, state.epoch, head, state.commit_index, state.is_member)
    core.send(sender, answer, storage.newest_meta(core))


def _fence(core: Core, epoch: Epoch) -> None:
    state = core.state
    core.state.stop_leading()
    snapshot.give_up(core, "fenced")
    state.epoch, state.status, state.may_lead = epoch, Status.FENCED, True
    state.leader, state.heard_round = None, 0
    # What is not durable was never acknowledged. It is given up, so that the head of the answer stays the
    # head.
    storage.discard(core, state.log.cut(state.log.durable))
    storage.write_meta(core)
    core.note("fenced", f"epoch {epoch}, head {state.log.head}")


def on_become_leader_request(core: Core, sender: Address, message: BecomeLeaderRequest) -> None:
    """Lead, with these followers."""
    state = core.state
    if message.epoch != state.epoch:
        core.refuse(sender, message, Refusal.INVALID_EPOCH)
        return
    if not state.is_member:
        core.refuse(sender, message, Refusal.NOT_MEMBER)
        return
    response = BecomeLeaderResponse(core.shard, state.epoch)
    if state.status is Status.LEADER and state.elected_epoch == message.epoch:
        core.send(sender, response)
        return
    if not state.may_lead or state.status is not Status.FENCED:  # F2
        core.refuse(sender, message, Refusal.NOT_FENCED)
        return
    if core.effects.is_ahead(message.clock):
        core.refuse(sender, message, Refusal.CLOCK_DRIFT, f"{message.clock} is too far ahead")
        return
    if not leader.has_clock(core):
        core.refuse(sender, message, Refusal.UNSAFE, "its clock is at the end of its range")
        return
    others = dict(message.follower_map)
    if not len(others) < message.replication_factor <= shard_replicas_max or core.own in others:
        core.refuse(sender, message, Refusal.UNSAFE, "such an ensemble is none")
        return
    core.send(sender, response, storage.newest_meta(core))
    _lead(core, message)


def _lead(core: Core, message: BecomeLeaderRequest) -> None:
    state = core.state
    state.status, state.may_lead = Status.LEADER, False
    state.elected_epoch, state.elected_head = message.epoch, state.log.head
    state.replication_factor = message.replication_factor
    state.unapplied_bytes = 0
    state.round += 1
    state.asked_round = state.confirmed_round = state.round - 1
    state.leader = core.own
    core.effects.observe_clock(message.clock)
    core.note("leads", f"epoch {message.epoch}, head {state.log.head}")
    for follower, head in message.follower_map:
        alignment.add_cursor(core, follower, head)
    state.serving_offset = leader.append_barrier(core).offset


def on_add_follower_request(core: Core, sender: Address, message: AddFollowerRequest) -> None:
    """One more follower, which was fenced late, or came back."""
    state = core.state
    if message.epoch < state.epoch:
        core.refuse(sender, message, Refusal.INVALID_EPOCH)
        return
    if state.status is not Status.LEADER or message.epoch != state.epoch:
        core.refuse(sender, message, Refusal.NOT_LEADER)
        return
    if message.follower == core.own:
        core.refuse(sender, message, Refusal.UNSAFE, "a leader does not follow itself")
        return
    cursor = state.cursors.get(message.follower)
    if cursor is None:
        if len(state.cursors) + 1 >= state.replication_factor:
            core.refuse(sender, message, Refusal.UNSAFE, "the ensemble is complete")
            return
        alignment.add_cursor(core, message.follower, message.head_index)
    elif cursor.state is CursorState.PENDING_TRUNCATE and cursor.fenced_epoch < message.epoch:
        # It was fenced once more.
        alignment.add_cursor(core, message.follower, message.head_index)
    else:
        alignment.hear_again(core, cursor, message.head_index)
    core.send(sender, AddFollowerResponse(core.shard, state.epoch, message.follower))


def find_damage(core: Core, why: str) -> None:
    """Something of the log is not what was written: count for nothing until it has been repaired.

    The files stay as they are until a snapshot takes their place.
    """
    state = core.state
    if state.is_damaged:
        return
    core.note("damaged", why)
    state.damage = why
    if state.status is Status.LEADER:
        leader.abdicate(core, "its log is damaged")
    elif state.status is Status.FOLLOWER:
        state.status = Status.FENCED
    reading.drop_all(core, why)
    snapshot.give_up(core, why)
    state.may_lead = False
    state.losses, state.repair_epoch = state.losses + 1, Epoch(0)
    state.is_member, state.is_damaged = False, True
    state.damaged += [segment.number for segment in state.log.segments]
    state.log = Log.after(NO_ENTRY, state.log.clock)
    state.applied, state.commit_index = Offset(0), NO_ENTRY
    # One that is damaged itself is kept, too; and nobody but a person can repair a replica that is alone.
    if state.meta_version and not core.config.is_alone:
        storage.write_meta(core)
