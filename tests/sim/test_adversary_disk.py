"""Where a simulated disk could be kinder than a real one, and is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.sim.scripted import FILE, OTHER, Hello, all_seen, on_start, put, seen, silent

from motet.core.machine import (
    Effect,
    Event,
    Preallocate,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Remove,
    Replace,
    Send,
    Started,
    Truncate,
    Write,
    WriteFailed,
    Written,
)
from motet.errors import DiskReadFailed
from motet.ids import Address, ReadId, WriteId
from motet.sim.dice import Dice
from motet.sim.disk import SECTOR_BYTES, SimDisk
from motet.sim.faults import PROFILES, DiskFaults, Faults
from motet.sim.world import World

SECTOR = SECTOR_BYTES
HARSH = DiskFaults(lost=0.5, torn=0.5)


def disks(count: int, faults: DiskFaults = HARSH) -> Iterator[SimDisk]:
    return (SimDisk(Dice(seed), faults) for seed in range(count))


SLOW = Faults(disk=DiskFaults(latency_us_min=5_000, latency_us_max=5_000, lost=1.0))


# What a crash leaves


def test_any_subset_of_unsynced_writes_survives_whatever_their_order() -> None:
    left = set()
    for disk in disks(200, DiskFaults(lost=0.5)):
        for at in range(4):
            disk.write(FILE, at, b"abcd"[at : at + 1])
        disk.crash()
        left.add(disk.read(FILE, 0).ljust(4, b"\0"))
    assert len(left) == 16


def test_files_lose_their_writes_independently() -> None:
    left = set()
    for disk in disks(60, DiskFaults(lost=0.5)):
        disk.write(FILE, 0, b"x")
        disk.write(OTHER, 0, b"y")
        disk.crash()
        left.add(tuple(disk.files()))
    assert left == {(), (FILE,), (OTHER,), (FILE, OTHER)}


def test_a_write_may_survive_the_truncation_before_it() -> None:
    left = set()
    for disk in disks(60, DiskFaults(lost=0.5)):
        disk.write(FILE, 0, b"oldold")
        disk.sync(FILE)
        disk.truncate(FILE, 3)
        disk.write(FILE, 3, b"N")
        disk.crash()
        left.add(disk.read(FILE, 0))
    assert left == {b"oldold", b"old", b"oldNld", b"oldN"}


def test_a_write_may_survive_the_preallocation_before_it() -> None:
    sizes = set()
    for disk in disks(60, DiskFaults(lost=0.5)):
        disk.preallocate(FILE, 100)
        disk.write(FILE, 0, b"x")
        disk.crash()
        sizes.add(disk.size(FILE))
    assert sizes == {None, 1, 100}


def test_a_preallocation_may_have_come_part_of_the_way() -> None:
    sizes = set()
    for disk in disks(100, DiskFaults(torn=1.0)):
        disk.write(FILE, 0, b"x")
        disk.sync(FILE)
        disk.preallocate(FILE, 4 * SECTOR)
        disk.crash()
        content = disk.read(FILE, 0)
        assert content == b"x" + bytes(len(content) - 1)
        sizes.add(len(content))
    assert {1, SECTOR, 2 * SECTOR, 3 * SECTOR, 4 * SECTOR} == sizes


def test_what_was_written_to_a_replaced_or_removed_file_goes_with_it() -> None:
    for disk in disks(100):
        disk.replace(FILE, b"old")
        disk.stage_remove(FILE)
        disk.write(FILE, 0, b"new")
        disk.crash()
        assert disk.read(FILE, 0) in (b"old", b"", b"new")
        assert disk.read(FILE, 0) or disk.size(FILE) is None


def test_a_truncation_whose_crash_undid_it_is_seen_undone() -> None:
    world = World(1, SLOW)
    host = put(world, "a", on_start(Truncate(WriteId(0), FILE, 2)), start=False)
    host.disk.write(FILE, 0, b"whole")
    host.disk.sync(FILE)
    world.start(host.node)
    world.run(1)
    assert host.disk.read(FILE, 0) == b"wh", "visible at once"
    world.crash(host.node)
    assert host.disk.read(FILE, 0) == b"whole", "but never durable"


def test_a_truncation_never_makes_a_file_longer() -> None:
    disk = SimDisk(Dice(1))
    disk.write(FILE, 0, b"abc")
    for size_bytes in (3, 4, 100):
        disk.truncate(FILE, size_bytes)
        assert disk.read(FILE, 0) == b"abc"
    disk.truncate(OTHER, 0)
    assert disk.size(OTHER) is None


def test_without_disk_faults_a_crash_loses_nothing() -> None:
    for disk in disks(30, PROFILES["none"].disk):
        disk.write(FILE, 0, b"a" * 3 * SECTOR)
        disk.stage_replace(OTHER, b"b")
        disk.truncate(FILE, 2 * SECTOR)
        assert disk.crash() == []
        assert disk.read(FILE, 0) == b"a" * 2 * SECTOR
        assert disk.read(OTHER, 0) == b"b"


# Damage


def sick_disk(faults: DiskFaults) -> SimDisk:
    """A disk with four sectors in a file, of which the first cannot be read."""
    for seed in range(1_000):
        disk = SimDisk(Dice(seed), faults)
        disk.write(FILE, 0, b"o" * 4 * SECTOR)
        disk.sync(FILE)
        disk.rot()
        try:
            disk.read(FILE, 0, SECTOR)
        except DiskReadFailed:
            return disk
    raise AssertionError("no seed makes the first sector unreadable")


def test_an_unreadable_sector_is_not_healed_by_a_write_that_the_crash_loses() -> None:
    disk = sick_disk(DiskFaults(lost=1.0))
    disk.write(FILE, 0, b"n" * SECTOR)
    assert disk.read(FILE, 0, SECTOR) == b"n" * SECTOR, "it is in the cache"
    disk.crash()
    with pytest.raises(DiskReadFailed):
        disk.read(FILE, 0, SECTOR)


def test_a_durable_write_heals_an_unreadable_sector_for_good() -> None:
    disk = sick_disk(DiskFaults(lost=1.0))
    disk.write(FILE, 0, b"n" * SECTOR)
    disk.sync(FILE)
    disk.crash()
    assert disk.read(FILE, 0, SECTOR) == b"n" * SECTOR


@pytest.mark.parametrize(("offset", "size"), [(0, SECTOR - 1), (1, SECTOR - 1), (1, 2 * SECTOR)])
def test_part_of_a_sector_heals_nothing_and_other_sectors_stay_readable(
    offset: int, size: int
) -> None:
    disk = sick_disk(HARSH)
    disk.write(FILE, offset, b"o" * size)
    with pytest.raises(DiskReadFailed):
        disk.read(FILE, 0, 1)
    assert disk.read(FILE, SECTOR) == b"o" * 3 * SECTOR


def test_a_sector_that_is_cut_off_is_a_new_one_when_the_file_grows_again() -> None:
    disk = sick_disk(HARSH)
    disk.truncate(FILE, 0)
    disk.sync(FILE)
    disk.write(FILE, 0, b"new")
    assert disk.read(FILE, 0) == b"new"


def test_a_removed_or_replaced_file_is_healthy_only_once_that_is_durable() -> None:
    disk = sick_disk(DiskFaults(lost=1.0))
    disk.stage_replace(FILE, b"new")
    assert disk.read(FILE, 0) == b"new"
    disk.crash()
    with pytest.raises(DiskReadFailed):
        disk.read(FILE, 0)
    disk.replace(FILE, b"new")
    disk.crash()
    assert disk.read(FILE, 0) == b"new"


def test_rot_stays_over_a_crash_and_is_seen_by_a_machine() -> None:
    found = set()
    for seed in range(40):
        world = World(seed, Faults())
        host = put(world, "a", on_start(Read(ReadId(0), FILE)))
        host.disk.write(FILE, 0, b"x" * SECTOR)
        host.disk.sync(FILE)
        assert host.disk.rot() == FILE
        world.crash(host.node)
        world.start(host.node)
        world.run(10)
        (answer,) = all_seen(host)[1:]
        if isinstance(answer, ReadBack):
            assert sum(byte != ord("x") for byte in answer.data) == 1
        found.add(type(answer))
    assert found == {ReadBack, ReadFailed}


def test_rot_spares_what_is_not_durable() -> None:
    disk = SimDisk(Dice(1))
    disk.write(FILE, 0, b"x")
    assert disk.rot() is None
    disk.sync(FILE)
    assert disk.rot() == FILE


def test_rot_under_a_write_in_the_cache_is_not_seen_until_the_crash_that_loses_it() -> None:
    for seed in range(20):
        disk = SimDisk(Dice(seed), DiskFaults(lost=1.0))
        disk.write(FILE, 0, b"o" * SECTOR)
        disk.sync(FILE)
        disk.write(FILE, 0, b"n" * SECTOR)
        disk.rot()
        assert disk.read(FILE, 0) == b"n" * SECTOR
        disk.crash()
        try:
            assert disk.read(FILE, 0) != b"o" * SECTOR
        except DiskReadFailed:
            continue


def test_a_read_fails_now_and_then_as_often_as_said() -> None:
    reads = [Read(ReadId(number), FILE) for number in range(1_000)]
    world = World(1, Faults(disk=DiskFaults(read_error=0.25)))
    host = put(world, "a", on_start(*reads))
    host.disk.write(FILE, 0, b"x")
    world.run(1_000)
    assert 200 < len(seen(host, ReadFailed)) < 300
    assert len(seen(host, ReadFailed)) + len(seen(host, ReadBack)) == 1_000


# Time passes between asked and done


def test_a_read_does_not_wait_for_the_writes_before_it() -> None:
    """It shows what is in the cache; that is no sign that the write is durable."""
    orders = set()
    for seed in range(40):
        world = World(seed, Faults())
        host = put(world, "a", on_start(Write(WriteId(0), FILE, 0, b"x"), Read(ReadId(0), FILE)))
        world.run(10)
        assert [event.data for event in seen(host, ReadBack)] == [b"x"]
        orders.add(tuple(type(event) for event in all_seen(host)))
    assert orders == {(Started, Written, ReadBack), (Started, ReadBack, Written)}


def test_what_a_read_showed_can_be_gone_after_a_crash() -> None:
    faults = Faults(disk=DiskFaults(latency_us_min=1, latency_us_max=5_000, lost=1.0))
    for seed in range(100):
        world = World(seed, faults)
        effects = (Write(WriteId(0), FILE, 0, b"x"), Read(ReadId(0), FILE))
        host = put(world, "a", on_start(*effects))
        while not seen(host, ReadBack):
            world.run(world.virtual.elapsed_ns // 1_000_000 + 1)
        if not seen(host, Written):
            world.crash(host.node)
            assert host.disk.size(FILE) is None
            return
    raise AssertionError("the write was always durable first")


def test_a_failure_can_overtake_the_write_before_it() -> None:
    orders = set()
    for seed in range(40):
        world = World(seed, Faults())
        changes = (Write(WriteId(0), FILE, 0, b"x"), Write(WriteId(1), FILE, 1, b"y"))
        host = put(world, "a", on_start(*changes))
        host.disk.preallocate(FILE, 1)
        host.disk.sync(FILE)
        host.disk.full = True
        world.run(10)
        orders.add(tuple(type(event) for event in all_seen(host)[1:]))
        (failure,) = seen(host, WriteFailed)
        assert failure.why == "no room for file"
    assert orders == {(Written, WriteFailed), (WriteFailed, Written)}


def test_a_slow_disk_takes_fifty_times_as_long_and_a_healthy_one_does_not() -> None:
    ended_ms = []
    for is_slow in (False, True):
        world = World(1, Faults(disk=DiskFaults(latency_us_min=1_000, latency_us_max=1_000)))
        host = put(world, "a", on_start(Write(WriteId(0), FILE, 0, b"x")))
        host.slow = is_slow
        world.run(1_000)
        (written,) = seen(host, Written)
        ended_ms.append(written.now.monotonic_ns / 1e6)
    assert ended_ms == [1, 50]


def test_every_change_ends_in_one_event_on_a_full_disk_too() -> None:
    changes: list[Effect] = [
        Preallocate(WriteId(0), FILE, 10),
        Write(WriteId(1), FILE, 0, b"x"),
        Replace(WriteId(2), OTHER, b"y"),
        Truncate(WriteId(3), FILE, 0),
        Remove(WriteId(4), FILE),
    ]
    for full, failed in ((False, set()), (True, {0, 1, 2})):
        world = World(1, Faults())
        host = put(world, "a", on_start(*changes))
        host.disk.full = full
        world.run(10)
        told = {event.write for event in seen(host, WriteFailed)}
        done = [event.write for event in seen(host, Written)]
        assert told == failed
        assert sorted([*done, *told]) == [*range(5)]
        assert len(seen(host, WriteFailed)) == len(told)


def test_a_send_that_names_a_failed_write_never_leaves_however_late_it_is_asked() -> None:
    def insist(event: Event) -> list[Effect]:
        send = Send(Address("b"), Hello(1), after=WriteId(0))
        if isinstance(event, Started):
            return [Replace(WriteId(0), FILE, b"x"), send]
        return [send]

    world = World(1, Faults())
    receiver = put(world, "b", silent)
    host = put(world, "a", insist)
    host.disk.full = True
    world.run(10)
    assert seen(host, WriteFailed)
    assert not seen(receiver, Received)


def test_a_write_that_failed_in_an_earlier_life_says_nothing_about_one_of_the_same_number() -> None:
    def promise(event: Event) -> list[Effect]:
        if isinstance(event, Started):
            return [Replace(WriteId(0), FILE, b"x")]
        return [Send(Address("b"), Hello(1), after=WriteId(0))]

    world = World(1, Faults())
    receiver = put(world, "b", silent)
    host = put(world, "a", promise)
    host.disk.full = True
    world.run(10)
    world.crash(host.node)
    host.disk.full = False
    world.start(host.node)
    world.run(20)
    assert seen(host, Written)
    assert len(seen(receiver, Received)) == 1


def test_the_younger_of_two_writes_in_flight_is_at_risk_when_the_older_is_durable() -> None:
    faults = Faults(disk=DiskFaults(latency_us_min=100, latency_us_max=9_000, lost=1.0))
    for seed in range(100):
        world = World(seed, faults)
        effects = (Write(WriteId(0), FILE, 0, b"a"), Write(WriteId(1), FILE, 1, b"b"))
        host = put(world, "a", on_start(*effects))
        world.run(5)
        durable = [event.write for event in seen(host, Written)]
        world.crash(host.node)
        assert host.disk.read(FILE, 0) == b"ab"[: len(durable)]
