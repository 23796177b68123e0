"""Local clusters of stand-in nodes; the guide's example (test_guide.py) has real ones."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from motet.errors import BadInput, NodeError
from motet.testing import port_block
from motet.testing.local_cluster import LocalCluster
from motet.testing.port_block import PortBlock

STAND_IN = (sys.executable, "-S", str(Path(__file__).with_name("stand_in_node.py")))


def stand_ins(nodes: int, folder: Path | None, mode: str = "", **options: Any) -> LocalCluster:
    arguments = ["--mode", mode] if mode else []
    return LocalCluster(nodes, folder, roles=(), command=STAND_IN, arguments=arguments, **options)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with stand_ins(2, tmp_path) as cluster:
        yield cluster


def about(cluster: LocalCluster, i: int, wait_s: float = 20.0) -> dict[str, Any]:
    """What the node says of itself."""
    with urllib.request.urlopen(cluster.http(i), timeout=wait_s) as answer:
        said: dict[str, Any] = json.load(answer)
        return said


def has_ended(pid: int) -> bool:
    """Gone, or a zombie whose new parent has not looked yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"


def wait_for_end(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while not all(has_ended(pid) for pid in pids):
        assert time.monotonic() < deadline, f"some of {pids} live on"
        time.sleep(0.01)


def test_nodes_get_their_flags_and_answer(cluster: LocalCluster, tmp_path: Path) -> None:
    assert len(cluster) == 2
    for i in range(2):
        said = about(cluster, i)
        base = int(cluster.endpoint(i).removeprefix("127.0.0.1:"))
        assert said["id"] == f"n{i}"
        assert said["port"] == base
        assert (said["data"], said["folder"]) == (".", str(tmp_path.resolve() / f"node-{i}"))
        assert said["peers"] == f"n0={cluster.endpoint(0)},n1={cluster.endpoint(1)}"
        assert said["pid"] == cluster.pid(i)
        assert cluster.http(i) == f"http://127.0.0.1:{base + 3}"
    assert cluster.endpoints == f"{cluster.endpoint(0)},{cluster.endpoint(1)}"


def test_a_node_has_a_pid_file_and_a_log(cluster: LocalCluster, tmp_path: Path) -> None:
    pid_file = tmp_path / "node-1" / "pid"
    assert int(pid_file.read_text()) == cluster.pid(1)
    assert cluster.log(1).startswith("n1 starts\n")
    assert "GET /readyz" in cluster.log(1)
    cluster.kill(1)
    assert not pid_file.exists()


def test_a_killed_node_is_gone_and_comes_back_in_its_place(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    before, other = cluster.pid(0), cluster.pid(1)
    endpoint = cluster.endpoint(0)
    cluster.kill(0)
    assert has_ended(before)
    assert not cluster.is_running(0)
    with pytest.raises(OSError, match="refused"):
        about(cluster, 0)
    with pytest.raises(BadInput, match="does not run"):
        cluster.pid(0)
    cluster.restart(0)
    assert cluster.pid(0) != before
    assert cluster.endpoint(0) == endpoint
    assert cluster.pid(1) == other
    assert (tmp_path / "node-0" / "starts").read_text() == "xx"
    assert cluster.log(0).count("n0 starts") == 2


def test_restarting_a_node_that_runs_kills_it_first(cluster: LocalCluster) -> None:
    before = cluster.pid(0)
    cluster.restart(0, wait=False)
    assert has_ended(before)
    cluster.wait_ready(0)
    assert about(cluster, 0)["pid"] == cluster.pid(0)


def test_a_stopped_node_is_there_and_silent_until_it_goes_on(cluster: LocalCluster) -> None:
    cluster.stop(0)
    assert cluster.is_running(0)
    with pytest.raises(TimeoutError):
        about(cluster, 0, wait_s=0.05)
    cluster.cont(0)
    assert about(cluster, 0)["id"] == "n0"


@pytest.mark.parametrize("stopped", [False, True])
def test_a_node_ends_when_asked_to(cluster: LocalCluster, stopped: bool) -> None:
    if stopped:
        cluster.stop(1)
    assert cluster.terminate(1) == 0
    assert not cluster.is_running(1)
    assert cluster.is_running(0)


def test_a_node_that_does_not_listen_is_reported_and_still_ended(tmp_path: Path) -> None:
    cluster = stand_ins(1, tmp_path, "deaf")
    cluster.start()
    pid = cluster.pid(0)
    with pytest.raises(NodeError, match="has not ended"):
        cluster.terminate(0, wait_s=0.05)
    assert cluster.is_running(0)
    with pytest.raises(NodeError, match="has not ended"):
        cluster.close(wait_s=0.05)
    assert has_ended(pid)


def test_all_nodes_end_with_the_block_even_if_it_raises(tmp_path: Path) -> None:
    pids: list[int] = []

    def fail_in_the_middle() -> None:
        with stand_ins(3, tmp_path) as cluster:
            pids.extend(cluster.pid(i) for i in range(3))
            cluster.stop(1)
            cluster.kill(2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()
    assert len(pids) == 3
    assert all(has_ended(pid) for pid in pids)


def test_a_temporary_folder_is_gone_at_the_end_and_a_given_one_stays(tmp_path: Path) -> None:
    with stand_ins(1, None) as temporary, stand_ins(1, tmp_path):
        assert (temporary.folder / "node-0" / "node.log").exists()
    assert not temporary.folder.exists()
    assert (tmp_path / "node-0" / "node.log").exists()


def test_a_node_that_never_gets_ready_is_reported_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"n0 is not ready after 0\.3 s \(.+\); its log ends with"):
        stand_ins(1, tmp_path, "never", ready_s_max=0.3).start()
    assert not list(tmp_path.glob("*/pid")), "nothing is left running"


def test_a_node_that_fails_to_start_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"ended with status 1[^$]*no luck today"):
        stand_ins(2, tmp_path, "fails").start()
    assert not list(tmp_path.glob("*/pid")), "nothing is left running"


def test_the_environment_reaches_the_nodes(tmp_path: Path) -> None:
    with stand_ins(1, tmp_path, environment={"COLOUR": "green"}) as cluster:
        assert about(cluster, 0)["colour"] == "green"


def test_a_port_lost_to_another_program_means_another_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thieves: list[socket.socket] = []

    def robbed(block: PortBlock) -> bool:
        """Free when asked, and taken right after that, once."""
        free = is_free(block)
        if free and not thieves:
            thieves.append(socket.create_server((port_block.HOST, block.base)))
        return free

    is_free = PortBlock.is_free
    monkeypatch.setattr(PortBlock, "is_free", robbed)
    with stand_ins(2, tmp_path) as cluster:
        stolen = thieves[0].getsockname()[1]
        assert stolen not in [int(cluster.endpoint(i).rpartition(":")[2]) for i in range(2)]
        assert about(cluster, 0)["id"] == "n0"
        thieves[0].close()


def test_nodes_do_not_outlive_a_test_process_that_is_killed(tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        from motet.testing import LocalCluster
        with LocalCluster(2, {str(tmp_path)!r}, roles=(), command={STAND_IN!r}) as cluster:
            cluster.stop(1)
            print(cluster.pid(0), cluster.pid(1), flush=True)
            input()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as test:
        assert test.stdout is not None
        pids = [int(word) for word in test.stdout.readline().split()]
        assert len(pids) == 2
        test.send_signal(signal.SIGKILL)
        test.wait()
        wait_for_end(pids)


def test_the_ports_of_a_cluster_can_be_chosen(tmp_path: Path) -> None:
    block = PortBlock.claim()
    block.release()
    with stand_ins(1, tmp_path, port=block.base) as cluster:
        assert cluster.endpoint(0) == f"{port_block.HOST}:{block.base}"


def test_nodes_with_roles_are_told_so(tmp_path: Path) -> None:
    with LocalCluster(
        3, tmp_path, roles=["data"], other_roles={1: ["operator"], 2: []}, command=STAND_IN
    ) as cluster:
        assert [about(cluster, i)["roles"] for i in range(3)] == ["data", "operator", ""]
        assert [cluster.roles(i) for i in range(3)] == [("data",), ("operator",), ()]


def test_what_makes_no_sense_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(BadInput, match="no node 2"):
        cluster.kill(2)
    with pytest.raises(BadInput, match="runs already"):
        cluster.start()
    with pytest.raises(BadInput, match="0 nodes"):
        LocalCluster(0)
