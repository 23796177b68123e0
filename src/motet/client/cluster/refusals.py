"""What a client says of a shard that it cannot ask, or that refuses.

A read has changed nothing, so it never ends in an unknown outcome: it is ``UNAVAILABLE``. Shards are called
as people know them, ``orders/0``; nodes call them by names of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from motet.core.streams.cluster_messages import OperatorRefused, ShardMap, ShardPlace
from motet.core.streams.messages import (
    DataAnswer,
    DataRefused,
    FeedDescribed,
    LatestChangeIs,
    PreparedAre,
    RecordsRead,
    ShardClosed,
    ShardDescribed,
    ShardFeed,
    TransactionIs,
)
from motet.errors import MotetError, NodeError, OutcomeUnknown, error_of
from motet.errors.operator import MapTooOld
from motet.errors.shards import NotLeader, ShardLost, Unavailable
from motet.ids import ShardName

D = TypeVar("D", bound=DataAnswer)

READ = (
    RecordsRead,
    ShardDescribed,
    FeedDescribed,
    LatestChangeIs,
    PreparedAre,
    ShardClosed,
    ShardFeed,
    TransactionIs,
)
"""Answers to requests that change nothing."""


def expected(answer: DataAnswer, kind: type[D], shards: ShardMap | None) -> D:
    """The answer, if it is one of this kind; what a refusal says is raised."""
    if isinstance(answer, DataRefused):
        raise refused(answer, shards)
    if not isinstance(answer, kind):
        raise NodeError(f"the answer was {type(answer).__name__}, not {kind.__name__}")
    return answer


def refused(answer: DataRefused | OperatorRefused, shards: ShardMap | None) -> MotetError:
    """The error that a node or the operator has answered with."""
    error = error_of(answer.code, readable(answer.what, shards), readable(answer.advice, shards))
    if isinstance(answer, OperatorRefused) and isinstance(error, MapTooOld):
        error.fence = answer.fence or 0
    return error


def readable(text: str, shards: ShardMap | None) -> str:
    """A text of a node with its shards called as people know them."""
    for stream in () if shards is None else shards.streams:
        for number, place in enumerate(stream.places):
            if place.shard in text:
                name = f"{stream.definition.name}/{number}"
                text = text.replace(f"shard {place.shard}", name).replace(place.shard, name)
    return text


def given_up(
    why: MotetError, kind: type[object], shards: ShardMap | None, shard: ShardName
) -> MotetError:
    """What is raised when a shard was asked for long enough, and an answer of this kind did not come."""
    if kind in READ and isinstance(why, OutcomeUnknown | NotLeader):
        label = shard if shards is None else shards.label(shard)
        return Unavailable(f"{label} cannot be read: {readable(why.what, shards)}")
    return why


def no_leader(
    shards: ShardMap, shard: ShardName, place: ShardPlace | None
) -> NotLeader | ShardLost:
    """Why nobody leads it: an election is under way, or there can be none."""
    label = shards.label(shard)
    if place is None or not place.wiped:
        return NotLeader(f"{label} has no leader right now", hint="try again in a moment")
    lost, copies = " and ".join(place.wiped), len(place.ensemble)
    return ShardLost(
        f"{lost} lost or damaged their data of {label}, which has {copies} replicas: "
        "too few are left to elect a leader"
    )


moment_seconds = 1.0
again_seconds = 0.1

T = TypeVar("T")


async def after_a_moment(ask: Callable[[], Awaitable[T]], *passing: type[MotetError]) -> T:
    """What an operator answers; a refusal that may pass by itself is raised only if it does not.

    An operator knows of a node a moment after that is ready, and it knows nothing for certain of a shard
    whose metadata is just being written. A refusal has changed nothing, so asking again is safe.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + moment_seconds
    while True:
        try:
            return await ask()
        except passing:
            if loop.time() > deadline:
                raise
        await asyncio.sleep(again_seconds)
