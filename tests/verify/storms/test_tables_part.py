"""Tables in their storm: the real replicas are ok, and each rule of the checker notices what breaks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from motet.core.machine import Now, Send, Started
from motet.core.mergetree.entries import (
    DoneEntry,
    Entry,
    FailedEntry,
    InsertEntry,
    PartHeader,
    PublishEntry,
    encode_entry,
)
from motet.core.mergetree.messages import BlockInserted, ListedPart, PartsListed
from motet.core.mergetree.paths import ShardPaths
from motet.core.metadata.messages import Create, Set, Write, WriteOperation, Written
from motet.ids import Address, NodeId, PartId, RequestId, SessionId, TableId, Zxid
from motet.sim.faults import PROFILES, Faults
from motet.sim.storm import simulate
from motet.sim.world import World
from motet.verify.seed_range import run_seeds
from motet.verify.storms.tables import TablesRun, TablesStorm
from motet.verify.storms.tables_checks import Truth

TABLE, N1 = TableId("t"), NodeId("n1")
PATHS = ShardPaths(TABLE, 0)
A, B = (PartHeader(PartId(part), "p", 1, 100, f"row-{part}") for part in "ab")


def test_a_range_of_seeds_is_ok_and_has_seen_every_coverage_mark() -> None:
    found = run_seeds("tables", 1, 40)
    assert (found.verdict, found.missing_marks) == ("ok", []), found.failure


def test_it_is_ok_in_every_profile() -> None:
    for profile in PROFILES:
        outcome = simulate(TablesStorm(), 3, profile=profile)
        assert outcome.verdict == "ok", (profile, outcome.violations)


def test_it_claims_to_survive_all_but_rot_of_its_own_file() -> None:
    run = TablesStorm().prepare(World(1, Faults()), None)
    faults = ("crash", "pause", "partition", "full_disk", "rot", "read_error")
    assert [each for each in faults if not run.permits(each, Address("n1"))] == [
        "rot",
        "read_error",
    ]


class Log:
    """A run whose log is written by a test, and the checker that follows it."""

    def __init__(self) -> None:
        self.world = World(1, Faults())
        self.run = TablesRun(self.world, None)
        self.truth: Truth = self.run.truth
        self.truth.asked.update(dict.fromkeys(("row-a", "row-b")))
        self.folder = self.run.folders[Address("n1")]
        self.zxid = 100

    def write(self, *operations: WriteOperation, entry: Entry | None = None) -> None:
        self.zxid += 1
        results: list[str | int | None] = [None] * len(operations)
        if entry is not None:
            number = self.truth.shards[0].next_number
            operations = (*operations, Create(PATHS.new_entry, encode_entry(entry)))
            results.append(PATHS.entry(number))
        written = Written(RequestId(1), Zxid(self.zxid), tuple(results))
        self.truth.wrote(Write(RequestId(1), SessionId(1), operations), written)

    def read(self, *rows: str, version: int = 0, acknowledged: int | None = None) -> None:
        at = Zxid(version or self.zxid)
        newest = None if acknowledged is None else Zxid(acknowledged)
        self.truth.read(0, at, list(rows), "r1", newest)

    def acknowledge(self) -> None:
        told = BlockInserted(TABLE, 0, RequestId(1), "p_0.0_0.0_0", Zxid(self.zxid))
        self.truth.acknowledge(told, ("row-a",))


def shows_a_row_twice(log: Log) -> None:
    log.write(entry=InsertEntry(A, N1))
    log.read("row-a", "row-a")


def shows_what_nobody_inserted(log: Log) -> None:
    log.read("row-x")


def commits_a_token_twice(log: Log) -> None:
    log.write(entry=InsertEntry(A, N1, token="t1"))
    log.write(entry=InsertEntry(B, N1, token="t1"))


def ends_a_quorum_alone(log: Log) -> None:
    log.write(entry=InsertEntry(A, N1, quorum=2))
    log.write(entry=DoneEntry(0))


def fails_what_is_done(log: Log) -> None:
    log.write(entry=InsertEntry(A, N1))
    log.write(entry=FailedEntry(0))


def registers_what_is_not_there(log: Log) -> None:
    log.write(Create(PATHS.replica(N1).part(A.id), b""))


def moves_the_pointer_too_far(log: Log) -> None:
    log.write(Set(PATHS.replica(N1).log_pointer, b"3", 0))


def acknowledges_what_is_open(log: Log) -> None:
    log.write(entry=InsertEntry(A, N1, quorum=2))
    log.acknowledge()


def loses_what_was_acknowledged(log: Log) -> None:
    log.write(entry=InsertEntry(A, N1))
    log.acknowledge()
    log.read()


def shows_half_a_publication(log: Log) -> None:
    log.write(entry=PublishEntry((A, B), (N1,)))
    log.read("row-a")


def publishes_what_is_held_by_too_few(log: Log) -> None:
    log.truth.wanted[A.id] = 2
    log.write(entry=PublishEntry((A,), (N1,)))


def shows_what_comes_later(log: Log) -> None:
    log.write(entry=InsertEntry(A, N1))
    log.read("row-a", version=100)


def reads_the_past(log: Log) -> None:
    log.read(version=100, acknowledged=101)


def names_what_it_has_not(log: Log) -> None:
    listed = PartsListed(TABLE, 0, RequestId(1), (ListedPart("p_0.0_0.0_0", A),))
    host = log.run.hosts[Address("n1")]
    log.truth.saw(host, Started(Now(0, 0), 1), [Send(Address("r1"), listed)])


@pytest.mark.parametrize(
    ("lie", "rule"),
    [
        (shows_a_row_twice, "NothingTwice"),
        (shows_what_nobody_inserted, "OnlyInserted"),
        (commits_a_token_twice, "OnlyInserted"),
        (ends_a_quorum_alone, "Quorum"),
        (fails_what_is_done, "Quorum"),
        (registers_what_is_not_there, "Registered"),
        (moves_the_pointer_too_far, "L2"),
        (acknowledges_what_is_open, "AckedOnce"),
        (loses_what_was_acknowledged, "AckedOnce"),
        (shows_half_a_publication, "PublicationWhole"),
        (publishes_what_is_held_by_too_few, "Held"),
        (shows_what_comes_later, "SameVersion"),
        (reads_the_past, "Linearizable"),
        (names_what_it_has_not, "Readable"),
    ],
)
def test_a_rule_notices_what_breaks_it(lie: Callable[[Log], None], rule: str) -> None:
    log = Log()
    assert not log.world.violations
    lie(log)
    assert log.world.violations[0].invariant == rule
