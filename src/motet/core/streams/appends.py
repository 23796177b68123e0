"""Appends of clients: gathered, put into the log of their shard by its leader, answered when committed.

A1  What arrives in one turn of the node travels together: chunks of many clients become one entry, with one
    clock and one write. A chunk is never split.
A2  An answer leaves when the entry is committed and applied here. A leader that is one no longer answers
    what it had put into its log with ``OUTCOME_UNKNOWN``, and what it had not with ``NOT_LEADER``.
A3  A token that is under way, or used, is answered with where its records are, and not appended again.
A4  What touches a key that a transaction has locked is held back until the key is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.machine import NS_PER_MS, Effect, Now, Send
from motet.core.shardlog.entry import EntryId, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.entries import Chunk, Records, encode_records
from motet.core.streams.messages import (
    AppendRecords,
    ChunkPlace,
    RecordsAppended,
    not_leader,
    refusal,
    unknown_outcome,
)
from motet.core.streams.shard import machine_of
from motet.errors import BadInput, MotetError, NodeError
from motet.format.record_block import check_block, decode_keys
from motet.ids import Address, Epoch, Offset, ShardName
from motet.limits import appends_waiting_max, entry_bytes_max, name_length_max, token_number_max


class Waiting(msgspec.Struct):
    """A request that is not answered yet, and where its chunks are, as far as that is known."""

    client: Address
    message: AppendRecords
    since_ns: int
    #: chunk -> its place; those that are still to be put into the log are missing
    places: dict[int, ChunkPlace] = msgspec.field(default_factory=dict)
    #: the entry that must be applied before it can be answered
    entry: EntryId | None = None


class ShardAppends(msgspec.Struct):
    """The appends of one shard that are under way, at its leader."""

    #: the epoch in which this node was elected; what is under way belongs to that leadership
    elected_epoch: Epoch = Epoch(0)
    #: the offset of the next record that is put into the log
    next_offset: Offset = Offset(0)
    #: oldest first: to be put into the log
    gathered: list[Waiting] = msgspec.field(default_factory=list)
    #: oldest first: some of their keys are locked
    held: list[Waiting] = msgspec.field(default_factory=list)
    #: how far the log was applied when they were held
    held_at: Offset = Offset(-1)
    #: oldest first: in the log, not applied
    pending: list[Waiting] = msgspec.field(default_factory=list)
    #: tokens in the log that are not applied yet: where they are, and in which entry
    tokens: dict[tuple[str, int], tuple[ChunkPlace, EntryId]] = msgspec.field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        return not self.gathered and not self.pending and not self.held


def take(
    appends: ShardAppends, replica: ShardReplica, client: Address, message: AppendRecords, now: Now
) -> None:
    """Gather a request; an error says why it is not taken."""
    check(message)
    if not replica.is_serving:
        raise not_leader(replica.shard)
    if appends.is_idle:
        lead_on(appends, replica)
    waiting = len(appends.gathered) + len(appends.pending) + len(appends.held)
    if waiting >= appends_waiting_max:
        raise NodeError("too many appends wait for this shard", hint="try again in a moment")
    appends.gathered.append(Waiting(client, message, now.monotonic_ns))


def check(message: AppendRecords) -> None:
    """``BadInput`` or ``TooLarge`` for what cannot be appended."""
    if not message.chunks:
        raise BadInput("an append without records")
    for chunk in message.chunks:
        if check_block(chunk.block) != chunk.count:
            raise BadInput(f"a chunk says {chunk.count} records and has others")
        if chunk.token is not None:
            producer, number = chunk.token.producer, chunk.token.number
            if not 0 < len(producer) <= name_length_max or not 0 <= number <= token_number_max:
                raise BadInput("a token is a producer and its own count, both within bounds")


def hold(appends: ShardAppends, replica: ShardReplica, locks_ahead: Mapping[bytes, None]) -> None:
    """Hold back what touches locked keys, or keys that will be locked by what is in the log (A4)."""
    appends.gathered[:0] = appends.held
    appends.held, appends.held_at = [], replica.applied_index.offset
    locks = machine_of(replica).state.transactions.locks
    if not locks and not locks_ahead:
        return
    gathered, appends.gathered = appends.gathered, []
    for waiting in gathered:
        keys = _keys(waiting)
        is_free = not any(key in locks or key in locks_ahead for key in keys)
        (appends.gathered if is_free else appends.held).append(waiting)


def expire(appends: ShardAppends, now: Now, wait_ms: int) -> list[Effect]:
    """Refuse what has waited too long for keys to be free: whoever asked has given up."""
    since_ns = now.monotonic_ns - wait_ms * NS_PER_MS
    late = [waiting for waiting in appends.held if waiting.since_ns <= since_ns]
    if not late:
        return []
    appends.held = [waiting for waiting in appends.held if waiting.since_ns > since_ns]
    error = NodeError("a transaction has locked one of the keys for long", hint="try again")
    return [refusal(waiting.client, waiting.message.request, error) for waiting in late]


def forget_client(appends: ShardAppends, client: Address) -> None:
    """Nobody is there any more to be answered: what is not in the log does not go there."""
    appends.held = [waiting for waiting in appends.held if waiting.client != client]
    appends.gathered = [waiting for waiting in appends.gathered if waiting.client != client]


def is_touched(appends: ShardAppends, keys: Iterable[bytes]) -> bool:
    """Whether records on their way, in the log and not applied, have one of these keys."""
    if not appends.pending:
        return False
    wanted = dict.fromkeys(keys)
    return any(
        key in wanted
        for waiting in appends.pending
        if waiting.entry is not None
        for key in _keys(waiting)
    )


def _keys(waiting: Waiting) -> Iterator[bytes]:
    for chunk in waiting.message.chunks:
        yield from decode_keys(chunk.block)


def cut(
    appends: ShardAppends, replica: ShardReplica, clock: Clock, now: Now, *, has_clock: bool = True
) -> tuple[list[Effect], bool]:
    """Put what fits into the next entry; and whether there is more, which needs another clock.

    The records say whether their readers get to see it (P3 in :mod:`motet.core.streams.orders`).
    """
    if not replica.is_serving:
        return abandon(appends, replica.shard), False
    lead_on(appends, replica)
    effects: list[Effect] = []
    error = replica.refusal(0)
    if error is not None:  # the disk is full, or too much waits for the followers
        return refuse_gathered(appends, error), False
    chunks: list[Chunk] = []
    entry = EntryId(replica.epoch, Offset(replica.head.offset + 1))
    size_bytes, first_offset = 0, appends.next_offset
    while appends.gathered:
        waiting = appends.gathered[0]
        size_bytes += sum(len(chunk.block) for chunk in waiting.message.chunks)
        if chunks and size_bytes > entry_bytes_max:
            break
        del appends.gathered[0]
        try:
            chunks += _place(appends, replica, waiting, entry, clock)
        except MotetError as bad:
            effects.append(refusal(waiting.client, waiting.message.request, bad))
            continue
        appends.pending.append(waiting)
    if chunks:
        body = encode_records(Records(first_offset, now.wall_ms, tuple(chunks), has_clock))
        appended, begun = replica.append(EntryKind.RECORDS, clock, body, now)
        assert appended == entry
        effects += begun
    return effects, bool(appends.gathered)


def refuse_gathered(appends: ShardAppends, error: MotetError) -> list[Effect]:
    """Nothing of what waits can be put into the log."""
    refused = [*appends.held, *appends.gathered]
    appends.gathered, appends.held = [], []
    return [refusal(waiting.client, waiting.message.request, error) for waiting in refused]


def lead_on(appends: ShardAppends, replica: ShardReplica) -> None:
    """A new leadership goes on from what is applied, which is all of its log."""
    if appends.elected_epoch != replica.elected_epoch:
        assert not appends.pending, "what another leadership left was answered"
        appends.elected_epoch = replica.elected_epoch
        appends.next_offset = machine_of(replica).state.next_offset


def _place(
    appends: ShardAppends, replica: ShardReplica, waiting: Waiting, entry: EntryId, clock: Clock
) -> list[Chunk]:
    """Decide where the chunks of a request go; those that have to be written."""
    for chunk in waiting.message.chunks:
        _find_token(appends, replica, chunk)  # an error comes before anything is done
    written = []
    for number, chunk in enumerate(waiting.message.chunks):
        known = _find_token(appends, replica, chunk)
        if known is None:
            place = ChunkPlace(entry.epoch, appends.next_offset, clock, duplicate=False)
            appends.next_offset = Offset(appends.next_offset + chunk.count)
            if chunk.token is not None:
                key = (chunk.token.producer, chunk.token.number)
                appends.tokens[key] = place, entry
            written.append(chunk)
            waiting.entry = entry
        else:
            place = ChunkPlace(
                known[0].epoch, known[0].first_offset, known[0].clock, duplicate=True
            )
            waiting.entry = max(filter(None, (waiting.entry, known[1])), default=None)
        waiting.places[number] = place
    return written


def _find_token(
    appends: ShardAppends, replica: ShardReplica, chunk: Chunk
) -> tuple[ChunkPlace, EntryId | None] | None:
    if chunk.token is None:
        return None
    under_way = appends.tokens.get((chunk.token.producer, chunk.token.number))
    if under_way is not None:
        return under_way
    place = machine_of(replica).place_of(chunk.token)
    if place is None:
        return None
    return ChunkPlace(place.epoch, place.first_offset, place.clock, duplicate=True), None


def settle(appends: ShardAppends, replica: ShardReplica) -> list[Effect]:
    """Answer what is applied; and when this node leads no longer, everybody.

    A change of the ensemble raises the epoch of a leader that goes on: its log stays, and so does what waits.
    """
    if not replica.is_serving or appends.elected_epoch != replica.elected_epoch:
        return abandon(appends, replica.shard)
    effects: list[Effect] = []
    if not appends.pending:
        return effects
    # All are in one log, where epochs rise with offsets: the offset alone decides.
    applied = replica.applied
    done = 0
    for waiting in appends.pending:
        if waiting.entry is not None and waiting.entry.offset > applied:
            break
        places = tuple(waiting.places[n] for n in range(len(waiting.places)))
        effects.append(Send(waiting.client, RecordsAppended(waiting.message.request, places)))
        done += 1
    if appends.tokens:
        for waiting in appends.pending[:done]:
            for token in _tokens(waiting):
                if token in appends.tokens and appends.tokens[token][1].offset <= applied:
                    del appends.tokens[token]
    if done:
        del appends.pending[:done]
    return effects


def abandon(appends: ShardAppends, shard: ShardName) -> list[Effect]:
    """This node does not lead the shard any more, or not in the same epoch (A2)."""
    effects: list[Effect] = [
        refusal(waiting.client, waiting.message.request, unknown_outcome(shard))
        if waiting.entry is not None
        else _answered_before(waiting)
        for waiting in appends.pending
    ]
    effects += refuse_gathered(appends, not_leader(shard))
    appends.pending, appends.tokens = [], {}
    return effects


def _answered_before(waiting: Waiting) -> Effect:
    places = tuple(waiting.places[n] for n in range(len(waiting.places)))
    return Send(waiting.client, RecordsAppended(waiting.message.request, places))


def _tokens(waiting: Waiting) -> Iterator[tuple[str, int]]:
    for chunk in waiting.message.chunks:
        if chunk.token is not None:
            yield chunk.token.producer, chunk.token.number
