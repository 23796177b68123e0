"""Speaks to the keeper for a catalog: a client of the keeper's, used when there is something to say.

A session is begun when the machine wants something kept or listed, and ended when it has wanted nothing for a
moment: a database in which nothing is created costs the keeper nothing. It decides nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.dialer import Connect
from motet.client.keeper.errors import NodeExists, NoNode
from motet.core.catalog.messages import (
    KEEPER,
    FromKeeper,
    Keep,
    KeepFailed,
    Kept,
    KeptAre,
    KeptNode,
    ListKept,
    ToKeeper,
)
from motet.core.machine import Message
from motet.errors import MotetError
from motet.ids import Address

call_seconds_max = 10.0
linger_seconds = 0.5
"""A session that nobody needs is ended after so long."""

stop_seconds_max = 2.0
reads_at_once = 500

Tell = Callable[[Address, Message], None]
"""Gives the machine a message, and has it looked at soon."""


class CatalogPort:
    """A ``LocalPort``, from ``start`` to ``stop``. ``connect`` reaches the keeper at ``endpoints``."""

    def __init__(self, endpoints: str, connect: Connect | None = None) -> None:
        self._endpoints, self._connect = endpoints, connect
        self._queue: deque[ToKeeper] = deque()
        self._task: asyncio.Task[None] | None = None

    def start(self, tell: Tell) -> None:
        self._tell = tell
        self._wanted = asyncio.Event()
        self._is_ending = False

    async def stop(self) -> None:
        """End the session if there is one; what nobody has heard of stays unsaid."""
        self._is_ending = True
        self._wanted.set()
        if self._task is not None:
            _, late = await asyncio.wait([self._task], timeout=stop_seconds_max)
            for task in late:
                task.cancel()

    # What the machine's host calls (see ``LocalPort``)

    def takes(self, to: Address) -> bool:
        return to == KEEPER

    def send(self, _to: Address, message: Message) -> None:
        self._queue.append(cast("ToKeeper", message))

    def flush(self) -> None:
        if self._queue and not self._is_ending:
            self._wanted.set()
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._work())

    # The session

    async def _work(self) -> None:
        while self._queue and not self._is_ending:
            try:
                async with KeeperClient(
                    self._endpoints, seconds=call_seconds_max, connect=self._connect
                ) as keeper:
                    await self._work_with(keeper)
            except MotetError as error:  # no session was to be had
                while self._queue:
                    self._fail(self._queue.popleft(), error)

    async def _work_with(self, keeper: KeeperClient) -> None:
        while not self._is_ending and not keeper.is_expired:
            while self._queue:
                await self._do(keeper, self._queue.popleft())
            self._wanted.clear()
            try:
                async with asyncio.timeout(linger_seconds):
                    await self._wanted.wait()
            except TimeoutError:
                return

    async def _do(self, keeper: KeeperClient, message: ToKeeper) -> None:
        answer: FromKeeper
        try:
            if isinstance(message, Keep):
                answer = Kept(message.number, message.path, await _keep(keeper, message))
            else:
                answer = KeptAre(message.number, message.path, await _list(keeper, message))
        except MotetError as error:
            self._fail(message, error)
        else:
            self._tell(KEEPER, answer)

    def _fail(self, message: ToKeeper, error: MotetError) -> None:
        self._tell(KEEPER, KeepFailed(message.number, error.code, error.what, error.advice))


async def _keep(keeper: KeeperClient, message: Keep) -> bytes:
    """The data that the node has in the end."""
    try:
        await keeper.create(message.path, message.data)
    except NodeExists:
        return (await keeper.get(message.path))[0]
    except NoNode:
        await keeper.ensure_path(message.path.rpartition("/")[0])
        return await _keep(keeper, message)
    return message.data


async def _list(keeper: KeeperClient, message: ListKept) -> tuple[KeptNode, ...]:
    try:
        names = await keeper.children(message.path)
    except NoNode:
        return ()
    found: list[tuple[int, KeptNode]] = []
    for start in range(0, len(names), reads_at_once):
        paths = [f"{message.path}/{name}" for name in names[start : start + reads_at_once]]
        read = await asyncio.gather(*map(keeper.get, paths))
        for path, (data, stat) in zip(paths, read, strict=True):
            found.append((stat.czxid, KeptNode(path, data)))
    return tuple(node for _, node in sorted(found, key=lambda pair: pair[0]))
