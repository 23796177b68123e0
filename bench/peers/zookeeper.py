"""Three nodes of ZooKeeper, and a client of its protocol in C that loads them and us alike."""

from __future__ import annotations

import json
import shutil
import socket
import statistics
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers.ports import free_ports

JAR = Path("/usr/share/java/zookeeper.jar")
SOURCE = Path(__file__).parents[1] / "zookeeper_load.c"
NODES = 500


def is_there() -> bool:
    """Whether ZooKeeper is installed (Debian: zookeeper, default-jre-headless)."""
    return JAR.exists() and shutil.which("java") is not None


class ZooKeeper:
    """Between its construction and ``stop``. It syncs before it acknowledges, as is its default."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(9)
        self.client_ports = ports[:3]
        servers = "".join(
            f"server.{i + 1}=127.0.0.1:{ports[3 + i]}:{ports[6 + i]}:participant;127.0.0.1:{ports[i]}\n"
            for i in range(3)
        )
        self._processes = []
        for i in range(3):
            data = folder / f"n{i}"
            data.mkdir(parents=True)
            (data / "myid").write_text(str(i + 1))
            config = folder / f"n{i}.cfg"
            config.write_text(
                f"tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={data}\nmaxClientCnxns=0\n"
                "admin.enableServer=false\n4lw.commands.whitelist=srvr\n"
                f"quorumListenOnAllIPs=false\nstandaloneEnabled=false\n{servers}"
            )
            command = ["java", "-Xmx1g", "-Dzookeeper.forceSync=yes", "-cp", str(JAR)]
            command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
            log = (folder / f"n{i}.log").open("wb")
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        self.leader_first = self._order()

    def _order(self) -> list[int]:
        for _ in range(240):
            modes = [_mode(port) for port in self.client_ports]
            if "leader" in modes and all(map(_gives_sessions, self.client_ports)):
                leader = self.client_ports[modes.index("leader")]
                return [leader, *(port for port in self.client_ports if port != leader)]
            time.sleep(0.25)
        raise AssertionError("ZooKeeper has no leader")

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()


def _gives_sessions(port: int) -> bool:
    """Whether it takes clients: it knows its role some time before."""
    handshake = struct.pack(">iiqiqi", 44, 0, 0, 10_000, 0, 16) + bytes(16)
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.sendall(handshake)
            return len(connection.recv(4)) == 4
    except OSError:
        return False


def _mode(port: int) -> str | None:
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while part := connection.recv(4096):
                answer += part
    except OSError:
        return None
    lines = [line for line in answer.decode().splitlines() if line.startswith("Mode: ")]
    return lines[0].removeprefix("Mode: ") if lines else None


class WireLoad:
    """The load generator, compiled once."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "zookeeper_load"
        subprocess.run(["cc", "-O2", "-o", str(self._program), str(SOURCE)], check=True)
        self._runs = 0

    def run(
        self, ports: Sequence[int], what: str, processes: int, lanes: int, seconds: int
    ) -> dict[str, Any]:
        """``set`` or ``get`` by some processes with so many in flight each, the first at the first port."""
        self._runs += 1
        running = []
        for number in range(processes):
            command = [str(self._program), str(ports[number % len(ports)]), what, str(lanes)]
            command += [str(seconds), f"{self._runs}-{number}", str(NODES)]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        results = []
        for process in running:
            out, _ = process.communicate(timeout=120)
            assert process.returncode == 0, "the load generator failed"
            results.append(json.loads(out))
        return {
            "rate": round(sum(result["rate"] for result in results)),
            "p50_ms": round(statistics.median(result["p50_ms"] for result in results), 3),
            "p99_ms": round(max(result["p99_ms"] for result in results), 3),
        }
