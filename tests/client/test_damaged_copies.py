"""A part that is damaged in one of several folders of this machine is read from another one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from motet.client.publication import NodeFiles, PartLocation
from motet.client.table_files import TableFiles
from motet.columnar.definitions import make_definition
from motet.columnar.part_reader import read_table
from motet.columnar.part_writer import write_part
from motet.core.mergetree.entries import header_of
from motet.errors import BadRecord
from motet.format.part_manifest import MANIFEST_FILE, PART_FILE, encode_part_manifest
from motet.ids import PartId, TableId
from motet.real.part_files import PartKey, PartState, part_folder, prepare_parts_folder

TABLE = TableId("00000000000000aa")
DEFINITION = make_definition("t", TABLE, pa.schema([("k", pa.int64())]), ["k"])


def copies(tmp_path: Path, count: int) -> PartLocation:
    """One part, in the folders of so many nodes that do not answer."""
    file = io.BytesIO()
    manifest = write_part(DEFINITION, 0, "p", pa.table({"k": [1, 2]}), file, PartId("0" * 16))
    nodes = []
    for number in range(count):
        root = tmp_path / f"n{number}"
        token = prepare_parts_folder(root)
        folder = part_folder(root, PartKey(TABLE, 0, manifest.part_id), PartState.STORED)
        folder.mkdir(parents=True)
        (folder / PART_FILE).write_bytes(file.getvalue())
        (folder / MANIFEST_FILE).write_bytes(encode_part_manifest(manifest))
        nodes.append(NodeFiles(str(root), token, f"127.0.0.1:{number + 1}"))
    return PartLocation(TABLE, 0, header_of(manifest), tuple(nodes))


def spoil(location: PartLocation, node: int) -> None:
    (path,) = Path(location.nodes[node].folder).glob(f"*/0/stored/*/{PART_FILE}")
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)


def read(files: TableFiles, location: PartLocation) -> list[int]:
    found: list[int] = read_table(DEFINITION, files.sources([location])).column("k").to_pylist()
    return found


@pytest.fixture
def files() -> TableFiles:
    link: Any = None  # nobody is asked for anything but files
    return TableFiles(link)


def test_another_copy_is_read_once_it_is_known_which_is_damaged(
    tmp_path: Path, files: TableFiles
) -> None:
    location = copies(tmp_path, 3)
    spoil(location, 0)
    spoil(location, 1)
    with pytest.raises(BadRecord):
        read(files, location)
    files.look_for_damage([location])
    assert read(files, location) == [1, 2]


def test_what_is_damaged_everywhere_or_has_one_copy_says_so(
    tmp_path: Path, files: TableFiles
) -> None:
    for name, count in (("one", 1), ("two", 2)):
        location = copies(tmp_path / name, count)
        for node in range(count):
            spoil(location, node)
        files.look_for_damage([location])
        with pytest.raises(BadRecord, match="is damaged"):
            read(files, location)
