"""What clients, operators and other leaders may say to a data node, besides what is about its replicas.

The door of :mod:`motet.core.shardlog.bounds` for everything else: a clock that would leave no room for
later ones, a time that is none, more names than a transaction can have. A client is told so; what nodes say
to each other is dropped, counted and noted.
"""

from __future__ import annotations

import re
from functools import cache

from motet.core.bounds import FieldRules, Rule, first_problem, rules_of
from motet.core.clock.hlc import Clock
from motet.core.machine import Message, Note
from motet.core.shardlog.bounds import is_clock, is_counter, is_shard_name
from motet.core.shardlog.messages import DeleteShardRequest, ShardMessage
from motet.core.streams.cluster_messages import (
    Heartbeat,
    NodePlace,
    ShardMap,
    ShardMapPushed,
    ShardsGone,
    TurnClock,
    versions_per_term,
)
from motet.core.streams.messages import (
    AskOutcome,
    ResolveTransaction,
    TransactionResolved,
)
from motet.errors import BadInput
from motet.ids import Address, Epoch, LogName, NodeId, ShardName, TransactionId
from motet.limits import (
    clock_received_ms_max,
    counter_max,
    epoch_step_max,
    map_term_step_max,
    transaction_id_length_max,
    transaction_participants_max,
)

ENDPOINT = re.compile(r"\S{1,255}:\d{1,5}")

FROM_NODES = (
    Heartbeat,
    ShardMapPushed,
    ShardsGone,
    AskOutcome,
    ResolveTransaction,
    TransactionResolved,
)


def _is_transaction(name: TransactionId, _highest: int) -> bool:
    return 0 < len(name) <= transaction_id_length_max


def _is_turn(turn: TurnClock, _highest: int) -> bool:
    return -1 <= turn.version <= counter_max


RULES: dict[object, Rule] = {
    Clock: is_clock,
    Epoch: is_counter,
    LogName: is_shard_name,
    ShardName: is_shard_name,
    TransactionId: _is_transaction,
    TurnClock: _is_turn,
}
CLOCKS: dict[object, Rule] = {Clock: is_clock}


@cache
def _fields(kind: type[Message], *, is_request: bool) -> FieldRules:
    return rules_of(kind, CLOCKS if is_request else RULES)


def check_request(message: Message, own: Clock) -> None:
    """``BadInput`` for a clock that no client can have seen: not when we have come there ourselves."""
    if not is_clock(own):
        return
    problem = first_problem(message, _fields(type(message), is_request=True), 0)
    if problem is not None:
        raise BadInput(f"{problem} has a clock that is beyond the year 2100")


def problem_with(sender: Address, message: Message, known: ShardMap | None) -> str | None:
    """What of a message no operator or leader can mean; ``known`` is the shard map that we have."""
    problem = first_problem(message, _fields(type(message), is_request=False), 0)
    if problem is not None:
        return problem
    match message:
        case ShardMapPushed():
            is_its_own = message.map.operator == NodeId(sender)
            return None if is_its_own and _is_map(message.map, known) else "map"
        case ResolveTransaction():
            return None if 0 <= message.at_ms <= clock_received_ms_max else "at_ms"
        case AskOutcome():
            count = len(message.participants)
            return None if count < transaction_participants_max else "participants"
    return None


def is_unfounded(
    sender: Address, message: ShardMessage, own: NodeId, known: ShardMap | None
) -> bool:
    """Whether it says to delete a shard that stays, or that nobody can tell of (D6).

    An operator that deletes has pushed a map that places the shard elsewhere, or is about to; it says both
    again until it is answered.
    """
    if not isinstance(message, DeleteShardRequest):
        return False
    if known is None or known.operator != NodeId(sender):
        return True
    places = (place for stream in known.streams for place in stream.places)
    return any(place.shard == message.shard and own in place.ensemble for place in places)


def epochs_of(shard_map: ShardMap) -> dict[LogName, Epoch]:
    """The epoch of the log of each shard, as the operator saw it."""
    places = [place for stream in shard_map.streams for place in stream.places]
    return {LogName(place.shard): place.epoch for place in places}


def _is_map(new: ShardMap, known: ShardMap | None) -> bool:
    if not _is_version(new.version, known) or not all(map(_is_place, new.nodes)):
        return False
    if known is None:
        return True
    if known.cluster not in (0, new.cluster):
        return False
    epochs = epochs_of(known)
    return all(
        epoch <= epochs.get(shard, counter_max) + epoch_step_max
        for shard, epoch in epochs_of(new).items()
    )


def _is_place(place: NodePlace) -> bool:
    """Whether somebody could connect there."""
    return all(ENDPOINT.fullmatch(each) for each in (place.native, place.http))


def _is_version(version: int, known: ShardMap | None) -> bool:
    """A term is one election of an operator; who has no map cannot tell how many there were."""
    if known is None:
        return 0 <= version <= counter_max
    term = known.version // versions_per_term + map_term_step_max
    return 0 <= version <= min(term * versions_per_term, counter_max)


def note_of(sender: Address, message: Message, problem: str, count: int) -> list[Note]:
    """Who says nonsense may say much of it, so ever fewer of them get a line."""
    if count & (count - 1):
        return []
    said = str(getattr(message, problem, ""))[:100]
    what = f"{type(message).__name__} from {sender}: {problem} {said}, {count} so far"
    return [Note("data_out_of_bounds", what)]
