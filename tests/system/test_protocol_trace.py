"""What real nodes do with a shard, and with the log of the keeper, is what the models do."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.cli import app as root
from motet.client.keeper.client import KeeperClient
from motet.errors import MotetError
from motet.node.config import KEEPER_ROLE, ROLES
from motet.testing.local_cluster import LocalCluster

patience_s = 90.0
STEPS, VIEWS = "shard-log-steps", "vsr-view-change"


def append_until_taken(db: Any, keys: range) -> None:
    """Every key once, however often it has to be tried."""
    stream, until = db.stream("orders"), time.monotonic() + patience_s
    for key in keys:
        while True:
            try:
                stream.append(key=str(key), value=b"x", token=("test", key))
                break
            except MotetError:
                assert time.monotonic() < until, f"{key} was not taken"


def lines_of(file: Path, kind: str) -> list[dict[str, Any]]:
    """All lines of nodes about shards, or replicas, in their order."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    found = (line for line in lines if kind in line and "metadata" not in line)
    return sorted(found, key=lambda line: line["at"])


def verdict(capsys: pytest.CaptureFixture[str], file: Path, model: str) -> dict[str, Any]:
    with pytest.raises(SystemExit):
        root.main(["verify", "trace", str(file), "--model", model, "--output", "json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def environment(trace: Path) -> dict[str, str]:
    return {"MOTET_LOG__LEVEL": "warning", "MOTET_DEBUG__PROTOCOL": str(trace)}


async def create(cluster: LocalCluster, count: int) -> None:
    endpoints = ",".join(cluster.zookeeper(i) for i in range(3))
    async with KeeperClient(endpoints, seconds=patience_s) as keeper:
        for _ in range(count):
            await keeper.create("/n-", b"x", sequential=True)


def test_replicas_of_a_keeper_are_explained_and_a_wrong_line_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "protocol.ndjson"
    roles = [KEEPER_ROLE]
    with LocalCluster(3, tmp_path / "data", roles=roles, environment=environment(trace)) as cluster:
        asyncio.run(create(cluster, 10))
    lines = lines_of(trace, "replica")
    assert {line["node"] for line in lines} == {"n0", "n1", "n2"}
    assert max(line["commit"] for line in lines) >= 10
    assert max(line["view"] for line in lines) >= 1
    result = verdict(capsys, trace, VIEWS)
    assert result["verdict"] == "explained", result

    early = next(at for at, line in enumerate(lines) if line["commit"] > 5)
    lines[early]["commit"] = lines[early]["op"] + 1  # more than anybody has
    trace.write_text("\n".join(map(json.dumps, lines)))
    result = verdict(capsys, trace, VIEWS)
    assert (result["verdict"], result["line"]) == ("unexplained", early + 1)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_cluster_whose_leader_is_killed_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "protocol.ndjson"
    with (
        LocalCluster(3, tmp_path / "data", roles=ROLES, environment=environment(trace)) as cluster,
        motet.connect(cluster.endpoints) as db,
    ):
        db.create_stream("orders", shards=1, replicas=3)
        append_until_taken(db, range(20))
        done = lines_of(trace, "shard")
        leaders = [line["node"] for line in done if line["action"] == "BecomeLeader"]
        victim = int(leaders[-1].removeprefix("n"))
        cluster.kill(victim)
        append_until_taken(db, range(20, 40))
        cluster.restart(victim)
        append_until_taken(db, range(40, 60))
    lines = lines_of(trace, "shard")
    actions = [line["action"] for line in lines]
    assert actions.count("BecomeLeader") >= 2
    assert "Restart" in actions
    assert max(line["with"].get("upto", 0) for line in lines) >= 60
    result = verdict(capsys, trace, STEPS)
    assert (result["verdict"], result["lines"]) == ("explained", len(lines)), result
    result = verdict(capsys, trace, VIEWS)
    assert result["verdict"] == "explained", result

    commits = [at for at, line in enumerate(lines) if line["action"] == "Commit"]
    wrong = lines[commits[-1]]["with"]
    wrong["upto"] += 1  # more than anybody has
    trace.write_text("\n".join(map(json.dumps, lines)))
    result = verdict(capsys, trace, STEPS)
    assert (result["verdict"], result["line"]) == ("unexplained", commits[-1] + 1)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_keeper_whose_primary_is_killed_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "protocol.ndjson"
    roles = [KEEPER_ROLE]
    with LocalCluster(3, tmp_path / "data", roles=roles, environment=environment(trace)) as cluster:
        for _ in range(2):
            asyncio.run(create(cluster, 20))
            newest = lines_of(trace, "replica")[-1]
            victim = newest["view"] % 3
            cluster.kill(victim)
            asyncio.run(create(cluster, 20))
            cluster.restart(victim)
        asyncio.run(create(cluster, 20))
    lines = lines_of(trace, "replica")
    assert sum(line.get("restarted", False) for line in lines) >= 5
    assert max(line["view"] for line in lines) >= 3
    result = verdict(capsys, trace, VIEWS)
    assert result["verdict"] == "explained", result
