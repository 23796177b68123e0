"""From where parts are read: nothing that was damaged is believed, and no more is fetched than is needed."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.columnar import part_sources
from motet.columnar.definitions import make_definition
from motet.columnar.filters import Equal
from motet.columnar.part_reader import read_table
from motet.columnar.part_sources import CheckedFiles, CheckedRanges, LocalPart, RemotePart
from motet.columnar.part_writer import write_part
from motet.errors import BadRecord, ObjectError, ObjectMissing
from motet.format.part_manifest import PartManifest, PieceTable
from motet.ids import PartId, TableId

ROWS = 300_000
DICE = np.random.default_rng(9)
TABLE = pa.table(
    {"key": np.arange(ROWS), **{f"c{n}": DICE.integers(0, 2**62, ROWS) for n in range(6)}}
)
DEFINITION = make_definition("t", TableId("0" * 16), TABLE.schema, "key")


def made() -> tuple[PartManifest, bytes]:
    file = io.BytesIO()
    manifest = write_part(DEFINITION, 0, "p", TABLE, file, PartId("b" * 16))
    return manifest, file.getvalue()


MANIFEST, DATA = made()


class Remote:
    """The bytes of a file, and what was fetched of them."""

    def __init__(self, data: bytes = DATA) -> None:
        self.data = data
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, offset: int, length: int) -> bytes:
        self.fetched.append((offset, length))
        return self.data[offset : offset + length]

    @property
    def bytes_fetched(self) -> int:
        return sum(length for _, length in self.fetched)


def test_a_remote_part_is_read_by_the_chunks_that_are_needed() -> None:
    remote = Remote()
    part = RemotePart(MANIFEST, remote.fetch)
    found = read_table(DEFINITION, [part], ["c3"])
    assert found.equals(TABLE.select(["c3"]))
    pieces = PieceTable(MANIFEST)
    needed = [pieces.chunk(group, 4) for group in range(MANIFEST.row_groups)]
    expected = [(pieces.footer.offset, pieces.footer.length)]
    assert remote.fetched == expected + [(piece.offset, piece.length) for piece in needed]
    remote.fetched.clear()
    one = read_table(DEFINITION, [part], ["key", "c0"], [Equal("key", ROWS - 1)])
    assert one.num_rows == 1
    assert remote.bytes_fetched < len(DATA) / 5, "one row group of three, two columns of seven"


def test_all_of_a_remote_part_is_what_was_written() -> None:
    assert read_table(DEFINITION, [RemotePart(MANIFEST, Remote().fetch)]).equals(TABLE)


@pytest.mark.parametrize("place", ["chunk", "footer", "short"])
def test_damage_on_the_way_is_told(place: str) -> None:
    pieces = PieceTable(MANIFEST)
    data = bytearray(DATA)
    piece = pieces.footer if place == "footer" else pieces.chunk(1, 4)
    data[piece.offset + piece.length // 2] ^= 4
    if place == "short":
        data = data[: len(DATA) - 5]
    part = RemotePart(MANIFEST, Remote(bytes(data)).fetch)
    with pytest.raises(BadRecord, match=f"part {MANIFEST.part_id} of table .* is damaged"):
        read_table(DEFINITION, [part], ["c3"])
    if place == "chunk":
        assert read_table(DEFINITION, [part], ["c2"]).num_rows == ROWS, "that one is not damaged"


def test_the_error_of_a_fetch_is_the_one_that_is_raised() -> None:
    remote = Remote()

    def fetch(offset: int, length: int) -> bytes:
        if remote.fetched:
            raise ObjectError("the node is gone")
        return remote.fetch(offset, length)

    with pytest.raises(ObjectError, match="the node is gone"):
        read_table(DEFINITION, [RemotePart(MANIFEST, fetch)])


@given(st.data())
def test_ranges_read_as_a_file_does(data: st.DataObject) -> None:
    file, plain = CheckedRanges(MANIFEST, Remote().fetch), io.BytesIO(DATA)
    assert file.size() == len(DATA)
    for _ in range(data.draw(st.integers(1, 5))):
        offset = data.draw(st.integers(0, len(DATA) + 10))
        length = data.draw(st.integers(0, 100_000) | st.just(-1))
        whence = data.draw(st.sampled_from([os.SEEK_SET, os.SEEK_CUR]))
        offset = min(offset, len(DATA) - file.tell()) if whence == os.SEEK_CUR else offset
        assert file.seek(offset, whence) == plain.seek(offset, whence)
        assert file.read(length) == plain.read(length)
        assert file.tell() == plain.tell()
    assert file.seek(-8, os.SEEK_END) == plain.seek(-8, os.SEEK_END)
    assert file.read() == DATA[-8:]


def test_a_local_file_is_hashed_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []
    plain_hash = part_sources._hash_of

    def counted(file: io.FileIO, path: Path) -> str:
        hashed.append(path)
        return plain_hash(file, path)

    monkeypatch.setattr(part_sources, "_hash_of", counted)
    path = tmp_path / "part.parquet"
    path.write_bytes(DATA)
    part = LocalPart(MANIFEST, path, checked=CheckedFiles())
    for _ in range(3):
        assert read_table(DEFINITION, [part], ["c1"]).num_rows == ROWS
    assert len(hashed) == 1
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert read_table(DEFINITION, [part], ["c1"]).num_rows == ROWS
    assert len(hashed) == 2


def test_a_damaged_local_file_is_told_each_time(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    part = LocalPart(MANIFEST, path, checked=CheckedFiles())
    with pytest.raises(ObjectMissing):
        part.open()
    path.write_bytes(DATA[:-1])
    with pytest.raises(BadRecord, match="bytes, and"):
        part.open()
    damaged = bytearray(DATA)
    damaged[1000] ^= 1
    path.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(BadRecord, match="its hash is"):
            read_table(DEFINITION, [part])
    path.write_bytes(DATA)
    assert read_table(DEFINITION, [part]).num_rows == ROWS


def test_few_files_are_remembered(tmp_path: Path) -> None:
    checked = CheckedFiles(files_max=2)
    for name in "abc":
        (tmp_path / name).write_bytes(DATA)
        checked.check(tmp_path / name, MANIFEST)
    assert [Path(path).name for path in checked._states] == ["b", "c"]
