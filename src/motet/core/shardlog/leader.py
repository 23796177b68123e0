"""Leading: appending, pushing entries to followers, counting what they confirm.

The leader sends a stream of entries to each follower and does not wait for one before it sends the next. A
follower's answer is cumulative: it has everything up to an entry on disk. An entry is committed when a
majority has it (``quorum``), the leader itself counting once its own write is durable.

What gets lost is found out by time: a beat goes to every follower when there is nothing else to say, and
what is not confirmed for long is pushed again from the last confirmed entry on. A follower that lacks more
than is in memory is served from disk, and one that lacks more than is kept gets a snapshot.

B1  The commit index never falls.
B2  Only entries of the present epoch are committed directly; a barrier is written when an epoch begins.
B3  A leader whose entries are refused because of a higher epoch abdicates at once.
B4  Nothing of an epoch is sent before that epoch is durable here.
"""

from __future__ import annotations

from motet.core.clock.hlc import END, Clock, plus
from motet.core.shardlog import alignment, quorum, reading, storage
from motet.core.shardlog.context import Core
from motet.core.shardlog.entry import Entry, EntryId, EntryKind, entry_bytes
from motet.core.shardlog.messages import (
    AddEntryRequest,
    AddEntryResponse,
    Refusal,
    Refused,
)
from motet.core.shardlog.snapshot import forget_snapshot, offer_snapshot
from motet.core.shardlog.state import Cursor, CursorState, Purpose, Reading, Status
from motet.ids import Address, NodeId, Offset
from motet.limits import round_step_max

AGAIN_SOON = (Refusal.GAP, Refusal.CLOCK_DRIFT)
"""Refusals after which the same is pushed again: what is missing or too early now may not be then."""

# Appending


def append(core: Core, kind: int, clock: Clock, body: bytes) -> EntryId:
    """Put an entry at the head of the log, and push it."""
    state, log = core.state, core.state.log
    assert clock > log.clock, "clocks rise along a log"
    entry = EntryId(state.epoch, Offset(log.head.offset + 1))
    storage.append(core, log, [Entry(entry, kind, clock, body)])
    state.unapplied_bytes += len(body)
    core.effects.observe_clock(clock)
    push_all(core)
    return entry


def has_clock(core: Core) -> bool:
    """Whether there is a clock for one more entry; else it is at the end of its range."""
    return max(core.state.log.clock, core.effects.clock) < END


def append_barrier(core: Core) -> EntryId:
    """An entry of the new epoch, so that there is something to commit (B2)."""
    clock = plus(max(core.state.log.clock, core.effects.clock), 1)
    return append(core, EntryKind.BARRIER, clock, b"")


# Pushing


def push_all(core: Core) -> None:
    """Push to every follower what it lacks. One message serves all that are equally far."""
    if not core.is_epoch_durable:  # B4
        return
    head = core.state.log.head.offset
    built: dict[Offset, AddEntryRequest] = {}
    for cursor in core.state.cursors.values():
        if cursor.pushed < head and cursor.is_attached:
            _push(core, cursor, built)


def _push(core: Core, cursor: Cursor, built: dict[Offset, AddEntryRequest]) -> None:
    state, config = core.state, core.config
    log = state.log
    head = log.head.offset
    while cursor.pushed < head and cursor.flying_bytes < config.in_flight_bytes_max:
        message = built.get(cursor.pushed)
        if message is None:
            if cursor.pushed < log.base.offset:
                alignment.lose(core, cursor, "lags behind what is kept")
                return
            found = log.in_memory(cursor.pushed, head, config.message_bytes)
            if found is None:
                _push_from_disk(core, cursor)
                return
            built[cursor.pushed] = message = _request(core, cursor.pushed, tuple(found))
        _send(core, cursor, message)


def _push_from_disk(core: Core, cursor: Cursor) -> None:
    if cursor.is_reading:
        return
    state = core.state
    last = Offset(min(state.log.head.offset, state.log.tail_first - 1))
    asked = Reading(
        Purpose.PUSH,
        cursor.pushed,
        last,
        core.config.message_bytes,
        node=Address(cursor.node),
        epoch=state.epoch,
        attached_round=cursor.attached_round,
    )
    cursor.is_reading = True
    is_done = reading.begin(core, asked)
    assert not is_done, "it is not in memory"


def push_read(core: Core, done: Reading) -> None:
    """Entries for a follower have been read from disk."""
    assert done.node is not None
    cursor = core.state.cursors.get(NodeId(done.node))
    if cursor is None:
        return
    cursor.is_reading = False
    is_current = core.state.epoch == done.epoch and cursor.attached_round == done.attached_round
    is_kept = done.after >= core.state.log.base.offset  # else it was trimmed while it was read
    if (
        is_current
        and is_kept
        and cursor.is_attached
        and cursor.pushed == done.after
        and done.entries
    ):
        _send(core, cursor, _request(core, done.after, tuple(done.entries)))
    push_all(core)


def _send(core: Core, cursor: Cursor, message: AddEntryRequest) -> None:
    size_bytes = sum(map(entry_bytes, message.entries))
    cursor.fly(message.entries[-1].id.offset, size_bytes, core.now_ns)
    cursor.tell(message.commit_index.offset, message.first_offset, core.now_ns)
    core.send(cursor.node, message)


def _request(core: Core, previous: Offset, entries: tuple[Entry, ...]) -> AddEntryRequest:
    state = core.state
    log = state.log
    return AddEntryRequest(
        core.shard,
        state.epoch,
        log.runs.id_at(previous),
        entries,
        state.commit_index,
        log.first,
        state.round,
        core.effects.clock,
    )


# Answers


def on_add_entry_response(core: Core, sender: NodeId, message: AddEntryResponse) -> None:
    """A follower has everything up to an entry."""
    state, log = core.state, core.state.log
    if core.effects.is_ahead(message.clock):
        core.drop("clock_drift")  # what it says of its log counts, its clock does not
    else:
        core.effects.observe_clock(message.clock)
    cursor = state.cursors.get(sender)
    if not core.is_leader or message.epoch != state.epoch or cursor is None:
        core.drop("late_answer")
        return
    if cursor.state is not CursorState.ATTACHED or message.round < cursor.attached_round:  # U2
        core.drop("late_answer")
        return
    if message.round > state.round:
        # It was told a round of ours that we never asked: what we ask from now on is above it.
        if message.round <= state.round + round_step_max:
            state.round = message.round
        core.drop("impossible_answer")
        return
    if not log.runs.has(message.entry_id):
        core.drop("impossible_answer")
        return
    cursor.answered_ns = core.now_ns
    cursor.round = max(cursor.round, message.round)
    if message.entry_id.offset > cursor.confirmed:
        cursor.land(message.entry_id.offset, core.now_ns)
    elif cursor.confirmed == cursor.pushed:
        cursor.moved_ns = core.now_ns


def advance_commit(core: Core) -> None:
    """Work out what is committed, and which round a majority has answered."""
    state = core.state
    is_all = state.commit_index.offset == state.log.runs.head.offset
    if is_all and state.confirmed_round >= state.round:
        return  # the slower ones say what is known already
    counting = [cursor for cursor in state.cursors.values() if cursor.is_attached]
    positions = [cursor.confirmed for cursor in counting]
    positions.append(state.log.durable)
    entry = quorum.committed(positions, state.replication_factor, state.epoch, state.log.runs)
    if entry.offset > state.commit_index.offset:  # B1
        state.commit_index = entry
    if state.confirmed_round < state.round:
        rounds = [Offset(cursor.round) for cursor in counting]
        rounds.append(Offset(state.round))
        confirmed = quorum.held_by_majority(rounds, state.replication_factor)
        state.confirmed_round = max(state.confirmed_round, confirmed)


def on_refused(core: Core, sender: NodeId, message: Refused) -> None:
    """A follower did not do what it was told."""
    state = core.state
    cursor = state.cursors.get(sender)
    if not core.is_leader or cursor is None:
        core.drop("late_refusal")
        return
    if message.epoch not in (state.epoch, cursor.fenced_epoch):
        core.drop("late_refusal")
    elif message.why is Refusal.INVALID_EPOCH and message.node_epoch > state.epoch:
        abdicate(core, f"{sender} is in epoch {message.node_epoch}")
    elif message.why in alignment.HOPELESS and not cursor.is_leaving:
        alignment.on_hopeless(core, cursor, message)
    elif message.why is Refusal.SNAPSHOT_GONE and cursor.state is CursorState.NEEDS_SNAPSHOT:
        forget_snapshot(core, cursor.snapshot)  # the next beat offers another
    elif message.why in AGAIN_SOON and core.is_over(cursor.moved_ns, core.config.resend_ms // 8):
        cursor.push_again(core.now_ns)


def abdicate(core: Core, why: str) -> None:
    """Lead no more (B3): what was not committed may still be, by whoever leads next."""
    core.note("abdicated", f"epoch {core.state.epoch}: {why}")
    core.state.stop_leading()
    core.state.status = Status.FENCED


# Time


def beat(core: Core) -> None:
    """Let followers hear of us; say again what was not answered."""
    state, config = core.state, core.config
    if not core.is_epoch_durable:
        return
    for cursor in state.cursors.values():
        if cursor.is_leaving:
            continue
        if cursor.is_attached and cursor.confirmed >= state.log.head.offset:
            cursor.gained_ns = core.now_ns
        if cursor.state is CursorState.PENDING_TRUNCATE:
            if core.is_over(cursor.sent_ns, config.resend_ms):
                alignment.send_truncate(core, cursor)
        elif cursor.state is CursorState.NEEDS_SNAPSHOT:
            offer_snapshot(core, cursor)
        else:
            if cursor.pushed > cursor.confirmed and core.is_over(cursor.moved_ns, config.resend_ms):
                core.note("pushed_again", f"{cursor.node} after {cursor.confirmed}")
                cursor.push_again(core.now_ns)
    push_all(core)
    silent = [
        cursor
        for cursor in state.cursors.values()
        if cursor.is_attached and core.is_over(cursor.sent_ns, config.beat_ms)
    ]
    _send_beats(core, silent)


def is_at_rest(core: Core) -> bool:
    """Every follower has all there is, and nobody waits for a majority to confirm anything."""
    state = core.state
    first, head = state.log.first, state.log.head.offset
    return (
        state.commit_index.offset == head
        and state.confirmed_round >= state.asked_round
        and not state.wants_round
        and all(each.is_leaving or each.is_at_rest(first, head) for each in state.cursors.values())
    )


def _send_beats(core: Core, cursors: list[Cursor]) -> None:
    """A message without entries: it tells what is committed, and is answered with how far they are."""
    built: dict[Offset, AddEntryRequest] = {}
    for cursor in cursors:
        if cursor.pushed < core.state.log.base.offset:
            alignment.lose(core, cursor, "lags behind what is kept")
            continue
        message = built.get(cursor.pushed)
        if message is None:
            built[cursor.pushed] = message = _request(core, cursor.pushed, ())
        cursor.sent_ns = core.now_ns
        cursor.tell(message.commit_index.offset, message.first_offset, core.now_ns)
        core.send(cursor.node, message)


# Reading without writing


def confirm(core: Core) -> int:
    """A round such that, once it is confirmed, this node still led after the call."""
    state = core.state
    is_open = state.confirmed_round < state.asked_round
    if is_open and state.asked_ns == core.now_ns:
        return state.asked_round  # what was asked at this very moment has not left yet
    if is_open:
        state.wants_round = True  # one round at a time: those that come meanwhile share the next
        return state.round + 1
    _ask_round(core)
    return state.asked_round


def _ask_round(core: Core) -> None:
    state = core.state
    state.wants_round = False
    state.round += 1
    state.asked_round, state.asked_ns = state.round, core.now_ns
    if core.is_epoch_durable:
        _send_beats(core, [each for each in state.cursors.values() if each.is_attached])


def ask_next_round(core: Core) -> None:
    """Those who came while a round was under way get theirs."""
    state = core.state
    if state.wants_round and state.confirmed_round >= state.asked_round:
        _ask_round(core)
