"""A cluster of real processes on this machine, to be killed, stopped, cut off and started again.

::

    with LocalCluster(3, roles=["keeper", "data", "operator"], proxied=[2]) as cluster:
        db = motet.connect(cluster.endpoints)
        cluster.kill(1)                     # kill -9
        cluster.stop(2)                     # there, and silent
        cluster.cont(2)
        cluster.links.isolate(2)            # from the other nodes, not from clients
        cluster.links.heal(2)
        cluster.restart(1)                  # same folder, same ports

Node i is called ``n<i>``, lives in ``folder/node-<i>`` with its ``pid`` and ``node.log``, and has a block of
ten ports (see :mod:`motet.testing.port_block`). The folder can be used again: the nodes go on from what is
there, and a keeper whose files are gone is not started (:mod:`motet.testing.port_block`). The nodes prove a
cluster key to each other; it is made with the cluster, in ``folder/cluster-key``.

When the ``with`` block ends, however it ends, so does every node; and should the test process itself be
killed, the :mod:`motet.testing.local_node` sees to it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from motet.client.link import ZOOKEEPER_PORT_OFFSET
from motet.errors import BadInput, NodeError
from motet.node.config import KEEPER_ROLE, ROLES
from motet.node.keeper import keeper_format
from motet.node.replica_files import Format
from motet.node.settings import load
from motet.real.durable import holder_of
from motet.testing.cluster_status import ClusterStatus
from motet.testing.fault_proxy import ProxyMesh
from motet.testing.local_node import LocalNode
from motet.testing.port_block import BLOCK_PORTS, HOST, DevFolder, PortBlock
from motet.testing.reaper import Reaper

NODE_COMMAND = (sys.executable, "-m", "motet", "node")
LOCK_FILE = "lock~"
"""In the folder of each node, as the node itself locks it."""

attempts_max = 5
keepers_max = 6
keepers_of_many = 5
"""Of more nodes than a keeper can have, so many keep the tree: two of them may die."""


class LocalCluster(ClusterStatus):
    """So many nodes with the same roles, on ports that are free or from ``port`` on.

    Without a ``folder`` they live in a temporary one, gone at the end. ``other_roles`` names nodes that are
    to have others; in a large cluster only the first few nodes are keepers. ``environment`` is what the nodes
    have besides ours: their settings. ``has_key=False``: a cluster without a key, as one is that was
    configured by hand without it. The links between the nodes in ``proxied`` and all others can be cut by
    ``links``.

    ``command`` starts a node, in the node's folder; it gets ``--id``, ``--port``, ``--data``, ``--peers``
    and ``--roles``, and then ``arguments``.
    """

    def __init__(
        self,
        nodes: int = 3,
        folder: Path | str | None = None,
        *,
        roles: Sequence[str] = ROLES,
        other_roles: Mapping[int, Sequence[str]] | None = None,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        has_key: bool = True,
        proxied: Sequence[int] = (),
        command: Sequence[str] = NODE_COMMAND,
        arguments: Sequence[str] = (),
        ready_s_max: float = 60.0,
    ) -> None:
        if nodes < 1:
            raise BadInput(f"a cluster of {nodes} nodes", hint="have at least one")
        self._count, self._port = nodes, port
        self._given_folder = None if folder is None else Path(folder).resolve()
        self._roles = roles_of_nodes(nodes, roles, other_roles or {})
        self._given_environment = dict(environment or {})
        self._has_key = has_key
        self._command, self._arguments = tuple(command), tuple(arguments)
        self._ready_s_max = ready_s_max
        self.links = ProxyMesh(proxied)
        self._nodes: list[LocalNode] = []
        self._blocks: list[PortBlock] = []
        self._reaper: Reaper | None = None

    # Life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start all nodes and wait until each is ready."""
        if self._reaper is not None:
            raise BadInput("this cluster runs already", hint="close it first")
        self.folder = (
            self._given_folder or Path(tempfile.mkdtemp(prefix="motet-cluster-")).resolve()
        )
        self._check_free()
        self._reaper = Reaper()
        try:
            for _ in range(attempts_max):
                if self._start_nodes(self._reaper):
                    return
                self._end_nodes()
            raise NodeError(f"lost its ports to others {attempts_max} times", hint="try again")
        except BaseException:
            self._clear()
            raise

    def close(self, wait_s: float = 120.0) -> None:
        """Ask all nodes to end at once; who has not within ``wait_s`` is killed, and is a ``NodeError``."""
        running = [node for node in self._nodes if node.is_running()]
        with ThreadPoolExecutor(len(running) or 1) as threads:
            late = list(filter(None, threads.map(lambda node: _ask_to_end(node, wait_s), running)))
        self._clear()
        if late:
            raise late[0]

    def _start_nodes(self, reaper: Reaper) -> bool:
        """False if another program took one of our ports before the node could."""
        for i in range(self._count):
            self._blocks.append(self._claim(i))
        self.links.open([f"{HOST}:{block.base}" for block in self._blocks])
        self._environment = self._make_environment()
        self._make_keepers()
        for i, block in enumerate(self._blocks):
            folder, command = self.folder / f"node-{i}", self._command_of(i)
            node = LocalNode(f"n{i}", folder, block, command, self._environment, reaper)
            self._nodes.append(node)
            node.start()
        for node in self._nodes:
            try:
                node.wait_ready(self._ready_s_max)
            except NodeError:
                if self._port is not None or node.is_running() or node.block.is_free():
                    raise
                return False
        return True

    def _claim(self, i: int) -> PortBlock:
        if self._port is None:
            return PortBlock.claim()
        return PortBlock.at(self._port + BLOCK_PORTS * i)

    def _end_nodes(self) -> None:
        for node in self._nodes:
            node.end()
        self.links.close()
        for block in self._blocks:
            block.release()
        self._nodes, self._blocks = [], []

    def _clear(self) -> None:
        self._end_nodes()
        if self._reaper is not None:
            self._reaper.close()
            self._reaper = None
            if self._given_folder is None:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _check_free(self) -> None:
        """``NodeError`` when somebody runs nodes in the folder; nothing is touched then."""
        for i in range(self._count):
            holder = holder_of(self.folder / f"node-{i}" / LOCK_FILE)
            if holder is not None:
                raise NodeError(
                    f"{self.folder} is in use: node-{i} runs there as process {holder}",
                    hint="stop the cluster that runs there, or pass another folder with --data",
                )

    # What the nodes are told

    def _make_environment(self) -> dict[str, str]:
        made: dict[str, str] = {}
        if self._has_key:
            made["MOTET_CLUSTER__KEY_FILE"] = str(DevFolder(self.folder).key_file())
        keepers = self._keepers()
        if keepers and len(keepers) < self._count:  # who keeps the tree, for those who do not
            made["MOTET_KEEPER__MEMBERS"] = ",".join(f"n{i}" for i in keepers)
        return {**made, **self._given_environment}

    def _make_keepers(self) -> None:
        keepers, folder = self._keepers(), DevFolder(self.folder)
        if keepers:
            folder.make({i: self._format(i) for i in keepers})
        for lost in filter(None, map(folder.lost, keepers)):
            raise lost

    def _format(self, i: int) -> Format:
        """What node i is told about its keeper."""
        bases = (block.base for block in self._blocks)
        flags: dict[str, tuple[str, object]] = {
            "node.id": ("--id", f"n{i}"),
            "node.peers": ("--peers", ",".join(f"n{j}={HOST}:{b}" for j, b in enumerate(bases))),
        }
        nothing = Path(os.devnull)  # no motet.toml of the caller is read
        return keeper_format(load(nothing, {**os.environ, **self._environment}, flags).config)

    def _command_of(self, i: int) -> list[str]:
        bases = [block.base for block in self._blocks]
        reached = (self.links.endpoint(i, j, f"{HOST}:{base}") for j, base in enumerate(bases))
        peers = ",".join(f"n{j}={endpoint}" for j, endpoint in enumerate(reached))
        place = ["--id", f"n{i}", "--port", str(bases[i]), "--data", "."]
        roles = ",".join(self._roles[i])
        return [*self._command, *place, "--peers", peers, "--roles", roles, *self._arguments]

    def _keepers(self) -> list[int]:
        return [i for i, roles in enumerate(self._roles) if KEEPER_ROLE in roles]

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
            self.wait_ready(i)

    def wait_ready(self, i: int) -> None:
        """Wait until a node can serve."""
        self._node(i).wait_ready(self._ready_s_max)

    # Where and what they are

    def __len__(self) -> int:
        return self._count

    @property
    def endpoints(self) -> str:
        """Where all nodes speak to clients, past all proxies, separated by commas."""
        return ",".join(node.endpoint for node in self._nodes)

    def endpoint(self, i: int) -> str:
        """Where a node speaks to peers and clients, as ``host:port``."""
        return self._node(i).endpoint

    def zookeeper(self, i: int) -> str:
        """Where a node speaks ZooKeeper's protocol, as ``host:port``."""
        return f"{HOST}:{self._node(i).block.base + ZOOKEEPER_PORT_OFFSET}"

    def http(self, i: int) -> str:
        """Where a node serves HTTP, as ``http://host:port``."""
        return f"http://{self._node(i).http_endpoint}"

    def roles(self, i: int) -> tuple[str, ...]:
        """What a node does."""
        return self._roles[i]

    def is_running(self, i: int) -> bool:
        """Whether a node's process is there, stopped or not."""
        return self._node(i).is_running()

    def pid(self, i: int) -> int:
        return self._node(i).pid

    def log(self, i: int) -> str:
        """All that a node has printed so far, over all its lives."""
        return self._node(i).log()

    def log_path(self, i: int) -> Path:
        """Where it is."""
        return self._node(i).log_path

    def keeper_folder(self, i: int) -> Path:
        """The files of a node's replica of the keeper."""
        return self.folder / f"node-{i}" / KEEPER_ROLE

    def lost_keeper(self, i: int) -> NodeError | None:
        """What to say of a keeper that has lost its files, and must not run; None of others."""
        return DevFolder(self.folder).lost(i) if KEEPER_ROLE in self._roles[i] else None

    def _node(self, i: int) -> LocalNode:
        if not 0 <= i < len(self._nodes):
            raise BadInput(f"there is no node {i}", hint=f"there are {len(self._nodes)}, from 0 on")
        return self._nodes[i]


def _ask_to_end(node: LocalNode, wait_s: float) -> NodeError | None:
    try:
        node.terminate(wait_s)
    except NodeError as late:
        return late
    return None


def roles_of_nodes(
    nodes: int, roles: Sequence[str], others: Mapping[int, Sequence[str]]
) -> list[tuple[str, ...]]:
    """What each node does; ``BadInput`` if that is nothing for some of them."""
    if nodes > keepers_max and tuple(roles) == (KEEPER_ROLE,):
        raise BadInput(f"a keeper of {nodes} nodes", hint=f"have at most {keepers_max}")
    found = []
    for i in range(nodes):
        own = tuple(others.get(i, roles))
        if nodes > keepers_max and i >= keepers_of_many:
            own = tuple(role for role in own if role != KEEPER_ROLE)
        found.append(own)
    return found
