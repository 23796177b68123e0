"""What every disk promises (:mod:`motet.ports`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.disk_harness import DiskHarness

from motet.errors import BadInput, DiskFull
from motet.ids import FileName
from motet.ports import Disk

SECTOR_BYTES = 512
A = FileName("a")
B = FileName("b.log")


def test_what_is_written_can_be_read(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.write(A, 0, b"hello world")
    disk.write(A, 6, b"there")
    assert disk.read(A, 0) == b"hello there"
    assert disk.read(A, 6, 3) == b"the"
    assert disk.size(A) == 11


def test_a_read_is_shorter_at_the_end_and_empty_behind_it(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.write(A, 0, b"hello")
    assert disk.read(A, 3, 100) == b"lo"
    assert disk.read(A, 5, 1) == b""
    assert disk.read(A, 99) == b""


def test_a_file_that_is_not_there(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    assert disk.read(A, 0) == b""
    assert disk.size(A) is None
    disk.sync(A)
    disk.truncate(A, 0)
    disk.remove(A)
    assert disk.files() == []


def test_a_gap_is_filled_with_zeros(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.write(A, 3, b"x")
    disk.write(A, 1030, b"y")
    assert disk.read(A, 0) == bytes(3) + b"x" + bytes(1026) + b"y"


def test_a_write_may_reach_over_the_end(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.write(A, 0, b"0123456789")
    disk.write(A, 8, b"abcdef")
    assert disk.read(A, 0) == b"01234567abcdef"


def test_preallocated_room_is_zeros_and_keeps_what_is_there(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.write(A, 0, b"head")
    disk.preallocate(A, 10_000)
    assert disk.read(A, 0) == b"head" + bytes(9_996)
    disk.preallocate(A, 5)
    assert disk.size(A) == 10_000


def test_truncating_cuts_and_never_grows(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.write(A, 0, b"0123456789")
    disk.truncate(A, 4)
    disk.truncate(A, 8)
    assert disk.read(A, 0) == b"0123"
    disk.write(A, 6, b"x")
    assert disk.read(A, 0) == b"0123\0\0x", "what was cut off does not come back"


def test_replacing_gives_the_whole_content(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.replace(A, b"first, and quite long")
    disk.replace(A, b"second")
    assert disk.read(A, 0) == b"second"
    disk.write(A, 6, b"!")
    assert disk.read(A, 0) == b"second!", "the replaced file is the one that is written to"


def test_removing(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.write(A, 0, b"old")
    disk.remove(A)
    assert disk.size(A) is None
    disk.write(A, 1, b"n")
    assert disk.read(A, 0) == b"\0n"


def test_files_are_listed_by_name(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    for name in ("b", "a.1", "a-1", "C", "0_"):
        disk.write(FileName(name), 0, b"x")
    assert disk.files() == sorted(["b", "a.1", "a-1", "C", "0_"])


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/a", "../a", "a\0", "ä", "a b", "a~", "a\n"]
)
def test_a_name_that_is_not_flat_is_refused(disk_harness: DiskHarness, name: str) -> None:
    disk, file = disk_harness.disk, FileName(name)
    with pytest.raises(BadInput):
        disk.write(file, 0, b"x")
    with pytest.raises(BadInput):
        disk.read(file, 0)
    with pytest.raises(BadInput):
        disk.replace(file, b"x")
    with pytest.raises(BadInput):
        disk.remove(file)
    assert disk.files() == []


# Crashes


def test_what_was_synced_survives(disk_harness: DiskHarness) -> None:
    for number in range(20):
        content = bytes([number]) * (100 * number)
        disk_harness.disk.write(A, 0, content)
        disk_harness.disk.sync(A)
        disk_harness.crash()
        assert disk_harness.disk.read(A, 0, len(content)) == content


def test_what_was_preallocated_and_synced_survives(disk_harness: DiskHarness) -> None:
    disk_harness.disk.preallocate(A, 5_000)
    disk_harness.disk.sync(A)
    disk_harness.crash()
    assert disk_harness.disk.read(A, 0) == bytes(5_000)


def test_a_cut_that_was_synced_survives(disk_harness: DiskHarness) -> None:
    disk_harness.disk.write(A, 0, b"0123456789")
    disk_harness.disk.sync(A)
    disk_harness.disk.truncate(A, 4)
    disk_harness.disk.sync(A)
    disk_harness.crash()
    assert disk_harness.disk.read(A, 0) == b"0123"


def test_replacing_and_removing_need_no_sync(disk_harness: DiskHarness) -> None:
    for number in range(20):
        disk_harness.disk.replace(A, b"content %d" % number)
        disk_harness.disk.replace(B, b"to be removed")
        disk_harness.disk.remove(B)
        disk_harness.crash()
        assert disk_harness.disk.read(A, 0) == b"content %d" % number
        assert disk_harness.disk.files() == [A]


def test_syncing_one_file_does_not_lose_another(disk_harness: DiskHarness) -> None:
    disk_harness.disk.write(A, 0, b"one")
    disk_harness.disk.write(B, 0, b"two")
    disk_harness.disk.sync(A)
    disk_harness.disk.sync(B)
    disk_harness.crash()
    assert [disk_harness.disk.read(file, 0) for file in (A, B)] == [b"one", b"two"]


def test_files_that_were_replaced_together_have_the_new_content(disk_harness: DiskHarness) -> None:
    names = [FileName(f"f{number}") for number in range(100)]
    old, new = ({name: what + name.encode() for name in names} for what in (b"old ", b"new "))
    for wanted in (old, new):
        assert disk_harness.disk.replace_all(wanted) == {}
        assert {name: disk_harness.disk.read(name, 0) for name in names} == wanted
    disk_harness.crash()
    assert {name: disk_harness.disk.read(name, 0) for name in names} == new


def test_files_that_were_synced_together_survive(disk_harness: DiskHarness) -> None:
    names = [FileName(f"f{number}") for number in range(100)]
    for name in names:
        disk_harness.disk.write(name, 0, name.encode())
    disk_harness.disk.sync_all([*names, FileName("never-written")])
    disk_harness.crash()
    assert [disk_harness.disk.read(name, 0) for name in names] == [each.encode() for each in names]


def test_every_sector_of_an_unsynced_write_is_old_or_new(disk_harness: DiskHarness) -> None:
    sectors = 8
    for number in range(1, 40):
        old, new = bytes([number]), bytes([number + 100])
        disk_harness.disk.write(A, 0, old * (sectors * SECTOR_BYTES))
        disk_harness.disk.sync(A)
        disk_harness.disk.write(A, SECTOR_BYTES // 2, new * ((sectors - 1) * SECTOR_BYTES))
        disk_harness.crash()
        found = disk_harness.disk.read(A, 0)
        assert len(found) == sectors * SECTOR_BYTES
        half = SECTOR_BYTES // 2
        assert found[:half] == old * half, "nobody wrote there"
        assert found[-half:] == old * half
        for start in range(0, len(found), SECTOR_BYTES):
            written = found[start : start + SECTOR_BYTES][half if start == 0 else 0 :]
            written = written[:half] if start == (sectors - 1) * SECTOR_BYTES else written
            assert written in (old * len(written), new * len(written))


def test_an_unsynced_append_leaves_the_synced_part_alone(disk_harness: DiskHarness) -> None:
    for _ in range(20):
        disk_harness.disk.replace(A, b"synced")
        disk_harness.disk.write(A, 6, b" and not synced")
        disk_harness.crash()
        assert disk_harness.disk.read(A, 0) in (b"synced", b"synced and not synced")


def test_the_next_life_finds_the_same_twice(disk_harness: DiskHarness) -> None:
    """What a restarted node has read stays: a second crash does not take it away."""
    for number in range(20):
        disk_harness.disk.write(A, number * 700, bytes([number]) * 900)
        disk_harness.crash()
        found = disk_harness.disk.read(A, 0)
        disk_harness.crash()
        assert disk_harness.disk.read(A, 0) == found


# A full disk


def test_without_room_a_file_stays_as_it_was(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.write(A, 0, b"x" * 1000)
    with disk_harness.full():
        with pytest.raises(DiskFull):
            disk.write(A, 1000, b"y")
        with pytest.raises(DiskFull):
            disk.write(A, 500, b"y" * 501)
        with pytest.raises(DiskFull):
            disk.write(A, 2000, b"y")
        with pytest.raises(DiskFull):
            disk.preallocate(A, 3000)
        with pytest.raises(DiskFull):
            disk.replace(A, b"y" * 1001)
        assert disk.read(A, 0) == b"x" * 1000
    disk.write(A, 1000, b"y")
    assert disk.read(A, 0) == b"x" * 1000 + b"y", "with room again everything goes on"


def test_without_room_there_is_no_new_file(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.write(A, 0, b"x" * 100)
    with disk_harness.full():
        with pytest.raises(DiskFull):
            disk.write(B, 0, b"y" * 101)
        with pytest.raises(DiskFull):
            disk.preallocate(B, 101)
        with pytest.raises(DiskFull):
            disk.replace(B, b"y" * 101)
        assert disk.size(B) is None
        assert disk.files() == [A]


def test_room_that_is_there_can_be_written_on_a_full_disk(disk_harness: DiskHarness) -> None:
    disk = disk_harness.disk
    disk.preallocate(A, 4096)
    disk.sync(A)
    with disk_harness.full():
        disk.write(A, 1000, b"y" * 3096)
        disk.sync(A)
        disk.truncate(A, 2000)
    assert disk.read(A, 0) == bytes(1000) + b"y" * 1000


# Against the simplest disk there is

offsets = st.integers(0, 1500)
contents = st.binary(max_size=40).flatmap(
    lambda pattern: st.integers(0, 60).map(lambda times: pattern * times)
)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from([A, B]), offsets, contents),
        st.tuples(st.just("preallocate"), st.sampled_from([A, B]), offsets),
        st.tuples(st.just("truncate"), st.sampled_from([A, B]), offsets),
        st.tuples(st.just("replace"), st.sampled_from([A, B]), contents),
        st.tuples(st.just("remove"), st.sampled_from([A, B])),
        st.tuples(st.just("sync"), st.sampled_from([A, B])),
    ),
    max_size=25,
)


class NaiveDisk:
    """Files as bytes in a dictionary."""

    def __init__(self) -> None:
        self.content: dict[FileName, bytes] = {}

    def write(self, file: FileName, offset: int, data: bytes) -> None:
        old = self.content.get(file, b"")
        self.content[file] = old[:offset].ljust(offset, b"\0") + data + old[offset + len(data) :]

    def preallocate(self, file: FileName, size_bytes: int) -> None:
        self.content[file] = self.content.get(file, b"").ljust(size_bytes, b"\0")

    def truncate(self, file: FileName, size_bytes: int) -> None:
        if file in self.content:
            self.content[file] = self.content[file][:size_bytes]

    def replace(self, file: FileName, data: bytes) -> None:
        self.content[file] = data

    def replace_all(self, files: Mapping[FileName, bytes]) -> dict[FileName, DiskFull]:
        self.content.update(files)
        return {}

    def remove(self, file: FileName) -> None:
        self.content.pop(file, None)

    def sync(self, file: FileName) -> None:
        pass

    def sync_all(self, files: Collection[FileName]) -> None:
        pass


def seen(disk: Disk) -> dict[FileName, bytes]:
    return {file: disk.read(file, 0) for file in disk.files()}


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changes)
def test_any_changes_leave_what_they_should(
    new_disk: Callable[[], DiskHarness], done: list[tuple[object, ...]]
) -> None:
    harness, naive = new_disk(), NaiveDisk()
    for name, *arguments in done:
        getattr(harness.disk, str(name))(*arguments)
        getattr(naive, str(name))(*arguments)
    assert seen(harness.disk) == naive.content
    assert {file: harness.disk.size(file) for file in naive.content} == {
        file: len(content) for file, content in naive.content.items()
    }
    for file in (A, B):
        harness.disk.sync(file)
    harness.crash()
    assert seen(harness.disk) == naive.content
