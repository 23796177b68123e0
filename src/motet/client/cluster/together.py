"""Questions about many shards: every node is asked once, and answers once.

What one node cannot answer, because it does not lead a shard any more or is gone, is asked again of whoever
leads then. A question that changes nothing may always be repeated, and all that are asked here are such.
While a node is silent, and still the one to ask, it gets the very same message again: if it works on the
first one, it does so once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Generic, TypeVar

from motet.client.cluster.refusals import given_up, no_leader, refused
from motet.client.cluster.router import (
    Router,
    failover_seconds_max,
    pause_seconds_max,
    pause_seconds_min,
    replica_seconds_max,
)
from motet.core.clock.hlc import Clock
from motet.core.streams.messages import (
    AskMany,
    CloseShard,
    DataRefused,
    DescribeFeed,
    FeedDescribed,
    ListPrepared,
    ManyAnswered,
    PreparedAre,
    ReadShardFeed,
    ShardClosed,
    ShardFeed,
)
from motet.errors import MotetError, NodeError, NoSuchShard, OutcomeUnknown, TooLarge
from motet.errors.shards import NotLeader
from motet.ids import NodeId, RequestId, ShardName
from motet.limits import asked_together_max

Question = CloseShard | ReadShardFeed | DescribeFeed | ListPrepared
Make = Callable[[RequestId, Clock], Question]
A = TypeVar("A", ShardClosed, ShardFeed, FeedDescribed, PreparedAre)

asked_times_max = 2
"""How often one message is sent to a node that does not answer, before the shard map is looked at again."""

PASSING = (NotLeader, NoSuchShard, NodeError, OutcomeUnknown, TooLarge)
"""What another node, or the same one a moment later, may not say."""


class Answers(Generic[A]):
    """What has been answered, and why the rest has not."""

    def __init__(self) -> None:
        self.found: dict[ShardName, A] = {}
        self.missing: dict[ShardName, MotetError] = {}


async def ask_leaders(
    router: Router, questions: Mapping[ShardName, Make], kind: type[A], seconds: float
) -> dict[ShardName, A]:
    """Ask the leaders of these shards, also while leaders change; raises what one answers at last."""
    found: dict[ShardName, A] = {}
    left, alone = dict(questions), dict[ShardName, None]()
    began, pause_seconds = monotonic(), pause_seconds_min
    while left:
        asked = await _ask_leaders_once(router, left, alone, kind, seconds)
        found |= asked.found
        left = {shard: make for shard, make in left.items() if shard not in asked.found}
        if not left:
            break
        if monotonic() > began + failover_seconds_max:
            shard = next(iter(left))
            raise given_up(asked.missing[shard], kind, router.map, shard)
        large = [shard for shard, why in asked.missing.items() if isinstance(why, TooLarge)]
        alone |= dict.fromkeys(large)
        if len(large) < len(left):
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, pause_seconds_max)
        await router.refresh()
        for shard in left:
            if router.place(shard) is None:
                raise NoSuchShard("the shard is gone", hint="was its stream deleted?")
    return found


async def _ask_leaders_once(
    router: Router,
    questions: Mapping[ShardName, Make],
    alone: Mapping[ShardName, None],
    kind: type[A],
    seconds: float,
) -> Answers[A]:
    asked: Answers[A] = Answers()
    nodes: dict[NodeId, dict[ShardName, Make]] = {}
    for shard, make in questions.items():
        place = router.place(shard)
        if place is None or place.leader is None:
            asked.missing[shard] = why = no_leader(router.map, shard, place)
            if not isinstance(why, PASSING):
                raise why
        else:
            nodes.setdefault(place.leader, {})[shard] = make
    parts: list[tuple[NodeId, dict[ShardName, Make]]] = []
    for node, of_node in nodes.items():
        parts.append((node, {each: make for each, make in of_node.items() if each not in alone}))
        parts += [(node, {each: make}) for each, make in of_node.items() if each in alone]
    await _ask_nodes(router, parts, asked, kind, seconds, asked_times_max)
    return asked


async def ask_replicas(
    router: Router, questions: Mapping[ShardName, Make], kind: type[A], *, first: int
) -> dict[ShardName, A]:
    """Ask one replica of each of these shards, once; who does not answer is not in what is found."""
    asked: Answers[A] = Answers()
    nodes: dict[NodeId, dict[ShardName, Make]] = {}
    for shard, make in questions.items():
        place = router.place(shard)
        if place is not None and place.ensemble:
            node = place.ensemble[first % len(place.ensemble)]
            nodes.setdefault(node, {})[shard] = make
    await _ask_nodes(router, list(nodes.items()), asked, kind, replica_seconds_max, times=1)
    return asked.found


async def _ask_nodes(
    router: Router,
    nodes: list[tuple[NodeId, dict[ShardName, Make]]],
    asked: Answers[A],
    kind: type[A],
    seconds: float,
    times: int,
) -> None:
    parts = [
        (node, dict(list(of_node.items())[first : first + asked_together_max]))
        for node, of_node in nodes
        for first in range(0, len(of_node), asked_together_max)
    ]
    await asyncio.gather(*(_ask(router, *part, asked, kind, seconds, times) for part in parts))


async def _ask(
    router: Router,
    node: NodeId,
    questions: Mapping[ShardName, Make],
    asked: Answers[A],
    kind: type[A],
    seconds: float,
    times: int,
) -> None:
    """Ask one node; a question that is alone goes as it is."""
    shards, makes = list(questions), list(questions.values())

    async def still_leads() -> bool:
        await router.refresh()
        places = [router.place(shard) for shard in shards]
        return any(place is not None and place.leader == node for place in places)

    def make(request: RequestId, clock: Clock) -> AskMany:
        each = tuple(one(RequestId(place), clock) for place, one in enumerate(makes))
        return AskMany(request, clock, each)

    try:
        if len(shards) == 1:
            asked.found[shards[0]] = await router.ask_node(
                node, makes[0], kind, seconds, still_leads
            )
            return
        many = await router.ask_node(node, make, ManyAnswered, seconds, still_leads, times)
    except PASSING as error:
        asked.missing.update(dict.fromkeys(shards, error))
        return
    for shard, answer in zip(shards, many.answers, strict=True):
        if isinstance(answer, kind):
            asked.found[shard] = answer
            continue
        if not isinstance(answer, DataRefused):
            raise NodeError(f"the answer was {type(answer).__name__}, not {kind.__name__}")
        why = refused(answer, router.map)
        if not isinstance(why, PASSING):
            raise why
        asked.missing[shard] = why
