"""A remote file against one in memory."""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.client import part_http
from motet.client.part_http import RangeFile, range_bytes, ranges_max

Step = tuple[str, int, int]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("seek"), st.integers(-300, 300), st.sampled_from([0, 1, 2])),
        st.tuples(st.just("read"), st.integers(-1, 300), st.just(0)),
        st.tuples(st.just("readinto"), st.integers(0, 300), st.just(0)),
    ),
    max_size=20,
)


def fetch_of(data: bytes, asked: list[tuple[int, int]]) -> Callable[[int, int], bytes]:
    def fetch(start: int, wanted: int) -> bytes:
        assert wanted > 0
        assert start + wanted <= len(data)
        asked.append((start, wanted))
        return data[start : start + wanted]

    return fetch


def play(file: io.RawIOBase | io.BytesIO, step: Step) -> object:
    what, number, whence = step
    if what == "seek":
        try:
            return file.seek(number, whence)
        except (ValueError, OSError):
            return "refused"
    if what == "read":
        return file.read(number)
    buffer = bytearray(number)
    return file.readinto(buffer), buffer


@given(st.binary(max_size=200), st.integers(1, 50), steps)
def test_it_behaves_as_a_file_in_memory(data: bytes, size: int, played: list[Step]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_http, "range_bytes", size)
        file, twin = RangeFile(fetch_of(data, []), len(data)), io.BytesIO(data)
        for step in played:
            # In memory a place before the beginning is the beginning, unless it is named outright.
            if step[0] == "seek" and place_of(twin, len(data), step) < 0:
                assert play(file, step) == "refused"
                continue
            assert play(file, step) == play(twin, step)
            assert file.tell() == twin.tell()


def place_of(file: io.BytesIO, size: int, step: Step) -> int:
    return (0, file.tell(), size)[step[2]] + step[1]


def test_small_reads_share_a_request_and_the_end_is_fetched_with_room() -> None:
    data = random.Random(0).randbytes(3 * range_bytes)
    asked: list[tuple[int, int]] = []
    file = RangeFile(fetch_of(data, asked), len(data))
    file.seek(-8, io.SEEK_END)
    assert file.read(8) == data[-8:]
    file.seek(-60_000, io.SEEK_END)
    assert file.read(1000) == data[-60_000:-59_000]
    assert asked == [(2 * range_bytes, range_bytes)]
    file.seek(0)
    pieces = [file.read(1000) for _ in range(1000)]
    assert b"".join(pieces) == data[:1_000_000]
    assert len(asked) == 2
    file.seek(10)
    assert file.read(2 * range_bytes) == data[10 : 10 + 2 * range_bytes]
    assert asked[2:] == [(10, 2 * range_bytes)]


def test_columns_read_in_turns_do_not_push_each_other_out() -> None:
    data = bytes(20 * range_bytes)
    asked: list[tuple[int, int]] = []
    file = RangeFile(fetch_of(data, asked), len(data))
    for step in range(100):
        for column in range(ranges_max):
            file.seek(4 * column * range_bytes + 100 * step)
            file.read(100)
    assert len(asked) == ranges_max


def test_many_threads_read_the_bytes_they_ask_for() -> None:
    data = random.Random(1).randbytes(100_000)
    file = RangeFile(fetch_of(data, []), len(data))
    seen: list[bytes] = []

    def work() -> None:
        seen.extend(file.read(100) for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(data[at : at + 100] for at in range(0, 100_000, 100))


def test_a_closed_one_is_not_read() -> None:
    file = RangeFile(fetch_of(b"abc", []), 3)
    assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
    assert file.readall() == b"abc"
    file.close()
    file.close()
    for use in (file.read, file.tell, lambda: file.seek(0)):
        with pytest.raises(ValueError, match="closed"):
            use()
