"""Writers and readers of a stream that write down what they are told, to be held against it later.

Each shard has two writers. One uses tokens: it repeats a record until it is told where that is, so in the
end it knows of each. The other one uses none: when it cannot be told what became of a record, that may be
there or not, once. A reader follows each shard from its beginning.

In the end every shard is read back whole. What was acknowledged is there, at the place that was named; no
record is there twice, none that nobody wrote; and the readers have seen the very same, in that order.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from motet.client.change import Entry, Position
from motet.client.database import AsyncDatabase
from motet.client.stream import AsyncStream
from motet.core.metadata.definitions import shard_of
from motet.errors import MotetError, OutcomeUnknown

page = 10_000
again_s = 0.05


@dataclass
class Tally:
    """All that was seen of one shard."""

    #: offset -> key, for what was acknowledged
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    #: when that was, in monotonic nanoseconds
    acknowledged_at: list[int] = field(default_factory=list)
    #: what may be there or not
    unknown: set[bytes] = field(default_factory=set)
    #: keys in the order in which the reader has seen them
    seen: list[bytes] = field(default_factory=list)
    #: two records were said to be at one place
    doubled_places: int = 0
    #: what the reader saw out of its place
    out_of_order: int = 0

    def acknowledge(self, key: bytes, position: Position) -> None:
        self.doubled_places += self.acknowledged.get(position.offset, key) != key
        self.acknowledged[position.offset] = key
        self.acknowledged_at.append(time.monotonic_ns())

    def outage_ms(self, since_ns: int, until_ns: int) -> int:
        """The longest time without an acknowledgement that touches this range."""
        longest = 0
        for before, after in itertools.pairwise(self.acknowledged_at):
            if after >= since_ns and before <= until_ns:
                longest = max(longest, after - before)
        return longest // 1_000_000


@dataclass
class Findings:
    """What came of it; all but the first two have to be nothing."""

    acknowledged: int = 0
    unknown: int = 0
    lost: int = 0
    doubled: int = 0
    foreign: int = 0
    out_of_order: int = 0
    #: the reader saw something else than what is there
    seen_differently: int = 0

    @property
    def is_good(self) -> bool:
        bad = (self.lost, self.doubled, self.foreign, self.out_of_order, self.seen_differently)
        return not any(bad)


class Load:
    """The writers and readers of one stream, between ``run`` and ``stop``."""

    def __init__(
        self,
        writers: AsyncDatabase,
        readers: AsyncDatabase,
        name: str,
        shards: int,
        *,
        pause_s: float = 0.02,
        value_bytes: int = 100,
    ) -> None:
        self.tallies = [Tally() for _ in range(shards)]
        self._writing, self._reading = writers.stream(name), readers.stream(name)
        self._pause_s = pause_s
        self._padding = b"." * value_bytes
        self._is_over = False
        self._tails_over = False
        self._progress = asyncio.Event()

    @property
    def acknowledged(self) -> int:
        return sum(len(tally.acknowledged) for tally in self.tallies)

    async def run(self) -> None:
        """Write until ``stop``; then the readers catch up, and that is all."""
        async with asyncio.TaskGroup() as readers:
            for shard in range(len(self.tallies)):
                readers.create_task(self._read(shard))
            try:
                async with asyncio.TaskGroup() as writers:
                    for shard in range(len(self.tallies)):
                        writers.create_task(self._write_with_tokens(shard))
                        writers.create_task(self._write_without(shard))
            finally:
                self._tails_over = True

    def stop(self) -> None:
        self._is_over = True

    async def until_acknowledged(self, more: int, wait_s: float = 60.0) -> None:
        """Wait until each shard has acknowledged so many more; ``TimeoutError`` if not in time."""
        wanted = [len(tally.acknowledged) + more for tally in self.tallies]
        async with asyncio.timeout(wait_s):
            while any(len(t.acknowledged) < n for t, n in zip(self.tallies, wanted, strict=True)):
                self._progress.clear()
                await self._progress.wait()

    # Writers

    async def _write_with_tokens(self, shard: int) -> None:
        producer = f"with-{shard}"
        for number, key in enumerate(self._keys(producer, shard)):
            if self._is_over:
                return
            token = (producer, number)
            # Until it is known where it is, whether we are to stop or not.
            while not await self._try(shard, key, token):  # noqa: ASYNC110
                await asyncio.sleep(again_s)
            await asyncio.sleep(self._pause_s)

    async def _try(self, shard: int, key: bytes, token: tuple[str, int]) -> bool:
        try:
            self._acknowledged(shard, key, await self._append(key, token))
        except MotetError:
            return False
        return True

    async def _write_without(self, shard: int) -> None:
        for key in self._keys(f"without-{shard}", shard):
            if self._is_over:
                return
            try:
                position = await self._append(key, None)
            except OutcomeUnknown:
                self.tallies[shard].unknown.add(key)
            except MotetError:
                await asyncio.sleep(again_s)  # refused: it is not there
            else:
                self._acknowledged(shard, key, position)
            await asyncio.sleep(self._pause_s)

    async def _append(self, key: bytes, token: tuple[str, int] | None) -> Position:
        return await self._writing.append(key, key + self._padding, token)

    def _keys(self, writer: str, shard: int) -> Iterator[bytes]:
        """Keys of a writer's own, all of this shard."""
        keys = (f"{writer}-{n}".encode() for n in itertools.count())
        return (key for key in keys if shard_of(key, len(self.tallies)) == shard)

    def _acknowledged(self, shard: int, key: bytes, position: Position) -> None:
        self.tallies[shard].acknowledge(key, position)
        self._progress.set()

    # Readers

    async def _read(self, shard: int) -> None:
        tally = self.tallies[shard]
        while not (self._tails_over and len(tally.seen) > max(tally.acknowledged, default=-1)):
            try:
                entries = await self._reading.read(shard, len(tally.seen) - 1, page)
            except MotetError:
                entries = []  # there is no leader for the moment
            for entry in entries:
                tally.out_of_order += entry.offset != len(tally.seen)
                tally.seen.append(entry.key)
            if not entries:
                await asyncio.sleep(again_s)

    # The end

    async def findings(self, stream: AsyncStream) -> Findings:
        """Read everything back, and compare. For when all is over."""
        found = Findings()
        for shard, tally in enumerate(self.tallies):
            there = [entry async for entry in read_whole(stream, shard)]
            self._compare(found, tally, there)
        return found

    def _compare(self, found: Findings, tally: Tally, there: list[Entry]) -> None:
        keys = [entry.key for entry in there]
        found.acknowledged += len(tally.acknowledged)
        found.unknown += len(tally.unknown)
        for offset, key in tally.acknowledged.items():
            found.lost += not (offset < len(keys) and keys[offset] == key)
        counted = Counter(keys)
        found.doubled += sum(n - 1 for n in counted.values()) + tally.doubled_places
        known = tally.unknown.union(tally.acknowledged.values())
        found.foreign += sum(key not in known for key in counted)
        found.foreign += sum(entry.value != entry.key + self._padding for entry in there)
        found.out_of_order += tally.out_of_order
        found.out_of_order += sum(entry.offset != n for n, entry in enumerate(there))
        clocks = [entry.raw.clock for entry in there]
        found.out_of_order += sum(b < a for a, b in itertools.pairwise(clocks))
        found.seen_differently += tally.seen != keys[: len(tally.seen)]


async def read_whole(stream: AsyncStream, shard: int) -> AsyncIterator[Entry]:
    """All entries of a shard, from its beginning to its end."""
    after = -1
    while entries := await stream.read(shard, after, page):
        for entry in entries:
            yield entry
        after = entries[-1].offset
