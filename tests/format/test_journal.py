"""Journals as they are after a crash, after rot, and in files that have served before."""

from __future__ import annotations

import struct
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import BadRecord
from motet.format.checksum import crc32c
from motet.format.journal import Ending, JournalReader, Record, Scan, encode_record, scan
from motet.format.record import RECORD_HEADER_BYTES

SALT = 0x5EED_0123_4567_89AB
OTHER_SALT = SALT + 1
BODIES = [b"first", b"", b"twenty-four bytes, no pad", b"x" * 40, b"last one"]


def journal(
    bodies: list[bytes], salt: int = SALT, first_sequence: int = 0, batch_records: int = 1
) -> list[bytes]:
    """The records of a journal that synced after every ``batch_records`` of them."""
    return [
        encode_record(
            *(salt, first_sequence + i, i % 256, body),
            durable_below=first_sequence + i - i % batch_records,
        )
        for i, body in enumerate(bodies)
    ]


def sequences(found: Scan) -> list[int]:
    return [record.sequence for record in found.records]


def flip(data: bytes, bit: int) -> bytes:
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def with_header_field(record: bytes, offset: int, code: str, value: int) -> bytes:
    """The record with one field of its header changed, and the header's checksum made right again."""
    changed = bytearray(record)
    struct.pack_into(code, changed, offset, value)
    struct.pack_into("<I", changed, RECORD_HEADER_BYTES - 4, crc32c(bytes(changed[:36])))
    return bytes(changed)


# A journal that is well


@pytest.mark.parametrize("behind", [b"", bytes(1), bytes(39), bytes(70_000)])
def test_a_whole_journal_is_clean(behind: bytes) -> None:
    records = journal(BODIES)
    found = scan(b"".join(records) + behind, SALT)
    starts = [0, *accumulate(len(record) for record in records)]
    assert found.records == tuple(Record(i, i, body, starts[i]) for i, body in enumerate(BODIES))
    assert (found.ending, found.end_offset, found.next_sequence) == (Ending.CLEAN, starts[-1], 5)
    found.refuse_damage()


@pytest.mark.parametrize("data", [b"", bytes(7), bytes(4096)])
def test_a_journal_that_has_not_begun_is_clean(data: bytes) -> None:
    found = scan(data, SALT, first_sequence=7)
    assert (found.ending, found.end_offset, found.next_sequence) == (Ending.CLEAN, 0, 7)


def test_a_journal_may_begin_anywhere_with_any_number() -> None:
    records = journal(BODIES, first_sequence=1000)
    found = scan(b"superblock".ljust(64) + b"".join(records), SALT, 1000, 64)
    assert sequences(found) == [1000, 1001, 1002, 1003, 1004]
    assert found.records[0].offset == 64
    assert (found.ending, found.end_offset) == (Ending.CLEAN, 64 + len(b"".join(records)))


def test_very_many_records_in_small_pieces() -> None:
    count = 20_000
    data = b"".join(encode_record(SALT, i, 0, b"") for i in range(count)) + bytes(999)
    reader = JournalReader(SALT)
    found = 0
    for start in range(0, len(data), 4099):
        found += len(reader.feed(data[start : start + 4099]))
    end = reader.finish()
    assert (found, end.next_sequence, end.ending) == (count, count, Ending.CLEAN)


@given(st.data())
def test_reading_in_pieces_finds_the_same_as_reading_at_once(data: st.DataObject) -> None:
    records = journal(data.draw(st.lists(st.binary(max_size=60), max_size=5)))
    piece = st.one_of(st.binary(max_size=50), st.sampled_from([*records, bytes(64), b"mj\x01\x01"]))
    file = b"".join(records) + b"".join(data.draw(st.lists(piece, max_size=4)))
    reader = JournalReader(SALT)
    found: list[Record] = []
    position = 0
    while position < len(file):
        size = data.draw(st.integers(1, 90))
        found += reader.feed(file[position : position + size])
        position += size
    end = reader.finish()
    whole = scan(file, SALT)
    assert tuple(found) == whole.records
    assert (end.ending, end.end_offset, end.what) == (whole.ending, whole.end_offset, whole.what)


@given(st.binary(max_size=200), st.integers(0, 2))
def test_garbage_is_never_a_record_and_never_an_error(garbage: bytes, good: int) -> None:
    records = journal(BODIES[:good])
    found = scan(b"".join(records) + garbage, SALT)
    assert len(found.records) == good
    assert found.ending is (Ending.TORN if garbage.strip(b"\0") else Ending.CLEAN)


# After a crash


@pytest.mark.parametrize("behind", [b"", bytes(500)])
def test_the_last_record_torn_at_every_byte(behind: bytes) -> None:
    *whole, last = journal(BODIES)
    durable = b"".join(whole)
    for length in range(len(last)):
        found = scan(durable + last[:length] + behind, SALT)
        assert sequences(found) == [0, 1, 2, 3]
        assert found.end_offset == len(durable)
        assert found.ending is (Ending.CLEAN if length == 0 else Ending.TORN)
        found.refuse_damage()


def test_a_lost_record_in_front_of_one_that_arrived_is_torn_and_not_clean() -> None:
    # Both were written and not synced; the disk kept the second. It must not be taken for the future
    # of whatever is written in place of the first, so the ending asks for a cut that wipes it.
    durable, lost, kept = journal(BODIES[:3], batch_records=3)
    found = scan(durable + bytes(len(lost)) + kept, SALT)
    assert (sequences(found), found.ending) == ([0], Ending.TORN)


@given(st.data())
def test_no_crash_loses_what_was_durable_or_looks_like_damage(data: st.DataObject) -> None:
    bodies = data.draw(st.lists(st.binary(max_size=60), min_size=1, max_size=8))
    batch_records = data.draw(st.integers(1, 4))
    records = journal(bodies, first_sequence=100, batch_records=batch_records)
    batches = (len(records) - 1) // batch_records
    durable = records[: data.draw(st.integers(0, batches)) * batch_records]
    unsynced = b"".join(records[len(durable) : len(durable) + batch_records])

    length = len(b"".join(durable) + unsynced) + 64
    before = data.draw(st.sampled_from(["zeros", "another journal", "an earlier round", "noise"]))
    file = bytearray(used_file(before, length, data))
    file[: len(b"".join(durable))] = b"".join(durable)
    sector_bytes = data.draw(st.sampled_from([1, 8, 16, 64]))
    for start in range(0, len(unsynced), sector_bytes):
        if data.draw(st.booleans()):  # this sector made it to the disk
            sector = unsynced[start : start + sector_bytes]
            at = len(b"".join(durable)) + start
            file[at : at + len(sector)] = sector

    found = scan(bytes(file), SALT, first_sequence=100)
    assert found.ending is not Ending.DAMAGED
    assert len(found.records) >= len(durable)
    assert [record.body for record in found.records] == bodies[: len(found.records)]


def used_file(before: str, length: int, data: st.DataObject) -> bytes:
    if before == "zeros":
        return bytes(length)
    if before == "noise":
        return data.draw(st.binary(min_size=length, max_size=length))
    bodies = data.draw(st.lists(st.binary(max_size=60), min_size=1, max_size=8))
    salt = OTHER_SALT if before == "another journal" else SALT
    old = b"".join(journal(bodies, salt, first_sequence=100 - len(bodies)))
    return old[:length].ljust(length, b"\0")


# After rot


@pytest.mark.parametrize("batch_records", [1, 2])
def test_rot_before_the_last_sync_is_damage_and_in_it_torn(batch_records: int) -> None:
    bodies = [b"a", b"", b"c" * 8, b"d" * 20, b"e", b"f" * 3]
    records = journal(bodies, batch_records=batch_records)
    data = b"".join(records)
    edges = [0, *accumulate(len(record) for record in records)]
    for bit in range(len(data) * 8):
        found = scan(flip(data, bit), SALT)
        hit = sum(edge <= bit // 8 for edge in edges) - 1
        assert [record.body for record in found.records] == bodies[:hit]
        assert found.end_offset == edges[hit]
        in_last_sync = hit >= len(bodies) - batch_records
        assert found.ending is (Ending.TORN if in_last_sync else Ending.DAMAGED)


def test_rot_is_proven_by_a_header_whose_own_body_is_torn() -> None:
    first, rotten, torn = journal([b"one", b"two", b"three" * 9])
    found = scan(first + flip(rotten, 8) + torn[:48], SALT)
    assert (sequences(found), found.ending) == ([0], Ending.DAMAGED)


def test_the_proof_is_found_wherever_the_file_is_cut_in_pieces() -> None:
    first, rotten, later = journal([b"one", b"two", b"three"])
    data = first + flip(rotten, 8) + bytes(80) + later
    for place in range(len(data)):
        reader = JournalReader(SALT)
        reader.feed(data[:place])
        reader.feed(data[place:])
        assert reader.finish().ending is Ending.DAMAGED


def test_rot_that_left_only_zeros_is_damage() -> None:
    first, gone, later = journal([b"one", b"two", b"three"])
    found = scan(first + bytes(len(gone)) + bytes(100_000) + later, SALT)
    assert found.ending is Ending.DAMAGED


def test_damage_is_refused_with_the_places_of_both_records() -> None:
    first, rotten, later = journal([b"one", b"two", b"three"])
    found = scan(first + flip(rotten, 0) + later, SALT)
    with pytest.raises(BadRecord) as refused:
        found.refuse_damage()
    assert f"record 1 at byte {len(first)} has no readable header" in refused.value.what
    assert f"record 2 at byte {len(first + rotten)} was written after" in refused.value.what


# Records that are whole, but not the next


@pytest.mark.parametrize("old_salt", [OTHER_SALT, SALT])
def test_older_records_behind_the_end_are_not_ours(old_salt: int) -> None:
    old = journal([bytes(16)] * 6, old_salt, first_sequence=0)
    new = journal([bytes(16)] * 3, SALT, first_sequence=6)
    found = scan(b"".join(new + old[3:]), SALT, first_sequence=6)
    assert (sequences(found), found.ending) == ([6, 7, 8], Ending.CLEAN)


@pytest.mark.parametrize("old_sequence", [0, 1, 2, 3, 1000])
def test_another_journal_in_the_same_file_is_not_ours_whatever_its_numbers(
    old_sequence: int,
) -> None:
    old = journal([bytes(16)] * 6, OTHER_SALT, first_sequence=old_sequence)
    new = journal([bytes(16)] * 3)
    found = scan(b"".join(new + old), SALT)
    assert (sequences(found), found.ending) == ([0, 1, 2], Ending.CLEAN)


def test_a_lost_record_in_place_of_which_an_older_one_is_left_is_torn() -> None:
    (older,) = journal([bytes(16)], OTHER_SALT)
    durable, _lost, kept = journal([bytes(16)] * 3, batch_records=3)
    found = scan(durable + older + kept, SALT)
    assert (sequences(found), found.ending) == ([0], Ending.TORN)


@pytest.mark.parametrize("old_salt", [OTHER_SALT, SALT])
def test_the_middle_of_an_older_record_at_the_end_is_called_torn(old_salt: int) -> None:
    old = b"".join(journal([b"z" * 99] * 4, old_salt, first_sequence=0))
    new = b"".join(journal([b"new"], SALT, first_sequence=4))
    found = scan(new + old[len(new) :], SALT, first_sequence=4)
    assert (sequences(found), found.ending) == ([4], Ending.TORN)


def test_a_gap_in_the_sequence_is_damage() -> None:
    first, _, third = journal(BODIES[:3])
    found = scan(first + third, SALT)
    assert (sequences(found), found.ending) == ([0], Ending.DAMAGED)
    assert "a later one is" in found.what


def test_a_record_written_twice_counts_once() -> None:
    first, second, third = journal(BODIES[:3])
    found = scan(first + second + second, SALT)
    assert (sequences(found), found.ending) == ([0, 1], Ending.CLEAN)
    found = scan(first + second + second + third, SALT)
    assert (sequences(found), found.ending) == ([0, 1], Ending.DAMAGED)
    assert f"it stands at byte {len(first + second + second)}" in found.what


def test_a_record_of_a_newer_version_is_never_cut() -> None:
    first, second = journal(BODIES[:2])
    found = scan(first + with_header_field(second, 2, "<B", 2), SALT)
    assert (sequences(found), found.ending) == ([0], Ending.DAMAGED)
    assert "newer program" in found.what


def test_a_length_above_the_bound_is_not_waited_for() -> None:
    first, second, third = journal(BODIES[:3])
    reader = JournalReader(SALT)
    assert len(reader.feed(first + with_header_field(second, 4, "<I", 2**32 - 1))) == 1
    assert reader.feed(third) == []
    end = reader.finish()
    assert (end.ending, end.next_sequence) == (Ending.DAMAGED, 1)
    assert "longer than any record" in end.what
