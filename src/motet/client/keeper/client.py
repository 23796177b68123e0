"""The client of a keeper, over ZooKeeper's wire: it runs against a keeper of ours and a ZooKeeper alike.

::

    async with KeeperClient("127.0.0.1:7401,127.0.0.1:7411,127.0.0.1:7421") as keeper:
        await keeper.ensure_path("/jobs")
        path = await keeper.create("/jobs/job-", b"what to do", sequential=True)
        data, stat = await keeper.get(path)
        await keeper.set(path, b"done", version=stat.version)

Any number of calls may be under way at once; they are done in the order in which they were made. A call takes
at most ``seconds``, also while there is no connection. What comes of one that goes wrong:

Q1  An error below ``KeeperError`` is what the keeper answered: nothing was changed.
Q2  ``OutcomeUnknown`` is a write that was sent and not answered: it may have been done. Read before you try
    again.
Q3  ``NodeError`` is a write that was not sent, or a read without an answer: nothing was done.
Q4  ``SessionExpired`` is everything after the session is over, until ``renew`` begins another one.

Reads are linearizable: what any client was told is done when a read is called is in its answer. A keeper of
ours answers so by itself. A ZooKeeper answers with what the server at hand has, and a sync is sent in front
of the reads of each write to the socket; ``reads="local"`` does without. (A sync asks the leader, which does
not make sure that it still is the leader: a ZooKeeper has nothing stronger.)

``watch`` is any function that takes a ``WatchEvent``, or a ``Watch``, which can be awaited: see
:mod:`motet.client.keeper.watches`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self, TypeVar

from motet.client.keeper.dialer import Connect
from motet.client.keeper.errors import KeeperTooLarge, NodeExists, NoNode, error_for, multi_failed
from motet.client.keeper.session import Session
from motet.client.keeper.watches import Watcher
from motet.client.link import parse_endpoint
from motet.errors import BadInput, MotetError
from motet.format.zookeeper.messages import (
    ANY_VERSION,
    Acl,
    AclResult,
    AnyResult,
    Auth,
    Check,
    Children,
    Children2,
    Create,
    Create2,
    Created,
    Created2,
    CreateFlags,
    Data,
    Delete,
    ErrorCode,
    Exists,
    Failed,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    MultiRead,
    MultiResult,
    Nothing,
    Request,
    Result,
    SetAcl,
    SetData,
    Stat,
    StatResult,
    Sync,
    Synced,
)
from motet.format.zookeeper.sizes import OURS, ZOOKEEPER, WriteLimits, why_too_large
from motet.ids import Zxid

Server = Literal["motet", "zookeeper"]
Reads = Literal["linearizable", "local"]

OPEN = (Acl(31, "world", "anyone"),)
"""Everybody may do everything."""

seconds_default = 10.0
timeout_ms_default = 10_000

_limits: dict[Server, WriteLimits] = {"motet": OURS, "zookeeper": ZOOKEEPER}

Operation = Create | Create2 | Delete | SetData | Check
"""What can be in a multi."""
Outcome = str | tuple[str, Stat] | Stat | None
"""Of one operation of a multi: the path of a create, with its stat of a create2, the stat of a set."""
ReadOperation = GetData | GetChildren
Read = tuple[bytes, Stat] | list[str] | MotetError
"""Of one read of a multi_read: data and stat, the names of the children, or why there is neither."""

R = TypeVar("R", bound=Result)


class KeeperClient:
    """One session with a keeper; use it as ``async with``.

    ``connect`` makes connections in another way than over TCP, and is given the hosts and ports. A multi that
    exceeds ``limits`` is refused before it is sent; they are those of the server as it comes, so name others
    where ``keeper.request_bytes_max`` is another.
    """

    def __init__(
        self,
        endpoints: str,
        *,
        timeout_ms: int = timeout_ms_default,
        seconds: float = seconds_default,
        reads: Reads = "linearizable",
        server: Server = "motet",
        connect: Connect | None = None,
        limits: WriteLimits | None = None,
    ) -> None:
        if server not in _limits:
            raise BadInput(f"server {server!r}", hint='it is "motet" or "zookeeper"')
        if reads not in ("linearizable", "local"):
            raise BadInput(f"reads {reads!r}", hint='they are "linearizable" or "local"')
        if timeout_ms <= 0:
            raise BadInput(f"a session of {timeout_ms} ms", hint="give it some seconds")
        self._seconds = seconds
        self._limits = _limits[server] if limits is None else limits
        self._session = Session(
            [parse_endpoint(each.strip()) for each in endpoints.split(",")],
            timeout_ms,
            request_bytes_max=self._limits.request_bytes_max,
            needs_sync=server == "zookeeper" and reads == "linearizable",
            connect=connect,
        )

    # The session

    async def __aenter__(self) -> Self:
        await self._session.begin(self._seconds)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session, and with it its ephemeral nodes. A second time is fine."""
        await self._session.close(self._seconds)

    async def renew(self) -> None:
        """Begin a new session after the old one has expired; while that lives, nothing happens."""
        await self._session.begin_anew(self._seconds)

    @property
    def session(self) -> int:
        """Its number, which ephemeral nodes have in their stat."""
        return self._session.number

    @property
    def timeout_ms(self) -> int:
        """What the server has granted."""
        return self._session.timeout_ms

    @property
    def is_connected(self) -> bool:
        return self._session.is_connected

    @property
    def is_expired(self) -> bool:
        return self._session.is_expired

    # Writes

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        acl: Sequence[Acl] = OPEN,
        ephemeral: bool = False,
        sequential: bool = False,
        seconds: float | None = None,
    ) -> str:
        """Make a node; its path, which for a sequential one has a number at the end."""
        request = Create(path, data, tuple(acl), flags(ephemeral, sequential))
        return (await self._ask(Created, request, seconds)).path

    async def create2(
        self,
        path: str,
        data: bytes = b"",
        *,
        acl: Sequence[Acl] = OPEN,
        ephemeral: bool = False,
        sequential: bool = False,
        seconds: float | None = None,
    ) -> tuple[str, Stat]:
        """Make a node; its path and its stat."""
        request = Create2(path, data, tuple(acl), flags(ephemeral, sequential))
        created = await self._ask(Created2, request, seconds)
        return created.path, created.stat

    async def delete(
        self, path: str, version: int = ANY_VERSION, *, seconds: float | None = None
    ) -> None:
        await self._ask(Nothing, Delete(path, version), seconds)

    async def set(
        self, path: str, data: bytes, version: int = ANY_VERSION, *, seconds: float | None = None
    ) -> Stat:
        """Give a node other data; its stat."""
        return (await self._ask(StatResult, SetData(path, data, version), seconds)).stat

    async def set_acl(
        self,
        path: str,
        acl: Sequence[Acl],
        version: int = ANY_VERSION,
        *,
        seconds: float | None = None,
    ) -> Stat:
        """``version`` is that of the ACL: ``stat.aversion``."""
        return (await self._ask(StatResult, SetAcl(path, tuple(acl), version), seconds)).stat

    async def multi(
        self, operations: Sequence[Operation], *, seconds: float | None = None
    ) -> list[Outcome]:
        """All of these at once, or none: then ``KeeperMultiFailed`` says which one was refused, and why. More
        than one write may hold is ``KeeperTooLarge``, before anything is sent."""
        request = Multi(tuple(operations))
        _, results = await self.ask_multi(request, seconds=seconds)
        for index, result in enumerate(results):
            if isinstance(result, Failed) and result.error:
                # Those before it have error 0, those behind it one that says nothing.
                error = error_for(result.error, request.operations[index], is_write=True)
                raise multi_failed(index, error)
        return [_outcome(result) for result in results]

    async def ensure_path(
        self, path: str, *, acl: Sequence[Acl] = OPEN, seconds: float | None = None
    ) -> None:
        """Have this node and all above it; those that are there stay as they are."""
        if await self.exists(path, seconds=seconds) is not None:
            return
        parts = path.strip("/").split("/")
        paths = ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
        creates = (self.create(each, acl=acl, seconds=seconds) for each in paths)
        # All at once: the server takes them in this order. Of those above, only that they are there counts.
        *_, last = await asyncio.gather(*creates, return_exceptions=True)
        if isinstance(last, BaseException) and not isinstance(last, NodeExists):
            raise last

    # Reads

    async def exists(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> Stat | None:
        """The stat of a node, None if there is none; a watch is set in either case."""
        request = Exists(path, watch is not None)
        try:
            return (await self._ask(StatResult, request, seconds, watch)).stat
        except NoNode:
            return None

    async def get(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> tuple[bytes, Stat]:
        """The data of a node and its stat; null data is empty. Without a node no watch is set."""
        found = await self._ask(Data, GetData(path, watch is not None), seconds, watch)
        return found.data or b"", found.stat

    async def children(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> list[str]:
        """The names of the children of a node, in no order."""
        request = GetChildren(path, watch is not None)
        return list((await self._ask(Children, request, seconds, watch)).children)

    async def watch_children(self, path: str, watch: Watcher, seconds: float | None = None) -> Zxid:
        """Watch names without reading them: after the zxid, or at once if the node is not there."""
        return await self._session.watch_children(path, watch, seconds or self._seconds)

    async def exists_at(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> tuple[Zxid, Stat | None]:
        """As ``exists``, and the zxid at which it was so."""
        request = Exists(path, watch is not None)
        try:
            zxid, found = await self._ask_at(StatResult, request, seconds, watch)
        except NoNode as error:
            return error.answered_at, None
        return zxid, found.stat

    async def get_at(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> tuple[Zxid, bytes, Stat]:
        """As ``get``, and the zxid at which it was so; ``NoNode`` has it as ``zxid``."""
        request = GetData(path, watch is not None)
        zxid, found = await self._ask_at(Data, request, seconds, watch)
        return zxid, found.data or b"", found.stat

    async def children_at(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> tuple[Zxid, list[str]]:
        """As ``children``, and the zxid at which it was so; ``NoNode`` has it as ``zxid``."""
        request = GetChildren(path, watch is not None)
        zxid, found = await self._ask_at(Children, request, seconds, watch)
        return zxid, list(found.children)

    async def children2(
        self, path: str, watch: Watcher | None = None, *, seconds: float | None = None
    ) -> tuple[list[str], Stat]:
        """The names of the children of a node, and its stat."""
        request = GetChildren2(path, watch is not None)
        found = await self._ask(Children2, request, seconds, watch)
        return list(found.children), found.stat

    async def get_acl(
        self, path: str, *, seconds: float | None = None
    ) -> tuple[tuple[Acl, ...], Stat]:
        found = await self._ask(AclResult, GetAcl(path), seconds)
        return found.acl, found.stat

    async def multi_read(
        self, reads: Sequence[str | ReadOperation], *, seconds: float | None = None
    ) -> tuple[Zxid, list[Read]]:
        """The zxid at which all of these were read, and what each found; a path alone stands for its data."""
        operations = tuple(
            GetData(each, False) if isinstance(each, str) else each for each in reads
        )
        zxid, results = await self.ask_multi(MultiRead(operations), seconds=seconds)
        return zxid, [_read(*each) for each in zip(operations, results, strict=True)]

    async def ask_multi(
        self, request: Multi | MultiRead, *, seconds: float | None = None
    ) -> tuple[Zxid, tuple[AnyResult, ...]]:
        """The zxid of a multi, or the one at which a multi_read was read, and the results as they came."""
        too_large = why_too_large(request, self._limits) if isinstance(request, Multi) else None
        if too_large is not None:
            raise KeeperTooLarge(f"{too_large}; nothing was done")
        zxid, result = await self._ask_at(MultiResult, request, seconds)
        return zxid, result.results

    async def sync(self, path: str = "/", *, seconds: float | None = None) -> None:
        """Wait until the server at hand has all that was done before."""
        await self._ask(Synced, Sync(path), seconds)

    async def add_auth(self, scheme: str, auth: bytes, *, seconds: float | None = None) -> None:
        """Be this identity too, from now on and over every connection of the session."""
        await self._ask(Nothing, Auth(scheme, auth), seconds)

    async def _ask(
        self,
        kind: type[R],
        request: Request,
        seconds: float | None,
        watch: Watcher | None = None,
    ) -> R:
        return (await self._ask_at(kind, request, seconds, watch))[1]

    async def _ask_at(
        self,
        kind: type[R],
        request: Request,
        seconds: float | None,
        watch: Watcher | None = None,
    ) -> tuple[Zxid, R]:
        limit_seconds = self._seconds if seconds is None else seconds
        zxid, result = await self._session.ask_at(request, limit_seconds, watch)
        assert isinstance(result, kind), "the codec reads an answer as that of its request"
        return zxid, result


def flags(ephemeral: bool, sequential: bool) -> int:
    """As a ``Create`` in a multi has them."""
    return ephemeral * CreateFlags.EPHEMERAL | sequential * CreateFlags.SEQUENTIAL


def _outcome(result: AnyResult) -> Outcome:
    if isinstance(result, Created):
        return result.path
    if isinstance(result, Created2):
        return result.path, result.stat
    return result.stat if isinstance(result, StatResult) else None


def _read(operation: ReadOperation, result: AnyResult) -> Read:
    if isinstance(result, Data):
        return result.data or b"", result.stat
    if isinstance(result, Children):
        return list(result.children)
    number = result.error if isinstance(result, Failed) else ErrorCode.SYSTEM_ERROR
    return error_for(number, operation, is_write=False)
