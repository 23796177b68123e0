"""What a crash of the simulated disk may leave behind, and what it must."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import DiskFull, DiskReadFailed
from motet.ids import FileName
from motet.sim.dice import Dice
from motet.sim.disk import SECTOR_BYTES, SimDisk
from motet.sim.faults import DiskFaults

LOG = FileName("log")
HARSH = DiskFaults(lost=0.4, torn=0.7)
seeds = st.integers(0, 10_000)


def sectors(data: bytes) -> list[bytes]:
    return [data[at : at + SECTOR_BYTES] for at in range(0, len(data), SECTOR_BYTES)]


@given(seeds, st.lists(st.tuples(st.integers(0, 3_000), st.binary(max_size=1_500)), max_size=8))
def test_what_was_synced_survives_whatever_came_after(
    seed: int, later: list[tuple[int, bytes]]
) -> None:
    disk = SimDisk(Dice(seed), HARSH)
    disk.write(LOG, 0, b"s" * 1_000)
    disk.sync(LOG)
    touched: set[int] = set()
    for offset, data in later:
        disk.write(LOG, offset, data)
        touched.update(range(offset, offset + len(data)))
    disk.crash()
    after = disk.read(LOG, 0)
    assert all(after[at : at + 1] == b"s" for at in range(1_000) if at not in touched)


@given(seeds)
def test_each_sector_of_an_unsynced_write_is_old_or_new(seed: int) -> None:
    disk = SimDisk(Dice(seed), HARSH)
    disk.write(LOG, 0, b"o" * 8 * SECTOR_BYTES)
    disk.sync(LOG)
    disk.write(LOG, 0, b"n" * 8 * SECTOR_BYTES)
    disk.crash()
    after = sectors(disk.read(LOG, 0))
    assert all(sector in (b"o" * SECTOR_BYTES, b"n" * SECTOR_BYTES) for sector in after)


def test_over_many_seeds_a_crash_keeps_loses_and_tears() -> None:
    kinds = set()
    for seed in range(300):
        disk = SimDisk(Dice(seed), HARSH)
        disk.write(LOG, 0, b"o" * 4 * SECTOR_BYTES)
        disk.sync(LOG)
        disk.write(LOG, 0, b"n" * 4 * SECTOR_BYTES)
        disk.crash()
        kinds.add("".join(sector[:1].decode() for sector in sectors(disk.read(LOG, 0))))
    assert len(kinds) == 16, "every subset of four sectors is met"


@given(seeds)
def test_replace_leaves_the_old_content_or_the_new(seed: int) -> None:
    disk = SimDisk(Dice(seed), HARSH)
    disk.replace(LOG, b"old")
    disk.stage_replace(LOG, b"new" * 1_000)
    disk.crash()
    assert disk.read(LOG, 0) in (b"old", b"new" * 1_000)


@given(seeds)
def test_a_write_behind_a_lost_replace_is_lost_with_it(seed: int) -> None:
    disk = SimDisk(Dice(seed), DiskFaults(lost=0.5))
    disk.replace(LOG, b"old")
    disk.stage_replace(LOG, b"new")
    disk.write(LOG, 0, b"N")
    disk.crash()
    assert disk.read(LOG, 0) in (b"old", b"new", b"New")


def test_settling_the_oldest_change_leaves_the_younger_ones_at_risk() -> None:
    disk = SimDisk(Dice(1), DiskFaults(lost=1.0))
    disk.write(LOG, 0, b"first")
    disk.write(LOG, 5, b"second")
    disk.settle(LOG, 1)
    disk.crash()
    assert disk.read(LOG, 0) == b"first"


def test_a_file_never_synced_can_vanish() -> None:
    disk = SimDisk(Dice(1), DiskFaults(lost=1.0))
    disk.write(LOG, 0, b"x")
    disk.crash()
    assert disk.size(LOG) is None
    assert disk.files() == []


def test_a_full_disk_takes_nothing_new_but_overwrites() -> None:
    disk = SimDisk(Dice(1))
    disk.preallocate(LOG, 100)
    disk.full = True
    disk.write(LOG, 0, b"fits")
    with pytest.raises(DiskFull):
        disk.write(LOG, 99, b"too long")
    with pytest.raises(DiskFull):
        disk.replace(LOG, b"x")
    assert disk.read(LOG, 0, 4) == b"fits"
    assert disk.size(LOG) == 100


def test_rot_changes_bits_or_makes_sectors_unreadable_and_a_rewrite_heals() -> None:
    seen = set()
    for seed in range(60):
        disk = SimDisk(Dice(seed))
        disk.write(LOG, 0, b"a" * 4 * SECTOR_BYTES)
        disk.sync(LOG)
        assert disk.rot() == LOG
        try:
            seen.add("rotten" if disk.read(LOG, 0) != b"a" * 4 * SECTOR_BYTES else "whole")
        except DiskReadFailed:
            seen.add("unreadable")
        disk.write(LOG, 0, b"b" * 4 * SECTOR_BYTES)
        assert disk.read(LOG, 0) == b"b" * 4 * SECTOR_BYTES
    assert seen == {"rotten", "unreadable"}


def test_reading_only_healthy_sectors_of_a_sick_file_works() -> None:
    for seed in range(60):
        disk = SimDisk(Dice(seed))
        disk.write(LOG, 0, bytes(range(4)) * SECTOR_BYTES)
        disk.sync(LOG)
        disk.rot()
        unreadable = 0
        for sector in range(4):
            try:
                disk.read(LOG, sector * SECTOR_BYTES, SECTOR_BYTES)
            except DiskReadFailed:
                unreadable += 1
        assert unreadable <= 1
