"""A keeper of one replica in the loop of the test, on real files and real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.node.nodes import free_base_port

from motet.client.keeper.client import KeeperClient
from motet.core.keeper.front.node import KeeperNode
from motet.core.machine import Message, Received
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.replica import Replica
from motet.errors import DiskFull
from motet.format.zookeeper.four_letter import ServerFacts
from motet.ids import Address, ClusterId, FileName, ReplicaIndex
from motet.node.driver import Driver
from motet.node.keeper import KEEPER_MACHINE, host_keeper
from motet.node.replica_files import Format, Sizes, prepare_files
from motet.node.zookeeper.server import ZooKeeperServer
from motet.real.disk import RealDisk
from motet.real.network import TcpNetwork
from motet.real.process import RealEntropy, RealTime

NAME = Address("r0")
CLUSTER = "motet"
SMALL = Sizes(slots=64, checkpoint_ops=20, body_bytes_max=4096, block_bytes=1024)
SECONDS_MAX = 60.0
"""Patience of a test; nothing is measured by it."""


def solo_format(sizes: Sizes = SMALL, cluster: int = 7) -> Format:
    return Format(ClusterId(cluster), ReplicaIndex(0), (NAME,), sizes)


class WatchedDisk(RealDisk):
    """Writes down what is written and synced."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        #: ("write", file, offset) and ("sync", file, 0), in their order
        self.calls: list[tuple[str, FileName, int]] = []
        #: no file grows any more
        self.is_full = False

    def write(self, file: FileName, offset: int, data: bytes) -> None:
        if self.is_full and offset + len(data) > (self.size(file) or 0):
            raise DiskFull(f"{file}: no room")
        super().write(file, offset, data)
        self.calls.append(("write", file, offset))

    def sync(self, file: FileName) -> None:
        super().sync(file)
        self.calls.append(("sync", file, 0))


class Solo:
    """The replica, its driver, and where it is."""

    def __init__(self, config: VsrConfig, disk: WatchedDisk, driver: Driver) -> None:
        self.config = config
        self.disk = disk
        self.driver = driver
        #: for peers, and for clients
        self.endpoint = ""
        self.zookeeper = ""

    @property
    def node(self) -> KeeperNode:
        machine = self.driver.hosted[0].machine
        assert isinstance(machine, KeeperNode)
        return machine

    @property
    def replica(self) -> Replica:
        return self.node.replica

    def client(self) -> KeeperClient:
        return KeeperClient(self.zookeeper, seconds=SECONDS_MAX)


@asynccontextmanager
async def solo(folder: Path, sizes: Sizes = SMALL) -> AsyncIterator[Solo]:
    """Format it if it is new, and run it."""
    form = solo_format(sizes)
    disk = WatchedDisk(folder)
    prepare_files(form, disk, may_format=not disk.size(FileName("superblock")))
    server = ZooKeeperServer(RealTime())
    hosting = host_keeper(form, disk, server)
    driver = Driver([hosting], time=RealTime(), entropy=RealEntropy(), check_invariants=True)
    network = TcpNetwork(NAME, cluster=CLUSTER, listen=("127.0.0.1", 0), peers={}, wake=driver.wake)
    await network.start()
    driver.start(network)
    server.attach(_teller(driver), lambda: ServerFacts(mode="standalone", zxid=0))
    port = free_base_port()
    await server.listen("127.0.0.1", port)
    one = Solo(form.config(), disk, driver)
    one.endpoint, one.zookeeper = f"127.0.0.1:{network.port}", f"127.0.0.1:{port}"
    try:
        yield one
    finally:
        await server.stop()
        driver.stop()
        await network.stop()
        disk.close()


def _teller(driver: Driver) -> Callable[[Address, Message], None]:
    def tell(sender: Address, message: Message) -> None:
        driver.tell(KEEPER_MACHINE, Received, sender, message)

    return tell
