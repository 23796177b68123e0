"""A replica in its shell: what a prepare costs, whose files it takes, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.node.nodes import free_base_port
from tests.node.replicas import NAME, SMALL, solo, solo_format

from motet.client.consensus import ConsensusClient, cluster_name
from motet.core.vsr.context import SUPERBLOCK, WAL
from motet.core.vsr.key_value import Found, Get, Put
from motet.core.vsr.superblock import copies, encode_copy, read_superblock
from motet.core.vsr.wal_layout import WalLayout
from motet.errors import BadConfig, MotetError, NodeError
from motet.format.frame import Frame, FrameKind
from motet.ids import Address, FileName, ReplicaIndex
from motet.node.replica_files import (
    FORMAT,
    Format,
    ReplicaSettings,
    decode_settings,
    prepare_files,
)
from motet.real.disk import RealDisk
from motet.real.network import TcpNetwork


def test_a_prepare_costs_one_sync_of_one_file_and_never_shares_it_with_its_header(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        sizes = msgspec.structs.replace(SMALL, slots=256, checkpoint_ops=100)
        async with solo(tmp_path, sizes) as one, one.client(sessions=1) as client:
            await client.call([Put(b"a", b"")])
            one.disk.calls.clear()
            for n in range(40):
                await client.call([Put(b"a", str(n).encode())])
            check(one.disk.calls, WalLayout.of(one.config), 40)

    def check(calls: list[tuple[str, FileName, int]], layout: WalLayout, requests: int) -> None:
        assert {file for _, file, _ in calls} == {WAL}
        prepares = [offset for kind, _, offset in calls if kind == "write"]
        assert sum(offset >= layout.prepares_offset for offset in prepares) == requests
        unsynced: set[tuple[str, int]] = set()
        syncs_with_prepare = 0
        for kind, _, offset in calls:
            if kind == "sync":
                syncs_with_prepare += any(ring == "prepare" for ring, _ in unsynced)
                slots = [slot for _, slot in unsynced]
                assert len(slots) == len(set(slots)), "a prepare and its header in one sync"
                unsynced.clear()
            elif offset < layout.prepares_offset:
                unsynced.add(("header", offset // 256))
            else:
                unsynced.add(("prepare", (offset - layout.prepares_offset) // layout.slot_bytes))
        assert syncs_with_prepare == requests

    asyncio.run(run())


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        for life in range(3):
            async with solo(tmp_path) as one, one.client() as client:
                if life:
                    [found] = await client.call([Get(b"life")])
                    assert isinstance(found, Found)
                    assert found.value == str(life - 1).encode()
                for _ in range(30):  # beyond a checkpoint
                    await client.call([Put(b"life", str(life).encode())])

    asyncio.run(run())


def test_a_replica_says_how_it_is(tmp_path: Path) -> None:
    async def run() -> None:
        async with solo(tmp_path) as one, one.client() as client:
            await client.call([Put(b"a", b"")])
            hosting = one.driver.hosted[0].hosting
            detail = hosting.describe(one.replica)
            assert one.driver.not_serving() == []
            assert (detail["status"], detail["is_primary"], detail["view"]) == ("normal", True, 1)
            assert detail["commit_min"] == detail["op"]

    asyncio.run(run())


def test_a_full_disk_stops_writes_and_not_the_replica_until_there_is_room(tmp_path: Path) -> None:
    async def put(client: ConsensusClient) -> None:
        for n in range(100):  # far more than the log takes without a checkpoint
            await client.call([Put(f"key-{n}".encode(), b"value" * 10)])

    async def run() -> None:
        async with solo(tmp_path) as one, one.client(sessions=1) as client:
            one.disk.is_full = True
            putting = asyncio.create_task(put(client))
            notes = one.driver.counters.notes
            while ("vsr", "vsr_prepare_waits_for_checkpoint") not in notes:
                assert not putting.done()
                await asyncio.sleep(0.01)
            assert notes["vsr", "vsr_disk_full"] > 0
            assert one.driver.running
            one.disk.is_full = False
            await putting
            [found] = await client.call([Get(b"key-99")])
            assert isinstance(found, Found)
            assert found.value == b"value" * 10

    asyncio.run(run())


def test_garbage_and_lies_are_counted_and_the_replica_lives(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            solo(tmp_path) as one,
            one.client() as client,
            liar(one.endpoint, None) as stranger,
            liar(one.endpoint, Address("liar")) as node,
        ):
            for body in (b"", b"garbage", msgspec.msgpack.encode({"type": "vsr.prepare"})):
                stranger.send(NAME, Frame(FrameKind.VSR, 0, body))
            for network in (stranger, node):
                network.send(NAME, Frame(FrameKind.VSR, 0, lie("vsr.commit", cluster=7)))
                network.send(NAME, Frame(FrameKind.VSR, 0, lie("vsr.commit", cluster=8)))
                network.flush()
            refused, dropped = one.driver.counters.frames_refused, one.replica.core.state.counts
            while len(refused) < 2 or sum(refused.values()) < 5 or len(dropped) < 2:
                await client.call([Put(b"a", b"")])
            assert refused == {"undecodable": 3, "not_for_clients": 2}
            assert dropped == {"not_a_replica": 1, "foreign": 1}

    asyncio.run(run())


@asynccontextmanager
async def liar(endpoint: str, name: Address | None) -> AsyncIterator[TcpNetwork]:
    """A client, or somebody who greets as a node."""
    peers = {NAME: parse(endpoint)}
    network = TcpNetwork(name, cluster=cluster_name(7), listen=None, peers=peers, wake=lambda: None)
    await network.start()
    try:
        yield network
    finally:
        await network.stop()


def lie(tag: str, cluster: int) -> bytes:
    """A commit from nobody."""
    no_checksum = bytes(16)
    fields = {"cluster": cluster, "replica": 0, "view": 99, "commit": 1 << 40}
    fields |= {"checkpoint_op": 0}
    sums = {"commit_checksum": no_checksum, "checkpoint_id": no_checksum}
    return msgspec.msgpack.encode({"type": tag, **fields, **sums})


def parse(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host, int(port)


# Whose files these are


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
            for _ in range(3):  # the header of a prepare is written along with the next
                await client.call([Put(b"a", b"")])

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


def test_settings_that_make_no_cluster_are_refused() -> None:
    with pytest.raises(BadConfig):
        decode_settings(b"{}")
    with pytest.raises(BadConfig):
        solo_format(msgspec.structs.replace(SMALL, slots=8)).config()
    with pytest.raises(BadConfig):
        msgspec.structs.replace(solo_format(), replica=ReplicaIndex(1)).config()


# The process


def settings_of(folder: Path, **changes: object) -> Path:
    port = free_base_port()
    endpoint = f"127.0.0.1:{port}"
    form = solo_format()
    settings = ReplicaSettings(
        form.cluster, form.replica, {NAME: endpoint}, endpoint, str(folder / "data"), SMALL
    )
    file = folder / "settings.json"
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(settings, **changes)))
    return file


@contextmanager
def process(*arguments: str, python: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, *python, "-m", "motet.node.replica_process", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def refusal(*arguments: str, python: tuple[str, ...] = ()) -> str:
    with process(*arguments, python=python) as started:
        out, err = started.communicate(timeout=60)
        assert (started.returncode, out) == (1, ""), err
        return err.splitlines()[-1]


def test_a_process_formats_when_told_serves_and_ends_on_sigterm(tmp_path: Path) -> None:
    file = settings_of(tmp_path)
    assert refusal(str(file)).startswith("NODE there is no replica in this folder; ")
    for arguments in ([str(file), "--format"], [str(file)]):
        with process(*arguments) as started:
            assert started.stdout is not None
            assert started.stdout.readline() == "ready\n"
            asyncio.run(use(decode_settings(file.read_bytes())))
            started.send_signal(signal.SIGTERM)
            assert started.wait(60) == 0
    assert "already" in refusal(str(file), "--format")


async def use(settings: ReplicaSettings) -> None:
    async with ConsensusClient(settings.format.config(), settings.members) as client:
        await client.call([Put(b"a", b"1")], seconds=60)


def test_a_process_refuses_the_superblock_of_others(tmp_path: Path) -> None:
    with formatted(tmp_path / "data") as disk:
        superblock = read_superblock(disk.read(SUPERBLOCK, 0))
        newer = msgspec.structs.replace(superblock, format_version=2)
        disk.replace(SUPERBLOCK, encode_copy(newer) * copies)
    assert "the file is of format 2" in refusal(str(settings_of(tmp_path)))
    file = tmp_path / "data" / SUPERBLOCK
    file.write_bytes(encode_copy(msgspec.structs.replace(superblock, cluster=8)) * copies)
    assert "the file is of another cluster, 8 and not 7" in refusal(str(settings_of(tmp_path)))
    file.write_bytes(bytes(100))
    assert "no copy of the superblock can be read" in refusal(str(settings_of(tmp_path)))


def test_a_process_refuses_a_call_that_it_does_not_understand(tmp_path: Path) -> None:
    assert refusal().startswith("BAD_INPUT this needs one settings file")
    assert refusal(str(tmp_path / "nothing")).startswith("BAD_INPUT ")
    assert "assertions" in refusal(str(settings_of(tmp_path)), python=("-O",))
