"""What the folder of a local cluster remembers: a key of its own, and that its keepers were made."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from motet.errors import NodeError
from motet.ids import Address, ClusterId, ReplicaIndex
from motet.node.replica_files import Format, Sizes, prepare_files
from motet.ports import Disk
from motet.testing import port_block
from motet.testing.port_block import DevFolder

SIZES = Sizes(slots=64, checkpoint_ops=16, body_bytes_max=4096, block_bytes=2048)
MEMBERS = tuple(Address(f"n{i}") for i in range(3))
KEEPERS = {i: Format(ClusterId(7), ReplicaIndex(i), MEMBERS, SIZES) for i in range(3)}


def superblock(folder: Path, i: int) -> Path:
    return folder / f"node-{i}" / "keeper" / "superblock"


def test_a_key_is_made_once_and_for_this_user_alone(tmp_path: Path) -> None:
    folder = DevFolder(tmp_path / "a" / "b")
    file = folder.key_file()
    key = file.read_text().strip()
    assert len(key) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.key_file().read_text().strip() == key
    assert DevFolder(tmp_path / "c").key_file().read_text().strip() != key


@pytest.mark.parametrize("before", range(3))
def test_making_goes_on_where_it_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """Killed before the keeper with this number was made."""

    class Killed(BaseException):
        pass

    def prepare(wanted: Format, disk: Disk, *, may_format: bool) -> None:
        if wanted.replica >= before:
            raise Killed
        prepare_files(wanted, disk, may_format=may_format)

    folder = DevFolder(tmp_path)
    monkeypatch.setattr(port_block, "prepare_files", prepare)
    with pytest.raises(Killed):
        folder.make(KEEPERS)
    made = [superblock(tmp_path, i) for i in range(before)]
    first = {path: (path.stat().st_ino, path.read_bytes()) for path in made}
    assert [folder.lost(i) is None for i in range(3)] == [i < before for i in range(3)]
    monkeypatch.undo()
    folder.make(KEEPERS)
    assert [folder.lost(i) for i in range(3)] == [None] * 3
    assert {path: (path.stat().st_ino, path.read_bytes()) for path in made} == first


def test_what_was_made_once_is_not_made_again(tmp_path: Path) -> None:
    folder = DevFolder(tmp_path)
    folder.make(KEEPERS)
    superblock(tmp_path, 1).unlink()
    folder.make(KEEPERS)
    lost = folder.lost(1)
    assert lost is not None
    assert "n1 has lost" in lost.what
    assert f"remove {tmp_path}" in lost.advice
    assert folder.lost(0) is folder.lost(2) is None


def test_a_folder_of_an_earlier_release_was_made(tmp_path: Path) -> None:
    folder = DevFolder(tmp_path)
    folder.make(KEEPERS)
    (tmp_path / port_block.CLUSTER_FILE).unlink()
    superblock(tmp_path, 2).unlink()
    folder.make(KEEPERS)
    assert folder.lost(2) is not None


def test_a_damaged_note_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / port_block.CLUSTER_FILE).write_bytes(msgspec.json.encode(["made"]))
    with pytest.raises(NodeError, match="damaged"):
        DevFolder(tmp_path).make(KEEPERS)
    assert not superblock(tmp_path, 0).exists()
