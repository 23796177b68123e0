"""Which nodes are silent, so that nobody waits for them as long as for one that works.

A node that is stopped, cut off or far too busy keeps its connections: what is asked of it just gets no
answer. Whoever waits for longer than most answers take has the node probed, which it answers at once whatever
else it waits for. If it does not, the wait is over, and others ask it last for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from motet.errors import MotetError, OutcomeUnknown
from motet.ids import Address

probe_seconds_max = 1.5
"""How long a node may take to answer a probe."""

heard_seconds = 0.25
"""Who has answered anything so recently is not probed."""

silent_seconds = 4.0
"""How long a node that was silent is asked last."""


class SilentNodes:
    """What is known of the nodes of one database."""

    def __init__(self, probe: Callable[[Address], Awaitable[object]]) -> None:
        self._probe = probe
        #: when each node has answered last
        self._heard_at: dict[Address, float] = {}
        #: which nodes are silent, and until when they are asked last
        self._silent_until: dict[Address, float] = {}
        #: all that wait for a node share one probe
        self._probing: dict[Address, asyncio.Task[None]] = {}

    def heard(self, node: Address) -> None:
        """A node has answered."""
        self._heard_at[node] = asyncio.get_running_loop().time()
        self._silent_until.pop(node, None)

    def last(self, nodes: Iterable[Address]) -> list[Address]:
        """The same nodes, those that are silent behind the others."""
        now = asyncio.get_running_loop().time()
        return sorted(nodes, key=lambda node: self._silent_until.get(node, now) > now)

    async def answers(self, node: Address) -> bool:
        """Whether it is worth to wait on; ``OutcomeUnknown`` if the node is silent."""
        now = asyncio.get_running_loop().time()
        if now - self._heard_at.get(node, -heard_seconds) < heard_seconds:
            return True
        task = self._probing.get(node)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(node))
            self._probing[node] = task
        await asyncio.shield(task)
        if node in self._silent_until:
            raise OutcomeUnknown(f"{node} is silent: it does not answer a probe either")
        return True

    async def _ask(self, node: Address) -> None:
        try:
            with suppress(MotetError):
                async with asyncio.timeout(probe_seconds_max):
                    await self._probe(node)
                    self.heard(node)
                    return
        except TimeoutError:
            pass
        finally:
            del self._probing[node]
        self._silent_until[node] = asyncio.get_running_loop().time() + silent_seconds
