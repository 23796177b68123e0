"""Parts as folders: whole or not at all, moved between states, and looked at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.node.made_parts import (
    SHARD,
    TABLE,
    MadePart,
    made_part,
    no_room,
    put_on_disk,
    random_bytes,
    spoil,
)

from motet.core.mergetree.messages import PartBytes
from motet.core.mergetree.work import Looked
from motet.errors import BadInput, DiskFull, MotetError, ObjectError, ObjectExists, ObjectMissing
from motet.ids import PartId, TableId
from motet.node import part_draft, part_folders
from motet.node.part_draft import PartDraft
from motet.node.part_folders import PartFolders
from motet.real import durable
from motet.real.part_files import PartKey, PartState, part_folder

STORED, STAGED = PartState.STORED, PartState.STAGED
ARRIVED, DETACHED = PartState.ARRIVED, PartState.DETACHED
ONE = made_part(1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "parts"


@pytest.fixture
def folders(root: Path) -> PartFolders:
    return PartFolders(root)


def write(folders: PartFolders, part: MadePart, state: PartState = STORED) -> None:
    folders.write(part.key, part.header, part.block, state)


def look(folders: PartFolders, table: TableId, shard: int) -> Looked:
    """What a replica has, with what the manifests of all its parts say."""
    found = folders.look(table, shard)
    read = folders.look_at(table, shard, found.named)
    return msgspec.structs.replace(read, aside=found.aside, staged=found.staged, named=found.named)


def looked(folders: PartFolders) -> tuple[set[str], set[str], set[str]]:
    """The ids of what is stored, aside and staged."""
    found = look(folders, TABLE, SHARD)
    stored, aside, staged = (
        {str(header.id) for header in each} for each in (found.stored, found.aside, found.staged)
    )
    return stored, aside, staged


def unfinished(root: Path) -> list[Path]:
    return list((root / "unfinished~").iterdir())


def test_a_part_is_two_files_in_a_folder_of_its_id(folders: PartFolders, root: Path) -> None:
    write(folders, ONE)
    folder = root / TABLE / str(SHARD) / "stored" / ONE.key.part
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        "part.parquet": ONE.data,
        "manifest": ONE.manifest,
    }
    assert look(folders, TABLE, SHARD).stored == (ONE.header,)
    assert unfinished(root) == []


def test_an_empty_file_is_a_part_too(folders: PartFolders) -> None:
    empty = made_part(2, b"", rows=0)
    write(folders, empty)
    assert folders.has(empty.key, empty.header, STORED)


def test_everything_is_synced_before_the_part_has_its_name(
    folders: PartFolders, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    target = part_folder(root, ONE.key, STORED)

    def note_file(fd: int) -> None:
        assert not target.exists()
        calls.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        durable.sync_file(fd)

    def note_folder(path: Path) -> None:
        calls.append(f"{path.name}/ {'with' if target.exists() else 'without'}")
        durable.sync_folder_at(path)

    monkeypatch.setattr(part_draft, "sync_file", note_file)
    monkeypatch.setattr(part_folders, "sync_folder_at", note_folder)
    write(folders, ONE)
    assert calls == ["part.parquet", "manifest", "0/ without", "stored/ with"]


def test_a_large_file_is_synced_while_it_is_written(
    folders: PartFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    part = made_part(1, random_bytes(20 << 20))

    def fill(draft: PartDraft) -> None:
        for start in range(0, len(part.data), 1 << 20):
            draft.write(part.data[start : start + (1 << 20)])

    def note(fd: int) -> None:
        synced.append(os.fstat(fd).st_size >> 20)
        durable.sync_file(fd)

    monkeypatch.setattr(part_draft, "sync_file", note)
    folders.receive(part.key, part.header, part.manifest, fill, STORED)
    assert synced == [8, 16, 20, 0], "the last one is the manifest"


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (PartBytes("parquet", ONE.manifest, b"other rows"), "are not part"),
        (PartBytes("parquet", ONE.manifest, ONE.data[:-1]), "are not part"),
        (PartBytes("parquet", ONE.manifest[:-1], ONE.data), "damaged"),
        (PartBytes("parquet", made_part(2).manifest, ONE.data), "manifest of part"),
        (PartBytes("parquet", made_part(1, rows=4).manifest, ONE.data), "something else"),
        (PartBytes("arrow", b"", b"rows"), "no finished part"),
    ],
)
def test_bytes_that_are_not_the_part_are_refused_and_nothing_is_left(
    folders: PartFolders, root: Path, block: PartBytes, complaint: str
) -> None:
    with pytest.raises(MotetError, match=complaint):
        folders.write(ONE.key, ONE.header, block, STORED)
    assert looked(folders) == (set(), set(), set())
    assert unfinished(root) == []


@pytest.mark.parametrize(
    ("module", "call"),
    [(part_draft, "write_all"), (part_draft, "sync_file"), (part_folders, "sync_folder_at")],
)
def test_a_full_disk_is_told_and_nothing_is_left(
    folders: PartFolders,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    call: str,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, call, no_room)
        with pytest.raises(DiskFull):
            write(folders, ONE)
    assert looked(folders) == (set(), set(), set())
    assert unfinished(root) == []
    write(folders, ONE)
    assert looked(folders)[0] == {ONE.key.part}


def test_a_name_that_is_not_durable_is_taken_back(
    folders: PartFolders, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folders, ONE, ARRIVED)

    def fail_at_the_end(path: Path) -> None:
        if path.name == "stored":
            no_room()

    with monkeypatch.context() as patch:
        patch.setattr(part_folders, "sync_folder_at", fail_at_the_end)
        with pytest.raises(DiskFull):
            folders.store(ONE.key, ONE.header)
        with pytest.raises(DiskFull):
            write(folders, made_part(2))
    assert looked(folders) == (set(), {ONE.key.part}, set())
    assert unfinished(root) == []


def test_what_was_not_finished_and_what_had_arrived_goes_at_the_start(root: Path) -> None:
    folders = PartFolders(root)
    for number, state in enumerate(PartState, 1):
        write(folders, made_part(number), state)
    folders.begin().write(b"half a part")
    again = PartFolders(root)
    assert unfinished(root) == []
    by_state = {state: {f"{n:016x}"} for n, state in enumerate(PartState, 1)}
    assert looked(again) == (
        by_state[STORED],
        by_state[DETACHED],
        by_state[STAGED],
    )


class TestStoring:
    @pytest.mark.parametrize("state", [ARRIVED, STAGED, DETACHED])
    def test_takes_what_is_here_with_this_hash(
        self, folders: PartFolders, root: Path, state: PartState
    ) -> None:
        write(folders, ONE, state)
        folders.store(ONE.key, ONE.header)
        assert looked(folders) == ({ONE.key.part}, set(), set())
        assert not part_folder(root, ONE.key, state).exists()

    def test_takes_the_copy_that_is_whole(self, folders: PartFolders, root: Path) -> None:
        spoil(put_on_disk(root, ONE, ARRIVED) / "part.parquet")
        put_on_disk(root, made_part(1, b"other rows"), STAGED)
        put_on_disk(root, ONE, DETACHED)
        folders.store(ONE.key, ONE.header)
        assert folders.has(ONE.key, ONE.header, STORED)

    def test_says_when_nothing_is_here(self, folders: PartFolders) -> None:
        write(folders, made_part(1, b"other rows"), ARRIVED)
        with pytest.raises(ObjectMissing, match="no bytes of part"):
            folders.store(ONE.key, ONE.header)

    def test_leaves_other_bytes_that_are_whole_alone(self, folders: PartFolders) -> None:
        other = made_part(1, b"other rows")
        write(folders, other)
        write(folders, ONE, ARRIVED)
        with pytest.raises(ObjectExists):
            folders.store(ONE.key, ONE.header)
        assert folders.has(other.key, other.header, STORED)

    def test_puts_damaged_bytes_aside(self, folders: PartFolders, root: Path) -> None:
        spoil(put_on_disk(root, ONE) / "part.parquet")
        assert not folders.has(ONE.key, ONE.header, STORED)
        write(folders, ONE)
        assert folders.has(ONE.key, ONE.header, STORED)
        aside = part_folder(root, ONE.key, DETACHED)
        assert "its hash is" in aside.with_name(f"{ONE.key.part}.why").read_text()
        assert (aside / "part.parquet").read_bytes() != ONE.data


class TestStaging:
    @pytest.mark.parametrize("state", [ARRIVED, DETACHED])
    def test_takes_what_is_here(self, folders: PartFolders, state: PartState) -> None:
        write(folders, ONE, state)
        folders.stage(ONE.key, ONE.header)
        assert looked(folders) == (set(), set(), {ONE.key.part})

    def test_of_a_stored_part_leaves_it_stored(self, folders: PartFolders, root: Path) -> None:
        write(folders, ONE)
        folders.stage(ONE.key, ONE.header)
        assert looked(folders) == ({ONE.key.part}, set(), {ONE.key.part})
        folders.remove(ONE.key, STORED)
        assert folders.has(ONE.key, ONE.header, STAGED)
        assert unfinished(root) == []


class TestPuttingAside:
    def test_keeps_the_bytes_and_says_why(self, folders: PartFolders, root: Path) -> None:
        write(folders, ONE)
        folders.detach(ONE.key, "not registered")
        assert looked(folders) == (set(), {ONE.key.part}, set())
        note = part_folder(root, ONE.key, DETACHED).with_name(f"{ONE.key.part}.why")
        assert note.read_text() == "not registered\n"
        folders.store(ONE.key, ONE.header)
        assert not note.exists()

    def test_keeps_every_copy(self, folders: PartFolders) -> None:
        parts = [made_part(1, f"rows {n}".encode()) for n in range(3)]
        for part in parts:
            write(folders, part)
            folders.detach(part.key, "again")
        aside = look(folders, TABLE, SHARD).aside
        assert {header.hash for header in aside} == {part.header.hash for part in parts}
        folders.store(parts[1].key, parts[1].header)
        assert folders.has(parts[1].key, parts[1].header, STORED)

    def test_of_what_is_not_there_is_fine(self, folders: PartFolders) -> None:
        folders.detach(ONE.key, "gone")
        folders.remove(ONE.key, STAGED)
        folders.clear(TABLE, SHARD)
        assert looked(folders) == (set(), set(), set())


def test_a_replica_that_is_cleared_leaves_nothing(folders: PartFolders, root: Path) -> None:
    for number, state in enumerate(PartState, 1):
        write(folders, made_part(number), state)
    folders.clear(TABLE, SHARD)
    assert [path.name for path in root.iterdir()] == ["unfinished~"]
    write(folders, ONE)
    assert looked(folders)[0] == {ONE.key.part}


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def cut_file(folder: Path) -> None:
    os.truncate(folder / "part.parquet", 3)


def remove_file(folder: Path) -> None:
    (folder / "part.parquet").unlink()


def spoil_manifest(folder: Path) -> None:
    spoil(folder / "manifest")


def remove_manifest(folder: Path) -> None:
    (folder / "manifest").unlink()


def swap_manifest(folder: Path) -> None:
    (folder / "manifest").write_bytes(made_part(7).manifest)


class TestLooking:
    @pytest.mark.parametrize(
        "harm",
        [remove_folder, cut_file, remove_file, spoil_manifest, remove_manifest, swap_manifest],
    )
    def test_finds_no_part_that_is_not_whole(
        self, folders: PartFolders, root: Path, harm: Callable[[Path], None]
    ) -> None:
        harm(put_on_disk(root, ONE))
        put_on_disk(root, made_part(2))
        found = look(folders, TABLE, SHARD)
        assert found.stored == (made_part(2).header,)
        assert found.broken == (() if harm is remove_folder else (ONE.key.part,))

    def test_does_not_read_files(self, folders: PartFolders, root: Path) -> None:
        spoil(put_on_disk(root, ONE) / "part.parquet")
        assert looked(folders)[0] == {ONE.key.part}, "nobody has read it yet"
        assert not folders.has(ONE.key, ONE.header, STORED)
        assert looked(folders)[0] == set()
        assert look(folders, TABLE, SHARD).broken == (ONE.key.part,), "now it is known"

    def test_at_first_reads_no_manifests(self, folders: PartFolders, root: Path) -> None:
        """Ten thousand parts are looked at in the time that it takes to list their names."""
        write(folders, ONE)
        spoil(put_on_disk(root, made_part(2)) / "manifest")
        (root / TABLE / str(SHARD) / "stored" / ("f" * 16)).write_text("no folder")
        found = folders.look(TABLE, SHARD)
        assert found == Looked((), (), named=(ONE.key.part, made_part(2).key.part))
        assert folders.look_at(TABLE, SHARD, (PartId("e" * 16),)) == Looked((), ()), (
            "it is not there"
        )

    def test_of_others_is_no_business_of_a_replica(self, folders: PartFolders, root: Path) -> None:
        write(folders, ONE)
        (root / TABLE / str(SHARD) / "stored" / "notes.txt").write_text("a person was here")
        assert look(folders, TableId("00000000000000ff"), SHARD).stored == ()
        assert look(folders, TABLE, SHARD + 1).stored == ()
        assert looked(folders)[0] == {ONE.key.part}


@pytest.mark.parametrize(
    ("table", "shard", "part"),
    [
        ("..", 0, "0" * 16),
        ("0" * 16, -1, "0" * 16),
        ("0" * 16, 256, "0" * 16),
        ("0" * 16, 0, "../x"),
        ("0" * 16, 0, "A" * 16),
        ("0" * 17, 0, "0" * 16),
        ("0" * 16 + "\n", 0, "0" * 16),
    ],
)
def test_only_checked_words_become_paths(table: str, shard: int, part: str) -> None:
    with pytest.raises(BadInput, match="is not the key of a part"):
        PartKey.checked(TableId(table), shard, PartId(part))


def test_a_folder_that_vanishes_is_an_error_and_no_success(
    folders: PartFolders, root: Path
) -> None:
    shutil.rmtree(root / "unfinished~")
    with pytest.raises(ObjectError, match="is missing"):
        write(folders, ONE)
