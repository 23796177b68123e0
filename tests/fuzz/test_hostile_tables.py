"""Whatever clients and peers say about tables, and whatever somebody has put into the keeper: the machine of
a node takes each step, and asks the keeper so many things and no more.

A failure names the seed that replays it.
"""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.core.mergetree.service_stand import CLIENT, N1, ServiceStand
from tests.core.mergetree.tables import SALES, T, create, drop, rename
from tests.fuzz.hostile import LIES, NONSENSE, Forger, never_made

from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.machine import Message
from motet.core.mergetree.conversation import TableCall
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    DescribeTables,
    DropPartitions,
    FindStep,
    FindVersion,
    Holder,
    InsertBlock,
    ListParts,
    ListTables,
    NoteWriter,
    OpenJob,
    PartBytes,
    PublishParts,
    ReadSteps,
    ReadWriters,
    RenewJob,
    StagedPart,
    StagePart,
    TablePublication,
    TableReady,
)
from motet.core.mergetree.paths import ROOTS, ShardPaths
from motet.core.mergetree.standing_messages import ReadShardLog
from motet.core.metadata.messages import Create, Delete, Set, Write, WriteOperation
from motet.core.metadata.paths import DATABASE
from motet.ids import PartId, RequestId, TableId, WriterName, Zxid

QUICK = tuple((mode, seed) for mode in (NONSENSE, LIES) for seed in range(2))
LONG = tuple((mode, seed) for mode in (NONSENSE, LIES) for seed in range(100, 160))
SENDERS = (CLIENT, "n1", "n2", "nobody")
ONE, WRITER, JOB = RequestId(1), WriterName("w"), "job"
answers_max = 3_000
"""Of the keeper, to one event: more than that is a loop without end."""

WORDS = (b"", b"junk", b"\xff\xfe", b"{}", b"[]", b"null", b"0", b"-1", b"9" * 40, b"named", b"1.5")
JUNK = (*WORDS, b"[" * 2_000, b'{"a":' * 2_000, b'"\\ud800"', b"a" * 5_000)
NAMES = ("junk", "-1", "0000000009", "9", "٣", "shards", T, "log-0000000100")
"""Of nodes that somebody makes below others."""

SPLICES = (b"9", b"-", b"null", b"[", b"}", b'"', b"/")


class Meddled(ServiceStand):
    """A node that has a table of two shards, and somebody who writes into the keeper by hand."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.dice = random.Random(seed)
        self.is_held, self.is_checked = True, False
        self.begin()
        self.say(create(shards=2, replicas=1))
        assert isinstance(self.told[-1], TableReady)
        self.tick()

    def say(self, message: Message, sender: str = CLIENT) -> None:
        self.receive(sender, message)
        self.pump()

    def tick(self, ms: int = 1_000) -> None:
        super().tick(ms)
        self.pump()

    def begin(self) -> None:
        super().begin()
        self.pump()

    def pump(self) -> None:
        for _ in range(answers_max):
            if not self.asked:
                return
            self.answer()
        raise AssertionError(f"it asks without end: {self.asked[0]}")

    def meddle(self) -> None:
        dice = self.dice
        path = dice.choice(
            [DATABASE, *ROOTS, *(each for root in ROOTS for each in self.below(root))]
        )
        operation: WriteOperation = Delete(path, -1)
        if dice.random() < 0.7:
            operation = Set(path, self._junk(path), -1)
        elif dice.random() < 0.7:
            operation = Create(f"{path}/{dice.choice(NAMES)}", dice.choice(JUNK))
        self.tree.answer(Write(RequestId(0), self.other, (operation,)), self.keeper_ms)
        self.tell()
        self.pump()

    def _junk(self, path: str) -> bytes:
        """Nonsense, or what is there with something in it that is another."""
        dice, found = self.dice, self.find(path)
        if found is None or not found.data or dice.random() < 0.5:
            return dice.choice(JUNK)
        data, at = bytearray(found.data), dice.randrange(len(found.data))
        end = at + dice.choice([0, 1, 1, 5])
        data[at:end] = dice.choice([*SPLICES, dice.randbytes(1), b""])
        return bytes(data)


def block(number: int) -> InsertBlock:
    made = PartBytes("parquet", b"manifest", b"data")
    return InsertBlock(T, 0, ONE, header(number), 1, f"{number}", "content", block=made)


def counted(number: int, shard: int) -> InsertBlock:
    """The same of a producer."""
    named = {"token": "", "producer": "p", "number": number, "shard": shard}
    return msgspec.structs.replace(block(number), **named)


def header(number: int) -> PartHeader:
    return PartHeader(PartId(f"{number:016x}"), "p", 1, 4, "hash")


def publication(stand: Meddled, number: int, step: WriterStep | None = None) -> PublishParts:
    replica = stand.node.replicas.get((T, 0))
    version = 1 if replica is None else max(replica.core.state.host_version, 0)
    part = StagedPart(0, header(number), (Holder(N1, version),))
    return PublishParts(ONE, (TablePublication(T, 0, (part,), content="c"),), step=step)


def requests(stand: Meddled, number: int) -> tuple[Message, ...]:
    """What clients and people ask."""
    dice, clock = stand.dice, Clock(number, 0)
    step = WriterStep(WRITER, dice.randrange(2), None, clock)
    staged = PartBytes("parquet", b"manifest", b"data")
    return (
        block(number),
        counted(number, dice.randrange(2)),
        publication(stand, number),
        publication(stand, number, step),
        StagePart(T, 0, ONE, header(number), 1, dice.choice(["", JOB]), staged),
        *(DescribeTables(ONE, (SALES,)), ListTables(ONE), create("other", 1), drop("other")),
        *(rename("other", "third"), rename("third", "other")),
        create("other", 1, id=TableId(f"{dice.randrange(9):016x}")),
        *(ReadWriters(ONE), ReadSteps(ONE, WRITER), FindStep(ONE, WRITER, clock)),
        *(NoteWriter(ONE, WRITER, "x"), OpenJob(ONE, JOB, (T,)), RenewJob(ONE, JOB, (T,))),
        *(
            ReadShardLog(ONE, T, 0),
            FindVersion(T, 0, ONE, 1_000),
            DropPartitions(T, 0, ONE, ("p",)),
        ),
        ListParts(T, 0, ONE, 0, Zxid(1_000)),
    )


def lie(mode: str, seed: int, count: int) -> Forger:
    stand = Meddled(seed)
    forger = Forger(TableCall, stand.dice, mode)
    for message in requests(stand, 1):
        forger.hear(message)
    for _ in range(count):
        forged = forger.forge()
        if forged is not None:
            stand.say(forged, stand.dice.choice(SENDERS))
        if stand.dice.random() < 0.02:
            stand.tick(stand.dice.choice([1_000, 30_000]))
    return forger


def meddle(seed: int, count: int) -> None:
    stand = Meddled(seed)
    dice = stand.dice
    for number in range(1, count):
        stand.say(dice.choice(requests(stand, number)))
        if dice.random() < 0.15:
            stand.meddle()
        if dice.random() < 0.2:
            stand.tick(dice.choice([1_000, 1_000, 30_000, 700_000]))
        if dice.random() < 0.05:
            stand.end()
            stand.begin()


@pytest.mark.parametrize(("mode", "seed"), QUICK)
def test_a_liar_brings_no_node_down(mode: str, seed: int) -> None:
    assert never_made([lie(mode, seed, 1_500)]) == [], "every kind of message was said"


@pytest.mark.parametrize("seed", range(12))
def test_junk_in_the_keeper_brings_no_node_down(seed: int) -> None:
    meddle(seed, 300)


@pytest.mark.long
@pytest.mark.parametrize(("mode", "seed"), LONG)
def test_many_liars_bring_no_node_down(mode: str, seed: int) -> None:
    lie(mode, seed, 5_000)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
def test_much_junk_in_the_keeper_brings_no_node_down(seed: int) -> None:
    meddle(seed, 600)


def test_a_part_that_is_held_at_any_version_is_held_by_nobody() -> None:
    """A version of -1 would be any: what nobody has checked would become visible."""
    stand = Meddled(1)
    for version in (-1, -(2**63), 2**31, 2**63 - 1):
        part = StagedPart(0, header(7), (Holder(N1, version),))
        stand.say(PublishParts(ONE, (TablePublication(T, 0, (part,), content="c"),)))
        assert getattr(stand.told[-1], "code", "") == "BAD_INPUT", stand.told[-1]
    assert stand.tree.names(ShardPaths(T, 0).log) == ()


def test_nobody_waits_for_a_part_that_no_disk_takes() -> None:
    """A publication waits longer for larger parts: with 2^63 bytes it would keep its place for ever."""
    stand = Meddled(1)
    large = msgspec.structs.replace(header(7), size_bytes=2**62)
    part = StagedPart(0, large, (Holder(N1, 0),))
    stand.say(PublishParts(ONE, (TablePublication(T, 0, (part,), content="c"),)))
    assert getattr(stand.told[-1], "code", "") == "TOO_LARGE", stand.told[-1]
