"""Three nodes of etcd, and h2load as their client: a load generator written in C."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

from peers.ports import free_ports

VALUE = bytes(range(256))
KEY = b"bench/h2load"
_programs = ("etcd", "etcdctl", "h2load")


def is_there() -> bool:
    """Whether etcd and its client are installed (Debian: etcd-server, etcd-client, nghttp2-client)."""
    return all(shutil.which(each) for each in _programs)


class Etcd:
    """Between its construction and ``stop``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ports = free_ports(6)
        self.client_ports, peers = ports[:3], ports[3:]
        cluster = ",".join(f"n{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
        self._processes = []
        for i, (port, peer) in enumerate(zip(self.client_ports, peers, strict=True)):
            command = ["etcd", "--name", f"n{i}", "--data-dir", str(folder / f"n{i}")]
            command += ["--listen-client-urls", f"http://127.0.0.1:{port}"]
            command += ["--advertise-client-urls", f"http://127.0.0.1:{port}"]
            command += ["--listen-peer-urls", f"http://127.0.0.1:{peer}"]
            command += ["--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"]
            command += ["--initial-cluster", cluster, "--initial-cluster-state", "new"]
            command += ["--log-level", "error", "--logger", "zap"]
            silent = subprocess.DEVNULL
            self._processes.append(subprocess.Popen(command, stdout=silent, stderr=silent))
        self.leader_first = self._order()

    def _order(self) -> list[int]:
        endpoints = ",".join(f"http://127.0.0.1:{port}" for port in self.client_ports)
        for _ in range(120):
            command = ["etcdctl", "--endpoints", endpoints, "endpoint", "status", "-w", "json"]
            done = subprocess.run(
                command, capture_output=True, env={"ETCDCTL_API": "3"}, check=False
            )
            if done.returncode == 0:
                status = json.loads(done.stdout)
                leads = [
                    int(each["Endpoint"].rsplit(":", 1)[1])
                    for each in status
                    if each["Status"].get("leader") == each["Status"]["header"]["member_id"]
                ]
                if leads:
                    return leads + [port for port in self.client_ports if port not in leads]
            time.sleep(0.5)
        raise AssertionError("etcd has no leader")

    def puts(self, processes: int, lanes: int, seconds: int) -> dict[str, Any]:
        """Puts of 256 bytes by some processes with so many in flight each."""
        return self._load("Put", _field(1, KEY) + _field(2, VALUE), processes, lanes, seconds)

    def gets(self, processes: int, lanes: int, seconds: int) -> dict[str, Any]:
        """Linearizable gets of what was put."""
        return self._load("Range", _field(1, KEY), processes, lanes, seconds)

    def _load(
        self, method: str, message: bytes, processes: int, lanes: int, seconds: int
    ) -> dict[str, Any]:
        body = self._folder / "body.bin"
        body.write_bytes(b"\0" + struct.pack(">I", len(message)) + message)
        running = []
        for number in range(processes):
            log = self._folder / f"h2load-{number}"
            log.unlink(missing_ok=True)
            port = self.leader_first[number % 3]
            command = ["h2load", "-D", str(seconds), "--warm-up-time", "1", "-c", "1", "-t", "1"]
            command += ["-m", str(lanes), "-d", str(body), "--log-file", str(log)]
            command += ["-H", "content-type: application/grpc", "-H", "te: trailers"]
            command += [f"http://127.0.0.1:{port}/etcdserverpb.KV/{method}"]
            running.append((log, subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
        count, latencies = 0, []
        for log, process in running:
            out, _ = process.communicate(timeout=120)
            found = re.search(r"requests: .*?(\d+) succeeded, (\d+) failed", out)
            assert found is not None
            assert found.group(2) == "0", "etcd failed"
            count += int(found.group(1))
            latencies += [int(line.split()[2]) for line in log.read_text().splitlines()]
        return {
            "rate": round(count / seconds),
            "p50_ms": round(statistics.median(latencies) / 1e3, 3),
        }

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


def _field(number: int, data: bytes) -> bytes:
    size, encoded = len(data), b""
    while size > 127:
        encoded += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + encoded + bytes([size]) + data
