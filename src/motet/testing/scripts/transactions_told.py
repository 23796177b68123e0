"""Entries and answers about transactions, in the few words of golden scripts."""

from __future__ import annotations

from motet.core.clock.hlc import ZERO
from motet.core.machine import Message
from motet.core.shardlog.entry import EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.entries import changes_of, hidden, render
from motet.core.streams.messages import (
    DataRefused,
    LatestChangeIs,
    RecordsAppended,
    ShardClosed,
    ShardFeed,
    ShardOrdered,
    TransactionEnded,
    TransactionIs,
    TransactionPrepared,
)
from motet.core.streams.shard import FIRST, machine_of
from motet.ids import ShardId, ShardName, StreamName

STREAM = StreamName("stream")


def told_shard(replica: ShardReplica) -> str:
    """What is in the log of a shard, what is open, and how far it is closed."""
    shard, first = machine_of(replica).state, replica.first_offset
    state, rules = shard.transactions, shard.rules
    entries = [entry for entry in replica.core.state.log.tail if entry.kind != EntryKind.BARRIER]
    told = [f"{replica.shard}:", *map(render, entries)]
    if state.locks:
        told.append("locked " + ",".join(key.decode() for key in state.locks))
    if state.decisions:
        told.append("to tell " + ",".join(state.decisions))
    told += [f"cursor {name} {clock}" for name, clock in rules.cursors.items()]
    told += [f"pruned {rules.low_watermark}"] if rules.low_watermark > ZERO else []
    told += [] if rules.has_clock else ["clock off"]
    told += [f"trimmed to entry {first}"] if first > FIRST else []
    return " ".join([*told, f"closed {state.closed}"])


def told_answer(message: Message) -> str:
    """An answer in few words."""
    match message:
        case TransactionPrepared():
            return f"#{message.request} prepared at {message.clock}{hidden(has_clock=message.has_clock)}"
        case TransactionEnded(clock=None):
            return f"#{message.request} aborted"
        case TransactionEnded():
            late = hidden(has_clock=message.has_clock)
            late += "" if message.is_settled else ", not logged everywhere"
            return f"#{message.request} committed at {message.clock}{late}"
        case TransactionIs():
            home = "" if message.home is None else f", home {message.home}"
            at = (
                ""
                if message.clock is None
                else f" at {message.clock}{hidden(has_clock=message.has_clock)}"
            )
            return f"#{message.request} {message.standing}{at}{home}"
        case ShardClosed():
            held = "" if message.held_by is None else f", held by {message.held_by[0]}"
            return f"#{message.request} closed {message.closed}{held}"
        case LatestChangeIs(found=None):
            return f"#{message.request} never changed"
        case LatestChangeIs():
            assert message.found is not None
            found = list(changes_of(STREAM, ShardId(0), ShardName("-"), message.found))
            change = found[message.place]
            at = f"{change.clock}{hidden(has_clock=change.has_clock)}"
            return f"#{message.request} {_told(change.key, change.row)} at {at}"
        case ShardFeed():
            told = [
                f"{change.clock}{hidden(has_clock=change.has_clock)} {change.transaction[:2]}.{change.index}"
                f" {_told(change.key, change.row)}"
                for entry in message.entries
                for change in changes_of(STREAM, ShardId(0), ShardName("-"), entry)
            ]
            return f"#{message.request} {'; '.join(told) or 'nothing'}, through {message.through}"
        case ShardOrdered():
            return f"#{message.request} obeyed"
        case RecordsAppended():
            return f"#{message.request} appended at {message.places[0].clock}"
        case DataRefused():
            return f"#{message.request} {message.code} {message.what}"
    raise AssertionError(f"{type(message).__name__} is no answer to a client")


def _told(key: bytes, row: bytes | None) -> str:
    return f"{key.decode()} deleted" if row is None else f"{key.decode()}={row.decode()}"
