"""The keeper of an embedded database: one replica, small files, and clients in the same process alone.

It is the same keeper that a cluster has, with one member. It carries definitions, and what tables keep
of their parts: a checkpoint writes the pages that changed, so with many small pages an insert costs the same
however many parts there are. The log has its full size from the start, 9 MB; the rest grows with the tree.

Sizes are fixed when a folder is made: they say where everything lies. One that was made with former sizes is
used with those.
"""

from __future__ import annotations

import msgspec

from motet.client.keeper.client import KeeperClient
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.front.node import KeeperNode
from motet.core.keeper.messages import FrontEndConfig
from motet.core.machine import Message, Received
from motet.core.vsr.config import Timeouts
from motet.core.vsr.context import SUPERBLOCK
from motet.core.vsr.state import Status
from motet.errors import NodeError
from motet.format.zookeeper.four_letter import ServerFacts
from motet.format.zookeeper.sizes import WriteLimits
from motet.ids import Address, ReplicaIndex
from motet.node.driver import Driver
from motet.node.hosting import Hosting
from motet.node.keeper import KEEPER_MACHINE, cluster_id, host_keeper
from motet.node.replica_files import FORMAT, Format, Sizes, decode_format, prepare_files
from motet.node.zookeeper.server import ZooKeeperServer
from motet.ports import Disk, Time

ENDPOINT = "embedded:1"
"""A name for errors: it is reached within the process."""

session_ms = (1 << 31) - 1
"""Sessions end with the process: nobody has to be heard of in time."""

KIB = 1024


class Layout(msgspec.Struct, frozen=True):
    """What lies where: it never changes for a folder."""

    sizes: Sizes
    node_pages: int
    session_pages: int = 4
    nodes_max: int = 4_000_000
    tree_bytes_max: int = 2 << 30

    @property
    def keeper(self) -> KeeperConfig:
        return KeeperConfig(
            node_pages=self.node_pages,
            session_pages=self.session_pages,
            nodes_max=self.nodes_max,
            tree_bytes_max=self.tree_bytes_max,
            timeout_ms_max=session_ms,
        )


LAYOUT = Layout(
    Sizes(
        slots=128,
        pipeline_max=8,
        queue_max=16,
        checkpoint_ops=56,
        body_bytes_max=32 * KIB,
        clients_max=16,
        reserved_max=2,
        block_bytes=4 * KIB,
        blocks_max=1 << 20,
    ),
    node_pages=4096,
    nodes_max=1_000_000,
    tree_bytes_max=1 << 30,
)
"""Of a folder that is made now.

The log is read whole whenever the folder is opened: it has as many slots as make a checkpoint seldom enough.
Pages are as many as keep those small that an insert changes, and as few as are quickly read. What may be in
the tree is so much less than what the grid has room for that a keeper says that it is full (``KEEPER_FULL``)
before it could not take a checkpoint any more, when it would answer nothing.
"""

FORMER = (
    Layout(
        msgspec.structs.replace(LAYOUT.sizes, slots=64, checkpoint_ops=24, body_bytes_max=16 * KIB),
        node_pages=64,
    ),
    Layout(msgspec.structs.replace(LAYOUT.sizes, slots=256, checkpoint_ops=120), node_pages=4096),
)
"""Of folders that were made before. Sizes tell one from another."""

TIMEOUTS = Timeouts(heartbeat_ms=2_000, idle_heartbeat_ms=2_000, repair_ms=2_000, scrub_ms=10_000)
"""There is nobody to talk to and nobody to be repaired by: an idle process should sleep."""

FRONT = FrontEndConfig(lanes=1, is_in_process=True, timeout_ms_max=session_ms)
connections_max = 64


class EmbeddedKeeper:
    """A keeper that is hosted by a driver together with others. ``own`` is the node's address."""

    def __init__(self, own: Address, cluster: str, disk: Disk, time: Time) -> None:
        self._disk = disk
        self._layout = _layout_of(disk)
        self._format = Format(cluster_id(cluster), ReplicaIndex(0), (own,), self._layout.sizes)
        #: clients connect through it
        self.server = ZooKeeperServer(time, connections_max=connections_max)

    @property
    def is_there(self) -> bool:
        """Whether its files are."""
        return bool(self._disk.size(SUPERBLOCK))

    def prepare(self) -> None:
        """Make its files, or see that they are its own."""
        prepare_files(self._format, self._disk, may_format=not self.is_there)

    def hosting(self) -> Hosting[KeeperNode]:
        keeper = self._layout.keeper
        return host_keeper(
            self._format, self._disk, self.server, keeper=keeper, timeouts=TIMEOUTS, front=FRONT
        )

    def client(self) -> KeeperClient:
        """One of its clients, in this process."""
        return KeeperClient(
            ENDPOINT, timeout_ms=session_ms, connect=self.server.connect, limits=self.limits
        )

    @property
    def limits(self) -> WriteLimits:
        """What it takes as one write."""
        return WriteLimits(reply_bytes_max=self._layout.sizes.body_bytes_max)

    def start(self, driver: Driver) -> None:
        """Its machine runs in this driver."""
        self._driver = driver
        self.server.attach(self._tell, self._facts)

    def check_not_refused(self) -> None:
        """``NodeError`` if it says that its files cannot be used."""
        state = self._node.replica.core.state
        if state.status is Status.REFUSED:
            hint = "keep the files as they are, and look at them with `motet inspect`"
            raise NodeError(f"the files of the keeper cannot be used: {state.refusal}", hint=hint)

    @property
    def _node(self) -> KeeperNode:
        machines = (hosted.machine for hosted in self._driver.hosted)
        return next(machine for machine in machines if isinstance(machine, KeeperNode))

    def _tell(self, sender: Address, message: Message) -> None:
        self._driver.tell(KEEPER_MACHINE, Received, sender, message)

    def _facts(self) -> ServerFacts:
        return ServerFacts(mode="standalone", zxid=self._node.keeper.zxid)


def _layout_of(disk: Disk) -> Layout:
    """That of the files that are there; files of unknown sizes are refused when they are prepared."""
    if disk.size(SUPERBLOCK) and disk.size(FORMAT):
        sizes = decode_format(disk.read(FORMAT, 0)).sizes
        for former in FORMER:
            if former.sizes == sizes:
                return former
    return LAYOUT
