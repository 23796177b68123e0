"""What a cluster says of itself when it cannot serve: to probes, to clients, and to a second cluster."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import motet
from motet.client import connect
from motet.errors import NodeError
from motet.errors.shards import Unavailable
from motet.testing.local_cluster import LocalCluster

WAIT_SECONDS = 120.0
ALL = ["keeper", "data", "operator"]


def get(cluster: LocalCluster, i: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{cluster.http(i)}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_node_without_a_quorum_lives_and_is_not_ready(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, roles=ALL) as cluster:
        is_refused_as_in_use(tmp_path, cluster)
        with motet.connect(cluster.endpoints) as db:
            db.create_stream("orders", shards=1)
            db.stream("orders").append(key=b"k", value=b"v")
            assert len(db.changes("orders").changes) == 1
        assert get(cluster, 0, "/readyz")[0] == 200
        for i in (1, 2):
            cluster.kill(i)
        until(lambda: get(cluster, 0, "/readyz")[0] == 503)
        assert json.loads(get(cluster, 0, "/readyz")[1])["reasons"]
        assert get(cluster, 0, "/livez") == (200, "ok\n")
        assert not json.loads(get(cluster, 0, "/api/status")[1])["ready"]
        with motet.connect(cluster.endpoint(0)) as db:
            with pytest.raises(Unavailable, match="orders/0 cannot be read"):
                db.stream("orders").read(shard=0)
            with pytest.raises(Unavailable, match="orders/0 cannot be read"):
                db.visible_clock("orders", wait=True)
        for i in (1, 2):
            cluster.restart(i, wait=False)
        until(lambda: all(get(cluster, i, "/readyz")[0] == 200 for i in range(3)))
        assert "vsr_clock_agreed" not in cluster.log(0)


def is_refused_as_in_use(folder: Path, cluster: LocalCluster) -> None:
    """A second cluster touches nothing, and names the process that is in its way."""
    pid, file = cluster.pid(0), folder / "node-0" / "pid"
    log = (folder / "node-0" / "node.log").read_text()
    with pytest.raises(NodeError, match=rf"in use: node-0 runs there as process {pid};"):
        LocalCluster(3, folder, roles=ALL).start()
    assert file.read_text().strip() == str(pid)
    assert cluster.is_running(0)
    assert (folder / "node-0" / "node.log").read_text().startswith(log)


def test_a_cluster_without_a_shard_map_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "map_seconds_max", 0.5)
    with (
        LocalCluster(1, tmp_path, roles=["keeper", "data"]) as cluster,
        pytest.raises(Unavailable, match="shard map"),
    ):
        motet.connect(cluster.endpoints)
