"""Clients that ask for all there is and read nothing: a node stays small, and serves everybody else."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.node.nodes import free_base_port
from tests.system.raw_client import RawClient

import motet
from motet.client.keeper.client import KeeperClient
from motet.client.link import HTTP_PORT_OFFSET, ZOOKEEPER_PORT_OFFSET
from motet.core.clock.hlc import ZERO
from motet.core.streams.messages import DataAnswer, GetShardMap, ReadShardFeed, ShardMapIs
from motet.format.frame import Frame, FrameDecoder, FrameKind, encode_frame, encode_frames
from motet.format.zookeeper.codec import encode_request
from motet.format.zookeeper.messages import ErrorCode, GetData, MultiRead
from motet.ids import RequestId, ShardName
from motet.limits import MIB, unfinished_bytes_max
from motet.real.connection import unpack
from motet.real.hello import encode_hello
from motet.testing.local_cluster import LocalCluster

RSS_BYTES_MAX = 512 * MIB
WAIT_SECONDS = 120.0
HOSTILE = {"feed": 70, "unfinished": 30, "gets": 60, "multi_read": 40}
LARGE = b"x" * 1_000_000
RECORDS = 8
STALLED = ("clients_refused", "stalled")
CUT_OFF = ("connections_refused", "stalled", "overrun")
"""Those of the native port: they take nothing, or have more requests than all clients together may."""

SESSION_MS_SHORT = 4_000
SESSION_MS_LONG = 40_000
UNFINISHED_BYTES = 15 * MIB
UNFINISHED_COUNT_MIN = HOSTILE["unfinished"] - unfinished_bytes_max // UNFINISHED_BYTES
"""So many beginnings of messages exceed what a node keeps of them."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    with LocalCluster(1, folder, roles=["keeper", "data", "operator"]) as running:
        yield running


class Hostile:
    """Connections that say something and never read."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []

    def open(self, endpoint: str) -> socket.socket:
        host, _, port = endpoint.rpartition(":")
        opened = socket.create_connection((host, int(port)), WAIT_SECONDS)
        opened.setblocking(False)
        self.sockets.append(opened)
        return opened

    def say(self, opened: socket.socket, data: bytes) -> None:
        """As much of it as is taken without waiting; a closed connection is the node's right."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            opened.sendall(data)

    def close(self) -> None:
        for opened in self.sockets:
            opened.close()


def feed_requests(shard: ShardName, count: int) -> bytes:
    """The whole feed, so many times; half of them ask for all of it at once."""
    encode = msgspec.msgpack.Encoder().encode
    requests = [
        ReadShardFeed(RequestId(n), ZERO, shard, None, None, 1 << 60, 1 << (40 if n % 2 else 20))
        for n in range(count)
    ]
    return encode_frames(Frame(FrameKind.DATA, 0, encode(each)) for each in requests)


def shard_of(endpoint: str) -> ShardName:
    """The only shard there is, asked for in the same words."""
    host, _, port = endpoint.rpartition(":")
    decoder, body = FrameDecoder(), msgspec.msgpack.encode(GetShardMap(RequestId(1), ZERO))
    with socket.create_connection((host, int(port)), WAIT_SECONDS) as line:
        line.sendall(encode_hello("motet", None) + encode_frame(FrameKind.DATA, 0, body))
        while True:
            frames = [
                one for one in decoder.feed(line.recv(1 << 16)) if one.kind != FrameKind.HELLO
            ]
            for message in unpack(frames):
                answer = msgspec.msgpack.decode(message.body, type=DataAnswer)
                assert isinstance(answer, ShardMapIs)
                assert answer.map is not None
                ((place,),) = (stream.places for stream in answer.map.streams)
                return place.shard


def forget_peak(pid: int) -> None:
    """What it needed to start, with files of a keeper to make, is no concern here."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_rss_bytes(pid: int) -> int:
    """The most memory that the process has had since then."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024


async def use_keeper(endpoint: str, rounds: int) -> None:
    async with KeeperClient(endpoint, seconds=WAIT_SECONDS) as keeper:
        for number in range(rounds):
            await keeper.set("/own", b"%d" % number)
            assert (await keeper.get("/own"))[0] == b"%d" % number


def use_stream(db: motet.Database, rounds: int) -> None:
    stream = db.stream("quiet")
    for number in range(rounds):
        place = stream.append(key=b"k", value=b"%d" % number)
        (read,) = stream.read(shard=0, after=place.offset - 1, limit=1)
        assert read.value == b"%d" % number


def attack(
    cluster: LocalCluster, hostile: Hostile, shard: ShardName, is_expired: threading.Event
) -> None:
    native, zookeeper = cluster.endpoint(0), cluster.zookeeper(0)
    hello = encode_hello("motet", None)
    pages = hello + feed_requests(shard, 500)
    for _ in range(HOSTILE["feed"]):
        hostile.say(hostile.open(native), pages)
    begun = hello + encode_frame(FrameKind.DATA, 0, bytes(UNFINISHED_BYTES))[:-1]
    for _ in range(HOSTILE["unfinished"]):
        opened = hostile.open(native)
        opened.settimeout(WAIT_SECONDS)
        hostile.say(opened, begun)
    is_expired.wait()
    for _ in range(HOSTILE["gets"]):
        get_without_end(zookeeper, hostile, SESSION_MS_LONG)


def get_without_end(zookeeper: str, hostile: Hostile, timeout_ms: int) -> None:
    """Ask for a gigabyte, and take none of it."""
    client = RawClient(zookeeper)
    client.greet(timeout_ms=timeout_ms)
    client.send(b"".join(encode_request(xid, GetData("/large", False)) for xid in range(1, 1_001)))
    hostile.sockets.append(client._socket)


def test_a_node_stays_small_and_serves_others(cluster: LocalCluster) -> None:
    pid, hostile, is_expired = cluster.pid(0), Hostile(), threading.Event()
    asyncio.run(prepare_keeper(cluster.zookeeper(0)))
    with motet.connect(cluster.endpoints) as db:
        db.create_stream("loud", shards=1)
        shard = shard_of(cluster.endpoint(0))
        for _ in range(RECORDS):
            db.stream("loud").append(key=b"k", value=LARGE)
        db.create_stream("quiet", shards=1)
        db.visible_clock("loud", wait=True)
        forget_peak(pid)
        assert kept(cluster, *STALLED) == 0
        get_without_end(cluster.zookeeper(0), hostile, SESSION_MS_SHORT)
        attacker = threading.Thread(target=attack, args=(cluster, hostile, shard, is_expired))
        attacker.start()
        try:
            # The only one of this port: its session expires before it is cut off for what it does not take.
            until(lambda: use(cluster, db, *STALLED) == 1, cluster)
            until(lambda: kept(cluster, "zookeeper_unsent_bytes") == 0, cluster)
            is_expired.set()
            while attacker.is_alive():
                use(cluster, db)
            refuse_multi_reads(cluster.zookeeper(0))
            # All of them are cut off while they hold on, which takes as long as the node is patient.
            until(lambda: use(cluster, db, *STALLED) == HOSTILE["gets"] + 1, cluster)
            until(lambda: use(cluster, db, *CUT_OFF) == HOSTILE["feed"], cluster)
            assert kept(cluster, "connections_refused", "stalled") > 0
            assert kept(cluster, "connections_refused", "unfinished") >= UNFINISHED_COUNT_MIN
            until(lambda: kept(cluster, "zookeeper_unsent_bytes") == 0, cluster)
            until(lambda: kept(cluster, "clients_unsent_bytes") == 0, cluster)
            assert kept(cluster, "client_requests_waiting") == 0
        finally:
            is_expired.set()
            attacker.join()
            hostile.close()
    assert cluster.pid(0) == pid
    assert cluster.is_running(0)
    assert peak_rss_bytes(pid) < RSS_BYTES_MAX
    assert "Traceback" not in cluster.log(0)


def use(cluster: LocalCluster, db: motet.Database, *metric: str) -> float:
    """As everybody else does; then what the node says of a metric."""
    use_stream(db, 3)
    asyncio.run(use_keeper(cluster.zookeeper(0), 3))
    return kept(cluster, *metric) if metric else 0


async def prepare_keeper(endpoint: str) -> None:
    async with KeeperClient(endpoint, seconds=WAIT_SECONDS) as keeper:
        await keeper.create("/large", LARGE)
        await keeper.create("/own", b"")


def refuse_multi_reads(endpoint: str) -> None:
    """2 GB of answers for 40 kB of questions."""
    for _ in range(HOSTILE["multi_read"]):
        with RawClient(endpoint) as client:
            client.greet()
            client.ask(1, MultiRead((GetData("/large", False),) * 2_200))
            assert client.hear() == (1, ErrorCode.MARSHALLING_ERROR)


def kept(cluster: LocalCluster, name: str, *whys: str) -> float:
    """A gauge, or how often a node did it for these reasons: 0 for one that it has not had yet."""
    with urllib.request.urlopen(f"{cluster.http(0)}/metrics", timeout=WAIT_SECONDS) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        (family,) = (each for each in families if each.name == f"motet_{name}")
    if not whys:
        (sample,) = family.samples
        return sample.value
    return sum(each.value for each in family.samples if each.labels.get("why") in whys)


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from motet.__main__ import main
main()
"""


def test_idle_connections_do_not_use_up_the_descriptors(tmp_path: Path) -> None:
    """With few descriptors, and more connections to every port than there are."""
    base = free_base_port()
    command = [sys.executable, "-c", LIMITED, "node", "--id", "n0", "--port", str(base)]
    command += ["--data", str(tmp_path / "n0"), "--roles", "keeper,data,operator", "--format"]
    with (tmp_path / "log").open("wb") as log:
        node = subprocess.Popen(command, stderr=log, stdout=log)
        idle: list[socket.socket] = []
        try:
            until(lambda: is_ready(base), node)
            for port in (base, base + ZOOKEEPER_PORT_OFFSET, base + HTTP_PORT_OFFSET):
                where = ("127.0.0.1", port)
                idle += [socket.create_connection(where, WAIT_SECONDS) for _ in range(300)]
            assert node.poll() is None
            until(lambda: is_ready(base), node)  # those that say nothing are closed after a while
            with motet.connect(f"127.0.0.1:{base}") as db:
                db.create_stream("s", shards=1)
                db.stream("s").append(key=b"k", value=b"v")
            assert "connections_lowered" in (tmp_path / "log").read_text()
            assert "Traceback" not in (tmp_path / "log").read_text()
        finally:
            for one in idle:
                one.close()
            node.terminate()
            assert node.wait(WAIT_SECONDS) == 0


def is_ready(base: int) -> bool:
    url = f"http://127.0.0.1:{base + HTTP_PORT_OFFSET}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False


def until(is_so: Callable[[], bool], running: subprocess.Popen[bytes] | LocalCluster) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if isinstance(running, LocalCluster):
            assert running.is_running(0), "the node has stopped"
        else:
            assert running.poll() is None, "the node has stopped"
        assert time.monotonic() < deadline
        time.sleep(0.1)
