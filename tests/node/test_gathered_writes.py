"""Gathered writes against a naive twin that does each at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.node.fakes import MemoryDisk

from motet.core.machine import Write
from motet.errors import DiskFull
from motet.ids import FileName, WriteId
from motet.node.disk_work import GatheredWrites

FILES = [FileName("a"), FileName("b")]

writes = st.lists(
    st.tuples(st.sampled_from(FILES), st.integers(0, 12), st.binary(max_size=6)), max_size=20
)


def effects(script: list[tuple[FileName, int, bytes]]) -> list[Write]:
    return [Write(WriteId(i), *fields) for i, fields in enumerate(script)]


@given(writes)
def test_the_files_are_the_same_as_by_one_write_after_the_other(
    script: list[tuple[FileName, int, bytes]],
) -> None:
    at_once, later, gathered = MemoryDisk([]), MemoryDisk([]), GatheredWrites()
    for write in effects(script):
        at_once.write(write.file, write.offset, write.data)
        gathered.add(write)
    assert gathered.count == len(script)
    assert gathered.size_bytes == sum(len(data) for _, _, data in script)
    assert gathered.carry_out(later) == []
    assert later.content == at_once.content
    assert not gathered
    assert gathered.carry_out(later) == [], "nothing is done twice"


def test_what_follows_each_other_is_one_call_per_file() -> None:
    calls: list[tuple[object, ...]] = []
    disk, gathered = MemoryDisk(calls), GatheredWrites()
    for number in range(6):
        file = FILES[number % 2]
        gathered.add(Write(WriteId(number), file, 10 * (number // 2), bytes(10)))
    gathered.carry_out(disk)
    assert calls == [("write", FILES[0]), ("write", FILES[1])]
    assert {file: len(data) for file, data in disk.content.items()} == dict.fromkeys(FILES, 30)


class SmallDisk(MemoryDisk):
    """Has room for so many bytes in a file; a write that goes beyond changes nothing."""

    room_bytes = 10

    def write(self, file: FileName, offset: int, data: bytes) -> None:
        if offset + len(data) > self.room_bytes:
            raise DiskFull("no room")
        super().write(file, offset, data)


@given(writes)
def test_on_a_full_disk_each_write_fails_or_not_as_it_would_alone(
    script: list[tuple[FileName, int, bytes]],
) -> None:
    at_once, later, gathered = SmallDisk([]), SmallDisk([]), GatheredWrites()
    failed = []
    for write in effects(script):
        gathered.add(write)
        try:
            at_once.write(write.file, write.offset, write.data)
        except DiskFull:
            failed.append(write)
    assert sorted(write.id for write, _ in gathered.carry_out(later)) == [w.id for w in failed]
    assert later.content == at_once.content
