"""The HTTP face of a node that lives in its user's process: the same paths as any node's.

Its two ports are found together: HTTP is three above the native one, as with every node, so that whoever
knows one knows the other.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from starlette.routing import Route

from motet.client.link import HTTP_PORT_OFFSET
from motet.core.catalog.machine import CatalogedStreams
from motet.core.onelog.machine import StreamsMachine
from motet.errors import NodeError
from motet.ids import NodeId
from motet.node.config import Config, NodeSettings
from motet.node.driver import Driver
from motet.node.http import HttpServer
from motet.node.status import ClientCounts, Metrics, NodeStatus, node_status
from motet.real.in_process import LOOPBACK, InProcessNetwork
from motet.real.network import TcpNetwork
from motet.real.process import RealTime

_attempts_max = 100
_native_port_min = 1024


class EmbeddedView:
    """An embedded node as metrics and status see it."""

    def __init__(self, folder: Path, port: int, driver: Driver, network: TcpNetwork) -> None:
        settings = NodeSettings(
            id=NodeId("embedded"), host=LOOPBACK, port=port, data=str(folder), roles=()
        )
        self.config = Config(node=settings)
        self.driver = driver
        self.network = network
        self._time = RealTime()
        self.started_at = datetime.fromtimestamp(self._time.now().wall_ms / 1000, UTC)

    def status(self) -> NodeStatus:
        return node_status(self, self.driver.hosted[0].name)

    def clock_drift_ms(self) -> int:
        """How far the clock of the streams is ahead of the time of day; 0 before its first tick."""
        clock = self.streams().state.clock
        return clock.drift_ms(self._time.now().wall_ms) if clock.last.logical else 0

    def wall_drift_ms(self) -> int | None:
        """There is nobody to agree with."""

    def clients(self) -> ClientCounts:
        """Nobody is made to wait for room, there is no ZooKeeper port, and HTTP is not counted here."""
        return ClientCounts()

    def streams(self) -> StreamsMachine:
        machine = self.driver.hosted[0].machine
        assert isinstance(machine, CatalogedStreams)
        return machine.streams


async def serve_embedded(
    folder: Path, driver: Driver, network: InProcessNetwork, parts: Sequence[Route]
) -> tuple[int, HttpServer]:
    """Listen at two ports of this machine; the native one, and the server at the other, with these routes."""
    port, listening = await _listen(network, driver.kinds)
    view = EmbeddedView(folder, port, driver, network.door)
    try:
        server = HttpServer(
            LOOPBACK,
            port + HTTP_PORT_OFFSET,
            metrics=Metrics(view),
            status=view.status,
            not_serving=driver.not_serving,
            parts=parts,
        )
        await server.start(listening)
    except BaseException:
        listening.close()
        raise
    return port, server


async def _listen(network: InProcessNetwork, takes: tuple[int, ...]) -> tuple[int, socket.socket]:
    """A pair of free ports: the system chooses the one for HTTP, and the other follows from it."""
    for _ in range(_attempts_max):
        listening = socket.create_server((LOOPBACK, 0))
        port = listening.getsockname()[1] - HTTP_PORT_OFFSET
        try:
            if port >= _native_port_min and await network.serve(port, takes) == port:
                return port, listening
        except OSError:
            pass  # somebody has that one
        except BaseException:
            listening.close()
            raise
        listening.close()
    raise NodeError("no two free ports, one three above the other, were found on loopback")
