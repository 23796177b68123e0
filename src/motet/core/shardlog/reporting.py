"""What a data node, an operator and a checker see of a replica."""

from __future__ import annotations

from motet.core.machine import Violation
from motet.core.shardlog.context import Core
from motet.core.shardlog.messages import ShardReport
from motet.core.shardlog.state import Status
from motet.errors import DiskFull, NodeError, TooLarge
from motet.errors.shards import NotLeader
from motet.ids import NodeId
from motet.limits import shard_entry_body_bytes_max


def refusal(core: Core, body_bytes: int) -> NotLeader | DiskFull | TooLarge | NodeError | None:
    """Why an entry of this size cannot be appended now; None when it can."""
    state, config = core.state, core.config
    if body_bytes > shard_entry_body_bytes_max:
        return TooLarge(f"an entry of {body_bytes} bytes, at most {shard_entry_body_bytes_max}")
    if not core.is_serving:
        return NotLeader(f"this node does not lead shard {core.shard}")
    if state.is_disk_full:
        return DiskFull(f"no room for shard {core.shard}")
    waiting = state.log.head.offset - state.applied
    if (
        waiting >= config.uncommitted_entries_max
        or state.unapplied_bytes >= config.uncommitted_bytes_max
    ):
        what = f"too much of shard {core.shard} waits for its followers"
        return NodeError(what, hint="try again in a moment")
    return None


def report(core: Core) -> ShardReport:
    """For the answer to an operator's heartbeat."""
    state = core.state
    caught_up = tuple(
        cursor.node
        for cursor in state.cursors.values()
        if cursor.is_attached and cursor.confirmed >= state.commit_index.offset
    )
    ends = (core.head, state.commit_index)
    fetched = 0 if state.installing is None else state.installing.fetched
    is_whole = state.is_member and not state.is_damaged
    status = state.status.value
    return ShardReport(
        core.shard, state.epoch, status, *ends, caught_up, fetched, is_whole, _stalled(core)
    )


def _stalled(core: Core) -> tuple[tuple[NodeId, str], ...]:
    """Followers that lack something, and have got nothing new for long; with what is done about it."""
    head = core.state.log.head.offset
    return tuple(
        (cursor.node, cursor.state.value)
        for cursor in core.state.cursors.values()
        if core.is_over(cursor.gained_ns, core.config.stalled_ms)
        and not cursor.is_leaving
        and not (cursor.is_attached and cursor.confirmed >= head)
    )


def violations(core: Core) -> list[Violation]:
    """I2 to I5, and those of the log; I1 is for whoever sees all steps."""
    state, log = core.state, core.state.log
    if state.status is Status.RECOVERING:
        return []
    found = log.violations()
    if state.applied > min(state.commit_index.offset, log.durable):
        what = f"applied {state.applied}, committed {state.commit_index}, durable {log.durable}"
        found.append(Violation("I2", what))
    if state.cursors and (state.status is not Status.LEADER or core.own in state.cursors):
        found.append(Violation("I3", f"{state.status.value} with {list(state.cursors)}"))
    for cursor in state.cursors.values():
        if not cursor.confirmed <= cursor.pushed <= log.head.offset:
            found.append(Violation("I3", f"{cursor.node} {cursor.confirmed} {cursor.pushed}"))
    if state.status is Status.LEADER and not log.runs.has(state.commit_index):
        found.append(Violation("I4", f"{state.commit_index} is not in the log"))
    if log.head.epoch > state.epoch:
        found.append(Violation("I5", f"epoch {state.epoch}, head {log.head}"))
    return found
