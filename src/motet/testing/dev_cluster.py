"""A cluster for a developer's machine: nodes that are kept alive until somebody ends them.

Node i is called ``n<i>``, listens from port base + 10 i on, and lives in ``folder/node-<i>`` with its ``pid``
and ``node.log``. The folder can be used again: the nodes go on from what is there, and a keeper whose files
are gone is not started (:mod:`motet.testing.dev_folder`). The nodes prove a cluster key to each other, which
is made with the cluster. A node that dies is started again, later and later if it dies at once; should this
process itself be killed, the reaper ends the nodes.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from motet.client.link import ZOOKEEPER_PORT_OFFSET
from motet.errors import BadInput, NodeError
from motet.node.keeper import keeper_format
from motet.node.replica_files import Format
from motet.node.settings import load
from motet.real.folder_lock import holder_of
from motet.testing.dev_folder import DevFolder
from motet.testing.local_node import LocalNode
from motet.testing.node_group import NodeGroup, wait_for
from motet.testing.port_block import BLOCK_PORTS, HOST, PortBlock
from motet.testing.proxy_mesh import ProxyMesh
from motet.testing.reaper import Reaper

status_s_max = 2.0
restart_s_min = 0.2
restart_s_max = 10.0
steady_s = 5.0
"""Who has run for so long is started again at once when it dies."""

lag_ops_max = 100
"""Whoever is so far behind at most is up to date."""

KEEPER = "keeper"
LOCK_FILE = "lock~"
"""In the folder of each node, as the node itself locks it."""

Say = Callable[[str], None]


keepers_max = 6
keepers_of_many = 5
"""Of more nodes than a keeper can have, so many keep the tree: two of them may die."""


class DevCluster(NodeGroup):
    """So many nodes with the same roles, from ``port`` on or on ports that are free.

    ``other_roles`` names nodes that are to have others. In a large cluster only the first few nodes are
    keepers. ``has_key=False``: a cluster without a key, as one is that was configured by hand without it.
    ``say`` hears what becomes of them, a line each. The links between the nodes in ``proxied`` and
    all others can be cut by ``links``.
    """

    def __init__(
        self,
        nodes: int,
        folder: Path,
        port: int | None,
        *,
        roles: Sequence[str],
        other_roles: Mapping[int, Sequence[str]] | None = None,
        environment: Mapping[str, str] | None = None,
        has_key: bool = True,
        say: Say = lambda _line: None,
        proxied: Sequence[int] = (),
        ready_s_max: float = 60.0,
    ) -> None:
        super().__init__(ready_s_max)
        if nodes < 1:
            raise BadInput(f"a cluster of {nodes} nodes", hint="have at least one")
        self._count, self._port = nodes, port
        self._folder = folder.resolve()
        self._dev_folder = DevFolder(self._folder)
        self._has_key = has_key
        self._roles = roles_of_nodes(nodes, roles, other_roles or {})
        self._environment = {**self._members(), **(environment or {})}
        self._say = say
        self.links = ProxyMesh(proxied)
        self._blocks: list[PortBlock] = []
        self._reaper: Reaper | None = None
        #: of each node: when it was started, when it may be started again, how long that was put off
        self._started_at: dict[int, float] = {}
        self._due_at: dict[int, float] = {}
        self._patience_s: dict[int, float] = {}

    def start(self) -> None:
        self._check_free()
        try:
            for i in range(self._count):
                self._blocks.append(self._claim(i))
            self.links.open([f"{HOST}:{block.base}" for block in self._blocks])
            self._make_folder()
            self._reaper = Reaper()
            for i, block in enumerate(self._blocks):
                folder = self._folder / f"node-{i}"
                command = self._command(i)
                self._nodes.append(
                    LocalNode(f"n{i}", folder, block, command, self._environment, self._reaper)
                )
                self._start_node(i)
            for i in range(self._count):
                self.wait_ready(i)
        except BaseException:
            self.close()
            raise

    def _make_folder(self) -> None:
        if self._has_key:
            key_file = str(self._dev_folder.key_file())
            self._environment.setdefault("MOTET_CLUSTER__KEY_FILE", key_file)
        keepers = [i for i, roles in enumerate(self._roles) if KEEPER in roles]
        self._dev_folder.make({i: self._format(i) for i in keepers})
        for lost in filter(None, map(self._dev_folder.lost, keepers)):
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

    def _check_free(self) -> None:
        """``NodeError`` when somebody runs nodes in the folder; nothing is touched then."""
        for i in range(self._count):
            holder = holder_of(self._folder / f"node-{i}" / LOCK_FILE)
            if holder is not None:
                raise NodeError(
                    f"{self._folder} is in use: node-{i} runs there as process {holder}",
                    hint="stop the cluster that runs there, or pass another folder with --data",
                )

    def _claim(self, i: int) -> PortBlock:
        return (
            PortBlock.claim() if self._port is None else PortBlock.at(self._port + BLOCK_PORTS * i)
        )

    @property
    def endpoints(self) -> str:
        """Where all nodes speak to clients, separated by commas."""
        return ",".join(self.endpoint(i) for i in range(self._count))

    def zookeeper(self, i: int) -> str:
        """Where a node speaks ZooKeeper's protocol, as ``host:port``."""
        return f"{HOST}:{self._blocks[i].base + ZOOKEEPER_PORT_OFFSET}"

    def status(self, i: int) -> Mapping[str, Any] | None:
        """What a node says of its machines, by their names; None if it says nothing."""
        try:
            url = f"{self.http(i)}/api/status"
            with urllib.request.urlopen(url, timeout=status_s_max) as said:  # noqa: S310 - our own
                machines: Mapping[str, Any] = json.load(said)["machines"]
                return machines
        except (OSError, ValueError, KeyError):
            return None

    def keeper_status(self, i: int) -> Mapping[str, Any] | None:
        """What a node says of its replica of the keeper; None if it says nothing."""
        machine = (self.status(i) or {}).get(KEEPER)
        return None if machine is None else machine["detail"]

    def keeper_primary(self, *, wait_s: float = 60.0) -> int:
        """Who leads the newest view that anybody leads; waits until somebody does."""
        found: list[tuple[int, int]] = []

        def look() -> bool:
            known = ((i, self.keeper_status(i)) for i in range(self._count) if self.is_running(i))
            found[:] = [(s["view"], i) for i, s in known if s is not None and s["is_primary"]]
            return bool(found)

        wait_for(look, "a primary", wait_s)
        return max(found)[1]

    def is_keeper_whole(self) -> bool:
        """Are all replicas of the keeper in one view, with nothing missing, and up to date?"""
        known = [self.keeper_status(i) for i, roles in enumerate(self._roles) if KEEPER in roles]
        found = [status for status in known if status is not None]
        if len(found) < len(known) or len({status["view"] for status in found}) > 1:
            return False
        if any(status["status"] != "normal" for status in found):
            return False
        lost = ("prepares_faulty", "blocks_faulty", "replies_faulty")
        if any(status[what] for status in found for what in lost):
            return False
        # They are asked one after the other while their clients go on.
        commits = [status["commit_min"] for status in found]
        return bool(max(commits) - min(commits) <= lag_ops_max)

    def keeper_folder(self, i: int) -> Path:
        """The files of a node's replica of the keeper."""
        return self._folder / f"node-{i}" / KEEPER

    def active_operators(self) -> list[int]:
        """Who takes itself for the active operator: for a moment that may be two, or none."""
        known = ((i, self.status(i)) for i in range(self._count) if self.is_running(i))
        return [
            i
            for i, machines in known
            if machines is not None and machines.get("operator", {}).get("detail", {}).get("active")
        ]

    def close(self) -> None:
        """Ask all nodes to end at once, and see to it that they do."""
        running = [i for i, node in enumerate(self._nodes) if node.is_running()]
        with ThreadPoolExecutor(len(running) or 1) as threads:
            list(threads.map(self.terminate, running))
        self.links.close()
        for block in self._blocks:
            block.release()
        if self._reaper is not None:
            self._reaper.close()
        self._nodes, self._blocks, self._reaper = [], [], None

    def look_after(self) -> None:
        """Start again who has died, if it is time for that."""
        now = time.monotonic()
        for i, node in enumerate(self._nodes):
            if node.is_running():
                continue
            if i not in self._due_at:
                was_steady = now - self._started_at[i] > steady_s
                patience_s = 0.0 if was_steady else self._patience_s.get(i, restart_s_min)
                self._patience_s[i] = min(restart_s_max, 2 * (patience_s or restart_s_min))
                self._due_at[i] = now + patience_s
                self._say(f"{node.name} has died; its log is {node.log_path}")
            elif now >= self._due_at[i]:
                lost = self._dev_folder.lost(i) if KEEPER in self._roles[i] else None
                if lost is not None:
                    self._due_at[i] = now + restart_s_max
                    self._say(str(lost))
                    continue
                del self._due_at[i]
                self._start_node(i)
                self._say(f"{node.name} is started again, pid {node.pid}")

    def _start_node(self, i: int) -> None:
        self._started_at[i] = time.monotonic()
        self._nodes[i].start()

    def _members(self) -> dict[str, str]:
        """Who keeps the tree, for those who do not."""
        keepers = [f"n{i}" for i, roles in enumerate(self._roles) if KEEPER in roles]
        return {"MOTET_KEEPER__MEMBERS": ",".join(keepers)} if len(keepers) < self._count else {}

    def _command(self, i: int) -> list[str]:
        bases = [block.base for block in self._blocks]
        reached = (self.links.endpoint(i, j, f"{HOST}:{base}") for j, base in enumerate(bases))
        peers = ",".join(f"n{j}={endpoint}" for j, endpoint in enumerate(reached))
        place = ["--id", f"n{i}", "--port", str(bases[i]), "--data", "."]
        roles = ["--roles", ",".join(self._roles[i])] if self._roles[i] else []
        return [sys.executable, "-m", "motet", "node", *place, "--peers", peers, *roles]


def roles_of_nodes(
    nodes: int, roles: Sequence[str], others: Mapping[int, Sequence[str]]
) -> list[tuple[str, ...]]:
    """What each node does; ``BadInput`` if that is nothing for some of them."""
    if nodes > keepers_max and tuple(roles) == (KEEPER,):
        raise BadInput(f"a keeper of {nodes} nodes", hint=f"have at most {keepers_max}")
    found = []
    for i in range(nodes):
        own = tuple(others.get(i, roles))
        if nodes > keepers_max and i >= keepers_of_many:
            own = tuple(role for role in own if role != KEEPER)
        found.append(own)
    return found
