"""A core that uses the keeper by the messages of ``core/metadata``, on a real keeper or a simulated one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from tests.contract.keeper.world import PATIENCE_SECONDS, World

from motet.client.keeper.client import OPEN
from motet.core.machine import Message
from motet.core.metadata.messages import (
    METADATA,
    Create,
    MetadataAnswer,
    MetadataRequest,
    SessionBegun,
    SessionEnded,
    Write,
    WriteOperation,
)
from motet.ids import RequestId, SessionId
from motet.node.metadata_port import MetadataPort
from motet.sim.metadata_tree import MetadataTree

Made = Callable[[RequestId, SessionId], MetadataRequest]
M = TypeVar("M", bound=Message)


class Core(Protocol):
    """What a test needs of one."""

    #: of the session that has begun last
    session: SessionId
    told: list[Message]

    async def begin(self) -> None: ...

    async def end(self) -> None: ...

    async def ask(self, made: Made) -> MetadataAnswer: ...

    async def hear(self, kind: type[M]) -> M: ...


class PortCore:
    """One at a port to a real keeper."""

    def __init__(self, world: World) -> None:
        timeout_ms = world.server.timeout_ms_min
        self._port = MetadataPort(
            lambda: world.client(timeout_ms=timeout_ms), acl=OPEN, roots=(world.root,)
        )
        self.session = SessionId(0)
        self.told: list[Message] = []
        self._requests = 0
        self._news = asyncio.Event()

    def _tell(self, message: Message) -> None:
        self.told.append(message)
        self._news.set()

    async def begin(self) -> None:
        self._port.start(self._tell)
        self.session = (await self.hear(SessionBegun)).session

    async def end(self) -> None:
        await self._port.stop()
        assert await self.hear(SessionEnded) == SessionEnded(self.session)

    async def ask(self, made: Made) -> MetadataAnswer:
        self._requests += 1
        number = RequestId(self._requests)
        self._port.send(METADATA, made(number, self.session))
        self._port.flush()
        found = await self._find(lambda m: isinstance(m, MetadataAnswer) and m.request == number)
        assert isinstance(found, MetadataAnswer)
        return found

    async def hear(self, kind: type[M]) -> M:
        found = await self._find(lambda m: isinstance(m, kind))
        assert isinstance(found, kind)
        return found

    async def _find(self, is_wanted: Callable[[Message], bool]) -> Message:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for message in self.told:
                    if is_wanted(message):
                        self.told.remove(message)
                        return message
                self._news.clear()
                await self._news.wait()


class Clock:
    """The time of a simulated keeper."""

    now_ms = 1_700_000_000_000


class TreeCore:
    """One at a simulated keeper, which is shared by those of a test."""

    def __init__(self, tree: MetadataTree, clock: Clock, cores: dict[SessionId, TreeCore]) -> None:
        self._tree, self._clock, self._cores = tree, clock, cores
        self.session = SessionId(0)
        self.told: list[Message] = []
        self._requests = 0

    async def begin(self) -> None:
        self.session = self._tree.begin_session(self._clock.now_ms)
        self._cores[self.session] = self

    async def end(self) -> None:
        self._tree.end_session(self.session, self._clock.now_ms)
        self._pass_on()

    async def ask(self, made: Made) -> MetadataAnswer:
        self._requests += 1
        request = made(RequestId(self._requests), self.session)
        answer = self._tree.answer(request, self._clock.now_ms)
        self._pass_on()
        assert isinstance(answer, MetadataAnswer)
        return answer

    async def hear(self, kind: type[M]) -> M:
        for message in self.told:
            if isinstance(message, kind):
                self.told.remove(message)
                return message
        raise AssertionError(f"{kind.__name__} was not told; {self.told} was")

    def _pass_on(self) -> None:
        for session, message in self._tree.take_news():
            self._cores[session].told.append(message)


class Stage:
    """The cores of one test, a place in the tree for it, and a way to let time pass there."""

    def __init__(
        self, root: str, make: Callable[[], Core], wait: Callable[[float], Awaitable[None]]
    ) -> None:
        self.root, self._make, self.wait = root, make, wait
        self._begun: list[Core] = []

    async def core(self) -> Core:
        """One whose session has begun."""
        core = self._make()
        await core.begin()
        self._begun.append(core)
        return core

    async def end(self, core: Core) -> None:
        self._begun.remove(core)
        await core.end()

    async def close(self) -> None:
        for core in list(self._begun):
            await self.end(core)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"


def simulated_stage(root: str) -> Stage:
    """A stage whose keeper is the state machine alone."""
    tree, clock, cores = MetadataTree(), Clock(), dict[SessionId, TreeCore]()
    session = tree.begin_session(clock.now_ms)
    parts = root.strip("/").split("/")
    above: list[WriteOperation] = [
        Create("/" + "/".join(parts[: count + 1])) for count in range(len(parts))
    ]
    tree.answer(Write(RequestId(0), session, tuple(above)), clock.now_ms)

    async def wait(seconds: float) -> None:
        clock.now_ms += round(seconds * 1000)

    return Stage(root, lambda: TreeCore(tree, clock, cores), wait)
