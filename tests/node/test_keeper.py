"""A keeper in its shell: what a prepare costs, what a full disk and a liar do to it, and how it ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.node.keepers import CLUSTER, NAME, SECONDS_MAX, SMALL, solo, solo_format
from tests.node.nodes import free_base_port, node_process, wait_until_ready

from motet.client.keeper.client import KeeperClient
from motet.core.vsr.context import SUPERBLOCK, WAL
from motet.core.vsr.state import Status
from motet.core.vsr.superblock import Superblock, copies, encode_copy, read_superblock
from motet.core.vsr.wal_layout import WalLayout
from motet.format.frame import Frame, FrameKind
from motet.ids import Address, FileName
from motet.node.keeper import why_replica_does_not_serve
from motet.node.replica_files import prepare_files
from motet.real.disk import RealDisk
from motet.real.network import TcpNetwork


def test_a_prepare_costs_one_sync_of_one_file_and_never_shares_it_with_its_header(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        sizes = msgspec.structs.replace(SMALL, slots=256, checkpoint_ops=100)
        async with solo(tmp_path, sizes) as one, one.client() as client:
            await client.create("/a")
            one.disk.calls.clear()
            for n in range(40):
                await client.set("/a", str(n).encode())
            check(one.disk.calls, WalLayout.of(one.config), 40)

    def check(calls: list[tuple[str, FileName, int]], layout: WalLayout, requests: int) -> None:
        assert {file for _, file, _ in calls} == {WAL}
        writes = [offset for kind, _, offset in calls if kind == "write"]
        prepares = sum(offset >= layout.prepares_offset for offset in writes)
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
        # The pulses of the keeper's time are prepares too, alone or together with a request.
        assert requests <= syncs_with_prepare <= prepares

    asyncio.run(run())


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        for life in range(3):
            async with solo(tmp_path) as one, one.client() as client:
                await client.ensure_path("/life")
                if life:
                    assert (await client.get("/life"))[0] == str(life - 1).encode()
                for _ in range(30):  # beyond a checkpoint
                    await client.set("/life", str(life).encode())

    asyncio.run(run())


def test_a_keeper_says_how_it_is(tmp_path: Path) -> None:
    async def run() -> None:
        async with solo(tmp_path) as one, one.client() as client:
            await client.create("/a")
            hosting = one.driver.hosted[0].hosting
            detail = hosting.describe(one.node)
            assert one.driver.not_serving() == []
            assert (detail["status"], detail["is_primary"], detail["view"]) == ("normal", True, 1)
            assert detail["commit_min"] == detail["op"]
            assert detail["client_sessions"] == 1

    asyncio.run(run())


def test_a_full_disk_stops_writes_and_not_the_keeper_until_there_is_room(tmp_path: Path) -> None:
    async def put(client: KeeperClient) -> None:
        for n in range(100):  # far more than the log takes without a checkpoint
            await client.create(f"/key-{n}", b"value" * 10)

    async def run() -> None:
        async with solo(tmp_path) as one, one.client() as client:
            one.disk.is_full = True
            putting = asyncio.create_task(put(client))
            notes = one.driver.counters.notes
            while ("keeper", "vsr_prepare_waits_for_checkpoint") not in notes:
                assert not putting.done()
                await asyncio.sleep(0.01)
            assert notes["keeper", "vsr_disk_full"] > 0
            assert one.driver.running
            one.disk.is_full = False
            await putting
            assert (await client.get("/key-99"))[0] == b"value" * 10

    asyncio.run(run())


def test_garbage_and_lies_are_counted_and_the_keeper_lives(tmp_path: Path) -> None:
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
            lies = ("not_a_replica", "foreign")
            while sum(refused.values()) < 5 or not all(why in dropped for why in lies):
                await client.exists("/")
            assert refused == {"undecodable": 3, "not_for_clients": 2}
            assert [dropped[why] for why in lies] == [1, 1]

    asyncio.run(run())


@asynccontextmanager
async def liar(endpoint: str, name: Address | None) -> AsyncIterator[TcpNetwork]:
    """A client, or somebody who greets as a node."""
    peers = {NAME: parse(endpoint)}
    network = TcpNetwork(name, cluster=CLUSTER, listen=None, peers=peers, wake=lambda: None)
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


# Files that it must not use


def _of_a_newer_format(superblock: Superblock) -> bytes:
    return encode_copy(msgspec.structs.replace(superblock, format_version=2)) * copies


def _of_another_cluster(superblock: Superblock) -> bytes:
    return encode_copy(msgspec.structs.replace(superblock, cluster=8)) * copies


def _unreadable(_: Superblock) -> bytes:
    return bytes(100)


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (_of_a_newer_format, "the file is of format 2"),
        (_of_another_cluster, "the file is of another cluster, 8 and not 7"),
        (_unreadable, "no copy of the superblock can be read"),
    ],
)
def test_a_superblock_of_others_is_refused(
    tmp_path: Path, damaged: Callable[[Superblock], bytes], why: str
) -> None:
    disk = RealDisk(tmp_path)
    prepare_files(solo_format(), disk, may_format=True)
    hurt = damaged(read_superblock(disk.read(SUPERBLOCK, 0)))
    disk.replace(SUPERBLOCK, hurt)
    disk.close()

    async def run() -> None:
        async with solo(tmp_path) as one:
            async with asyncio.timeout(SECONDS_MAX):
                while one.replica.core.state.status is not Status.REFUSED:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert why in str(why_replica_does_not_serve(one.replica))
            assert any(why in reason for reason in one.driver.not_serving())

    asyncio.run(run())
    assert (tmp_path / SUPERBLOCK).read_bytes() == hurt


def test_a_node_formats_its_keeper_when_told_and_never_again(tmp_path: Path) -> None:
    port, folder = free_base_port(), tmp_path / "data"

    def keeper_process(*flags: str) -> AbstractContextManager[subprocess.Popen[str]]:
        return node_process(
            folder,
            port,
            "--roles",
            "keeper",
            *flags,
            MOTET_KEEPER__LOG_SLOTS="64",
            MOTET_KEEPER__CHECKPOINT_OPS="20",
        )

    def refusal(*flags: str) -> str:
        with keeper_process(*flags) as process:
            _, said = process.communicate(timeout=SECONDS_MAX)
            assert process.returncode == 1, said
            return said.splitlines()[-1]

    assert refusal().startswith("NODE there is no replica in this folder; ")
    for flags in (("--format",), ()):
        with keeper_process(*flags) as process:
            wait_until_ready(port, process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS_MAX) == 0
    assert "already" in refusal("--format")
