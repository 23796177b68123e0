"""The state of a stream's shard: offsets, tokens, index points."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.shardlog.entry import Entry, EntryId, EntryKind
from motet.core.streams import shard
from motet.core.streams.change import Token
from motet.core.streams.entries import Chunk, Records, decode_records, encode_records
from motet.core.streams.orders import Prune
from motet.core.streams.shard import Place, StreamShard
from motet.errors import BadRecord, TokenExpired, TooLarge
from motet.format.record_block import encode_block
from motet.ids import Epoch, Offset
from motet.limits import producer_window


def chunk(count: int = 1, token: Token | None = None) -> Chunk:
    return Chunk(count, token, encode_block([b"k"] * count, [b"v"] * count))


class Feeder:
    """Applies entries one behind the other, as a log would."""

    def __init__(self) -> None:
        self.machine = StreamShard()
        self.entries = 0

    def records(self, *chunks: Chunk, epoch: int = 1) -> EntryId:
        body = encode_records(Records(self.machine.state.next_offset, 7, chunks))
        return self._apply(EntryKind.RECORDS, body, epoch)

    def barrier(self, epoch: int) -> EntryId:
        return self._apply(EntryKind.BARRIER, b"", epoch)

    def _apply(self, kind: int, body: bytes, epoch: int) -> EntryId:
        self.entries += 1
        entry = EntryId(Epoch(epoch), Offset(self.entries))
        self.machine.apply(Entry(entry, kind, Clock(self.entries, 0), body))
        return entry


def test_records_are_counted_and_barriers_are_not() -> None:
    feeder = Feeder()
    feeder.barrier(1)
    feeder.records(chunk(3), chunk(2))
    feeder.barrier(2)
    feeder.records(chunk())
    assert feeder.machine.state.next_offset == 6


def test_a_token_leads_to_the_first_of_its_records() -> None:
    feeder, token = Feeder(), Token("p", 4)
    feeder.records(chunk(2), chunk(3, token), epoch=5)
    assert feeder.machine.place_of(token) == Place(Epoch(5), Offset(2), Clock(1, 0))
    assert feeder.machine.place_of(Token("p", 3)) is None
    assert feeder.machine.place_of(Token("q", 4)) is None


def test_a_window_of_tokens_is_remembered_and_older_ones_are_refused() -> None:
    feeder = Feeder()
    for number in range(producer_window):
        feeder.records(chunk(1, Token("p", 2 * number)))
    assert feeder.machine.place_of(Token("p", 0)) is not None
    assert feeder.machine.place_of(Token("p", 1)) is None, "never used, and everything is known"
    feeder.records(chunk(1, Token("p", 1000)))
    with pytest.raises(TokenExpired):
        feeder.machine.place_of(Token("p", 0))
    with pytest.raises(TokenExpired):
        feeder.machine.place_of(Token("p", 1))
    assert feeder.machine.place_of(Token("p", 3)) is None, "above all that is forgotten"


def test_new_producers_are_refused_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shard, "producers_max", 2)
    feeder = Feeder()
    feeder.records(chunk(1, Token("p", 1)), chunk(1, Token("q", 1)))
    assert feeder.machine.place_of(Token("p", 2)) is None
    with pytest.raises(TooLarge, match="2 producers"):
        feeder.machine.place_of(Token("r", 1))


@settings(max_examples=50)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=80), st.data())
def test_a_record_is_found_from_the_milestone_before_it(
    counts: list[int], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard, "index_points_max", 4)
        feeder = Feeder()
        feeder.machine.state.sparse_index_step_bytes = 60
        first: dict[int, int] = {}
        for count in counts:
            offset = feeder.machine.state.next_offset
            entry = feeder.records(chunk(count))
            first[entry.offset] = offset
        assert len(feeder.machine.state.index_records) <= 4
        record = Offset(data.draw(st.integers(0, sum(counts) - 1)))
        assert first[feeder.machine.entry_before(record)] <= record


def test_the_feed_begins_at_a_milestone_where_the_log_does_not_begin_with_its_first_entry() -> None:
    feeder = Feeder()
    feeder.machine.state.sparse_index_step_bytes = 60
    for _ in range(12):
        feeder.records(chunk(1))
    machine, index_points = feeder.machine, feeder.machine.state.index_entries
    assert len(index_points) > 2
    assert machine.feed_begins(Offset(1)) == ZERO
    trimmed = Offset(index_points[1] + 1)
    begins = machine.feed_begins(trimmed)
    assert begins == plus(Clock(index_points[2], 0), -1)
    assert machine.entry_above(begins, trimmed)[0] == index_points[2], "its own records are shown"
    later = Clock(index_points[2], 0)
    assert machine.entry_above(later, trimmed)[0] == index_points[2]
    assert machine.entry_above(Clock(12, 0), trimmed)[0] == index_points[-1]


def test_what_is_pruned_and_not_gone_is_not_shown() -> None:
    feeder = Feeder()
    for _ in range(5):
        feeder.records(chunk(1))
    feeder.machine.state.rules.apply(Prune(Clock(3, 0), is_forced=False))
    assert feeder.machine.feed_begins(Offset(1)) == Clock(3, 0)
    assert feeder.machine.feed_begins(Offset(2)) == Clock(5, 0), "there is no index point left"


def test_records_say_whether_they_have_a_clock_only_if_they_have_none() -> None:
    records = Records(Offset(3), 7, (chunk(2),))
    hidden = Records(Offset(3), 7, (chunk(2),), has_clock=False)
    assert len(encode_records(hidden)) == len(encode_records(records)) + 1
    assert decode_records(encode_records(records)) == records
    assert decode_records(encode_records(hidden)) == hidden


def test_a_snapshot_is_the_state() -> None:
    feeder = Feeder()
    feeder.records(chunk(2), chunk(3, Token("p", 9)))
    twin = StreamShard()
    twin.restore(feeder.machine.snapshot())
    assert twin.fingerprint() == feeder.machine.fingerprint()
    assert twin.snapshot() == feeder.machine.snapshot()
    with pytest.raises(BadRecord):
        twin.restore(b"nonsense")


def test_a_clone_goes_its_own_way() -> None:
    feeder = Feeder()
    feeder.records(chunk(1, Token("p", 1)))
    twin = feeder.machine.clone()
    feeder.records(chunk(1, Token("p", 2)))
    assert twin.place_of(Token("p", 2)) is None
    assert twin.fingerprint() != feeder.machine.fingerprint()
