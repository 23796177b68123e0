"""What real nodes do with a shard is what its model does, also when its leader is killed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.cli import app as root
from motet.errors import MotetError
from motet.node.roles import ROLES
from motet.testing.dev_cluster import DevCluster

patience_s = 90.0


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


def lines_of(file: Path) -> list[dict[str, Any]]:
    return sorted(map(json.loads, file.read_text().splitlines()), key=lambda line: line["at"])


def verdict(capsys: pytest.CaptureFixture[str], file: Path) -> dict[str, Any]:
    with pytest.raises(SystemExit):
        root.main(["verify", "trace", str(file), "--model", "shard-log-steps", "--output", "json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_cluster_whose_leader_is_killed_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "protocol.ndjson"
    environment = {"MOTET_LOG__LEVEL": "warning", "MOTET_DEBUG__PROTOCOL": str(trace)}
    with (
        DevCluster(3, tmp_path / "data", None, roles=ROLES, environment=environment) as cluster,
        motet.connect(cluster.endpoints) as db,
    ):
        db.create_stream("orders", shards=1, replicas=3)
        append_until_taken(db, range(20))
        leaders = [line["node"] for line in lines_of(trace) if line["action"] == "BecomeLeader"]
        victim = int(leaders[-1].removeprefix("n"))
        cluster.kill(victim)
        append_until_taken(db, range(20, 40))
        cluster.restart(victim)
        append_until_taken(db, range(40, 60))
    lines = lines_of(trace)
    done = [line["action"] for line in lines]
    assert done.count("BecomeLeader") >= 2
    assert "Restart" in done
    assert max(line["with"].get("upto", 0) for line in lines) >= 60
    result = verdict(capsys, trace)
    assert (result["verdict"], result["lines"]) == ("explained", len(lines)), result

    commits = [at for at, line in enumerate(lines) if line["action"] == "Commit"]
    wrong = lines[commits[-1]]["with"]
    wrong["upto"] += 1  # more than anybody has
    trace.write_text("\n".join(map(json.dumps, lines)))
    result = verdict(capsys, trace)
    assert (result["verdict"], result["line"]) == ("unexplained", commits[-1] + 1)
