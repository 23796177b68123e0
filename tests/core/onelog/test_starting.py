"""What a start makes of the small files, and what the index makes of entries that cannot be."""

from __future__ import annotations

import pytest
from tests.core.onelog.harness import serving, values

from motet.core.clock.hlc import Clock
from motet.core.clock.reservation import encode_bound
from motet.core.onelog.context import Phase
from motet.core.onelog.index import Index
from motet.core.onelog.record import (
    KINDS,
    CommittedRecord,
    LoggedChange,
    StreamRecord,
    decode_record,
    encode_body,
)
from motet.core.onelog.starting import (
    BOUND_FILE,
    IDENTITY_SALT,
    decode_clock_bound,
    decode_identity,
    encode_identity,
)
from motet.core.shardlog.entry import Entry, EntryId, EntryKind
from motet.errors import BadRecord
from motet.format.record import encode_record
from motet.ids import Epoch, Offset, ShardId, StreamName, TransactionId


def entry(offset: int, kind: int, body: bytes, clock: Clock) -> Entry:
    return Entry(EntryId(Epoch(1), Offset(offset)), kind, clock, body)


def taken(*records: StreamRecord | CommittedRecord) -> Index:
    """An index of a log that begins with the entry of its epoch."""
    index = Index()
    index.apply(entry(1, EntryKind.BARRIER, b"", Clock(0, 1)))
    for number, record in enumerate(records):
        index.apply(entry(number + 2, KINDS[type(record)], encode_body(record), record.clock))
    return index


FIRST = StreamRecord(Clock(1, 0), StreamName("s0"), 1, None)


def test_a_bound_that_is_older_than_the_log_is_damage() -> None:
    bench = serving()
    bench.append("k")
    newest = bench.index.newest_record
    bench.crash()
    bench.files[BOUND_FILE] = encode_bound(Clock.from_int(newest.to_int() - 1))
    bench.serve()
    assert bench.state.phase is Phase.BROKEN
    bench.crash()
    bench.files[BOUND_FILE] = encode_bound(newest)
    bench.serve()
    assert bench.append("k").clock > newest


def test_a_file_that_was_begun_for_nothing_is_not_in_the_way() -> None:
    bench = serving()
    bench.append("k", "x" * 300)
    bench.send_append("k", "x" * 300)
    bench.crash(keep=[change for change in bench.pending if change not in bench.writes()])
    bench.serve()
    bench.append("k", "y" * 300)
    bench.crash()
    bench.serve()
    assert values(bench) == [b"x" * 300, b"y" * 300]


def test_an_identity_is_read_back_or_refused() -> None:
    data = encode_identity((1 << 64) - 1)
    assert decode_identity(data) == (1 << 64) - 1
    for bad in (data[:-1], data[:20], bytes([data[0] ^ 1]) + data[1:], b"x"):
        with pytest.raises(BadRecord):
            decode_identity(bad)


def test_an_identity_of_another_format_says_which_version_to_use() -> None:
    for kind, when in ((1, "earlier"), (3, "newer")):
        with pytest.raises(BadRecord, match=f"{when}.* version") as caught:
            decode_identity(encode_record(IDENTITY_SALT, 0, kind, bytes(8)))
        assert "that version" in caught.value.advice


def test_no_bound_is_no_clock_and_a_bad_one_is_an_error() -> None:
    assert decode_clock_bound(b"") is None
    assert decode_clock_bound(encode_bound(Clock(3, 4))) == Clock(3, 4)
    with pytest.raises(BadRecord):
        decode_clock_bound(b"x")


@pytest.mark.parametrize("kind", [0, 16, 38, 255])
def test_a_kind_that_is_not_known_says_what_to_do(kind: int) -> None:
    with pytest.raises(BadRecord, match=f"kind {kind}") as caught:
        decode_record(entry(1, kind, b"", Clock(1, 0)))
    assert "newer version" in caught.value.advice


@pytest.mark.parametrize("kind", list(KINDS.values()))
@pytest.mark.parametrize("body", [b"", b"\x90", b"\xff" * 9])
def test_a_body_that_is_not_one_is_refused(kind: EntryKind, body: bytes) -> None:
    with pytest.raises(BadRecord, match="cannot be read"):
        decode_record(entry(1, kind, body, Clock(1, 0)))


def committed(clock: Clock, *places: tuple[str, int, int]) -> CommittedRecord:
    changes = tuple(
        LoggedChange(StreamName(stream), ShardId(shard), Offset(offset), b"k", "append", b"", None)
        for stream, shard, offset in places
    )
    return CommittedRecord(clock, TransactionId("t"), 0, changes)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (StreamRecord(Clock(1, 0), StreamName("s1"), 1, None), "not above"),
        (StreamRecord(Clock(1, 1), StreamName("s0"), 1, None), "already"),
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
    second: StreamRecord | CommittedRecord, why: str
) -> None:
    index = taken(FIRST, second)
    assert index.damage is not None
    assert why in index.damage[0]
    assert index.records == 1
    before = index.clone()
    index.apply(entry(4, EntryKind.BARRIER, b"", Clock(9, 0)))
    assert index == before, "nothing behind it is taken in"


def test_several_entries_of_one_shard_in_one_record_fit() -> None:
    index = taken(FIRST, committed(Clock(1, 1), ("s0", 0, 0), ("s0", 0, 1)))
    assert index.damage is None
    assert index.streams[StreamName("s0")].entries == [[2, 2]]


def test_an_index_is_its_snapshot() -> None:
    index = taken(FIRST, committed(Clock(1, 1), ("s0", 0, 0)))
    twin = Index()
    twin.restore(index.snapshot())
    assert twin == index
    assert twin.fingerprint() == index.fingerprint() != Index().fingerprint()
    with pytest.raises(BadRecord, match="no index"):
        twin.restore(b"x")
