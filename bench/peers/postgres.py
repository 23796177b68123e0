"""One server of PostgreSQL, and pgbench as its client: a load generator written in C."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from peers.ports import free_ports

NAME = "bench"
TABLES = """
    create table orders (key text primary key, sku text, qty int, note text);
    create table stock (key text primary key, sku text, qty int, note text);
"""
KEY = "\\set n random(1, 1000000000000000000)\n"
VALUES = "values ('o-' || :n, 's-9', 2, repeat('x', 64))"
SCRIPTS = {
    "one": f"{KEY}insert into orders {VALUES};\n",
    # One round trip, as quick as it gets: the rows of both tables in one statement.
    "two": f"{KEY}with first as (insert into orders {VALUES}) insert into stock {VALUES};\n",
}


def _programs() -> Path | None:
    """Where the newest version that is installed has its programs (Debian: postgresql)."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parts[-2]))
    return found[-1] if found and shutil.which("pgbench") else None


def is_there() -> bool:
    """Whether PostgreSQL and pgbench are installed."""
    return _programs() is not None


class Postgres:
    """Between its construction and ``stop``: its defaults, so commits are synced before they are answered.

    It refuses to run as root: then it runs as the user that its package has made.
    """

    def __init__(self, folder: Path) -> None:
        programs = _programs()
        assert programs is not None, "not installed"
        folder.mkdir()
        data, (self._port,) = folder / "data", free_ports(1)
        data.mkdir(mode=0o700)
        self._user = "postgres" if os.getuid() == 0 else None
        if self._user is not None:
            for each in (folder, data):
                shutil.chown(each, self._user)
            folder.parent.chmod(0o711)
        self._folder = folder
        self.version = self._run(str(programs / "postgres"), "--version").split()[2]
        self._run(str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", NAME)
        command = [str(programs / "postgres"), "-D", str(data), "-p", str(self._port)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        command += ["-c", "synchronous_commit=on", "-c", "fsync=on"]
        log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            command, stdout=log, stderr=log, user=self._user, cwd=folder
        )
        self._wait()
        self._sql(f"create database {NAME}", "postgres")
        self._sql(TABLES)
        for name, script in SCRIPTS.items():
            (folder / f"{name}.sql").write_text(script)

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, user=self._user, cwd=self._folder, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _sql(self, text: str, database: str = NAME) -> None:
        self._run("psql", "-q", *self._where(), "-d", database, "-c", text)

    def _where(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self._port), "-U", NAME]

    def _wait(self) -> None:
        for _ in range(120):
            ready = subprocess.run(
                ["pg_isready", "-q", *self._where(), "-d", "postgres"], check=False
            )
            if ready.returncode == 0:
                return
            time.sleep(0.25)
        raise AssertionError(f"PostgreSQL does not answer: {(self._folder / 'log').read_text()}")

    def commits(self, case: str, lanes: int, seconds: int) -> dict[str, Any]:
        """Transactions of one kind by so many connections."""
        command = ["pgbench", "-n", "-M", "prepared", "-c", str(lanes), "-j", "2"]
        command += ["-T", str(seconds), "-f", str(self._folder / f"{case}.sql")]
        out = self._run(*command, *self._where(), NAME)
        rate = re.search(r"^tps = ([0-9.]+) \(without initial", out, re.MULTILINE)
        latency = re.search(r"^latency average = ([0-9.]+) ms", out, re.MULTILINE)
        assert rate is not None, out
        assert latency is not None, out
        return {"rate": round(float(rate[1])), "mean_ms": float(latency[1])}

    @property
    def address(self) -> dict[str, Any]:
        """Where a client finds it."""
        return {"host": "127.0.0.1", "port": self._port, "user": NAME, "database": NAME}

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)  # without waiting for anybody
        self._process.wait()
