"""A consensus cluster of real processes on this machine, to be killed, stopped, cut off and hurt.

::

    with ConsensusCluster(replicas=5, proxied=[2]) as cluster:
        client = ConsensusClient(cluster.config, cluster.endpoints)
        cluster.kill(cluster.primary())     # kill -9
        cluster.restart(1)                  # same folder, same ports
        cluster.isolate(2)                  # from all replicas, not from clients
        cluster.heal(2)

Replica i is called ``r<i>`` and lives in ``folder/r<i>``: its settings, its log, its ``data``. The links of
the replicas in ``proxied`` go through a :class:`motet.testing.fault_proxy.FaultProxy` each way. When the
``with`` block ends, however it ends, so does every replica.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from motet.core.vsr.config import Timeouts, VsrConfig
from motet.errors import NodeError
from motet.ids import Address, ClusterId, ReplicaIndex
from motet.node.replica_files import Format, ReplicaSettings, Sizes, prepare_files
from motet.real.disk import RealDisk
from motet.testing.local_node import LocalNode
from motet.testing.node_group import NodeGroup
from motet.testing.port_block import HOST, PortBlock
from motet.testing.proxy_lane import ProxyMode
from motet.testing.proxy_mesh import ProxyMesh
from motet.testing.reaper import Reaper

REPLICA_COMMAND = (sys.executable, "-m", "motet.node.replica_process")
SMALL = Sizes(slots=256, checkpoint_ops=100, body_bytes_max=16 * 1024, block_bytes=2048, buckets=64)
"""Small files, and a checkpoint every now and then."""

look_every_s = 0.02
_status_s_max = 2.0


class ConsensusCluster(NodeGroup):
    """So many replicas on free ports. Without a ``folder`` they live in a temporary one, gone at the end."""

    def __init__(
        self,
        replicas: int = 3,
        folder: Path | None = None,
        *,
        sizes: Sizes = SMALL,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - it is frozen
        proxied: Sequence[int] = (),
        cluster: int = 7,
        log_level: str = "info",
        ready_s_max: float = 60.0,
    ) -> None:
        super().__init__(ready_s_max)
        names = tuple(Address(f"r{i}") for i in range(replicas))
        self._format = Format(ClusterId(cluster), ReplicaIndex(0), names, sizes)
        self.config: VsrConfig = self._format.config(timeouts)
        self._timeouts = timeouts
        self._given_folder = folder
        self._log_level = log_level
        self._opened = contextlib.ExitStack()
        self._mesh = ProxyMesh(proxied)

    # Life

    def start(self) -> None:
        """Format and start all replicas, and wait until one leads and the others follow."""
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all replicas."""
        for node in self._nodes:
            node.end()
        self._opened.close()

    def _start(self) -> None:
        self.folder = self._make_folder()
        reaper = Reaper()
        self._opened.callback(reaper.close)
        blocks = [self._claim() for _ in self.config.replicas]
        self._mesh.open([f"{HOST}:{block.base}" for block in blocks])
        self._opened.callback(self._mesh.close)
        for i, block in enumerate(blocks):
            folder = self.folder / f"r{i}"
            folder.mkdir(parents=True)
            settings = folder / "settings.json"
            settings.write_bytes(msgspec.json.encode(self._settings(i, blocks)))
            self._format_files(i)
            command = [*REPLICA_COMMAND, str(settings)]
            node = LocalNode(f"r{i}", folder, block, command, {}, reaper)
            self._nodes.append(node)
            node.start()
        for i in range(len(self)):
            self.wait_ready(i)

    def _format_files(self, i: int) -> None:
        disk = RealDisk(self.data(i))
        own = msgspec.structs.replace(self._format, replica=ReplicaIndex(i))
        prepare_files(own, disk, may_format=True)
        disk.close()

    def _make_folder(self) -> Path:
        if self._given_folder is not None:
            return self._given_folder.resolve()
        folder = Path(tempfile.mkdtemp(prefix="motet-consensus-")).resolve()
        self._opened.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def _claim(self) -> PortBlock:
        block = PortBlock.claim()
        self._opened.callback(block.release)
        return block

    def _settings(self, i: int, blocks: Sequence[PortBlock]) -> ReplicaSettings:
        members = {}
        for j, name in enumerate(self.config.replicas):
            members[name] = self._mesh.endpoint(i, j, f"{HOST}:{blocks[j].base}")
        return ReplicaSettings(
            cluster=self.config.cluster,
            replica=ReplicaIndex(i),
            members=members,
            listen=f"{HOST}:{blocks[i].base}",
            data=str(self.data(i)),
            sizes=self._format.sizes,
            timeouts=self._timeouts,
            log_level=self._log_level,
        )

    # How they are cut off

    def isolate(self, i: int, mode: ProxyMode | None = None) -> None:
        """Swallow what the other replicas and this one say to each other, or do as ``mode`` says."""
        self._mesh.isolate(i, mode)

    def heal(self, i: int) -> None:
        """Let everything pass again."""
        self._mesh.heal(i)

    def deafen(self, i: int) -> None:
        """Let this replica speak to the others, and hear nothing from them."""
        self._mesh.deafen(i)

    def mute(self, i: int) -> None:
        """Let this replica hear the others, and not be heard."""
        self._mesh.mute(i)

    # Where and what they are

    def __len__(self) -> int:
        return self.config.count

    @property
    def endpoints(self) -> dict[Address, str]:
        """Where clients reach the replicas, past all proxies."""
        return {
            name: node.endpoint
            for name, node in zip(self.config.replicas, self._nodes, strict=True)
        }

    def data(self, i: int) -> Path:
        """The folder of a replica's files."""
        return self.folder / f"r{i}" / "data"

    def noted(self, what: str) -> int:
        """How often any replica has noted this fact, over all their lives."""
        return sum(self.log(i).count(f" {what} ") for i in range(len(self)))

    def status(self, i: int) -> Mapping[str, Any] | None:
        """What a replica says of itself; None if it does not answer."""
        url = f"http://{self._node(i).http_endpoint}/api/status"
        try:
            with urllib.request.urlopen(url, timeout=_status_s_max) as answer:
                detail: Mapping[str, Any] = json.load(answer)["machines"]["vsr"]["detail"]
                return detail
        except (OSError, urllib.error.URLError, ValueError, KeyError):
            return None

    def metrics(self, i: int) -> dict[str, float]:
        """What a replica counts, by name and labels as in the text format."""
        url = f"http://{self._node(i).http_endpoint}/metrics"
        with urllib.request.urlopen(url, timeout=_status_s_max) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def primary(self, *, wait_s: float = 30.0) -> int:
        """Who leads the newest view that anybody leads; waits until somebody does."""
        found: list[tuple[int, int]] = []

        def look() -> bool:
            known = ((i, self.status(i)) for i in range(len(self)) if self.is_running(i))
            found[:] = [(s["view"], i) for i, s in known if s is not None and s["is_primary"]]
            return bool(found)

        wait_for(look, "a primary", wait_s)
        return max(found)[1]


def wait_for(reached: Callable[[], bool], what: str, wait_s: float) -> float:
    """Look until it is so; how long it took in seconds. ``NodeError`` if it takes too long."""
    began, never = time.monotonic(), threading.Event()
    while not reached():
        if time.monotonic() - began > wait_s:
            raise NodeError(f"{what}: not within {wait_s:g} s", hint="read the replicas' logs")
        never.wait(look_every_s)
    return time.monotonic() - began
