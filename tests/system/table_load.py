"""Clients of tables that go on whatever happens to nodes: inserters, publishers, and a reader that compares.

Six tables, two shards with three replicas each:

``blocks``       blocks of one shard each: one commit of a replica
``wide``         blocks of both shards: publications; a staged one is in ``blocks``, too
``days``         partitions that are replaced as a whole, or dropped
``parted``       partitions that are inserted into and dropped
``left, right``  an ordered writer publishes each of its steps in both; ``right`` keeps the newest step
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import pyarrow as pa
from tests.system.table_ledger import BLOCK_ROWS, Change, Ledger, Sums, value_of

import motet
from motet.aio import Database
from motet.client.publication import Publication, TablePart
from motet.core.clock.hlc import Clock
from motet.core.mergetree.version import Version
from motet.errors import MotetError, NodeError, ObjectError, ObjectMissing, OutcomeUnknown
from motet.errors.shards import Unavailable
from motet.errors.tables import (
    PartMissing,
    QuorumFailed,
    TableBusy,
    TableReadOnly,
    TooFewReplicas,
)
from motet.sim.dice import Dice
from motet.verify.history.record import Recorder

SHARDS, REPLICAS = 2, 3
SCHEMA = pa.schema(
    [("block", pa.string()), ("row", pa.int64()), ("value", pa.int64()), ("part", pa.string())]
)
#: a block of these is in one shard
NARROW = ("blocks", "parted")
WRITTEN = ("blocks", "wide", "days", "parted", "left")
TABLES = (*WRITTEN, "right")
PARTITIONS = ("a", "b", "c")
WRITER = "both"

#: what a call may end in while nodes die
PASSING = frozenset(
    error.code
    for error in (
        *(NodeError, ObjectError, ObjectMissing, OutcomeUnknown, Unavailable),
        *(PartMissing, QuorumFailed, TableBusy, TableReadOnly, TooFewReplicas),
    )
)
pause_seconds_max = 0.15
patience_seconds = 180.0


def rows_of(block: str, part: str = "") -> pa.Table:
    rows = range(BLOCK_ROWS)
    columns = {
        "block": [block] * BLOCK_ROWS,
        "row": rows,
        "value": [value_of(block, row) for row in rows],
        "part": [part] * BLOCK_ROWS,
    }
    return pa.table(columns, schema=SCHEMA)


def sums_in(found: pa.Table) -> Sums:
    """What the rows of each block add up to."""
    grouped = found.group_by("block").aggregate([("value", "sum"), ("value", "count")])
    columns = grouped.to_pydict()
    values = zip(columns["value_count"], columns["value_sum"], strict=True)
    return dict(zip(columns["block"], values, strict=True))


@dataclass
class Load:
    """Everybody who works with the tables."""

    db: Database
    #: another client
    other: Database
    seed: int
    #: what a call may end in besides: something is done on purpose that says so
    also_passing: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.ledger = Ledger()
        self.recorder = Recorder()
        self.is_over = False
        #: when inserts were acknowledged
        self.acknowledged_at: list[float] = []
        #: of each acknowledged insert how long it took, when it began, and of what
        self.inserts: list[tuple[float, float, str]] = []
        self._dice = Dice(self.seed, "load")
        self._lives = 0

    async def create(self) -> None:
        make = partial(
            self.db.create_table,
            schema=SCHEMA,
            order_by=["row"],
            shards=SHARDS,
            replicas=REPLICAS,
        )
        await make("blocks", shard_by="block")
        await make("wide")
        await make("days", partition_by="part")
        await make("parted", shard_by="block", partition_by="part")
        await make("left")
        await make("right", engine="replacing", version="value")

    async def run(self, faults: Callable[[], Awaitable[None]]) -> None:
        """Work until the faults are over, and what has begun has ended."""
        work = [
            self._inserter("text", quorum="majority"),
            self._inserter("own", quorum="majority"),
            self._inserter("numbered", quorum="majority"),
            self._inserter("fast", quorum=1),
            self._inserter("all", quorum=3),
            self._wide_inserter(),
            self._pairs(),
            self._parted_inserter(),
            self._replacer(),
            self._dropper(),
            self._ordered(),
            self._reader(),
        ]
        tasks = [asyncio.ensure_future(each) for each in work]
        faulty = asyncio.ensure_future(faults())
        try:
            await asyncio.wait([faulty, *tasks], return_when=asyncio.FIRST_COMPLETED)
            self.is_over = True
            if not faulty.done():
                for task in tasks:
                    if task.done():
                        task.result()
            await faulty
            async with asyncio.timeout(patience_seconds):
                await asyncio.gather(*tasks)
        finally:
            for task in (*tasks, faulty):
                task.cancel()
            await asyncio.gather(*tasks, faulty, return_exceptions=True)

    async def until_more(self, inserts: int) -> None:
        """Wait for so many more acknowledged inserts."""
        wanted = len(self.acknowledged_at) + inserts
        async with asyncio.timeout(patience_seconds):
            while len(self.acknowledged_at) < wanted and not self.is_over:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    def gaps(self) -> list[tuple[float, float]]:
        """The times between two acknowledged inserts, each with when it began."""
        return [(after - before, before) for before, after in pairwise(self.acknowledged_at)]

    # Writing

    async def _inserter(self, lane: str, quorum: int | str) -> None:
        """Blocks of one shard, the lane's way of telling a repetition."""
        table, number = self.db.table("blocks"), 0
        while not self.is_over:
            number += 1
            block = f"{lane}-{number}"
            token: str | tuple[str, int] | None = block
            if lane in ("own", "all"):
                token = None
            elif lane == "numbered":
                token = (lane, number)
            change = self.ledger.begin(block, {"blocks": ""})
            self._lives += 1
            adding = self.recorder.invoke(f"{lane}{self._lives}", "add", None, block, _now_ns())
            await self._insert(change, partial(table.insert, rows_of(block), quorum, token), token)
            if change.outcome == "done":
                self.recorder.ok(adding, None, _now_ns())
            elif change.outcome == "refused":
                self.recorder.failed(adding, _now_ns())
            else:
                self.recorder.unknown(adding, _now_ns())
            await self._pause()

    async def _wide_inserter(self) -> None:
        """Blocks of both shards: one publication each."""
        table, number = self.other.table("wide"), 0
        while not self.is_over:
            number += 1
            block = f"wide-{number}"
            change = self.ledger.begin(block, {"wide": ""})
            token = block if number % 2 else None
            await self._insert(change, partial(table.insert, rows_of(block), token=token), token)
            await self._pause()

    async def _parted_inserter(self) -> None:
        table, number = self.other.table("parted"), 0
        while not self.is_over:
            number += 1
            block, part = f"parted-{number}", self._dice.pick(PARTITIONS)
            change = self.ledger.begin(block, {"parted": part})
            inserting = partial(table.insert, rows_of(block, part), token=block)
            await self._insert(change, inserting, block)
            await self._pause()

    async def _insert(
        self, change: Change, call: Callable[[], Awaitable[Publication]], token: object
    ) -> None:
        """Until it is known what became of it, or now and then not so long; without a token, once."""
        began, was_unknown = time.monotonic(), False
        while change.outcome == "open":
            try:
                done = await call()
            except OutcomeUnknown as error:
                self._refused(error)
                was_unknown = True
                if token is None or self._dice.chance(0.1):
                    change.outcome = "unknown"
            except MotetError as error:
                self._refused(error)
                if not was_unknown:
                    change.outcome = "refused"
                await self._pause()
            else:
                self.ledger.done(change, done, is_own=token is None)
                now = time.monotonic()
                self.acknowledged_at.append(now)
                self.inserts.append((now - began, began, change.block))

    async def _pairs(self) -> None:
        """The same block in two tables by one publication."""
        number = 0
        while not self.is_over:
            number += 1
            block = f"pair-{number}"
            change = self.ledger.begin(block, {"wide": "", "blocks": ""})
            await self._publish(change, {"token": block})
            await self._pause()

    async def _replacer(self) -> None:
        """Each generation of a partition instead of the one before."""
        number = 0
        while not self.is_over:
            number += 1
            part = self._dice.pick(PARTITIONS)
            change = self.ledger.begin(f"days-{number}", {"days": part}, {"days": part})
            await self._publish(change, {"token": change.block, "replace": {"days": [part]}})
            await self._pause()

    async def _dropper(self) -> None:
        number = 0
        while not self.is_over:
            number += 1
            part = self._dice.pick(PARTITIONS)
            change = self.ledger.begin(f"drop-{number}", {}, {"parted": part})
            await self._publish(change, {"token": change.block, "replace": {"parted": [part]}})
            for _ in range(20):
                await self._pause()

    async def _ordered(self) -> None:
        """Steps of an ordered writer, one after the other."""
        after, epoch = None, 0
        while not self.is_over:
            through = Clock(1000 + epoch, 0)
            step = motet.WriterStep(WRITER, epoch=epoch, after=after, through=through)
            block = f"step-{epoch}"
            change = self.ledger.begin(block, {"left": ""})
            await self._publish(change, {"step": step}, also=("right",))
            after, epoch = through, epoch + 1
            await self._pause()

    async def _publish(
        self, change: Change, how: dict[str, object], also: Sequence[str] = ()
    ) -> None:
        """Stage its blocks and publish them, until that is done: its token or step makes that safe."""
        parts: list[list[TablePart]] = []
        while change.outcome == "open":
            try:
                if not parts:
                    for table, part in (*change.into.items(), *((name, "") for name in also)):
                        rows = rows_of(change.block, part)
                        if table == "right":
                            rows = newest_rows(change.block)
                        parts.append(await self.db.stage(table, rows))
                done = await self.db.publish(parts, **how)  # type: ignore[arg-type]
            except OutcomeUnknown as error:
                self._refused(error)
            except MotetError as error:
                self._refused(error)
                parts = []
                await self._pause()
            else:
                self.ledger.done(change, done)
                self.acknowledged_at.append(time.monotonic())

    # Reading

    async def _reader(self) -> None:
        """Reads all tables at one version, and older versions once more."""
        past: list[Version] = []
        known: dict[tuple[Version, str], Sums] = {}
        while not self.is_over:
            try:
                version = await self._read(known)
                past.append(version)
                old, table = self._dice.pick(past), self._dice.pick(WRITTEN)
                if (old, table) in known:
                    again = sums_in(await self.other.table(table).select(["block", "value"], old))
                    assert again == known[old, table], f"L4: {table} at {old} is another one"
            except MotetError as error:
                self._refused(error)
            await self._pause()

    async def _read(self, known: dict[tuple[Version, str], Sums]) -> Version:
        self._lives += 1
        floor, process = self.ledger.newest, f"reader{self._lives}"
        reading = self.recorder.invoke(process, "read", None, None, _now_ns())
        try:
            version = (await self.other.snapshot(*TABLES)).version
            assert version.zxid >= floor, f"L5: {version} is read, and {floor} was told"
            self.ledger.told(version)
            found = {}
            for table in WRITTEN:
                rows = await self.other.table(table).select(["block", "value"], version)
                found[table] = sums_in(rows)
            right = await self.other.table("right").select(["row", "value"], version)
        except MotetError:
            self.recorder.failed(reading, _now_ns())
            raise
        # Pairs are in this table, too, and are no additions of this history.
        blocks = [each for each in found["blocks"] if not each.startswith("pair-")]
        self.recorder.ok(reading, blocks, _now_ns())
        for table, sums in found.items():
            self.ledger.read(table, version, sums)
            known[version, table] = sums
        check_steps(found["left"], right)
        check_pairs(found["wide"], found["blocks"])
        return version

    def _refused(self, error: MotetError) -> None:
        self.ledger.refusals[error.code] += 1
        if error.code not in PASSING | self.also_passing:
            raise error

    async def _pause(self) -> None:
        await asyncio.sleep(self._dice.between(0, 1000) / 1000 * pause_seconds_max)


def newest_rows(block: str) -> pa.Table:
    """A step in ``right``: its version is the number of the step."""
    rows, step = range(BLOCK_ROWS), int(block.rpartition("-")[2])
    columns = {"block": [block] * BLOCK_ROWS, "row": rows, "value": [step] * BLOCK_ROWS}
    return pa.table({**columns, "part": [""] * BLOCK_ROWS}, schema=SCHEMA)


def check_steps(left: Sums, right: pa.Table) -> None:
    """All steps up to the last one are in ``left``, and ``right`` has that one."""
    steps = sorted(int(block.rpartition("-")[2]) for block in left)
    assert steps == list(range(len(steps)))
    rows = right.to_pylist()
    assert len(rows) == (BLOCK_ROWS if steps else 0)
    assert {row["value"] for row in rows} == set(steps[-1:])


def check_pairs(wide: Sums, blocks: Sums) -> None:
    """A publication is in both of its tables, or in none."""
    here = {block for block in wide if block.startswith("pair-")}
    assert here == {block for block in blocks if block.startswith("pair-")}


def _now_ns() -> int:
    return time.monotonic_ns()
