"""Reading the log back, segment by segment: what is taken, what is torn, what is damage."""

from __future__ import annotations

import pytest
from tests.core.streams.harness import serving

from motet.core.clock.bound_file import encode_bound
from motet.core.clock.hlc import Clock
from motet.core.streams.change import Committed, LoggedChange, StreamCreated
from motet.core.streams.index import Index
from motet.core.streams.log import LogEnd
from motet.core.streams.record import RecordKind, decode_record
from motet.core.streams.recovery import (
    BOUND_FILE,
    Recovery,
    decode_clock_bound,
    decode_identity,
    encode_identity,
    take_segment,
)
from motet.core.streams.state import Phase
from motet.errors import BadRecord
from motet.format.journal import Record
from motet.ids import FileName, Offset, ShardId, StreamName, TransactionId

SEGMENT_BYTES = 512
ZEROS = bytes(SEGMENT_BYTES)


def record(sequence: int, durable_below: int = 0) -> bytes:
    """A record that creates a stream."""
    end = LogEnd(salt=7, segment_bytes=SEGMENT_BYTES, sequence=sequence)
    created = StreamCreated(Clock(1, sequence), StreamName(f"s{sequence}"), 1, None)
    return end.encode(created, durable_below)


def filled(*records: bytes) -> bytes:
    return b"".join(records).ljust(SEGMENT_BYTES, b"\0")


def taken(*segments: bytes) -> tuple[Recovery, Index, LogEnd]:
    recovery, index, end = Recovery(None), Index(), LogEnd(7, SEGMENT_BYTES)
    for segment in segments:
        take_segment(recovery, index, end, segment)
    return recovery, index, end


def test_records_are_taken_with_their_places() -> None:
    first, second = record(0), record(1)
    recovery, index, end = taken(filled(first, second), filled(record(2)))
    assert index.positions == [0, len(first), SEGMENT_BYTES]
    assert index.sizes == [len(first), len(second), len(record(2))]
    assert (end.segment, end.offset, end.sequence) == (2, len(record(2)), 3)
    assert not recovery.is_torn
    assert recovery.segment == 3


def test_a_segment_of_zeros_is_not_where_the_log_ends() -> None:
    recovery, _, end = taken(filled(record(0)), ZEROS)
    assert (end.segment, end.offset) == (1, len(record(0)))
    assert not recovery.is_torn


def test_a_torn_record_ends_the_log_and_what_was_lost_with_it_is_ignored() -> None:
    recovery, index, end = taken(filled(record(0), record(1)[:40]), filled(record(2)))
    assert recovery.is_torn
    assert len(index.positions) == end.sequence == 1
    assert (end.segment, end.offset) == (1, len(record(0)))


def test_a_record_that_was_lost_whole_is_noticed_by_the_segment_behind() -> None:
    recovery, index, _ = taken(filled(record(0)), filled(record(2)))
    assert recovery.is_torn
    assert len(index.positions) == 1


def test_a_later_segment_proves_that_what_is_missing_had_been_durable() -> None:
    with pytest.raises(BadRecord, match="log-2"):
        taken(filled(record(0)), filled(record(2, durable_below=2)))
    with pytest.raises(BadRecord, match="log-3"):
        taken(
            filled(record(0), record(1)[:40]), filled(record(2)), filled(record(3, durable_below=2))
        )


def test_the_missing_record_in_another_segment_is_damage() -> None:
    with pytest.raises(BadRecord, match="behind a gap"):
        taken(filled(record(0), record(1)[:40]), filled(record(1)))


def test_a_bound_that_is_older_than_the_log_is_damage() -> None:
    bench = serving()
    bench.append("k")
    newest = bench.state.index.newest
    bench.crash()
    bench.files[BOUND_FILE] = encode_bound(Clock.from_int(newest.to_int() - 1))
    bench.serve()
    assert bench.state.phase is Phase.BROKEN
    bench.crash()
    bench.files[BOUND_FILE] = encode_bound(newest)
    bench.serve()
    assert bench.append("k").clock > newest


def test_a_file_that_was_begun_for_nothing_is_removed() -> None:
    bench = serving()
    bench.append("k", "x" * 300)
    bench.send_append("k", "x" * 300)
    bench.crash(keep=[change for change in bench.pending if change not in bench.writes()])
    assert bench.files[FileName("log-2")] == ZEROS
    bench.serve()
    assert FileName("log-2") not in bench.files
    assert len(bench.feed()) == 1


def test_an_identity_is_read_back_or_refused() -> None:
    data = encode_identity((1 << 64) - 1)
    assert decode_identity(data) == (1 << 64) - 1
    for bad in (data[:-1], data[:20], bytes([data[0] ^ 1]) + data[1:], b"x"):
        with pytest.raises(BadRecord):
            decode_identity(bad)


def test_no_bound_is_no_clock_and_a_bad_one_is_an_error() -> None:
    assert decode_clock_bound(b"") is None
    assert decode_clock_bound(encode_bound(Clock(3, 4))) == Clock(3, 4)
    with pytest.raises(BadRecord):
        decode_clock_bound(b"x")


@pytest.mark.parametrize("kind", [0, 6, 255])
def test_a_kind_that_is_not_known_says_what_to_do(kind: int) -> None:
    with pytest.raises(BadRecord, match=f"kind {kind}") as caught:
        decode_record(Record(0, kind, b"", 0))
    assert "newer version" in caught.value.advice


@pytest.mark.parametrize("kind", list(RecordKind))
@pytest.mark.parametrize("body", [b"", b"\x90", b"\xff" * 9])
def test_a_body_that_is_not_one_is_refused(kind: RecordKind, body: bytes) -> None:
    with pytest.raises(BadRecord, match="cannot be read"):
        decode_record(Record(0, kind, body, 0))


def committed(clock: Clock, *places: tuple[str, int, int]) -> Committed:
    changes = tuple(
        LoggedChange(StreamName(stream), ShardId(shard), Offset(offset), b"k", "append", b"", None)
        for stream, shard, offset in places
    )
    return Committed(clock, TransactionId("t"), 0, changes)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (StreamCreated(Clock(1, 0), StreamName("s1"), 1, None), "not above"),
        (StreamCreated(Clock(1, 1), StreamName("s0"), 1, None), "already"),
        (committed(Clock(1, 1)), "changes nothing"),
        (committed(Clock(1, 1), ("other", 0, 0)), "no shard"),
        (committed(Clock(1, 1), ("s0", 1, 0)), "no shard"),
        (committed(Clock(1, 1), ("s0", -1, 0)), "no shard"),
        (committed(Clock(1, 1), ("s0", 0, 1)), "goes on at 0"),
        (committed(Clock(1, 1), ("s0", 0, 0), ("s0", 0, 0)), "goes on at 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_whole_record_that_does_not_fit_the_log_is_damage(
    second: StreamCreated | Committed, why: str
) -> None:
    end = LogEnd(salt=7, segment_bytes=SEGMENT_BYTES, sequence=1)
    with pytest.raises(BadRecord, match=why):
        taken(filled(record(0), end.encode(second, 0)))


def test_several_entries_of_one_shard_in_one_record_fit() -> None:
    end = LogEnd(salt=7, segment_bytes=SEGMENT_BYTES, sequence=1)
    second = committed(Clock(1, 1), ("s0", 0, 0), ("s0", 0, 1))
    _, index, _ = taken(filled(record(0), end.encode(second, 0)))
    assert index.streams[StreamName("s0")].entries == [[1, 1]]
