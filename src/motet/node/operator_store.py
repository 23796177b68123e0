"""The operator's way to its metadata store: a keeper client that carries out what the machine asks.

The machine sends messages of :mod:`motet.core.operator.store` to the address ``STORE``; this port takes
them, asks the keeper, and tells the machine what came of it. It also stands for election: whose entry below
``/motet/operators`` is the oldest is the active operator. A session that is lost deposes at once, whoever
else may be elected meanwhile; what one that was deposed still writes is a compare-and-set like everything
else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.errors import BadVersion, NodeExists, NoNode
from motet.client.keeper.watches import Watch
from motet.core.catalog.paths import DRAINS, MAPS, NODES, OPERATORS, SETTINGS, SHARDS, STREAMS
from motet.core.keeper.acl import NODES_ACL
from motet.core.machine import Message
from motet.core.operator.store import (
    STORE,
    AllRead,
    Changed,
    Delete,
    Deposed,
    Done,
    Elected,
    OutcomeIsUnknown,
    Put,
    ReadAll,
    StoredNode,
    StoreFailed,
    StoreRequest,
    VersionConflict,
)
from motet.errors import MotetError, NodeError, OutcomeUnknown
from motet.ids import Address, NodeId
from motet.node.keeper_access import KeeperAccess, close_tree
from motet.node.logs import logger
from motet.node.operator_watch import depose_every_seconds, until_silent

again_seconds = 0.5
session_ms = 4_000
reads_max = 1000
"""Nodes that are read in one request, as at one moment."""

WATCHED = (NODES, STREAMS, DRAINS, SETTINGS)
ROOTS = (*WATCHED, SHARDS, OPERATORS, MAPS)

Tell = Callable[[Message], None]
"""Hands a message to the operator's machine, as from ``STORE``."""


class OperatorStore:
    """The local port of an operator; between ``start`` and ``stop`` it stands for election."""

    def __init__(
        self, own: NodeId, access: KeeperAccess, peers: Mapping[NodeId, str], cluster: str
    ) -> None:
        self._own = own
        self._access = access
        self._peers, self._cluster = peers, cluster
        #: operator -> when its entry was last removed by us
        self._deposed_at: dict[NodeId, float] = {}
        self._keeper: KeeperClient | None = None
        self._queue: list[StoreRequest] = []
        self._tasks: set[asyncio.Task[None]] = set()

    # What the driver calls

    def takes(self, to: Address) -> bool:
        return to == STORE

    def send(self, _to: Address, message: Message) -> None:
        assert isinstance(message, StoreRequest)
        self._queue.append(message)

    def flush(self) -> None:
        queue, self._queue = self._queue, []
        for request in queue:
            self._begin(self._carry_out(request))

    # Life

    def start(self, tell: Tell) -> None:
        self._tell = tell
        self._begin(self._stand())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Requests

    async def _carry_out(self, request: StoreRequest) -> None:
        try:
            answer = await self._ask(request)
        except (BadVersion, NodeExists, NoNode):
            answer = VersionConflict(request.request)
        except OutcomeUnknown:
            answer = OutcomeIsUnknown(request.request)
        except MotetError as error:
            answer = StoreFailed(request.request, error.what)
        self._tell(answer)

    async def _ask(self, request: StoreRequest) -> Message:
        keeper = self._keeper
        if keeper is None:
            raise NodeError("the keeper is not reached")
        if isinstance(request, Put):
            if request.version is None:
                await keeper.create(request.path, request.data, acl=NODES_ACL)
                return Done(request.request, 0)
            stat = await keeper.set(request.path, request.data, request.version)
            return Done(request.request, stat.version)
        if isinstance(request, Delete):
            await keeper.delete(request.path, request.version)
            return Done(request.request, -1)
        assert isinstance(request, ReadAll)
        nodes = await _at_and_below(keeper, request.paths)
        return AllRead(request.request, tuple(nodes))

    # The election

    async def _stand(self) -> None:
        """Have a session, an entry in it, and know when it is the oldest; over and over."""
        while True:
            try:
                async with self._access.session(session_ms) as keeper:
                    for path in ROOTS:
                        await keeper.ensure_path(path, acl=NODES_ACL)
                    self._keeper = keeper
                    async with asyncio.TaskGroup() as group:
                        for path in WATCHED:
                            group.create_task(self._watch(keeper, path))
                        group.create_task(self._run_for_office(keeper))
                        group.create_task(close_tree(keeper))
            except* MotetError as errors:
                whats = "; ".join(str(error) for error in errors.exceptions)
                logger.info("operator_without_keeper", extra={"fields": {"why": whats}})
            finally:
                self._keeper = None
                self._tell(Deposed())
            await asyncio.sleep(again_seconds)

    async def _run_for_office(self, keeper: KeeperClient) -> None:
        entry = await keeper.create(
            f"{OPERATORS}/{self._own}-",
            self._own.encode(),
            acl=NODES_ACL,
            ephemeral=True,
            sequential=True,
        )
        mine = entry.rpartition("/")[2]
        await self._clear_former(keeper, mine)
        while True:
            names = sorted(await keeper.children(OPERATORS), key=_number)
            if mine not in names:
                raise NodeError("the entry of this operator is gone")
            if names[0] == mine:
                break
            await self._until_gone(keeper, names[names.index(mine) - 1])
        logger.info("operator_elected", extra={"fields": {"entry": mine}})
        self._tell(Elected())
        while True:
            lost = Watch()
            if await keeper.exists(entry, lost) is None:
                raise NodeError("the entry of this operator is gone")
            await lost

    async def _clear_former(self, keeper: KeeperClient, mine: str) -> None:
        """Remove what former processes of this node left, which would stay until their sessions expire.

        There is one process for the folder of a node, so those are over. Whoever waits for such an entry
        finds that its operator answers, since this one does, and so would wait for the session, too.
        """
        for name in await keeper.children(OPERATORS):
            if _operator(name) == self._own and name != mine:
                with contextlib.suppress(NoNode):
                    await keeper.delete(f"{OPERATORS}/{name}")

    async def _until_gone(self, keeper: KeeperClient, name: str) -> None:
        """Wait until the entry before ours is gone; remove it if its operator does not answer."""
        path, gone = f"{OPERATORS}/{name}", Watch()
        if await keeper.exists(path, gone) is None:
            return
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(gone.wait())]
        operator = _operator(name)
        if operator in self._peers:
            waits.append(asyncio.ensure_future(self._depose(keeper, path, operator)))
        try:
            await waits[0]
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _depose(self, keeper: KeeperClient, path: str, operator: NodeId) -> None:
        loop = asyncio.get_running_loop()
        counts_at = self._deposed_at.get(operator, -depose_every_seconds) + depose_every_seconds
        await until_silent(self._peers[operator], self._cluster, counts_at=counts_at)
        self._deposed_at[operator] = loop.time()
        logger.info("operator_silent", extra={"fields": {"entry": path}})
        with contextlib.suppress(MotetError):  # gone by itself, or the session will tell
            await keeper.delete(path)

    async def _watch(self, keeper: KeeperClient, path: str) -> None:
        while True:
            changed = Watch()
            names = await keeper.children(path, changed)
            watches = [changed]
            if path != NODES:  # an entry of a node never changes, it is replaced
                for name in names:
                    watches.append(Watch())
                    await keeper.exists(f"{path}/{name}", watches[-1])
            self._tell(Changed(path))
            waits = [asyncio.ensure_future(watch.wait()) for watch in watches]
            try:
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
            finally:
                for one in waits:
                    one.cancel()


async def _at_and_below(keeper: KeeperClient, paths: Sequence[str]) -> list[StoredNode]:
    """The nodes at these paths and their children, sorted; what is not there is left out."""
    wanted = dict.fromkeys(paths)
    for path in paths:
        with contextlib.suppress(NoNode):
            wanted |= dict.fromkeys(f"{path}/{name}" for name in await keeper.children(path))
    found = []
    in_order = sorted(wanted)
    for some in batched(in_order, reads_max):
        for path, read in zip(some, await keeper.multi_read(some), strict=True):
            if isinstance(read, tuple) and isinstance(read[0], bytes):
                found.append(StoredNode(path, read[0], read[1].version))
    return found


def batched(paths: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The paths, so many at a time."""
    for start in range(0, len(paths), size):
        yield paths[start : start + size]


def _operator(name: str) -> NodeId:
    """Whose entry it is."""
    return NodeId(name.rpartition("-")[0])


def _number(name: str) -> int:
    """Entries are sorted by the number that the keeper gave them, whoever they belong to."""
    return int(name.rpartition("-")[2])
