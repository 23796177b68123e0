"""`motet inspect` on the files of a replica, whole and hurt, without the replica."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.node.keepers import SMALL, solo

from motet.cli import app as root
from motet.core.vsr.superblock import copy_bytes
from motet.node.replica_report import report_file
from motet.testing.replica_damage import rot_block, rot_prepares

LANES = 3
"""Sessions of a front end: two for writes, and one that asks for reads."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a replica that has had a checkpoint and some operations above it."""
    folder = tmp_path_factory.mktemp("replica") / "data"

    async def work() -> None:
        async with solo(folder) as one, one.client() as client:
            core, n = one.replica.core, 0
            while n < 25 or not 5 <= core.state.op - core.checkpoint_op <= 10:
                await client.create(f"/key-{n}", b"value" * 20)
                n += 1

    asyncio.run(work())
    return folder


@pytest.fixture
def data(files: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(files, tmp_path / "data"))


def inspect(file: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    with pytest.raises(SystemExit) as exited:
        root.main(["inspect", str(file), "--output", "json"])
    assert exited.value.code == 0
    return json.loads(capsys.readouterr().out)


def text_of(file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as exited:
        root.main(["inspect", str(file)])
    assert exited.value.code == 0
    return capsys.readouterr().out


def test_a_superblock_is_shown_copy_by_copy(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = inspect(data / "superblock", capsys)
    assert (said["kind"], said["stale_copies"]) == ("superblock", [])
    assert said["believed"]["checkpoint_op"] > 0
    assert said["believed"]["checkpoint_op"] % SMALL.checkpoint_ops == 0
    assert [row["agrees_with"] for row in said["rows"]] == [[0, 1, 2, 3]] * 4
    hurt = bytearray((data / "superblock").read_bytes())
    hurt[copy_bytes + 50] ^= 1
    (data / "superblock").write_bytes(hurt)
    said = inspect(data / "superblock", capsys)
    assert said["stale_copies"] == [1]
    assert [row["state"] for row in said["rows"]].count("damaged") == 1
    for number in (0, 2, 3):
        hurt[number * copy_bytes + 50] ^= 1
    (data / "superblock").write_bytes(hurt)
    said = inspect(data / "superblock", capsys)
    assert said["believed"] is None
    assert "no copy" in said["why"]
    assert "never format" in said["hint"]


def test_a_log_is_judged_slot_by_slot(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = inspect(data / "wal", capsys)
    assert (said["kind"], said["slots"], said["faulty"]) == ("wal", SMALL.slots, 0)
    head = said["head_op"]
    assert head > 25
    row = said["rows"][head % SMALL.slots]
    assert (row["op"], row["prepare"]) == (head, "valid")
    rotten = rot_prepares(data, 2)
    assert len(rotten) == 2
    said = inspect(data / "wal", capsys)
    assert (said["faulty"], said["prepares"]["corrupt"]) == (2, 2)
    assert {said["rows"][op % SMALL.slots]["case"] for op in rotten} == {"C"}
    assert "there is no other replica" in said["refused"]
    assert f"op {rotten[0]}" in text_of(data / "wal", capsys)


def test_replies_and_blocks_are_checked(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = inspect(data / "replies", capsys)
    assert (replies["replies"], replies["damaged"]) == (LANES, 0)
    grid = inspect(data / "grid", capsys)
    assert grid["lost"] == []
    assert grid["needed"] > 2
    index = rot_block(data)
    assert inspect(data / "grid", capsys)["lost"] == [index]
    with (data / "replies").open("r+b") as opened:
        opened.seek(30)
        opened.write(b"?")
    assert inspect(data / "replies", capsys)["damaged"] == 1
    assert "damaged" in text_of(data / "grid", capsys)


def test_files_out_of_their_folder_are_shown_as_far_as_possible(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(data / "superblock", alone / "renamed")
    assert inspect(alone / "renamed", capsys)["kind"] == "superblock"
    shutil.copy(data / "wal", alone / "wal")
    said = inspect(alone / "wal", capsys)
    assert "defaults" in said["sizes"]
    assert "faulty" not in said
    (data / "superblock").unlink()
    assert "cannot be read" in inspect(data / "wal", capsys)["superblock"]


@pytest.mark.parametrize("name", ["wal", "superblock", "replies", "grid"])
@pytest.mark.parametrize("content", [b"", b"garbage", bytes(5000), b"\xff" * 70_000])
def test_anything_can_be_looked_at(data: Path, name: str, content: bytes) -> None:
    (data / name).write_bytes(content)
    report = report_file(data / name, content)
    assert report is not None
    assert report.kind == name


def test_other_files_are_none_of_a_replicas(tmp_path: Path) -> None:
    for content in (b"", b"text", bytes(100_000)):
        assert report_file(tmp_path / "journal", content) is None
        assert report_file(tmp_path / "grid", content) is None
