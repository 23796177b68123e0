"""What a message about a shard may say: the door of a node's replicas, before any of them looks at it.

Whoever sends a message may be wrong, or lie. Epochs, offsets and clocks are compared with what is near our
own state (the reasons for each bound are in :mod:`motet.limits`). A message with anything beyond is
dropped as a whole, counted and noted: nothing of it is adopted, written or answered, so that no log ever has
a number from which it cannot go on.

A message that passes may still be a lie. Nodes trust the operator and their leaders to follow the protocol;
the door keeps out what neither of them can say.
"""

from __future__ import annotations

import re
from functools import cache

from motet.core.bounds import FieldRules, Rule, first_problem, rules_of
from motet.core.clock.hlc import Clock
from motet.core.shardlog.entry import Entry, EntryId
from motet.core.shardlog.messages import AddEntryRequest, ShardMessage, Snapshot
from motet.ids import Epoch, LogName, NodeId, Offset
from motet.limits import (
    clock_received_ms_max,
    counter_max,
    epoch_step_max,
    name_length_max,
    shard_entry_body_bytes_max,
    shard_state_bytes_max,
)

_SHARD_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
"""A shard's name is part of the names of its files."""

_kind_max = (1 << 16) - 1


def is_shard_name(shard: str, _highest: int = 0) -> bool:
    """Can a shard have this name?"""
    return _SHARD_NAME.fullmatch(shard) is not None


def is_epoch(epoch: Epoch, highest: int) -> bool:
    return 0 <= epoch <= highest


def is_counter(number: int, _highest: int = 0) -> bool:
    return 0 <= number <= counter_max


def is_clock(clock: Clock, _highest: int = 0) -> bool:
    return clock.logical <= clock_received_ms_max


def is_entry_id(entry: EntryId, highest: int) -> bool:
    return 0 <= entry.epoch <= highest and 0 <= entry.offset <= counter_max


def is_node(node: NodeId, _highest: int = 0) -> bool:
    return 0 < len(node) <= name_length_max


def _is_entry(entry: Entry, highest: int) -> bool:
    return (
        0 <= entry.id.epoch <= highest
        and 0 < entry.id.offset <= counter_max
        and 0 < entry.kind <= _kind_max
        and entry.clock.logical <= clock_received_ms_max
        and len(entry.body) <= shard_entry_body_bytes_max
    )


def _is_snapshot(snapshot: Snapshot, highest: int) -> bool:
    return (
        is_entry_id(snapshot.head_index, highest)
        and is_entry_id(snapshot.base_index, highest)
        and snapshot.base_index <= snapshot.head_index
        and snapshot.base_index.offset <= snapshot.head_index.offset
        and 0 <= snapshot.first_offset <= counter_max
        and 0 <= snapshot.state_bytes <= shard_state_bytes_max
        and snapshot.clock.logical <= clock_received_ms_max
        and is_node(snapshot.source)
    )


RULES: dict[object, Rule] = {
    LogName: is_shard_name,
    Epoch: is_epoch,
    Offset: is_counter,
    EntryId: is_entry_id,
    Clock: is_clock,
    NodeId: is_node,
    Entry: _is_entry,
    Snapshot: _is_snapshot,
}
"""By the type of a field; numbers without one are nonces, or looked at where they are used."""


@cache
def _fields(kind: type[ShardMessage]) -> FieldRules:
    return rules_of(kind, RULES)


def highest_epoch(own: Epoch | None) -> int:
    """The highest epoch that a message may speak of; None: nobody can tell, or it does not matter."""
    return counter_max if own is None else min(own + epoch_step_max, counter_max)


def problem_with(message: ShardMessage, own: Epoch | None) -> str | None:
    """What of a message no operator, leader or follower can mean; ``own`` is our epoch of the shard."""
    problem = first_problem(message, _fields(type(message)), highest_epoch(own))
    if problem is None and isinstance(message, AddEntryRequest):
        return _problem_with_entries(message)
    return problem


def _problem_with_entries(message: AddEntryRequest) -> str | None:
    """A leader begins after what it no longer has, and has everything that it says is committed."""
    if message.first_offset > message.previous.offset + 1:
        return "first_offset"
    return None if is_counter(message.round) else "round"
