"""Whatever a client says, the node lives: an error or a closed connection, and the next one is served."""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import struct
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.raw_client import HELLO, RawClient

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.errors import BadArguments, BadVersion, InvalidAcl, KeeperTooLarge, NoNode
from motet.format.zookeeper.jute import PAYLOAD_BYTES_MAX
from motet.format.zookeeper.messages import (
    Acl,
    Check,
    ErrorCode,
    Exists,
    GetData,
    Multi,
    Ping,
    SetData,
)
from motet.limits import keeper_multi_operations_max, keeper_multi_sets_max
from motet.testing.local_cluster import LocalCluster

DATA_BYTES_MAX = 1_048_575
HALF_OPEN = 3_000
WAIT_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("keeper")
    with LocalCluster(1, folder, roles=["keeper"]) as running:
        yield running


@pytest.fixture(autouse=True)
def lives(cluster: LocalCluster) -> Iterator[None]:
    """After each test: the same process, and a fresh client is served."""
    pid = cluster.pid(0)
    yield
    assert cluster.is_running(0)
    assert cluster.pid(0) == pid
    asyncio.run(_is_served(cluster.zookeeper(0)))
    assert "Traceback" not in cluster.log(0)


async def _is_served(endpoint: str) -> None:
    async with KeeperClient(endpoint, seconds=WAIT_SECONDS) as keeper:
        path = await keeper.create("/served-", b"data", sequential=True)
        assert (await keeper.get(path))[0] == b"data"
        await keeper.delete(path)


def raw(cluster: LocalCluster) -> RawClient:
    return RawClient(cluster.zookeeper(0))


# Bytes


def test_garbage(cluster: LocalCluster) -> None:
    dice = random.Random(1)
    for size in (1, 4, 5, 100, 10_000):
        for _ in range(10):
            with raw(cluster) as client:
                client.send(b"\xff" + dice.randbytes(size))
                client.finish()
                assert client.is_over()
            with raw(cluster) as client:
                client.greet()
                client.send(struct.pack(">i", size) + dice.randbytes(size))
                client.finish()
                client.is_over()


@pytest.mark.parametrize("length", [-1, -(1 << 31), PAYLOAD_BYTES_MAX + 1, (1 << 31) - 1])
def test_lengths_that_cannot_be(cluster: LocalCluster, length: int) -> None:
    with raw(cluster) as client:
        client.send(struct.pack(">i", length))
        assert client.is_over()
    with raw(cluster) as client:
        client.greet()
        client.send(struct.pack(">i", length))
        assert client.is_over()


def test_a_handshake_that_breaks_off(cluster: LocalCluster) -> None:
    for size in range(len(HELLO)):
        with raw(cluster) as client:
            client.send(HELLO[:size])
            client.finish()
            assert client.is_over()


def test_thousands_that_say_nothing(cluster: LocalCluster) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    host, _, port = cluster.zookeeper(0).rpartition(":")
    count = min(HALF_OPEN, soft // 3)
    silent: list[socket.socket] = []
    try:
        for number in range(count):
            silent.append(socket.create_connection((host, int(port)), WAIT_SECONDS))
            silent[-1].sendall(HELLO[: number % 40])
        asyncio.run(_is_served(cluster.zookeeper(0)))
    finally:
        for one in silent:
            one.close()


def test_requests_before_the_handshake(cluster: LocalCluster) -> None:
    for request in (Ping(), Exists("/", watch=False), GetData("/" + "x" * 100, watch=True)):
        with raw(cluster) as client:
            client.ask(1, request)
            client.finish()
            assert client.is_over()


def test_a_second_handshake(cluster: LocalCluster) -> None:
    with raw(cluster) as client:
        client.greet()
        client.send(HELLO)
        assert client.hear() == (0, ErrorCode.UNIMPLEMENTED)
        client.ask(1, Exists("/", watch=False))
        assert client.hear() == (1, ErrorCode.OK)


def test_operations_that_nobody_has(cluster: LocalCluster) -> None:
    with raw(cluster) as client:
        client.greet()
        for opcode in (10, 16, 17, 18, 19, 20, 21, 99, 102, 103, 104, 105, 106, 107, 4711, -99):
            client.send(struct.pack(">iii", 8, opcode, opcode))
            assert client.hear() == (opcode, ErrorCode.UNIMPLEMENTED)
        client.ask(1, Exists("/", watch=False))
        assert client.hear() == (1, ErrorCode.OK)


def test_a_multi_without_an_end(cluster: LocalCluster) -> None:
    with raw(cluster) as client:
        client.greet()
        client.send(struct.pack(">iii", 8, 1, 14))
        assert client.is_over()


def test_a_session_that_never_was(cluster: LocalCluster) -> None:
    for session, password in ((12345, bytes(16)), (-1, b""), ((1 << 63) - 1, bytes(1000))):
        with raw(cluster) as client:
            assert client.greet(session, password) == 0, "a timeout of 0: it is no more"
            assert client.is_over()


def test_four_letter_words(cluster: LocalCluster) -> None:
    words = {word: raw(cluster).word(word) for word in _WORDS}
    for word, wanted in _WORDS.items():
        assert wanted in words[word], (word, words[word])
    with raw(cluster) as client:
        session = client.greet()
        assert session
        assert "Connections: " in raw(cluster).word(b"srvr")


_WORDS = {
    b"ruok": "imok",
    b"isro": "rw",
    b"srvr": "Mode: standalone",
    b"stat": "Clients:",
    b"mntr": "zk_server_state\tstandalone",
    b"envi": "zookeeper.version=3.",
    b"cons": "sid=",
    b"dump": "SessionTracker dump:",
    b"wchs": "Total watches:",
    b"conf": "",
}


# What makes no sense


def test_paths_versions_and_lists_that_make_no_sense(cluster: LocalCluster) -> None:
    async def run() -> None:
        async with KeeperClient(cluster.zookeeper(0), seconds=WAIT_SECONDS) as keeper:
            for path in ("", "x", "/x/", "//", "/a//b", "/.", "/a/..", "/\0", "/\1", "/\U0001f600"):
                with pytest.raises((BadArguments, NoNode)):
                    await keeper.create(path)
                with pytest.raises((BadArguments, NoNode)):
                    await keeper.set(path, b"")
                with pytest.raises((BadArguments, NoNode)):
                    await keeper.delete(path)
                with pytest.raises((BadArguments, NoNode)):
                    await keeper.get(path)
            path = await keeper.create("/sense")
            for version in (1, -2, -(1 << 31), (1 << 31) - 1):
                with pytest.raises(BadVersion):
                    await keeper.set(path, b"", version)
                with pytest.raises(BadVersion):
                    await keeper.delete(path, version)
            for acl in ([], [Acl(31, "world", "x")], [Acl(31, "x", "y")], [Acl(31, "digest", "")]):
                with pytest.raises(InvalidAcl):
                    await keeper.create("/other", acl=acl)
            with pytest.raises(BadArguments):
                await keeper.delete("/")
            await keeper.delete(path)

    asyncio.run(run())


# Size


def test_data_of_the_limit_and_one_byte_more(cluster: LocalCluster) -> None:
    async def run() -> None:
        async with KeeperClient(cluster.zookeeper(0), seconds=WAIT_SECONDS) as keeper:
            most = bytes(DATA_BYTES_MAX)
            await keeper.create("/most", most)
            assert (await keeper.get("/most"))[0] == most
            await keeper.set("/most", most)
            with pytest.raises(BadArguments):
                await keeper.create("/more", most + b"x")
            with pytest.raises(BadArguments):
                await keeper.set("/most", most + b"x")
            assert await keeper.exists("/more") is None
            await keeper.delete("/most")

    asyncio.run(run())


def test_a_multi_that_is_too_large(cluster: LocalCluster) -> None:
    with raw(cluster) as client:
        client.greet()
        client.ask(1, Multi((Check("/", 0),) * 400))
        assert client.hear() == (1, ErrorCode.OK)
        client.ask(2, Multi((Check("/", 0),) * (keeper_multi_operations_max + 1)))
        xid, error = client.hear()
        assert xid == 2
        assert error == ErrorCode.MARSHALLING_ERROR
        client.ask(3, Exists("/", watch=False))
        assert client.hear() == (3, ErrorCode.OK)


def test_the_largest_multi(cluster: LocalCluster) -> None:
    with raw(cluster) as client:
        client.greet()
        client.ask(1, Multi((Check("/", 0),) * keeper_multi_operations_max))
        assert client.hear() == (1, ErrorCode.OK)


def test_as_many_sets_as_are_promised_and_more(cluster: LocalCluster) -> None:
    async def run() -> None:
        async with KeeperClient(cluster.zookeeper(0), seconds=WAIT_SECONDS) as keeper:
            await keeper.create("/many", b"")
            sets = [SetData("/many", b"%d" % n, -1) for n in range(keeper_multi_sets_max)]
            stats = await keeper.multi(sets)
            assert len(stats) == keeper_multi_sets_max
            with pytest.raises(KeeperTooLarge, match="the multi of 500 operations exceeds"):
                await keeper.multi([SetData("/many", b"x", -1)] * 500)
            data, stat = await keeper.get("/many")
            assert (data, stat.version) == (b"449", keeper_multi_sets_max)
            await keeper.delete("/many")

    asyncio.run(run())


def test_a_path_of_a_megabyte(cluster: LocalCluster) -> None:
    with raw(cluster) as client:
        client.greet()
        long = "/" + "x" * 1_000_000
        client.ask(1, GetData(long, watch=False))
        assert client.hear() == (1, ErrorCode.NO_NODE)
        client.ask(2, SetData(long + "/y", b"", -1))
        assert client.hear() == (2, ErrorCode.NO_NODE)


# Clients that do not listen


def test_a_client_that_never_reads_its_answers(cluster: LocalCluster) -> None:
    async def run() -> None:
        async with KeeperClient(cluster.zookeeper(0), seconds=WAIT_SECONDS) as keeper:
            await keeper.create("/large", bytes(500_000))
            deaf = raw(cluster)
            deaf.greet()
            is_full = await asyncio.to_thread(deaf.send_until_full, GetData("/large", watch=False))
            assert is_full, "the node has stopped to read from it"
            for number in range(50):
                await keeper.set("/large", b"%d" % number)
            assert (await keeper.get("/large"))[0] == b"49"
            deaf.close()
            await keeper.delete("/large")

    asyncio.run(run())


def test_words_tell_of_watches_sessions_and_settings(cluster: LocalCluster) -> None:
    with raw(cluster) as client:
        client.greet()
        client.ask(1, Exists("/watched", watch=True))
        assert client.hear() == (1, ErrorCode.NO_NODE)
        assert "Total watches:0" not in raw(cluster).word(b"wchs")
        assert "zk_watch_count\t0" not in raw(cluster).word(b"mntr")
        assert "Global Sessions(0)" not in raw(cluster).word(b"dump")
        assert "clientPort=" in raw(cluster).word(b"conf")


def test_refusals_are_in_the_metrics(cluster: LocalCluster) -> None:
    with raw(cluster) as client:
        client.send(struct.pack(">i", -1))
        assert client.is_over()
    with urllib.request.urlopen(f"{cluster.http(0)}/metrics", timeout=WAIT_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    counts = [line for line in lines if 'why="garbage"' in line and not line.endswith(" 0.0")]
    assert counts
