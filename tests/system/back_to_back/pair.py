"""Two servers that are asked the same: every answer and every event of the one is held against the other's.

E1  A step is done at both before the next one begins; then every client asks for a sync, behind which all
    that has happened is told, and what each was told is compared in its order.
E2  A zxid is compared by what it is equal to and what it is above: the numbers themselves are each server's
    own. So are times, which are there or not.
E3  A session is named by the client that has it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec
from tests.system.back_to_back.spy import PATIENCE_SECONDS, Spy
from tests.system.back_to_back.steps import OPEN, Ask, Author, Close, GoAway, Open, Step

from motet.errors import MotetError
from motet.format.zookeeper.messages import (
    AclResult,
    Children,
    Children2,
    Create,
    Created,
    Created2,
    CreateFlags,
    Exists,
    MultiResult,
    Result,
    Stat,
    StatResult,
    Sync,
    WatchEvent,
)

VANISH_MS = 4_000


class Difference(AssertionError):
    """The two do not agree."""


@dataclass
class Side:
    """One of the two servers."""

    endpoints: str
    spies: dict[int, Spy] = field(default_factory=dict)
    #: session -> who had it, also of those that are over
    owners: dict[int, str] = field(default_factory=dict)

    async def open(self, client: int, name: str, timeout_ms: int | None = None) -> object:
        spy = Spy(self.endpoints) if timeout_ms is None else Spy(self.endpoints, timeout_ms)
        await spy.begin(PATIENCE_SECONDS)
        self.spies[client] = spy
        self.owners[spy.number] = name
        return "begun", spy.timeout_ms

    async def do(self, step: Step, name: str) -> object:
        if isinstance(step, Open):
            return await self.open(step.client, name)
        spy = self.spies[step.client]
        if isinstance(step, Ask):
            try:
                return await spy.ask_raw(step.request)
            except MotetError as error:
                return type(error).__name__, error.what
        if isinstance(step, Close):
            await spy.close(PATIENCE_SECONDS)
            del self.spies[step.client]
        elif isinstance(step, GoAway):
            spy.go_away()
        else:
            await spy.come_back()
        return "done"

    async def settle(self) -> None:
        """Until everybody who is there was told of everything."""
        here = [spy for spy in self.spies.values() if spy.is_connected]
        await asyncio.gather(*(spy.ask_raw(Sync("/")) for spy in here))

    def take_events(self, *, is_ordered: bool) -> dict[int, list[WatchEvent]]:
        """What each client was told since the last time."""
        events: dict[int, list[WatchEvent]] = {}
        for client, spy in sorted(self.spies.items()):
            events[client] = spy.told if is_ordered else sorted(spy.told, key=_as_key)
            spy.told = []
        return events

    def shape(self, value: object, zxids: list[int]) -> object:
        """A value without what is this server's own; its zxids go into the list."""
        if isinstance(value, Stat):
            return self._shape_of_stat(value, zxids)
        if isinstance(value, Children):
            return "Children", sorted(value.children)
        if isinstance(value, Children2):
            return "Children2", sorted(value.children), self.shape(value.stat, zxids)
        if isinstance(value, AclResult):
            return (
                "AclResult",
                sorted(map(msgspec.structs.astuple, value.acl)),
                self.shape(value.stat, zxids),
            )
        if isinstance(value, MultiResult):
            return "MultiResult", [self.shape(each, zxids) for each in value.results]
        if isinstance(value, Result):
            fields = msgspec.structs.astuple(value)
            return type(value).__name__, *(self.shape(each, zxids) for each in fields)
        return value

    def _shape_of_stat(self, stat: Stat, zxids: list[int]) -> object:
        zxids += (stat.czxid, stat.mzxid, stat.pzxid)
        owner = self.owners.get(stat.ephemeral_owner) if stat.ephemeral_owner else None
        return msgspec.structs.replace(
            stat,
            czxid=0,
            mzxid=0,
            pzxid=0,
            ephemeral_owner=0,
            ctime_ms=int(stat.ctime_ms > 0),
            mtime_ms=int(stat.mtime_ms > 0),
        ), owner


def _as_key(event: WatchEvent) -> tuple[str, int]:
    return event.path, event.type


class Pair:
    """Both, with one author for both."""

    def __init__(self, left: str, right: str, author: Author) -> None:
        self.sides = (Side(left), Side(right))
        self._author = author
        self._begun = 0
        #: of the left -> of the right
        self._zxids: dict[int, int] = {}
        self.steps: list[Step] = []
        self.events = 0
        #: name of the kind of an answer -> how many there were
        self.answers: dict[str, int] = {}

    async def run(self, steps: int) -> None:
        """So many steps of the author."""
        try:
            for _ in range(steps):
                await self.do(self._author.next_step())
            self._check_order()
            await self._part()
        finally:
            for side in self.sides:
                for spy in side.spies.values():
                    await spy.vanish()

    async def do(self, step: Step) -> None:
        self.steps.append(step)
        self._begun += isinstance(step, Open)
        name = f"session {self._begun}"
        left, right = await asyncio.gather(*(side.do(step, name) for side in self.sides))
        await self._compare(left, right, is_ordered=not isinstance(step, Close))
        if isinstance(step, Ask):
            self._learn(step, left)

    async def _compare(self, left: object, right: object, *, is_ordered: bool) -> None:
        zxids: tuple[list[int], list[int]] = ([], [])
        shapes = [
            side.shape(answer, seen)
            for side, answer, seen in zip(self.sides, (left, right), zxids, strict=True)
        ]
        self._same("answer", *shapes)
        await asyncio.gather(*(side.settle() for side in self.sides))
        told = [side.take_events(is_ordered=is_ordered) for side in self.sides]
        self._same("events", *told)
        self.events += sum(map(len, told[0].values()))
        for one, other in zip(*zxids, strict=True):
            if self._zxids.setdefault(one, other) != other:
                self._differ(f"zxid {one:#x} was {self._zxids[one]:#x} and is {other:#x}")

    def _check_order(self) -> None:
        """E2."""
        rights = [right for _, right in sorted(self._zxids.items())]
        if rights != sorted(set(rights)):
            self._differ("zxids do not rise alike")

    async def _part(self) -> None:
        """One is never heard of again, then all say goodbye: what they had made is gone, and told of."""
        path = f"{self._author.root}-vanishing"
        for side in self.sides:
            await side.open(-1, "who vanishes", VANISH_MS)
        await self.do(Ask(-1, Create(path, b"", OPEN, CreateFlags.EPHEMERAL)))
        for client in sorted(self.sides[0].spies):
            if client >= 0 and self.sides[0].spies[client].is_connected:
                await self.do(Ask(client, Exists(path, watch=True)))
        await asyncio.gather(*(_gone(side, path) for side in self.sides))
        await self._compare(None, None, is_ordered=True)
        for client in sorted(self.sides[0].spies):
            if self.sides[0].spies[client].is_connected:
                await self.do(Close(client))

    def _learn(self, step: Ask, answer: object) -> None:
        """The author goes on from what was answered."""
        kind = answer[0] if isinstance(answer, tuple) else type(answer).__name__
        self.answers[kind] = self.answers.get(kind, 0) + 1
        path = getattr(step.request, "path", "")
        if isinstance(answer, Created | Created2):
            self._author.made.append(answer.path)
        elif isinstance(answer, StatResult):
            self._author.versions[path] = answer.stat.version
        elif isinstance(answer, MultiResult):
            made = [each.path for each in answer.results if isinstance(each, Created)]
            self._author.made += made[-1:]

    def _same(self, what: str, left: object, right: object) -> None:
        if left != right:
            self._differ(f"{what}\n    {left!r}\n    {right!r}")

    def _differ(self, what: str) -> None:
        before = "\n".join(f"  {n}: {s}" for n, s in list(enumerate(self.steps))[-12:])
        raise Difference(f"after\n{before}\nthe two differ: {what}")


async def _gone(side: Side, path: str) -> None:
    """Have client -1 vanish, and wait until its node has."""
    await side.spies.pop(-1).vanish()
    looker = next(spy for spy in side.spies.values() if spy.is_connected)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await looker.ask_raw(Exists(path, watch=False))
            except MotetError:
                return
            await asyncio.sleep(0.05)
