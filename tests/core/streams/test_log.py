"""The end of the log: positions, files, and going back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock.hlc import Clock
from motet.core.streams.change import StreamCreated
from motet.core.streams.log import LogEnd, segment_file
from motet.core.streams.record import RecordKind
from motet.format.journal import scan
from motet.ids import StreamName


@given(st.lists(st.integers(1, 64).map(lambda n: n * 8), max_size=60))
def test_records_stay_within_a_file_and_behind_each_other(sizes: list[int]) -> None:
    end = LogEnd(salt=1, segment_bytes=512)
    ends = 0
    places = []
    for sequence, size_bytes in enumerate(sizes):
        if end.needs_segment(size_bytes):
            assert end.offset + size_bytes > 512
            assert end.begin_segment() == segment_file(end.segment)
        assert end.position >= ends
        assert end.place(end.position) == (segment_file(end.segment), end.offset)
        assert end.offset + size_bytes <= 512
        places.append((end.position, end.segment, end.offset, sequence))
        assert end.sequence == sequence
        end.advance(size_bytes)
        ends = places[-1][0] + size_bytes
    for position, segment, offset, sequence in reversed(places):
        end.go_back(position, sequence)
        assert (end.segment, end.offset, end.sequence) == (segment, offset, sequence)


def test_a_record_is_written_with_its_kind_its_sequence_and_what_is_durable() -> None:
    end = LogEnd(salt=5, segment_bytes=512, sequence=3)
    created = StreamCreated(Clock(1, 1), StreamName("stock"), 1, None)
    found = scan(end.encode(created, durable_below=2), 5, 3)
    assert [(each.sequence, each.kind) for each in found.records] == [
        (3, RecordKind.STREAM_CREATED)
    ]
    assert scan(end.encode(created, durable_below=2), 6, 3).records == ()
