"""Requests about tables: which node is asked, which one instead, and how a call ends.

A ``NodeRequest`` goes to any data node. A ``TableRequest`` goes to a replica of its shard. A node that cannot
serve just now has changed nothing, so another one is asked, and all of them again until a deadline. An answer
that does not come is ``OutcomeUnknown``, unless the request may be repeated: reading may be, creating what
may be there already, and whatever has a token or a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import motet.errors.operator
import motet.errors.shards
import motet.errors.tables  # noqa: F401 - so that these errors are known by their codes
from motet.client.calls import closed
from motet.client.cluster.session import UnderWay
from motet.client.link import Link, answer_seconds_max
from motet.core.machine import Message
from motet.core.mergetree.conversation import TablesAnswer
from motet.core.mergetree.messages import (
    FindVersion,
    NodeRefused,
    NodeRequest,
    ReplicaPlace,
    TableRefused,
    TableRequest,
)
from motet.errors import (
    DiskFull,
    MotetError,
    NodeError,
    NoSuchTable,
    OutcomeUnknown,
    TokenExpired,
    error_of,
)
from motet.errors.operator import NoNodeToPlaceOn
from motet.errors.shards import Unavailable
from motet.errors.tables import TableBusy, TableMoved, TableReadOnly
from motet.ids import Address, RequestId, TableId

A = TypeVar("A", bound=Message)
R = TypeVar("R")
MakeNodeRequest = Callable[[RequestId], NodeRequest]
MakeTableRequest = Callable[[RequestId], TableRequest]

retry_seconds_max = 20.0
"""How long a call looks for a node that serves it."""

node_seconds_max = 4.0
"""How long one node may take to answer what it can answer at once, if there is another one."""

replica_seconds_max = 15.0
"""How long a replica may take: it waits for quorums and parts, a little shorter than this."""

silent_seconds_max = 2.0
"""How long a node may be silent that has something to answer, if there is another: it may have stopped."""

asked_last_seconds = 4.0
"""How long others are asked before a node that was silent; until then it is known to the keeper, too."""

NOTHING = TableId("-")
"""No table has this id, so a question about it is answered at once and costs nothing."""

pause_seconds_min, pause_seconds_max = 0.02, 0.5
"""Between two rounds of asking."""

PASSING = (NodeError, TableReadOnly, TableBusy, NoNodeToPlaceOn)
"""What another node may not say, or the same one a moment later. These very classes, not what is below."""


SAYING_NOTHING = (NodeError, OutcomeUnknown, DiskFull, TableMoved, NoSuchTable, TokenExpired)
"""What a later attempt may be told whether or not an earlier one of the same token was done, or will be; of
reads the first two alone."""


class Told(NamedTuple, Generic[A]):
    """An answer, and the node that gave it."""

    node: Address
    answer: A


class TableAttempts:
    """The attempts of one call: whether another one may follow the last."""

    def __init__(self, seconds: float, *, may_repeat: bool, is_read: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + seconds
        self._may_repeat = may_repeat
        self._saying_nothing = SAYING_NOTHING[:2] if is_read else SAYING_NOTHING
        self._pause_seconds = pause_seconds_min
        #: an attempt that may have been done
        self.unknown: OutcomeUnknown | None = None
        #: how the last one failed
        self.last: MotetError = NodeError("no data node is known", hint="is one running?")

    def failed(self, error: MotetError) -> None:
        """An attempt has ended in this error; it is raised if another attempt would not help."""
        self.last = error
        if isinstance(error, OutcomeUnknown):
            self.unknown = error
            if not self._may_repeat:
                raise error
        elif type(error) not in PASSING and not isinstance(error, DiskFull):
            raise self.final()

    def final(self) -> MotetError:
        """What the call ends in: an attempt that may have been done yet outweighs what says nothing of it."""
        says_nothing = isinstance(self.last, self._saying_nothing)
        return self.unknown if self.unknown is not None and says_nothing else self.last

    async def pause(self) -> None:
        """Wait a little before all are asked again; the error is raised at the deadline.

        Where there is no room there is none in a moment either.
        """
        if (
            isinstance(self.last, DiskFull)
            or self._loop.time() + self._pause_seconds > self._deadline
        ):
            raise self.final()
        await asyncio.sleep(self._pause_seconds)
        self._pause_seconds = min(2 * self._pause_seconds, pause_seconds_max)


async def all_of(works: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """What comes of each; the first error ends the others and is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def nothing_new() -> None:
    """The nodes of a folder are always the same."""


class TableLink:
    """The ways to the data nodes of one database.

    ``nodes`` gives those that are known with their native endpoints, which are empty within one process;
    ``refresh`` has them looked up again.
    """

    def __init__(
        self,
        link: Link[TablesAnswer],
        name: str,
        nodes: Callable[[], Mapping[Address, str]],
        refresh: Callable[[], Awaitable[None]] = nothing_new,
    ) -> None:
        self._link = link
        #: what errors call the database
        self.name = name
        self._nodes = nodes
        self._refresh = refresh
        #: where each node is that was heard of: its native endpoint
        self._endpoints: dict[Address, str] = {}
        #: who has answered last is asked first
        self._first: Address | None = None
        #: who has stopped answering, and until when others are asked before
        self._silent_until: dict[Address, float] = {}
        self._is_closing = False
        #: what closing waits for
        self.under_way = UnderWay()

    async def close(self) -> None:
        """Ask nothing any more, and let what is under way be answered."""
        self._is_closing = True
        await self.under_way.until_none(replica_seconds_max)
        await self._link.idle(answer_seconds_max)

    def check_open(self) -> None:
        """``NodeError`` once it is closed."""
        if self._is_closing:
            raise closed(self.name)

    def endpoint_of(self, node: Address) -> str:
        """The native endpoint of a node; empty for that of this process."""
        return self._endpoints.get(node, "")

    def node_of(self, place: ReplicaPlace, told_by: Address) -> Address:
        """Where a replica is asked: one without an endpoint is at the node that told of it."""
        return self._learn(Address(place.node), place.endpoint) if place.endpoint else told_by

    def _learn(self, node: Address, endpoint: str) -> Address:
        if endpoint and self._endpoints.get(node) != endpoint:
            self._link.learn(node, endpoint)
        self._endpoints[node] = endpoint
        return node

    async def ask_any(
        self,
        make: MakeNodeRequest,
        kind: type[A],
        *,
        may_repeat: bool = True,
        is_read: bool = False,
        node_seconds: float = node_seconds_max,
        seconds: float = retry_seconds_max,
    ) -> Told[A]:
        """Ask data nodes one after the other until one answers."""
        attempts = TableAttempts(seconds, may_repeat=may_repeat, is_read=is_read)
        while True:
            for node in self._in_turn():
                try:
                    told = Told(node, await self.ask(node, make, kind, node_seconds))
                except MotetError as error:
                    self.check_open()
                    attempts.failed(error)
                else:
                    self._first = node
                    return told
            await attempts.pause()
            with suppress(NodeError):
                await self._refresh()

    async def read_any(self, make: MakeNodeRequest, kind: type[A]) -> Told[A]:
        """The same for what changes nothing, and so never ends as unknown."""
        try:
            return await self.ask_any(make, kind, is_read=True)
        except OutcomeUnknown as error:
            raise Unavailable(f"{self.name} cannot be read: {error.what}") from None

    async def ask(
        self,
        node: Address,
        make: MakeNodeRequest | MakeTableRequest,
        kind: type[A],
        seconds: float = replica_seconds_max,
    ) -> A:
        """Ask one node, a single time."""
        self.check_open()
        is_worth_waiting = partial(self._still_answers, node) if len(self._nodes()) > 1 else None
        answer: Message = await self._link.ask(
            node, lambda n: make(RequestId(n)), seconds, is_worth_waiting
        )
        self._silent_until.pop(node, None)
        if isinstance(answer, TableRefused | NodeRefused):
            raise error_of(answer.code, answer.what, answer.advice)
        if not isinstance(answer, kind):
            raise NodeError(f"the node answered with {type(answer).__name__}, not {kind.__name__}")
        return answer

    async def _still_answers(self, node: Address) -> bool:
        """Whether a node that takes its time is there at all; ``OutcomeUnknown`` if it is not."""
        try:
            await self._link.ask(
                node, lambda n: FindVersion(NOTHING, 0, RequestId(n), 0), silent_seconds_max
            )
        except (NodeError, OutcomeUnknown):
            until = asyncio.get_running_loop().time() + asked_last_seconds
            self._silent_until[node] = until
            raise OutcomeUnknown(f"{node} has stopped answering") from None
        return True

    def silent_last(self, nodes: Iterable[Address]) -> list[Address]:
        """These nodes, those that have stopped answering behind the others."""
        now = asyncio.get_running_loop().time()
        return sorted(nodes, key=lambda node: self._silent_until.get(node, now) > now)

    async def all_nodes(self) -> list[Address]:
        """The data nodes there are now; those that are known if nobody can tell."""
        with suppress(NodeError):
            await self._refresh()
        return self._known()

    def _known(self) -> list[Address]:
        return [self._learn(node, endpoint) for node, endpoint in self._nodes().items()]

    def _in_turn(self) -> list[Address]:
        nodes = self._known()
        if self._first in nodes:
            nodes.remove(self._first)
            nodes.insert(0, self._first)
        return self.silent_last(nodes)
