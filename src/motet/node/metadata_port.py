"""A core's way to the keeper: a client that carries out what the core asks, one session after the other.

The core sends messages of :mod:`motet.core.metadata.messages` to ``METADATA``, and is told what came of them.
This port decides nothing about them. It begins a session, tells of it, and ends it when the keeper says that
it has expired, or when the keeper was not reached for as long as the session lasts; then it begins another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.errors import NoNode, SessionExpired, error_for
from motet.client.keeper.watches import Watch as WatchOnce
from motet.core.machine import Message
from motet.core.metadata import zookeeper
from motet.core.metadata.messages import (
    METADATA,
    Changed,
    Conflict,
    Deposed,
    Elected,
    Failed,
    MetadataMessage,
    MetadataRequest,
    Read,
    ReadDone,
    SessionBegun,
    SessionEnded,
    SessionOver,
    Stand,
    Standing,
    Unknown,
    Watch,
    Watching,
    WatchOf,
    Write,
    Written,
)
from motet.errors import MotetError, OutcomeUnknown
from motet.format.zookeeper.messages import Acl
from motet.ids import Address, RequestId, SessionId, Zxid
from motet.node.logs import logger

again_seconds = 0.5
"""Between two attempts to have a session."""

leave_seconds_max = 2.0
"""How long a goodbye to the keeper may take."""

Tell = Callable[[Message], None]
"""Hands a message to the machine, as from ``METADATA``."""

OpenSession = Callable[[], AbstractAsyncContextManager[KeeperClient]]

UntilSilent = Callable[[str], Awaitable[None]]
"""Comes back when the candidate of this name does not answer any more."""


class MetadataPort:
    """A ``LocalPort``, from ``start`` to ``stop``.

    ``roots`` are made if they are not there, with all above them, before the first request of a session is
    taken; ``prepare`` is called after that. Nodes are created with ``acl``.
    """

    def __init__(
        self,
        open_session: OpenSession,
        *,
        acl: tuple[Acl, ...],
        roots: Sequence[str] = (),
        prepare: Callable[[KeeperClient], Awaitable[None]] | None = None,
        until_silent: UntilSilent | None = None,
    ) -> None:
        self._open_session = open_session
        self._acl, self._roots, self._prepare = acl, roots, prepare
        self._until_silent = until_silent
        self._keeper: KeeperClient | None = None
        self._queue: list[MetadataRequest] = []
        #: of this session: it ends them
        self._tasks: set[asyncio.Task[None]] = set()
        self._life: asyncio.Task[None] | None = None

    # What the driver calls

    def takes(self, to: Address) -> bool:
        return to == METADATA

    def send(self, _to: Address, message: Message) -> None:
        assert isinstance(message, MetadataRequest)
        self._queue.append(message)

    def flush(self) -> None:
        queue, self._queue = self._queue, []
        for request in queue:
            if self._keeper is None or self._keeper.session != request.session:
                asyncio.get_running_loop().call_soon(self._tell, SessionOver(request.request))
            else:
                self._begin(self._carry_out(self._keeper, request))

    # Life

    def start(self, tell: Tell) -> None:
        self._tell = tell
        self._life = asyncio.get_running_loop().create_task(self._live())

    async def stop(self) -> None:
        """End the session, at once if the keeper can be reached soon; else it is left to expire."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.wait([self._life], timeout=leave_seconds_max)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self) -> None:
        while True:
            try:
                async with self._session() as keeper:
                    await _until_over(keeper)
            except MotetError as error:
                logger.info("metadata_without_keeper", extra={"fields": {"why": str(error)}})
            await asyncio.sleep(again_seconds)

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[KeeperClient]:
        async with self._open_session() as keeper:
            for path in self._roots:
                await keeper.ensure_path(path, acl=self._acl)
            if self._prepare is not None:
                await self._prepare(keeper)
            session = SessionId(keeper.session)
            self._keeper = keeper
            self._tell(SessionBegun(session))
            try:
                yield keeper
            finally:
                self._keeper = None
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                self._tell(SessionEnded(session))

    # Requests

    async def _carry_out(self, keeper: KeeperClient, request: MetadataRequest) -> None:
        try:
            if isinstance(request, Watch):
                await self._watch(keeper, request)
            elif isinstance(request, Stand):
                await self._stand(keeper, request)
            else:
                self._tell(await self._ask(keeper, request))
        except SessionExpired:
            self._tell(SessionOver(request.request))
        except OutcomeUnknown:
            self._tell(Unknown(request.request))
        except MotetError as error:
            self._tell(_failed(request.request, error))

    async def _ask(self, keeper: KeeperClient, request: MetadataRequest) -> MetadataMessage:
        number = request.request
        if isinstance(request, Read):
            asked = zookeeper.multi_read(request.operations)
            zxid, results = await keeper.ask_multi(asked)
            error = zookeeper.unreadable(results)
            if error is not None:
                return _failed(number, error_for(error, asked, is_write=False))
            return ReadDone(number, zxid, zookeeper.read_results(request.operations, results))
        assert isinstance(request, Write), "every request has its branch"
        multi = zookeeper.multi(request.operations, self._acl)
        zxid, results = await keeper.ask_multi(multi)
        refused = zookeeper.refused(results)
        if refused is None:
            return Written(number, zxid, zookeeper.write_results(results))
        index, code = refused
        if code not in zookeeper.REFUSALS:
            raise error_for(code, multi.operations[index], is_write=True)
        return Conflict(number, index, zookeeper.REFUSALS[code])

    # Watches

    async def _watch(self, keeper: KeeperClient, request: Watch) -> None:
        """Each change is told after the next watches are set, so that none is missed (M5)."""
        _, watches = await _set_watches(keeper, request.path, request.of)
        self._tell(Watching(request.request))
        with contextlib.suppress(MotetError):  # the session is over, which is told by itself
            while True:
                await _any_fired(watches)
                zxid, watches = await _set_watches(keeper, request.path, request.of)
                self._tell(Changed(request.session, request.path, zxid))

    # Elections

    async def _stand(self, keeper: KeeperClient, request: Stand) -> None:
        path, name = request.path, request.name
        await keeper.ensure_path(path, acl=self._acl)
        entry = await keeper.create(
            f"{path}/{name}-", name.encode(), acl=self._acl, ephemeral=True, sequential=True
        )
        self._tell(Standing(request.request, entry))
        with contextlib.suppress(MotetError):  # the session is over, which is told by itself
            await self._run_for_office(keeper, request, entry)
            logger.info("metadata_deposed", extra={"fields": {"entry": entry}})
            self._tell(Deposed(request.session, path))

    async def _run_for_office(self, keeper: KeeperClient, request: Stand, entry: str) -> None:
        """Come back when the entry is gone."""
        path, mine = request.path, entry.rpartition("/")[2]
        await _clear_former(keeper, path, request.name, mine)
        while True:
            names = sorted(await keeper.children(path), key=_number)
            if mine not in names:
                return
            if names[0] == mine:
                break
            await self._until_gone(keeper, path, names[names.index(mine) - 1])
        logger.info("metadata_elected", extra={"fields": {"entry": entry}})
        self._tell(Elected(request.session, path, entry))
        while True:
            lost = WatchOnce()
            if await keeper.exists(entry, lost) is None:
                return
            await lost

    async def _until_gone(self, keeper: KeeperClient, path: str, name: str) -> None:
        """Wait until the entry before ours is gone; remove it if its candidate does not answer."""
        gone = WatchOnce()
        if await keeper.exists(f"{path}/{name}", gone) is None:
            return
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(gone.wait())]
        if self._until_silent is not None:
            waits.append(asyncio.ensure_future(self._depose(keeper, path, name)))
        try:
            await waits[0]
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _depose(self, keeper: KeeperClient, path: str, name: str) -> None:
        assert self._until_silent is not None
        await self._until_silent(_candidate(name))
        logger.info("metadata_candidate_silent", extra={"fields": {"entry": f"{path}/{name}"}})
        with contextlib.suppress(MotetError):  # gone by itself, or the session will tell
            await keeper.delete(f"{path}/{name}")


async def _until_over(keeper: KeeperClient) -> None:
    """Come back when the session has expired, or must have, since nobody was reached for so long."""
    timeout_seconds = keeper.timeout_ms / 1000
    unreached_seconds = 0.0
    while not keeper.is_expired and unreached_seconds < timeout_seconds:
        step_seconds = timeout_seconds / 4
        await asyncio.sleep(step_seconds)
        unreached_seconds = 0.0 if keeper.is_connected else unreached_seconds + step_seconds


async def _set_watches(
    keeper: KeeperClient, path: str, of: WatchOf
) -> tuple[Zxid, list[WatchOnce]]:
    """A watch for the node, for the names below it, or for those and each node below it; and since when."""
    there = WatchOnce()
    if of is WatchOf.NODE:
        zxid, _ = await keeper.exists_at(path, there)
        return zxid, [there]
    if of is WatchOf.CHILDREN:
        return await _watch_children(keeper, path)
    names = WatchOnce()
    try:
        found = await keeper.children(path, names)
    except NoNode:
        if await keeper.exists(path, there) is None:
            return Zxid(0), [there]
        return await _set_watches(keeper, path, of)
    each = [WatchOnce() for _ in found]
    await asyncio.gather(
        *(keeper.exists(f"{path}/{name}", one) for name, one in zip(found, each, strict=True))
    )
    return Zxid(0), [names, *each]


async def _watch_children(keeper: KeeperClient, path: str) -> tuple[Zxid, list[WatchOnce]]:
    """Without reading the names: after each of ten thousand inserts that would be ten thousand of them."""
    while True:
        names, there = WatchOnce(), WatchOnce()
        zxid = await keeper.watch_children(path, names)
        if names.event is None:
            return zxid, [names]
        if await keeper.exists(path, there) is None:
            return Zxid(0), [there]


async def _any_fired(watches: list[WatchOnce]) -> None:
    waits = [asyncio.ensure_future(watch.wait()) for watch in watches]
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _clear_former(keeper: KeeperClient, path: str, name: str, mine: str) -> None:
    """Remove what former processes of this candidate left, which would stay until their sessions expire.

    There is one process for the folder of a node, so those are over. Whoever waits for such an entry finds
    that its candidate answers, since this one does, and so would wait for the session, too.
    """
    for each in await keeper.children(path):
        if _candidate(each) == name and each != mine:
            with contextlib.suppress(NoNode):
                await keeper.delete(f"{path}/{each}")


def _candidate(name: str) -> str:
    """Whose entry it is."""
    return name.rpartition("-")[0]


def _number(name: str) -> int:
    """Entries are sorted by the number that the keeper gave them, whoever they belong to."""
    return int(name.rpartition("-")[2])


def _failed(request: RequestId, error: MotetError) -> Failed:
    return Failed(request, error.code, error.what, error.advice)
