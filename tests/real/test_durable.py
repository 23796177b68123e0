"""The ways down to the platter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from motet.real.durable import ZEROS, make_folder, read_up_to, reserve, write_all, write_zeros


@pytest.fixture
def fd(tmp_path: Path) -> int:
    return os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)


def test_zeros_are_written_however_many(fd: int, tmp_path: Path) -> None:
    write_all(fd, b"x" * 10, 0)
    write_zeros(fd, 5, 2 * len(ZEROS) + 7)
    write_zeros(fd, 9, 3)
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"x" * 5 + bytes(2 * len(ZEROS) + 2)


def test_a_short_write_is_continued(
    fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:3], offset))
    write_all(fd, b"0123456789", 2)
    write_zeros(fd, 12, 20)
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == bytes(2) + b"0123456789" + bytes(8)


def test_a_short_read_is_continued(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all(fd, b"0123456789", 0)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 3), offset))
    assert read_up_to(fd, 1, 8) == b"12345678"
    assert read_up_to(fd, 7, 100) == b"789"
    assert read_up_to(fd, 10, 5) == b""
    os.close(fd)


def test_reserving_keeps_what_is_there(fd: int) -> None:
    write_all(fd, b"0123456789", 0)
    is_reserved = reserve(fd, 10, 5000)
    assert read_up_to(fd, 0, 10) == b"0123456789"
    assert read_up_to(fd, 10, 5000) == (bytes(4990) if is_reserved else b"")
    assert os.fstat(fd).st_size == (5000 if is_reserved else 10)
    os.close(fd)


def test_folders_are_made_all_the_way_down(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c"
    make_folder(folder)
    make_folder(folder)
    assert folder.is_dir()
