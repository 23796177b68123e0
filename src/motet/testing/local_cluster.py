"""A cluster of real processes on this machine, to be killed, stopped and started again.

::

    with LocalCluster(nodes=3) as cluster:
        db = connect(cluster.endpoints)
        cluster.kill(1)                     # kill -9
        cluster.stop(2)                     # there, and silent
        cluster.cont(2)
        cluster.restart(1)                  # same folder, same ports

Node i is called ``n<i>``, lives in ``folder/node-<i>`` with its ``pid`` and ``node.log``, and has a block of
ten ports (see :mod:`motet.testing.port_block`). When the ``with`` block ends, however it ends, so does
every node; and should the test process itself be killed, the :mod:`motet.testing.reaper` sees to it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from motet.errors import BadInput, NodeError
from motet.testing.local_node import LocalNode
from motet.testing.port_block import HOST, PortBlock
from motet.testing.reaper import Reaper

NODE_COMMAND = (sys.executable, "-m", "motet", "node")
ATTEMPTS_MAX = 5


class LocalCluster:
    """So many nodes on free ports. Without a ``folder`` they live in a temporary one, gone at the end.

    ``command`` starts a node, in the node's folder; it gets ``--id``, ``--port``, ``--data`` and ``--peers``,
    and then ``arguments``.
    """

    def __init__(
        self,
        nodes: int = 3,
        folder: Path | str | None = None,
        *,
        command: Sequence[str] = NODE_COMMAND,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        ready_s_max: float = 60.0,
    ) -> None:
        if nodes < 1:
            raise BadInput(f"a cluster of {nodes} nodes", hint="have at least one")
        self._count = nodes
        self._command = tuple(command)
        self._arguments = tuple(arguments)
        self._environment = dict(environment or {})
        self._ready_s_max = ready_s_max
        self._own_folder = folder is None
        self._given_folder = folder
        self._nodes: list[LocalNode] = []
        self._blocks: list[PortBlock] = []
        self._reaper: Reaper | None = None

    # Life

    def start(self) -> None:
        """Start all nodes and wait until each is ready."""
        if self._reaper is not None:
            raise BadInput("this cluster runs already", hint="close it first")
        self._reaper = Reaper()
        self.folder = Path(
            self._given_folder or tempfile.mkdtemp(prefix="motet-cluster-")
        ).resolve()
        try:
            for _ in range(ATTEMPTS_MAX):
                if self._start_on_free_ports(self._reaper):
                    return
            raise NodeError(f"lost its ports to others {ATTEMPTS_MAX} times", hint="try again")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all nodes."""
        self._end_nodes()
        if self._reaper is not None:
            self._reaper.close()
            self._reaper = None
            if self._own_folder:
                shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_on_free_ports(self, reaper: Reaper) -> bool:
        """False if another program took one of our ports before the node could."""
        while len(self._blocks) < self._count:
            self._blocks.append(PortBlock.claim())
        peers = ",".join(f"n{i}={HOST}:{block.base}" for i, block in enumerate(self._blocks))
        for i, block in enumerate(self._blocks):
            folder = self.folder / f"node-{i}"
            place = ["--id", f"n{i}", "--port", str(block.base), "--data", str(folder)]
            command = [*self._command, *place, "--peers", peers, *self._arguments]
            node = LocalNode(f"n{i}", folder, block, command, self._environment, reaper)
            self._nodes.append(node)
            node.start()
        for node in self._nodes:
            try:
                node.wait_ready(self._ready_s_max)
            except NodeError:
                if node.is_running() or node.block.is_free():
                    raise
                self._end_nodes()
                return False
        return True

    def _end_nodes(self) -> None:
        for node in self._nodes:
            node.end()
        for block in self._blocks:
            block.release()
        self._nodes, self._blocks = [], []

    # What can be done to a node

    def kill(self, i: int) -> None:
        """kill -9; the process is gone when this returns."""
        self._node(i).kill()

    def stop(self, i: int) -> None:
        """Have a node do nothing, with all its connections open."""
        self._node(i).stop()

    def cont(self, i: int) -> None:
        """Have a stopped node go on."""
        self._node(i).cont()

    def terminate(self, i: int, *, wait_s: float = 30.0) -> int:
        """Ask a node to end; returns its exit status."""
        return self._node(i).terminate(wait_s)

    def restart(self, i: int, *, wait: bool = True) -> None:
        """Start a node again, killing it first if it runs; waits until it is ready."""
        node = self._node(i)
        node.end()
        node.start()
        if wait:
            node.wait_ready(self._ready_s_max)

    def wait_ready(self, i: int) -> None:
        """Wait until a node can serve."""
        self._node(i).wait_ready(self._ready_s_max)

    # Where and what they are

    def __len__(self) -> int:
        return self._count

    def is_running(self, i: int) -> bool:
        """Whether a node's process is there, stopped or not."""
        return self._node(i).is_running()

    def endpoint(self, i: int) -> str:
        """Where a node speaks to peers and clients, as ``host:port``."""
        return self._node(i).endpoint

    @property
    def endpoints(self) -> str:
        """All of them, separated by commas."""
        return ",".join(node.endpoint for node in self._nodes)

    def http(self, i: int) -> str:
        """Where a node serves HTTP, as ``http://host:port``."""
        return f"http://{self._node(i).http_endpoint}"

    def pid(self, i: int) -> int:
        return self._node(i).pid

    def log(self, i: int) -> str:
        """All that a node has printed so far."""
        return self._node(i).log()

    def _node(self, i: int) -> LocalNode:
        if not 0 <= i < len(self._nodes):
            raise BadInput(f"there is no node {i}", hint=f"there are {len(self._nodes)}, from 0 on")
        return self._nodes[i]
