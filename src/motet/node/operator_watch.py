"""Is the operator before us still there? Asked directly, since the keeper learns of a death late.

A session in the keeper ends some seconds after its holder, and for so long no shard whose leader died with
the operator would get a new one. So whoever is next asks the one before now and then, and removes its entry
when it does not answer: the keeper then tells everybody at once. That may be wrong, as when only the link
between the two is cut. Then two operators are at work for a moment, which the compare-and-set of each write
makes harmless; and nobody does it often to the same one that is only silent. One whose process is gone is
removed each time: it may have been started again and killed again, and each time shards wait for it.

An operator that answers late, several times in a row, counts as silent, too: its node stalls, on a disk that
takes a second for a sync, say, and so does every election that it holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from motet.client.link import Link
from motet.core.streams.cluster_messages import DescribeShards, OperatorAnswer
from motet.errors import MotetError, OutcomeUnknown
from motet.format.frame import FrameKind
from motet.ids import Address, NodeId, RequestId, StreamName

ask_every_seconds = 0.2
ask_again_seconds = 0.5
"""How often it is asked; and one that has just answered in time."""

gone_seconds = 0.6
"""Nothing listens there for so long: its process is gone."""

silent_seconds = 2.0
"""It is there and says nothing for so long."""

late_seconds, late_times = 0.5, 3
"""So late an answer is, and so often in a row, from one that stalls."""

depose_every_seconds = 30.0
"""Two that cannot hear each other, but the keeper, do not take the office from each other all the time."""

NOTHING = StreamName("-")
"""No stream is called that, so the question is answered at once and costs nothing."""


class OperatorWatch:
    """Asks the operators of a cluster, by their names, whether they are there."""

    def __init__(self, peers: Mapping[NodeId, str], cluster: str) -> None:
        self._peers, self._cluster = peers, cluster
        #: operator -> when it was last found to be silent
        self._silent_at: dict[str, float] = {}

    async def until_silent(self, name: str) -> None:
        """Come back when this operator does not answer; never of one that is not known."""
        endpoint = self._peers.get(NodeId(name))
        loop = asyncio.get_running_loop()
        if endpoint is None:
            await loop.create_future()
            return
        counts_at = self._silent_at.get(name, -depose_every_seconds) + depose_every_seconds
        await until_silent(endpoint, self._cluster, counts_at=counts_at)
        self._silent_at[name] = loop.time()


async def until_silent(endpoint: str, cluster: str, *, counts_at: float = 0.0) -> None:
    """Come back when no operator answers at this endpoint any more.

    Silence counts from a time of the loop on; that nothing listens there counts always.
    """
    node, loop = Address("before"), asyncio.get_running_loop()
    link: Link[OperatorAnswer] = Link({node: endpoint}, FrameKind.OPERATOR, OperatorAnswer, cluster)
    async with link:
        heard_at, late = loop.time(), 0
        while True:
            asked_at, pause_seconds = loop.time(), ask_every_seconds
            try:
                await link.ask(
                    node, lambda n: DescribeShards(RequestId(n), NOTHING), silent_seconds
                )
                heard_at = loop.time()
                late = late + 1 if heard_at - asked_at >= late_seconds else 0
                if late >= late_times and heard_at >= counts_at:
                    return
                if not late:
                    pause_seconds = ask_again_seconds
            except OutcomeUnknown:
                if loop.time() - asked_at >= silent_seconds and loop.time() >= counts_at:
                    return
            except MotetError:
                if loop.time() - heard_at >= gone_seconds:
                    return
            await asyncio.sleep(pause_seconds)
