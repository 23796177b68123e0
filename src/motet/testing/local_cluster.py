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
every node; and should the test process itself be killed, the :mod:`motet.testing.reaper` sees to it. The
nodes prove a cluster key to each other; it is made with the cluster, in ``folder/cluster-key``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from motet.errors import BadInput, NodeError
from motet.testing.dev_folder import DevFolder
from motet.testing.local_node import LocalNode
from motet.testing.node_group import NodeGroup
from motet.testing.port_block import HOST, PortBlock
from motet.testing.reaper import Reaper

NODE_COMMAND = (sys.executable, "-m", "motet", "node")
ATTEMPTS_MAX = 5


class LocalCluster(NodeGroup):
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
        super().__init__(ready_s_max)
        self._count = nodes
        self._command = tuple(command)
        self._arguments = tuple(arguments)
        self._environment = dict(environment or {})
        self._own_folder = folder is None
        self._given_folder = folder
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

    def _start_on_free_ports(self, reaper: Reaper) -> bool:
        """False if another program took one of our ports before the node could."""
        while len(self._blocks) < self._count:
            self._blocks.append(PortBlock.claim())
        peers = ",".join(f"n{i}={HOST}:{block.base}" for i, block in enumerate(self._blocks))
        key_file = str(DevFolder(self.folder).key_file())
        environment = {"MOTET_CLUSTER__KEY_FILE": key_file, **self._environment}
        for i, block in enumerate(self._blocks):
            folder = self.folder / f"node-{i}"
            place = ["--id", f"n{i}", "--port", str(block.base), "--data", str(folder)]
            command = [*self._command, *place, "--peers", peers, *self._arguments]
            node = LocalNode(f"n{i}", folder, block, command, environment, reaper)
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

    # Where they are

    def __len__(self) -> int:
        return self._count

    @property
    def endpoints(self) -> str:
        """All of them, separated by commas."""
        return ",".join(node.endpoint for node in self._nodes)
