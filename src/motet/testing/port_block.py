"""Blocks of ten ports on loopback, each for one node of one local cluster and nobody else's.

A node takes the ports +0 to +3 of its block. The block itself is claimed by holding +9 bound for as long
as it is used: two test processes that look for ports at the same time never get the same block. A program
that knows nothing of this can still take a port between our look and the node's bind; then the node
cannot start, and the cluster tries again with other blocks.

Blocks lie below the range from which systems give out ports on their own.

What the folder of a local cluster has beside its nodes' files: the cluster key, and that it was made.

The files of all keepers are made before any node is started, and that is written down in ``cluster.json``:

D1  ``making`` is written before the first file of a keeper. No node has been started then: whoever finds it
    after a crash makes what is missing and has broken no promise.
D2  ``made`` is written when all files are there. From then on nothing is formatted: a keeper whose files are
    gone has acknowledged writes with them, and as a new one it would outvote those that still have them.
D3  A folder of an earlier release has no ``cluster.json``. If there is a keeper's file in it, it was made.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import msgspec

from motet.errors import NodeError
from motet.node.replica_files import Format, prepare_files
from motet.real.disk import RealDisk
from motet.real.durable import FolderLock, make_folder, replace_file
from motet.real.hello import random_key

HOST = "127.0.0.1"
BLOCK_PORTS = 10
NODE_PORTS = (0, 1, 2, 3)
HTTP_PORT = 3
CLAIM_PORT = 9
FIRST_BASE = 20_000
LAST_BASE = 32_000


class PortBlock:
    """Ten ports from ``base`` on, ours until ``release``."""

    def __init__(self, base: int, claim: socket.socket) -> None:
        self.base = base
        self._claim = claim

    @classmethod
    def claim(cls) -> Self:
        """A block whose ports are free right now."""
        bases = range(FIRST_BASE, LAST_BASE, BLOCK_PORTS)
        # Processes that start together begin at different places.
        start = os.getpid() % len(bases)
        for base in [*bases[start:], *bases[:start]]:
            claim = _bind(base + CLAIM_PORT, shared=False)
            if claim is None:
                continue
            block = cls(base, claim)
            if block.is_free():
                return block
            block.release()
        raise NodeError(
            f"no block of {BLOCK_PORTS} free ports from {FIRST_BASE} to {LAST_BASE}",
            hint="end the clusters that nobody needs any more",
        )

    @classmethod
    def at(cls, base: int) -> Self:
        """This very block; ``NodeError`` if somebody has it, or one of its ports."""
        claim = _bind(base + CLAIM_PORT, shared=False)
        if claim is not None:
            block = cls(base, claim)
            if block.is_free():
                return block
            block.release()
        raise NodeError(
            f"the ports from {base} to {base + CLAIM_PORT} are not all free",
            hint="end what uses them, or take another --port",
        )

    def is_free(self) -> bool:
        """Whether a node could bind all of its ports now."""
        for offset in NODE_PORTS:
            probe = _bind(self.base + offset, shared=True)
            if probe is None:
                return False
            probe.close()
        return True

    def release(self) -> None:
        self._claim.close()


def _bind(port: int, *, shared: bool) -> socket.socket | None:
    """Bound, but not listening; ``shared`` as servers do it, over connections that linger on."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if shared:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, port))
    except OSError:
        probe.close()
        return None
    return probe


CLUSTER_FILE = "cluster.json"
KEY_FILE = "cluster-key"
_MAKING, _MADE = "making", "made"


class _Cluster(msgspec.Struct, frozen=True):
    """``cluster.json``."""

    state: str
    version: int = 1


class DevFolder:
    """The folder of a cluster whose node i lives in ``node-<i>``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def key_file(self) -> Path:
        """Where the cluster key is; one is made if there is none. Only this user can read it."""
        path = self.path / KEY_FILE
        if not path.exists():
            make_folder(self.path)
            replace_file(self.path / KEY_FILE, f"{random_key()}\n".encode())
        return path

    def make(self, keepers: Mapping[int, Format]) -> None:
        """See to it that the keepers among the nodes have their files, if this cluster is new (D1, D2)."""
        make_folder(self.path)
        lock = FolderLock(self.path / "lock~")
        try:
            if self._state() == _MADE:
                return
            self._write_state(_MAKING)
            with ThreadPoolExecutor(len(keepers) or 1) as threads:
                list(threads.map(self._format, keepers, keepers.values()))
            self._write_state(_MADE)
        finally:
            lock.close()

    def lost(self, i: int) -> NodeError | None:
        """What to say of a keeper without its files; None if they are there."""
        if self._superblock(i).exists():
            return None
        folder = self._superblock(i).parent
        return NodeError(
            f"n{i} has lost the files of its keeper, {folder}: what it acknowledged was in them",
            hint=f"restore {folder} from a backup, or remove {self.path} to begin an empty cluster",
        )

    def _format(self, i: int, wanted: Format) -> None:
        if not self._superblock(i).exists():
            disk = RealDisk(self._superblock(i).parent)
            try:
                prepare_files(wanted, disk, may_format=True)
            finally:
                disk.close()

    def _superblock(self, i: int) -> Path:
        """The last file that formatting makes."""
        return self.path / f"node-{i}" / "keeper" / "superblock"

    def _state(self) -> str | None:
        try:
            return msgspec.json.decode((self.path / CLUSTER_FILE).read_bytes(), type=_Cluster).state
        except FileNotFoundError:
            is_earlier = any(self.path.glob("node-*/keeper/superblock"))  # D3
            return _MADE if is_earlier else None
        except msgspec.MsgspecError as error:
            raise NodeError(
                f"{self.path / CLUSTER_FILE} is damaged: {error}",
                hint='if the cluster has ever run, write {"state": "made"} into it',
            ) from None

    def _write_state(self, state: str) -> None:
        replace_file(self.path / CLUSTER_FILE, msgspec.json.encode(_Cluster(state)) + b"\n")
