"""The real disk where the port does not reach: processes that die, disks that fail, who owns a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from motet.errors import DiskError, DiskFull, DiskReadFailed, NodeError
from motet.ids import FileName
from motet.limits import open_files_max
from motet.real import disk as disk_module
from motet.real import durable as durable_module
from motet.real.disk import RealDisk

A = FileName("a")
B = FileName("b")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def descriptor_of(path: Path) -> int:
    """The descriptor under which this process has the file open."""
    (found,) = [
        int(entry.name)
        for entry in Path("/proc/self/fd").iterdir()
        if os.path.realpath(entry) == os.path.realpath(path)
    ]
    return found


def open_as(path: Path, stand_in: str) -> None:
    """Let the file's open descriptor lead to a device, so that the kernel itself says no."""
    fd = os.open(stand_in, os.O_RDWR)
    os.dup2(fd, descriptor_of(path))
    os.close(fd)


# Who owns a folder


def test_a_second_owner_is_told_who_has_the_folder(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    with pytest.raises(NodeError, match=f"process {os.getpid()}"):
        RealDisk(tmp_path)
    disk.close()
    RealDisk(tmp_path).close()


def test_another_process_is_kept_out_until_it_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from motet.real.disk import RealDisk;"
        "disk = RealDisk(Path(sys.argv[1])); print('open', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"open\n"
            with pytest.raises(NodeError, match=f"process {holder.pid}"):
                RealDisk(tmp_path)
        finally:
            holder.kill()
    RealDisk(tmp_path).close()


def test_our_own_files_are_not_among_the_files(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    (tmp_path / "a folder").mkdir()
    (tmp_path / "folder").mkdir()
    disk.write(A, 0, b"x")
    assert disk.files() == [A]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a folder", "folder", "lock~"]
    disk.close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DiskError, match="file"):
        RealDisk(tmp_path / "file" / "folder")


def test_a_closed_disk_does_nothing_more(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    disk.write(A, 0, b"x")
    disk.close()
    disk.close()
    for call in (lambda: disk.write(A, 0, b"y"), lambda: disk.read(A, 0), lambda: disk.sync(A)):
        with pytest.raises(DiskError, match="closed"):
            call()


# Processes that die

KILLED = """
import sys
from pathlib import Path
from motet.ids import FileName
from motet.real.disk import RealDisk

disk = RealDisk(Path(sys.argv[1]))
journal, state = FileName("journal"), FileName("state")
disk.preallocate(journal, 1 << 20)
number = 0
while True:
    disk.write(journal, number * 8, number.to_bytes(8, "little"))
    disk.sync(journal)
    disk.replace(state, b"%d," % number * 1000)
    print(number, flush=True)
    number += 1
"""


def test_after_kill_9_everything_acknowledged_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        last = -1
        for _ in range(50):
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        last = max([last, *map(int, writer.stdout.read().split())])
    disk = RealDisk(tmp_path)
    journal = disk.read(FileName("journal"), 0)
    assert len(journal) == 1 << 20
    for number in range(last + 1):
        assert journal[number * 8 : number * 8 + 8] == number.to_bytes(8, "little")
    state = disk.read(FileName("state"), 0)
    assert state in (b"%d," % last * 1000, b"%d," % (last + 1) * 1000)
    assert disk.files() == ["journal", "state"]
    disk.close()


def test_a_half_written_replacement_is_swept_away(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    disk.replace(A, b"old")
    disk.close()
    (tmp_path / "a~new").write_bytes(b"ne")
    disk = RealDisk(tmp_path)
    assert disk.read(A, 0) == b"old"
    assert not (tmp_path / "a~new").exists()
    disk.close()


# What is synced, and when


class Syncs:
    """Notes what reaches the platter, in order, and lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        for name in ("sync_file", "sync_folder"):
            monkeypatch.setattr(disk_module, name, self._noting(name, getattr(disk_module, name)))
        monkeypatch.setattr(os, "replace", self._noting("rename", os.replace))

    def _noting(self, name: str, call: Callable[..., None]) -> Callable[..., None]:
        def noting(*arguments: object, **options: object) -> None:
            self.seen.append(name)
            call(*arguments, **options)

        return noting

    def take(self) -> list[str]:
        seen, self.seen = self.seen, []
        return seen


def test_the_first_sync_makes_a_new_file_s_name_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(tmp_path)
    syncs = Syncs(monkeypatch)
    disk.write(A, 0, b"x")
    assert syncs.take() == [], "writing waits for nothing"
    disk.sync(A)
    assert syncs.take() == ["sync_file", "sync_folder"]
    disk.write(A, 0, b"y")
    disk.sync(A)
    assert syncs.take() == ["sync_file"]
    disk.close()


def test_a_replacement_is_durable_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(tmp_path)
    syncs = Syncs(monkeypatch)
    disk.replace(A, b"new")
    assert syncs.take() == ["sync_file", "rename", "sync_folder"]
    disk.remove(A)
    assert syncs.take() == ["sync_folder"]
    disk.close()


def test_what_an_earlier_life_left_is_synced_before_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(tmp_path)
    disk.write(A, 0, b"never synced")
    disk.close()
    disk = RealDisk(tmp_path)
    syncs = Syncs(monkeypatch)
    assert disk.read(A, 0) == b"never synced"
    assert syncs.take() == ["sync_file"]
    assert disk.read(A, 0) == b"never synced"
    assert syncs.take() == []
    disk.close()


def test_preallocated_room_is_really_taken(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    disk.preallocate(A, 1 << 20)
    disk.sync(A)
    disk.write(B, 1 << 20, b"behind a gap")
    disk.sync(B)
    assert (tmp_path / "a").stat().st_blocks * 512 >= 1 << 20
    assert (tmp_path / "b").stat().st_blocks * 512 >= 1 << 20
    disk.close()


def test_a_log_leaves_the_cache_and_a_file_that_is_written_again_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[tuple[int, int]] = []
    monkeypatch.setattr(durable_module, "leave_cache", lambda _fd, *part: left.append(part))
    disk = RealDisk(tmp_path)
    mib = 1 << 20
    disk.preallocate(B, 8 * mib)
    for place in range(8):
        disk.write(B, place * mib, bytes(mib))
        disk.sync(B)
    assert left == []  # a ring that begins anew
    for place in range(8):
        if place % 2 == 0:
            disk.preallocate(A, (place + 2) * mib)
        disk.write(A, place * mib, bytes([place]) * mib)
        disk.sync(A)
    assert left == [
        (0, 2 * mib),
        (2 * mib, 3 * mib),
        *((n * mib, (n + 1) * mib) for n in (3, 4, 5, 6)),
    ]
    assert disk.read(A, mib, 2) == b"\1\1"
    disk.close()


@linux_only
def test_more_files_than_descriptors(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    names = [FileName(f"f{number}") for number in range(open_files_max + 20)]
    for name in names:
        disk.write(name, 0, name.encode())
    for name in names:
        disk.write(name, len(name), b"!")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + open_files_max
    assert [disk.read(name, 0) for name in names] == [b"%s!" % name.encode() for name in names]
    disk.close()
    assert len(list(Path("/proc/self/fd").iterdir())) < before


@linux_only
def test_as_many_files_stay_open_as_whoever_has_the_disk_says(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path, open_files_max + 20)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(open_files_max + 40):
        disk.write(FileName(f"f{number}"), 0, b"!")
    assert len(list(Path("/proc/self/fd").iterdir())) == before + open_files_max + 20
    disk.close()


# Disks that fail


@linux_only
def test_a_read_error_is_not_an_empty_file(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    disk.write(A, 0, b"unreadable")
    open_as(tmp_path / "a", "/proc/self/mem")  # reading its first page gives EIO
    with pytest.raises(DiskReadFailed, match="a: 10 bytes at 0"):
        disk.read(A, 0)
    disk.write(B, 0, b"fine")
    assert disk.read(B, 0) == b"fine"
    disk.close()


@linux_only
def test_a_failed_sync_is_final(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    disk.write(A, 0, b"x")
    disk.write(B, 0, b"y")
    open_as(tmp_path / "a", "/dev/null")  # a device that cannot be synced
    with pytest.raises(DiskError, match="a: sync failed"):
        disk.sync(A)
    for call in (lambda: disk.sync(A), lambda: disk.sync(B), lambda: disk.read(B, 0),
                 lambda: disk.replace(B, b"z"), lambda: disk.remove(B)):  # fmt: skip
        with pytest.raises(DiskError, match="refused, because a: sync failed"):
            call()
    disk.close()


@linux_only
def test_a_change_that_cannot_be_undone_is_final(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    disk.write(A, 0, b"x")
    open_as(tmp_path / "a", "/dev/full")  # no room, and no way to cut it back
    with pytest.raises(DiskError, match="cutting it back failed") as caught:
        disk.write(A, 1, b"y")
    assert not isinstance(caught.value, DiskFull)
    with pytest.raises(DiskError, match="refused"):
        disk.write(B, 0, b"z")
    disk.close()


FULL = """
import sys
from pathlib import Path
from motet.errors import DiskFull
from motet.ids import FileName
from motet.real.disk import RealDisk

folder = Path(sys.argv[1])
disk = RealDisk(folder / "disk")
log, state, new = FileName("log"), FileName("state"), FileName("new")

def refused(call, *arguments):
    before = {file: disk.read(file, 0) for file in disk.files()}
    try:
        call(*arguments)
    except DiskFull:
        assert {file: disk.read(file, 0) for file in disk.files()} == before
        assert {path.name for path in (folder / "disk").iterdir()} == {"lock~", *before}
        return True
    return False

disk.preallocate(log, 100_000)
disk.replace(state, b"s" * 10_000)
size = 100_000
while not refused(disk.write, log, size - 5_000, bytes([size % 251]) * 40_000):
    size += 35_000
assert size > 200_000, "it was not full from the start"
assert refused(disk.write, log, size + 1_000_000, b"behind a gap")
assert refused(disk.write, new, 0, b"n" * 300_000)
assert refused(disk.preallocate, log, 2_000_000)
assert refused(disk.preallocate, new, 2_000_000)
assert refused(disk.replace, state, b"t" * 300_000)
disk.write(log, 0, b"o" * 100_000)
disk.sync(log)
disk.truncate(log, 100_000)
disk.replace(state, b"t" * 300_000)
disk.write(log, 100_000, b"p" * 40_000)
disk.sync(log)
assert disk.read(log, 0) == b"o" * 100_000 + b"p" * 40_000
print("ok")
"""


@linux_only
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A file system of one megabyte, in a user namespace of our own where the system allows that."""
    mount = 'mount -t tmpfs -o size=1m motet "$1" && shift && exec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    try:
        probe = subprocess.run([*inside, str(tmp_path), "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if probe.returncode != 0:
        pytest.skip("this system lets nobody mount a small file system of his own")
    command = [*inside, str(tmp_path), sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr
