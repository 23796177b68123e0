"""Who to ask: the shard map, and the links to the nodes in it.

Any node gives the map, which it has from the operator. A client asks for it again when a node says that it
does not lead a shard, or cannot be reached; of two maps the newer one is kept. Everything a client sends
carries the highest clock it has seen, so what it does after it has read something comes after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from time import monotonic
from typing import TypeVar

import motet.errors.operator
import motet.errors.shards  # noqa: F401 - so that these errors are known by their codes
from motet.client.calls import closed
from motet.client.cluster.refusals import expected, given_up, no_leader, refused
from motet.client.cluster.session import Session
from motet.client.link import Link, answer_seconds_max
from motet.core.clock.hlc import ZERO, Clock
from motet.core.streams.cluster_messages import (
    OperatorAnswer,
    OperatorRefused,
    OperatorRequest,
    ShardMap,
    ShardPlace,
    StreamPlace,
)
from motet.core.streams.messages import (
    DataAnswer,
    DataRequest,
    DescribeShard,
    GetShardMap,
    ShardDescribed,
    ShardMapIs,
)
from motet.errors import MotetError, NodeError, NoSuchShard, NoSuchStream, OutcomeUnknown
from motet.errors.operator import NotActive
from motet.errors.shards import NotLeader, Unavailable
from motet.format.frame import FrameKind
from motet.ids import Address, NodeId, RequestId, ShardName, StreamName

D = TypeVar("D", bound=DataAnswer)
O = TypeVar("O", bound=OperatorAnswer)  # noqa: E741
MakeData = Callable[[RequestId, Clock], DataRequest]
MakeOperator = Callable[[RequestId], OperatorRequest]

failover_seconds_max = 20.0
"""How long is waited for a shard to have a leader again."""

map_seconds_max = 2.0
pause_seconds_min, pause_seconds_max = 0.02, 0.3
"""Between two looks at the map while nothing has changed."""

replica_seconds_max = 1.5
"""How long one replica is waited for before another is asked."""


class Router:
    """The ways of one client into one cluster."""

    def __init__(self, endpoints: Sequence[str], name: str) -> None:
        nodes = {Address(endpoint): endpoint for endpoint in endpoints}
        #: what errors call the cluster
        self.name = name
        self._known = list(nodes)
        self._data: Link[DataAnswer] = Link(nodes, FrameKind.DATA, DataAnswer)
        self._operator: Link[OperatorAnswer] = Link(nodes, FrameKind.OPERATOR, OperatorAnswer)
        self._opened = AsyncExitStack()
        self._map: ShardMap | None = None
        #: what the map says of streams that are not deleted, and of all shards
        self._streams: dict[StreamName, StreamPlace] = {}
        self._places: dict[ShardName, ShardPlace] = {}
        self._refreshing: asyncio.Task[None] | None = None
        #: the highest clock seen
        self.clock = ZERO
        self.session = Session()
        self._is_closed = False
        self.on_map: Callable[[ShardMap], None] = lambda _: None  # told of every map that is taken

    async def start(self) -> None:
        await self._opened.enter_async_context(self._data)
        await self._opened.enter_async_context(self._operator)

    async def close(self) -> None:
        await self._data.idle(answer_seconds_max)
        await self._operator.idle(answer_seconds_max)
        self._is_closed = True
        await self._opened.aclose()

    def _check_open(self) -> None:
        """``NodeError`` after the end: who waits for a leader or an operator then waits for nobody."""
        if self._is_closed:
            raise closed(self.name)

    def see(self, clock: Clock) -> None:
        """Remember a clock that an answer has shown."""
        self.clock = max(self.clock, clock)

    def resume_after(self, clock: Clock) -> None:
        """Somebody else has seen everything up to here: so have we."""
        self.see(clock)
        self.session.resume_after(clock)

    # The map

    @property
    def map(self) -> ShardMap:
        """The newest map; ``NodeError`` before the first."""
        if self._map is None:
            raise NodeError(
                f"{self.name} has no shard map yet", hint="wait for an operator: `motet status`"
            )
        return self._map

    async def wait_for_map(self, seconds: float) -> None:
        """Have a first map; ``Unavailable`` if no node gives one in time."""
        deadline = asyncio.get_running_loop().time() + seconds
        await self.refresh()
        while self._map is None:
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(f"no operator has told the nodes of {self.name} a shard map yet")
            await asyncio.sleep(pause_seconds_min)
            await self.refresh()

    async def refresh(self) -> None:
        """Ask for the map; those who want that at once share one question."""
        self._check_open()
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
        await asyncio.shield(self._refreshing)

    async def _refresh(self) -> None:
        asked = [asyncio.ensure_future(self._ask_for_map(node)) for node in self._known]
        try:
            for answered in asyncio.as_completed(asked):
                found = await answered
                if found is not None and (self._map is None or found.version >= self._map.version):
                    self._take_map(found)
                    # One answer is enough: whoever needs a newer map asks again.
                    return
        finally:
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _ask_for_map(self, node: Address) -> ShardMap | None:
        try:
            answer = await self._data.ask(
                node, lambda n: GetShardMap(RequestId(n), self.clock), map_seconds_max
            )
        except MotetError:
            return None  # that node cannot help; another one may
        return answer.map if isinstance(answer, ShardMapIs) else None

    def _take_map(self, found: ShardMap) -> None:
        self._map = found
        self._streams = {
            each.definition.name: each for each in found.streams if not each.definition.is_deleted
        }
        self._places = {place.shard: place for each in found.streams for place in each.places}
        for place in found.nodes:
            node = Address(place.id)
            self._data.learn(node, place.native)
            self._operator.learn(node, place.native)
        self._known = [Address(place.id) for place in found.nodes] or self._known
        self.on_map(found)

    def data_nodes(self) -> dict[Address, str]:
        """Where the data nodes are, by the map at hand."""
        places = () if self._map is None else self._map.nodes
        return {Address(each.id): each.native for each in places if "data" in each.roles}

    def known_stream(self, name: StreamName) -> StreamPlace | None:
        """A stream and its shards, if the map at hand has it."""
        return self._streams.get(name)

    async def stream(self, name: StreamName) -> StreamPlace:
        """A stream and its shards; ``NoSuchStream`` if a fresh map does not have it."""
        for attempt in range(2):
            if attempt or self._map is None:
                await self.refresh()
            known = self._streams if self.map.streams else {}
            if name in known:
                return known[name]
        raise NoSuchStream(f"there is no stream {name!r}")

    async def until_known(self, name: StreamName, *, is_there: bool, seconds: float) -> None:
        """Wait until the map at hand has a stream that was created, or not any more one that was deleted.

        The operator pushes the map to the nodes a moment after it has answered.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            await self.refresh()
            if (name in self._streams) == is_there:
                return
            await asyncio.sleep(pause_seconds_min)

    async def until_clock(self, *, is_enabled: bool, seconds: float) -> None:
        """Wait until the map at hand has the setting of the clock, as the operator has said it is."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self.map.clock_enabled != is_enabled and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(pause_seconds_min)
            await self.refresh()

    def place(self, shard: ShardName) -> ShardPlace | None:
        """Who serves a shard, by the map at hand."""
        return self._places.get(shard)

    # Questions

    async def describe(self, shard: ShardName) -> ShardDescribed:
        """What the leader of a shard says about it."""
        return await self.ask_leader(
            shard,
            lambda request, clock: DescribeShard(request, clock, shard),
            ShardDescribed,
            may_repeat=True,
            seconds=answer_seconds_max,
        )

    def begin_with_leader(
        self, shard: ShardName, make: MakeData, seconds: float
    ) -> asyncio.Future[DataAnswer] | None:
        """Ask whoever leads the shard, once and without a task; None: nobody can be asked just now.

        ``ask_leader`` goes on from what comes of it. It leaves with ``flush``.
        """
        place, clock = self.place(shard), self.clock
        if place is None or place.leader is None:
            return None
        try:
            return self._data.begin(
                Address(place.leader),
                lambda n: make(RequestId(n), clock),
                seconds,
                self._still_leads(shard, place.leader),
            )
        except NodeError:
            return None

    def flush(self) -> None:
        """Send what was begun."""
        self._data.flush()

    async def ask_leader(
        self,
        shard: ShardName,
        make: MakeData,
        kind: type[D],
        *,
        may_repeat: bool,
        seconds: float,
        begun: asyncio.Future[DataAnswer] | None = None,
    ) -> D:
        """Ask whoever leads the shard; go on asking as leaders change, as long as that is safe.

        A refusal has changed nothing, so the next leader is asked. An answer that did not come is
        ``OutcomeUnknown``, unless the question may be repeated. ``NoSuchShard`` when the map has lost it.
        ``begun`` is the first attempt, if there was one already.
        """
        began, pause_seconds = monotonic(), pause_seconds_min
        why: MotetError
        lost: OutcomeUnknown | None = None
        while True:
            try:
                if begun is None:
                    return await self._ask_leader_once(shard, make, kind, seconds)
                first, begun = begun, None
                return expected(await first, kind, self._map)
            except TimeoutError:
                why = lost = OutcomeUnknown(f"no answer came within {seconds:g} s")
            except OutcomeUnknown as error:
                why = lost = error
            except (NotLeader, NoSuchShard, NodeError) as error:
                why = lost or error  # one that was asked before may have done it
            if lost is not None and not may_repeat:
                raise lost
            if self._is_closed or monotonic() > began + failover_seconds_max:
                raise given_up(why, kind, self._map, shard)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, pause_seconds_max)
            await self.refresh()
            if self.place(shard) is None:
                raise NoSuchShard("the shard is gone", hint="was its stream deleted?")

    def _ask_leader_once(
        self, shard: ShardName, make: MakeData, kind: type[D], seconds: float
    ) -> Awaitable[D]:
        place = self.place(shard)
        if place is None or place.leader is None:
            raise no_leader(self.map, shard, place)
        still_leads = self._still_leads(shard, place.leader)
        return self.ask_node(place.leader, make, kind, seconds, still_leads)

    def _still_leads(self, shard: ShardName, leader: NodeId) -> Callable[[], Awaitable[bool]]:
        async def still_leads() -> bool:
            await self.refresh()
            now = self.place(shard)
            return now is not None and now.leader == leader

        return still_leads

    async def ask_replicas(
        self, shard: ShardName, make: MakeData, kind: type[D], *, first: int
    ) -> D:
        """Ask any replica, beginning with this one; who does not answer is passed over."""
        place = self.place(shard)
        if place is None or not place.ensemble:
            await self.refresh()
            place = self.place(shard)
        why: MotetError = NoSuchShard("nobody holds the shard")
        if place is None or not place.ensemble:
            raise why
        first %= len(place.ensemble)
        for node in (*place.ensemble[first:], *place.ensemble[:first]):
            try:
                return await self.ask_node(node, make, kind, replica_seconds_max)
            except (NodeError, NoSuchShard, OutcomeUnknown) as error:
                why = error
        raise given_up(why, kind, self._map, shard)

    async def ask_node(
        self,
        node: NodeId,
        make: MakeData,
        kind: type[D],
        seconds: float = answer_seconds_max,
        is_worth_waiting: Callable[[], Awaitable[bool]] | None = None,
        times: int = 1,
    ) -> D:
        """Ask one node; the same message goes out so many times while no answer comes."""
        clock = self.clock
        answer = await self._data.ask(
            Address(node), lambda n: make(RequestId(n), clock), seconds, is_worth_waiting, times
        )
        return expected(answer, kind, self._map)

    async def ask_operator(
        self, make: MakeOperator, kind: type[O], seconds: float, *, may_repeat: bool = True
    ) -> O:
        """Ask the active operator, whoever that is by now.

        An answer that did not come is ``OutcomeUnknown``, unless the request may be repeated.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(seconds, failover_seconds_max)
        while True:
            self._check_open()
            for node in await self._operators():
                try:
                    answer = await self._ask_operator(node, make, seconds)
                except OutcomeUnknown:
                    if not may_repeat or loop.time() > deadline:
                        raise
                    continue
                if isinstance(answer, kind):
                    return answer
            if loop.time() > deadline:
                raise NodeError(
                    f"no operator of {self.name} is active", hint="is the keeper up? `motet status`"
                )
            await asyncio.sleep(pause_seconds_max)
            await self.refresh()

    async def _ask_operator(
        self, node: Address, make: MakeOperator, seconds: float
    ) -> OperatorAnswer | None:
        """None: this one is not active, or is not there."""
        before = None if self._map is None else self._map.operator

        async def may_be_active() -> bool:
            await self.refresh()
            return self._map is None or self._map.operator in (before, node)

        try:
            answer = await self._operator.ask(
                node, lambda n: make(RequestId(n)), seconds, may_be_active
            )
        except NodeError:
            return None
        if isinstance(answer, OperatorRefused):
            if answer.code == NotActive.code:
                return None
            raise refused(answer, self._map)
        return answer

    async def _operators(self) -> list[Address]:
        """Whom to try, the likeliest first."""
        if self._map is None:
            await self.refresh()
        if self._map is None:
            return list(self._known)
        first = Address(self._map.operator)
        others = [Address(n.id) for n in self._map.nodes if "operator" in n.roles]
        return [first, *(node for node in others if node != first)]
