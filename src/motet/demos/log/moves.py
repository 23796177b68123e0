"""Changes of ensembles, one after the other, while nodes die: what does not go through is tried again.

What an ensemble is like is asked of the operator before each attempt, and a change whose outcome is unknown
is looked at before it is made again: so three replicas become four and five, and again four and three,
however often an operator dies in the middle.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from motet.client.cluster.database import AsyncClusterDatabase
from motet.core.streams.cluster_messages import ShardMetadata
from motet.errors import MotetError

again_s = 0.2


class Moves:
    """What can be done to the shards of one stream."""

    def __init__(self, db: AsyncClusterDatabase, stream: str, patience_s: float = 90.0) -> None:
        self._db = db
        self._stream = stream
        self._patience_s = patience_s
        #: what was done, in order: ``expand 3 n0,n1,n2 -> n0,n1,n2,n4``
        self.done: list[str] = []
        #: why an attempt did not go through, by code
        self.refusals: dict[str, int] = {}

    async def shards(self) -> list[ShardMetadata]:
        """How the shards stand, in order; asks until an operator answers."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                found = await self._db.describe_shards(self._stream)
            except MotetError as error:
                if time.monotonic() > deadline:
                    raise
                self._refused(error)
                await asyncio.sleep(again_s)
            else:
                return sorted(found.shards, key=lambda meta: int(meta.shard.rpartition(".")[2]))

    async def resize(self, shard: int, replicas: int) -> None:
        """Expand or contract until the shard has so many replicas."""

        async def step(meta: ShardMetadata) -> None:
            if len(meta.ensemble) < replicas:
                await self._db.expand(self._stream, shard)
            else:
                await self._db.contract(self._stream, shard)

        await self._until(
            shard, f"{replicas} replicas", lambda m: len(m.ensemble) == replicas, step
        )

    async def swap(self, shard: int) -> None:
        """Replace a follower by a node that has no replica."""
        followers = [n for n in await self._ensemble(shard) if n != await self._leader(shard)]
        old = followers[0]

        async def step(meta: ShardMetadata) -> None:
            if meta.leader == old:  # elected in the meantime
                await self._db.elect(self._stream, shard)
            else:
                await self._db.swap(self._stream, shard, old, None)

        await self._until(shard, f"a swap of {old}", lambda meta: old not in meta.ensemble, step)

    async def _ensemble(self, shard: int) -> tuple[str, ...]:
        return (await self.shards())[shard].ensemble

    async def _leader(self, shard: int) -> str | None:
        return (await self.shards())[shard].leader

    async def _until(
        self,
        shard: int,
        what: str,
        is_done: Callable[[ShardMetadata], bool],
        step: Callable[[ShardMetadata], Awaitable[None]],
    ) -> None:
        deadline = time.monotonic() + self._patience_s
        before: tuple[str, ...] | None = None
        while True:
            meta = (await self.shards())[shard]
            before = before or meta.ensemble
            if is_done(meta) and meta.reconfiguration is None:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} of shard {shard}: {meta}, refused: {self.refusals}")
            try:
                await step(meta)
            except MotetError as error:
                self._refused(error)
                await asyncio.sleep(again_s)
        self.done.append(f"{what}, shard {shard}: {','.join(before)} -> {','.join(meta.ensemble)}")

    def _refused(self, error: MotetError) -> None:
        self.refusals[error.code] = self.refusals.get(error.code, 0) + 1
