"""``motet dev`` as a person uses it: three nodes with a keeper, looked at, hurt, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from motet.client.keeper.client import KeeperClient
from motet.errors import NodeError
from motet.testing.caretaker import Caretaker
from motet.testing.local_cluster import LocalCluster
from motet.testing.port_block import BLOCK_PORTS, PortBlock

NODES = 3
PATIENCE_SECONDS = 90.0


class Dev:
    """The command, and the folder of its nodes."""

    def __init__(self, folder: Path, base: int) -> None:
        self.folder, self.base = folder, base
        words = ["--nodes", f"{NODES}", "--roles", "keeper", "--port", f"{base}"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "motet", "dev", *words, "--data", str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def endpoints(self) -> str:
        return ",".join(f"127.0.0.1:{self.base + BLOCK_PORTS * i}" for i in range(NODES))

    def pid(self, i: int) -> int | None:
        path = self.folder / f"node-{i}" / "pid"
        return int(path.read_text()) if path.exists() and path.read_text() else None

    def http(self, i: int, path: str) -> bytes:
        url = f"http://127.0.0.1:{self.base + BLOCK_PORTS * i + 3}{path}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bytes(answer.read())

    def is_ready(self, i: int) -> bool:
        try:
            return json.loads(self.http(i, "/readyz"))["ready"] is True
        except (OSError, urllib.error.URLError):
            return False

    def status(self, i: int) -> dict[str, Any]:
        return dict(json.loads(self.http(i, "/api/status")))

    def keeper(self, *words: str) -> Any:
        """What ``motet keeper`` says, as JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "motet", "keeper", *words, "--output", "json"],
            env={**os.environ, "MOTET_ENDPOINT": self.endpoints},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def nodes(self) -> Any:
        """Who has entered itself; nobody as long as there is no place for entries."""
        for parent, name in (("/", "motet"), ("/motet", "nodes")):
            if name not in self.keeper("ls", parent):
                return []
        return self.keeper("ls", "/motet/nodes")


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {PATIENCE_SECONDS:g} s: {what}")
        time.sleep(0.05)


def free_base() -> int:
    """Of so many blocks of ports in a row."""
    with contextlib.ExitStack() as claimed:
        while True:
            first = PortBlock.claim()
            claimed.callback(first.release)
            with contextlib.suppress(NodeError):  # then the next that is free
                for i in range(1, NODES):
                    claimed.callback(PortBlock.at(first.base + BLOCK_PORTS * i).release)
                return first.base


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    running = Dev(tmp_path_factory.mktemp("dev"), free_base())
    try:
        until(lambda: all(map(running.is_ready, range(NODES))), "all nodes are ready")
        yield running
    finally:
        running.process.terminate()
        output, _ = running.process.communicate(timeout=PATIENCE_SECONDS)
    assert running.process.returncode == 0, output
    assert [running.pid(i) for i in range(NODES)] == [None] * NODES, "nobody is left behind"


def test_nodes_enter_themselves(dev: Dev) -> None:
    until(lambda: dev.nodes() == ["n0", "n1", "n2"], "three entries")
    entry = json.loads(dev.keeper("get", "/motet/nodes/n1")["data"])
    assert entry["roles"] == ["keeper"]
    assert entry["native"] == f"127.0.0.1:{dev.base + BLOCK_PORTS}"
    assert entry["zookeeper"] == f"127.0.0.1:{dev.base + BLOCK_PORTS + 1}"
    assert entry["incarnation"] > 0


def test_a_node_that_dies_is_started_again_and_enters_itself_anew(dev: Dev) -> None:
    until(lambda: "n1" in dev.nodes(), "an entry")
    before = json.loads(dev.keeper("get", "/motet/nodes/n1")["data"])["incarnation"]
    old = dev.pid(1)
    assert old is not None
    os.kill(old, signal.SIGKILL)
    until(lambda: dev.pid(1) not in (None, old), "another process")
    until(lambda: dev.is_ready(1), "it is ready")

    def has_new_entry() -> bool:
        if "n1" not in dev.nodes():
            return False
        entry = json.loads(dev.keeper("get", "/motet/nodes/n1")["data"])
        return bool(entry["incarnation"] > before)

    until(has_new_entry, "the entry of its new life")


def test_a_front_end_that_is_started_again_takes_its_places_over(dev: Dev) -> None:
    for _ in range(3):
        old = dev.pid(2)
        assert old is not None
        os.kill(old, signal.SIGKILL)
        until(lambda old=old: dev.pid(2) not in (None, old), "another process")  # type: ignore[misc]
        until(lambda: dev.is_ready(2), "it is ready")

    def places() -> list[int]:
        details = (dev.status(i)["machines"]["keeper"]["detail"] for i in range(NODES))
        return [detail["sessions_reserved"] for detail in details]

    until(lambda: places() == [6, 6, 6], "two places for each of three front ends, and no more")


def test_status_and_metrics_tell_of_the_keeper(dev: Dev) -> None:
    details = [dev.status(i)["machines"]["keeper"]["detail"] for i in range(NODES)]
    assert sum(detail["is_primary"] for detail in details) == 1
    assert all(detail["nodes"] >= 3 for detail in details), "the root, /motet, /motet/nodes"
    lines = dev.http(0, "/metrics").decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(values["motet_keeper_nodes"]) >= 3
    assert float(values["motet_keeper_client_sessions"]) >= 1
    assert "motet_keeper_watches" in values
    shown = dev.keeper("status")
    assert sorted(row["role"] for row in shown) == ["backup", "backup", "primary"]


SMALL = {"MOTET_KEEPER__LOG_SLOTS": "512", "MOTET_KEEPER__CHECKPOINT_OPS": "200"}


async def put(endpoints: str, value: bytes) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), KeeperClient(endpoints) as keeper:
        await keeper.ensure_path("/answer")
        await keeper.set("/answer", value)


async def answer(endpoints: str) -> bytes:
    async with asyncio.timeout(PATIENCE_SECONDS), KeeperClient(endpoints) as keeper:
        return (await keeper.get("/answer"))[0]


@pytest.mark.timeout(300)
def test_a_keeper_that_has_lost_its_folder_is_not_made_anew(tmp_path: Path) -> None:
    """Two of three acknowledge a write. One of them loses its folder, and the other is held meanwhile."""
    said: list[str] = []

    def make() -> LocalCluster:
        folder = tmp_path / "cluster"
        return LocalCluster(3, folder, roles=["keeper"], environment=SMALL)

    with make() as cluster:
        asyncio.run(put(cluster.zookeeper(0), b"old"))
        cluster.kill(0)
        asyncio.run(put(cluster.zookeeper(1), b"new"))
        cluster.kill(1)
        lost = tmp_path / "cluster" / "node-1" / "keeper"
        shutil.rmtree(lost)
        cluster.stop(2)

        caretaker = Caretaker(cluster, said.append)

        def is_looked_after() -> bool:
            caretaker.look_after()
            return cluster.is_running(0) and any("n1 has lost" in line for line in said)

        until(is_looked_after, "n0 runs again, and n1 is refused")
        assert not cluster.is_running(1)
        cluster.cont(2)
        cluster.wait_ready(0)
        assert asyncio.run(answer(cluster.zookeeper(0))) == b"new"
    assert not lost.exists()
    with pytest.raises(NodeError) as refused:
        make().start()
    assert "n1 has lost the files of its keeper" in refused.value.what
    assert f"restore {lost} from a backup" in refused.value.advice
    assert not lost.exists()
