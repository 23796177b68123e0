"""Three servers of NATS with JetStream, and a client in C that loads them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from peers.ports import free_ports

SOURCE = Path(__file__).parents[1] / "jetstream_load.c"
HEADER = Path("/usr/include/nats/nats.h")


def is_there() -> bool:
    """Whether NATS and its library are installed (Debian: nats-server, libnats-dev)."""
    return shutil.which("nats-server") is not None and HEADER.exists()


class JetStream:
    """Between its construction and ``stop``: a stream of three replicas on file.

    It acknowledges before it syncs, as is its default.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._program = folder / "jetstream_load"
        command = ["cc", "-O2", "-o", str(self._program), str(SOURCE), "-lnats"]
        subprocess.run(command, check=True)
        ports = free_ports(6)
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports[3:])
        self._processes = []
        for i in range(3):
            config = folder / f"n{i}.conf"
            config.write_text(
                f'server_name: n{i}\nhost: "127.0.0.1"\nport: {ports[i]}\n'
                f'jetstream {{ store_dir: "{folder / f"n{i}"}", max_file: 20GB }}\n'
                f'cluster {{ name: bench, host: "127.0.0.1", port: {ports[3 + i]}, routes: [{routes}] }}\n'
            )
            log = (folder / f"n{i}.log").open("wb")
            command = ["nats-server", "-c", str(config)]
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        self._url = f"nats://127.0.0.1:{ports[0]}"
        leader = self._make()
        self._url = f"nats://127.0.0.1:{ports[int(leader.removeprefix('n'))]}"

    def _make(self) -> str:
        why = ""
        for _ in range(60):
            done = subprocess.run(
                [self._program, self._url, "make"], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return done.stdout.strip()
            why = done.stderr
            try:
                self._processes[0].wait(0.5)
            except subprocess.TimeoutExpired:
                continue
        raise AssertionError(f"JetStream has no stream: {why}")

    def publish(self, processes: int, lanes: int, seconds: int) -> dict[str, Any]:
        """1 KiB messages by some processes at the leader, with so many in flight each."""
        command = [str(self._program), self._url, "publish", str(lanes), str(seconds)]
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)
        ]
        results = []
        for process in running:
            out, _ = process.communicate(timeout=120)
            assert process.returncode == 0, "the load generator failed"
            results.append(json.loads(out))
        return {
            "rate": round(sum(result["rate"] for result in results)),
            "p50_ms": max(result["p50_ms"] for result in results),
        }

    def consume(self, count: int) -> dict[str, Any]:
        """Read so many back, every byte touched."""
        command = [str(self._program), self._url, "consume", str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        result: dict[str, Any] = json.loads(done.stdout)
        assert result["count"] == count
        return {"rate": round(result["rate"])}

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()
