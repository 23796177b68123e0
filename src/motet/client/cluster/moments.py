"""Refusals of an operator that pass by themselves: it is asked again for a moment before they are told.

It knows of a node a moment after that is ready, and it knows nothing for certain of a shard whose metadata is
just being written. A refusal has changed nothing, so asking again is safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from motet.errors import MotetError

moment_seconds = 1.0
again_seconds = 0.1

T = TypeVar("T")


async def after_a_moment(ask: Callable[[], Awaitable[T]], *passing: type[MotetError]) -> T:
    """What comes of it; a refusal that may pass is raised only if it does not."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + moment_seconds
    while True:
        try:
            return await ask()
        except passing:
            if loop.time() > deadline:
                raise
        await asyncio.sleep(again_seconds)
