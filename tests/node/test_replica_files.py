"""Whose files these are: a replica takes its own, and no others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.node.keepers import SMALL, solo, solo_format

from motet.core.vsr.context import SUPERBLOCK, WAL
from motet.errors import BadConfig, MotetError, NodeError
from motet.ids import Address, ReplicaIndex
from motet.node.replica_files import FORMAT, Format, prepare_files
from motet.real.disk import RealDisk


@contextmanager
def formatted(folder: Path, form: Format | None = None) -> Iterator[RealDisk]:
    disk = RealDisk(folder)
    try:
        prepare_files(form or solo_format(), disk, may_format=True)
        yield disk
    finally:
        disk.close()


def test_files_of_others_are_refused_and_left_alone(tmp_path: Path) -> None:
    three = tuple(Address(f"r{n}") for n in range(3))
    own = msgspec.structs.replace(solo_format(), members=three)
    others: dict[str, dict[str, object]] = {
        "of cluster 7, not of cluster 8": {"cluster": 8},
        "of replica 0, not of replica 1": {"replica": 1},
        "of a cluster of r0, r1, r2, not of one of r2, r1, r0": {"members": three[::-1]},
        "slots 64 and not 128": {"sizes": msgspec.structs.replace(SMALL, slots=128)},
    }
    with formatted(tmp_path, own) as disk:
        before = disk.read(SUPERBLOCK, 0)
        for why, changes in others.items():
            wanted = msgspec.structs.replace(own, **changes)
            with pytest.raises(MotetError, match=why):
                prepare_files(wanted, disk, may_format=False)
            with pytest.raises(NodeError, match="already"):
                prepare_files(wanted, disk, may_format=True)
        assert disk.read(SUPERBLOCK, 0) == before
        prepare_files(own, disk, may_format=False)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    with formatted(tmp_path) as disk:
        said = json.loads(disk.read(FORMAT, 0))
        disk.replace(FORMAT, json.dumps({**said, "version": 2, "new": True}).encode())
        with pytest.raises(NodeError, match="of format 2, and this release knows up to 1"):
            prepare_files(solo_format(), disk, may_format=False)
        disk.replace(FORMAT, b"{")
        with pytest.raises(NodeError, match="damaged"):
            prepare_files(solo_format(), disk, may_format=False)


def test_a_replica_without_its_superblock_is_not_formatted_anew(tmp_path: Path) -> None:
    async def work() -> None:
        async with solo(tmp_path) as one, one.client() as client:
            for n in range(3):  # the header of a prepare is written along with the next
                await client.create(f"/{n}")

    asyncio.run(work())
    disk = RealDisk(tmp_path)
    disk.remove(SUPERBLOCK)
    with pytest.raises(NodeError, match="deny its promises"):
        prepare_files(solo_format(), disk, may_format=True)
    disk.close()


def test_a_formatting_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    with formatted(tmp_path) as disk:
        whole = {name: disk.read(name, 0) for name in disk.files()}
        disk.remove(SUPERBLOCK)
        disk.write(WAL, 0, bytes(5000))
        prepare_files(solo_format(), disk, may_format=True)
        assert {name: disk.read(name, 0) for name in disk.files()} == whole


def test_sizes_and_members_that_make_no_cluster_are_refused() -> None:
    with pytest.raises(BadConfig):
        solo_format(msgspec.structs.replace(SMALL, slots=8)).config()
    with pytest.raises(BadConfig):
        msgspec.structs.replace(solo_format(), replica=ReplicaIndex(1)).config()


def test_a_folder_without_a_replica_is_not_one_yet(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    with pytest.raises(NodeError, match="there is no replica in this folder"):
        prepare_files(solo_format(), disk, may_format=False)
    disk.close()


def test_the_files_of_an_earlier_release_are_still_ours(tmp_path: Path) -> None:
    with formatted(tmp_path) as disk:
        said = json.loads(disk.read(FORMAT, 0))
        said["sizes"]["buckets"] = 65536  # it wrote down what its other state machine needed, too
        disk.replace(FORMAT, json.dumps(said).encode())
        prepare_files(solo_format(), disk, may_format=False)
