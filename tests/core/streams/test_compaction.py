"""Latest changes that are carried on: found as they were, whatever goes from the beginning of the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock.hlc import ZERO, Clock
from motet.core.shardlog.entry import NO_ENTRY, Entry, EntryId, EntryKind
from motet.core.streams.change import Branch, FeedChange, RowChange
from motet.core.streams.compaction import needed
from motet.core.streams.entries import (
    Chunk,
    Committed,
    Compacted,
    Records,
    changes_of,
    encode_batch,
    encode_body,
    encode_records,
    record_range,
)
from motet.core.streams.feed_scan import FeedScan
from motet.core.streams.messages import FoundEntry, GetLatestChange
from motet.core.streams.reads import ClientReading, take_entries
from motet.core.streams.shard import StreamShard
from motet.format.record_block import encode_block
from motet.ids import (
    Address,
    Epoch,
    LogName,
    Offset,
    RequestId,
    ShardId,
    ShardName,
    StreamName,
    TransactionId,
)

SHARD = LogName(ShardName("s.0"))
STREAM = StreamName("stream")
KEYS = [b"a", b"b", b"c", b"d"]
some_keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=5)


class Log:
    """A shard and its log, which loses entries from its beginning; and what was committed, key by key."""

    def __init__(self) -> None:
        self.machine = StreamShard(index_step_bytes=60)
        self.entries: dict[Offset, Entry] = {}
        #: all that was ever in it
        self.written: list[Entry] = []
        self.next = Offset(1)
        self.clock = Clock(1_000, 0)
        self.transactions = 0
        self.changes: dict[bytes, FeedChange] = {}
        #: all that a feed has to show
        self.feed: list[FeedChange] = []

    def tick(self) -> Clock:
        self.clock = Clock(self.clock.logical, self.clock.counter + 1)
        return self.clock

    def add(self, kind: int, body: bytes) -> Entry:
        entry = Entry(EntryId(Epoch(1), self.next), kind, self.clock, body)
        self.machine.apply(entry)
        self.entries[self.next] = entry
        self.written.append(entry)
        self.next = Offset(self.next + 1)
        return entry

    def append(self, keys: list[bytes]) -> None:
        clock, values = self.tick(), [b"v%d" % self.next for _ in keys]
        chunk = Chunk(len(keys), None, encode_block(keys, values))
        body = encode_records(Records(self.machine.state.next_offset, 77, (chunk,)))
        self.note(FoundEntry(Epoch(1), clock, EntryKind.RECORDS, body))
        self.add(EntryKind.RECORDS, body)

    def commit(self, *transactions: list[bytes]) -> None:
        """One transaction, or several in a batch."""
        batched, offset = [], self.machine.state.next_offset
        for keys in transactions:
            self.transactions += 1
            rows = tuple(
                RowChange(at, key, "delete", None, b"{}")
                if at % 2
                else RowChange(at, key, "update", b"%d" % self.transactions, None)
                for at, key in enumerate(keys, start=1)
            )
            name = TransactionId(f"t{self.transactions}")
            branch = Branch(name, ZERO, ZERO, len(rows) + 1, rows)
            body = encode_body(Committed(branch, self.tick(), 88, offset, (), has_clock=False))
            batched.append(Entry(NO_ENTRY, EntryKind.BRANCH_COMMITTED, self.clock, body))
            self.note(FoundEntry(Epoch(1), self.clock, EntryKind.BRANCH_COMMITTED, body))
            offset = Offset(offset + len(rows))
        self.add(*encode_batch(batched))

    def note(self, found: FoundEntry) -> None:
        for change in changes_of(STREAM, ShardId(0), SHARD, found):
            self.changes[change.key] = change
            self.feed.append(change)

    @property
    def first(self) -> Offset:
        return min(self.entries, default=self.next)

    def read(self, count: int) -> list[Committed]:
        """What a leader finds to be carried in the first entries."""
        first = list(self.entries.values())[:count]
        return needed(self.machine.state.latest, SHARD, first)

    def compact(self, changes: list[Committed]) -> None:
        self.tick()
        self.add(EntryKind.COMPACTED, encode_body(Compacted(tuple(changes), self.first)))

    def trim(self) -> None:
        """As far as keys let it."""
        oldest = next(self.machine.state.latest.entries(self.first), self.next)
        for entry in [at for at in self.entries if at < oldest]:
            del self.entries[entry]

    def get(self, key: bytes) -> FeedChange | None:
        """As a leader answers."""
        latest = self.machine.state.latest.keys.get(key)
        if latest is None:
            return None
        message = GetLatestChange(RequestId(1), ZERO, SHARD, key)
        reading = ClientReading(Address("c"), message, None, Epoch(1), 0, Offset(0))
        reading.latest_place = latest.place
        assert take_entries(reading, None, (self.entries[latest.entry],))  # type: ignore[arg-type]
        assert reading.latest is not None
        return changes_of(STREAM, ShardId(0), SHARD, reading.latest)[reading.latest_place]


class Step(NamedTuple):
    """What happens next, to which keys, and how many of them."""

    what: str
    keys: list[bytes]
    at_most: int


WHAT = ["append", "commit", "batch", "read", "carry", "trim"]
steps = st.lists(
    st.builds(Step, st.sampled_from(WHAT), some_keys, st.integers(1, 6)), min_size=1, max_size=25
)


def take_steps(log: Log, told: list[Step]) -> Iterator[Step]:
    read: list[Committed] = []
    for step in told:
        if step.what == "append":
            log.append(step.keys)
        elif step.what == "commit":
            log.commit(step.keys)
        elif step.what == "batch":
            log.commit(*([key] for key in dict.fromkeys(step.keys)))
        elif step.what == "read":
            read = log.read(step.at_most)
        elif step.what == "carry":  # perhaps it was changed since it was read, or carried already
            log.compact(read[: step.at_most])
        else:
            log.trim()
        yield step


@given(steps)
def test_every_key_has_its_latest_change_whatever_is_carried_and_trimmed(told: list[Step]) -> None:
    log = Log()
    for _ in take_steps(log, told):
        assert {key: log.get(key) for key in KEYS} == {key: log.changes.get(key) for key in KEYS}
        places = [latest.entry for latest in log.machine.state.latest.keys.values()]
        assert places == sorted(places), "Y3"


@given(steps, st.integers(0, 24))
def test_a_replica_that_goes_on_from_a_snapshot_finds_it_at_the_same_places(
    told: list[Step], at: int
) -> None:
    log, replica, behind = Log(), StreamShard(index_step_bytes=60), 0
    for number, _ in enumerate(take_steps(log, told)):
        if number == at:
            replica.restore(log.machine.snapshot())
            behind = len(log.written)
    for entry in log.written[behind:]:
        replica.apply(entry)
    assert replica.fingerprint() == log.machine.fingerprint()


@given(steps)
def test_readers_of_the_feed_and_of_the_stream_pass_over_it(told: list[Step]) -> None:
    log = Log()
    for _ in take_steps(log, told):
        pass
    scan = FeedScan(ZERO, log.clock, 1 << 20, 1 << 20, {})
    scan.take(log.written)
    found, through = scan.page()
    assert [c for e in found for c in changes_of(STREAM, ShardId(0), SHARD, e)] == log.feed
    assert through == log.clock or not log.written, "it closes the shard like any entry"
    assert log.machine.state.next_offset == len(log.feed)
    compacted = [entry for entry in log.written if entry.kind == EntryKind.COMPACTED]
    assert [record_range(entry) for entry in compacted] == [None] * len(compacted)
    newest = max((change.clock for change in log.feed), default=None)
    assert log.machine.state.changed == newest


def test_a_raw_record_keeps_its_place_among_those_it_came_with() -> None:
    log = Log()
    log.append([b"a", b"b", b"c"])
    log.compact(log.read(1))
    log.append([b"a"])
    log.trim()
    assert log.first == 2
    found = log.get(b"c")
    assert found == log.changes[b"c"]
    assert (found.index, found.count, found.offset, found.op) == (2, 3, 2, "append")


def test_what_came_after_it_was_read_is_the_latest_all_the_same() -> None:
    log = Log()
    log.append([b"a", b"b"])
    read = log.read(1)
    log.commit([b"a"])
    log.compact(read)
    assert (log.get(b"a"), log.get(b"b")) == (log.changes[b"a"], log.changes[b"b"])
    log.compact(read)  # by another leader, which had read the same
    assert (log.get(b"a"), log.get(b"b")) == (log.changes[b"a"], log.changes[b"b"])
    places = [latest.entry for latest in log.machine.state.latest.keys.values()]
    assert places == [2, 4]


def test_what_a_rule_of_retention_has_trimmed_is_forgotten_by_all() -> None:
    log = Log()
    log.append([b"a"])
    log.append([b"b"])
    old = log.machine.state.latest.keys[b"a"].clock
    del log.entries[Offset(1)]
    log.compact(log.read(1))
    latest = log.machine.state.latest
    assert (list(latest.keys), latest.forgotten) == ([b"b"], old)
    assert not latest.knows(b"a")
    assert latest.knows(b"b")


def test_entries_that_carry_are_counted_as_long_as_the_log_has_them() -> None:
    log = Log()
    log.append([b"a", b"b"])
    log.compact(log.read(1))
    log.compact(log.read(2))
    assert log.machine.state.latest.compacted == {2: 2, 3: 2}
    log.trim()
    log.compact(log.read(1))
    assert log.machine.state.latest.compacted == {3: 2, 4: 2}
