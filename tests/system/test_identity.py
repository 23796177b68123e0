"""Impostors and duplicates at a cluster of real processes: they get nothing, and nothing stops for them."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

import motet
from motet.core.shardlog.messages import FenceRequest
from motet.core.vsr.messages import PingClient
from motet.format.frame import Frame, FrameDecoder, FrameKind, encode_frames
from motet.ids import ClientId, ClusterId, Epoch, LogName, ShardName
from motet.node.config import ROLES
from motet.real.hello import PROTOCOL_VERSION, Hello, encode_hello, hello_frame
from motet.testing.local_cluster import LocalCluster
from motet.testing.port_block import PortBlock

NODES = 3
CLUSTER = "motet"
SMALL = {"MOTET_KEEPER__LOG_SLOTS": "512", "MOTET_KEEPER__CHECKPOINT_OPS": "200"}
patience_seconds = 60.0


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + patience_seconds
    while not is_so():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {patience_seconds:g} s: {what}")
        time.sleep(0.05)


@contextlib.contextmanager
def stranger(endpoint: str, said: bytes) -> Iterator[socket.socket]:
    host, _, port = endpoint.rpartition(":")
    with socket.create_connection((host, int(port)), patience_seconds) as line:
        line.sendall(said)
        yield line


def hears(line: socket.socket) -> list[int]:
    """The kinds of all frames that come until the other side hangs up."""
    decoder, kinds = FrameDecoder(), []
    with contextlib.suppress(ConnectionError):
        while data := line.recv(1 << 16):
            kinds += [frame.kind for frame in decoder.feed(data)]
    return kinds


def greeting_as(name: str) -> bytes:
    """Of a node that has been started in the far future, and has no key."""
    return hello_frame(Hello(PROTOCOL_VERSION, CLUSTER, name, (), 1 << 62))


def works(cluster: LocalCluster, value: int) -> None:
    """A transaction over several shards is committed and read back."""
    with motet.connect(cluster.endpoints) as db:
        for _ in range(3):
            with db.transaction() as txn:
                for key in ("a", "b", "c", "d"):
                    txn.change("things", key=key, op="update", row={"value": value})
        with db.transaction() as txn:
            assert txn.get("things", "d") is not None


def impostors_at(cluster: LocalCluster, opened: contextlib.ExitStack) -> list[socket.socket]:
    """At each node one for each of the other two: six that greet and say no more."""
    return [
        opened.enter_context(stranger(cluster.endpoint(i), greeting_as(f"n{j}")))
        for i in range(NODES)
        for j in range(NODES)
        if i != j
    ]


@pytest.mark.timeout(300)
def test_strangers_who_greet_as_nodes_or_speak_as_such(tmp_path: Path) -> None:
    with (
        LocalCluster(NODES, tmp_path, roles=ROLES, environment=SMALL) as cluster,
        contextlib.ExitStack() as opened,
    ):
        key = tmp_path / "cluster-key"
        assert key.stat().st_mode & 0o777 == 0o600
        with motet.connect(cluster.endpoints) as db:
            db.create_stream("things", shards=4, replicas=3)
        works(cluster, 1)

        for line in impostors_at(cluster, opened):
            assert hears(line) == [FrameKind.HELLO], "refused, and has heard nothing but a greeting"
        works(cluster, 2)
        assert "why=unproven" in cluster.log(0)

        fence = msgspec.msgpack.encode(
            FenceRequest(LogName(ShardName("things/0")), Epoch(1 << 40), 0)
        )
        ping = msgspec.msgpack.encode(PingClient(ClusterId(1), ClientId(1)))
        said = encode_frames([Frame(FrameKind.DATA, 1, fence), Frame(FrameKind.VSR, 2, ping)])
        for i in range(NODES):
            opened.enter_context(stranger(cluster.endpoint(i), encode_hello(CLUSTER, None) + said))
            until(partial(has_refused, cluster, i), f"n{i} refuses what nodes say")
        works(cluster, 3)

        duplicate_is_refused(cluster, tmp_path / "duplicate", key)
        works(cluster, 4)
        logs = "".join(map(cluster.log, range(NODES)))
        assert key.read_text().strip() not in logs


def has_refused(cluster: LocalCluster, i: int) -> bool:
    """Both messages of a client that only nodes may send."""
    with urllib.request.urlopen(f"{cluster.http(i)}/metrics", timeout=patience_seconds) as answer:
        found = re.search(
            rb"motet_frames_refused\w*{[^}]*not_for_clients[^}]*} (\d+)", answer.read()
        )
    return found is not None and int(found[1]) >= 2


def log_has(cluster: LocalCluster, i: int, text: str) -> bool:
    return text in cluster.log(i)


def duplicate_is_refused(cluster: LocalCluster, folder: Path, key: Path) -> None:
    """A process that knows the key, and calls itself n1 by mistake."""
    block = PortBlock.claim()
    folder.mkdir()
    peers = f"n0={cluster.endpoint(0)},n1=127.0.0.1:{block.base},n2={cluster.endpoint(2)}"
    words = ["--id", "n1", "--port", f"{block.base}", "--data", ".", "--peers", peers]
    words += ["--roles", "data"]  # a keeper without its files would not even start
    process = subprocess.Popen(
        [sys.executable, "-m", "motet", "node", *words],
        cwd=folder,
        env={"MOTET_CLUSTER__KEY_FILE": str(key), "PATH": ""},
        stderr=subprocess.DEVNULL,
    )
    try:
        for i in (0, 2):
            until(partial(log_has, cluster, i, "why=duplicate"), f"n{i} refuses the second n1")
    finally:
        process.kill()
        process.wait()
        block.release()


@pytest.mark.timeout(300)
def test_without_a_key_strangers_do_not_displace_nodes(tmp_path: Path) -> None:
    with (
        LocalCluster(NODES, tmp_path, roles=ROLES, environment=SMALL, has_key=False) as cluster,
        contextlib.ExitStack() as opened,
    ):
        assert "peers_from_loopback_only" in cluster.log(0)
        with motet.connect(cluster.endpoints) as db:
            db.create_stream("things", shards=4, replicas=3)
        works(cluster, 1)
        lines = [*impostors_at(cluster, opened), *impostors_at(cluster, opened)]
        works(cluster, 2)
        # A node that nobody dialed has let one of each name in: it gets nothing of what is said to that name.
        for line in lines:
            line.settimeout(0.2)
            kinds: list[int] = []
            with contextlib.suppress(TimeoutError):
                kinds = hears(line)
            assert set(kinds) <= {FrameKind.HELLO}
        assert "why=duplicate" in "".join(map(cluster.log, range(NODES)))
