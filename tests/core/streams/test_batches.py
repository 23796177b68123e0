"""Entries that hold several: what they say is what those would have said by themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock.hlc import ZERO, Clock
from motet.core.shardlog.entry import NO_ENTRY, Entry, EntryId, EntryKind
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.entries import (
    Committed,
    encode_batch,
    encode_body,
    record_range,
    unbatched,
)
from motet.core.streams.feed_scan import FeedScan
from motet.core.streams.shard import StreamShard
from motet.ids import Epoch, Offset, TransactionId


def clock(number: int) -> Clock:
    return Clock(1_000, number)


def committed(number: int, first_offset: int, changes: int) -> Entry:
    """A transaction of some changes, each of a key of its own."""
    rows = tuple(
        RowChange(index, b"k%d-%d" % (number, index), "insert", b"{}", None)
        for index in range(changes)
    )
    branch = Branch(TransactionId(f"t{number}"), ZERO, ZERO, changes, rows)
    body = Committed(branch, clock(number), 1, Offset(first_offset))
    return Entry(NO_ENTRY, EntryKind.BRANCH_COMMITTED, clock(number), encode_body(body))


def several(sizes: list[int]) -> list[Entry]:
    found, offset = [], 0
    for number, size in enumerate(sizes, start=1):
        found.append(committed(number, offset, size))
        offset += size
    return found


def entry_of(offset: int, batched: list[Entry]) -> Entry:
    kind, body = encode_batch(batched)
    return Entry(EntryId(Epoch(1), Offset(offset)), kind, batched[-1].clock, body)


def test_one_alone_is_an_entry_by_itself() -> None:
    (alone,) = several([2])
    entry = entry_of(1, [alone])
    assert (entry.kind, entry.body) == (EntryKind.BRANCH_COMMITTED, alone.body)
    assert list(unbatched(entry)) == [entry]


@given(st.lists(st.integers(1, 3), min_size=2, max_size=8), st.data())
def test_a_shard_ends_up_the_same_however_its_entries_are_batched(
    sizes: list[int], data: st.DataObject
) -> None:
    whole = several(sizes)
    cut = data.draw(st.integers(1, len(whole) - 1))
    one_by_one, in_batches = StreamShard(), StreamShard()
    for offset, each in enumerate(whole, start=1):
        one_by_one.apply(entry_of(offset, [each]))
    in_batches.apply(entry_of(1, whole[:cut]))
    in_batches.apply(entry_of(2, whole[cut:]))
    assert in_batches.state.transactions == one_by_one.state.transactions
    assert in_batches.state.next_offset == one_by_one.state.next_offset == sum(sizes)
    assert in_batches.state.changed == one_by_one.state.changed
    kept, alone = in_batches.state.latest.keys, one_by_one.state.latest.keys
    assert [(k, v.clock, v.place) for k, v in kept.items()] == [
        (k, v.clock, v.place) for k, v in alone.items()
    ]


@given(st.lists(st.integers(1, 3), min_size=2, max_size=8), st.integers(0, 8), st.integers(1, 9))
def test_a_reader_of_the_feed_may_begin_and_end_within_a_batch(
    sizes: list[int], after: int, limit: int
) -> None:
    whole = several(sizes)
    scan = FeedScan(clock(after), clock(len(sizes)), limit, 1 << 20, {})
    assert scan.take([entry_of(1, whole)])
    entries, through = scan.page()
    assert [entry.clock for entry in entries] == [
        each.clock for each in whole if clock(after) < each.clock <= through
    ]
    places = [record_range(entry) for entry in entries]
    assert sum(place[1] for place in places[:-1] if place is not None) < limit


def test_clocks_rise_within_a_batch() -> None:
    first, second = several([1, 1])
    broken = [first, Entry(NO_ENTRY, second.kind, first.clock, second.body)]
    with pytest.raises(AssertionError, match="U1"):
        StreamShard().apply(entry_of(1, broken))
