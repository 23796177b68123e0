"""The version of a moment is that of the last entry appended until then."""

from __future__ import annotations

import pytest
from tests.core.mergetree.stand import CLIENT, N2, PATHS, TABLE, Stand, header

from motet.core.mergetree.entries import InsertEntry, encode_entry
from motet.core.mergetree.messages import FindVersion, TableRefused, VersionFound
from motet.core.metadata.messages import ANY_VERSION, Create, Delete, Found, Get, Read, ReadDone
from motet.ids import RequestId, Zxid


def with_entries(count: int) -> Stand:
    """Entry n is appended at 10 (n + 1)."""
    stand = Stand()
    stand.start()
    for number in range(count):
        stand.now_ms = 10 * (number + 1)
        entry = encode_entry(InsertEntry(header(f"part-{number}"), N2))
        stand.write(Create(PATHS.new_entry, entry, sequential=True))
    return stand


def zxid_of(stand: Stand, number: int) -> Zxid:
    read = stand.tree.answer(Read(RequestId(0), stand.other, (Get(PATHS.entry(number)),)))
    assert isinstance(read, ReadDone)
    found = read.results[0]
    assert isinstance(found, Found)
    return found.stat.czxid


def found_at(stand: Stand, time_ms: int) -> VersionFound | TableRefused:
    stand.receive(CLIENT, FindVersion(TABLE, 0, RequestId(1), time_ms))
    while not isinstance(stand.told[-1:] and stand.told[-1], VersionFound | TableRefused):
        stand.answer(Read)
    told = stand.told.pop()
    assert isinstance(told, VersionFound | TableRefused)
    return told


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 18, 40, 300])
def test_a_moment_is_found_between_all_others(count: int) -> None:
    stand = with_entries(count)
    for number in range(0, count, max(count // 20, 1)):
        for time_ms in (10 * (number + 1), 10 * (number + 1) + 9):
            found = found_at(stand, time_ms)
            assert isinstance(found, VersionFound)
            assert found.version == zxid_of(stand, number)
    before = found_at(stand, 9)
    assert isinstance(before, VersionFound)
    assert before.version == 0


def test_what_was_trimmed_has_no_version_any_more() -> None:
    stand = with_entries(40)
    for number in range(25):
        stand.write(Delete(PATHS.entry(number), ANY_VERSION))
    for number in (25, 30, 39):
        found = found_at(stand, 10 * (number + 1))
        assert isinstance(found, VersionFound)
        assert found.version == zxid_of(stand, number)
    refused = found_at(stand, 10 * 25)
    assert isinstance(refused, TableRefused)
    assert refused.code == "SNAPSHOT_EXPIRED"
