"""One replica as a process: its folder, its machine, its two ports, and the way in and out.

::

    python -m motet.node.replica_process SETTINGS.json [--format]

The settings are a file (:class:`motet.node.replica_files.ReplicaSettings`). ``--format`` makes the files of a
replica that has never been, and then starts it; without it a folder with no replica in it is refused. The
replica speaks at its port, and serves ``/readyz``, ``/metrics`` and ``/api/status`` three above. It says
``ready`` on its standard output when its files are read and it takes part, ends on SIGTERM and SIGINT, and an
error is one line on stderr and exit code 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from motet.client.consensus import cluster_name
from motet.client.link import HTTP_PORT_OFFSET, parse_endpoint
from motet.core.vsr.replica import Replica
from motet.core.vsr.state import Status
from motet.errors import BadInput, DiskError, MotetError, NodeError
from motet.ids import Address, NodeId
from motet.node import logs
from motet.node.config import Config, NodeSettings
from motet.node.consensus import VSR_MACHINE, host_vsr
from motet.node.driver import Driver
from motet.node.http import HttpServer
from motet.node.listening import cannot_listen
from motet.node.logs import LogLevel, logger
from motet.node.metrics import Metrics
from motet.node.replica_files import ReplicaSettings, decode_settings, prepare_files
from motet.node.status import NodeStatus, node_status
from motet.real.disk import RealDisk
from motet.real.entropy import RealEntropy
from motet.real.loop import collect_rarely, run
from motet.real.network import TcpNetwork
from motet.real.time import RealTime

_look_every_seconds = 0.005
_look_again_seconds = 0.5
"""How often a replica is looked at: while it reads its files, and afterwards."""


class ReplicaProcess:
    """A replica in this process, between ``start`` and ``stop``."""

    def __init__(self, settings: ReplicaSettings) -> None:
        self.settings = settings
        self._vsr = settings.format.config(settings.timeouts)
        host, port = parse_endpoint(settings.listen)
        name = NodeId(settings.name)
        place = NodeSettings(
            id=name,
            cluster=cluster_name(settings.cluster),
            host=host,
            port=port,
            data=settings.data,
            peers={NodeId(peer): where for peer, where in settings.members.items()},
        )
        self.config = Config(node=place)
        self._time = RealTime()
        self.started_at = datetime.fromtimestamp(self._time.now().wall_ms / 1000, UTC)
        #: what has to be closed at the end, the last first
        self._opened = contextlib.AsyncExitStack()

    async def start(self, *, may_format: bool) -> None:
        """Open or make the files, start the machine, listen."""
        try:
            await self._start(may_format)
        except BaseException:
            await self._opened.aclose()
            raise

    async def stop(self) -> None:
        """End between two turns, and close everything."""
        await self._opened.aclose()
        logger.info("replica_ended")

    async def _start(self, may_format: bool) -> None:
        settings = self.settings
        disk = self._open_disk()
        prepare_files(settings.format, disk, may_format=may_format)
        hosting = host_vsr(self._vsr, settings.replica, disk, settings.format.machine)
        self.driver = Driver(
            [hosting],
            time=self._time,
            entropy=RealEntropy(),
            check_invariants=settings.invariants,
        )
        await self._listen()
        await self._serve_http()
        self.driver.start(self.network)
        self._opened.callback(self.driver.stop)

    def _open_disk(self) -> RealDisk:
        try:
            disk = RealDisk(Path(self.settings.data))
        except DiskError as error:
            hint = "name a folder that this user can write to"
            raise NodeError(f"cannot use the data folder: {error.what}", hint=hint) from None
        self._opened.callback(disk.close)
        return disk

    async def _listen(self) -> None:
        place = self.config.node
        self.network = TcpNetwork(
            Address(place.id),
            cluster=place.cluster,
            listen=(place.host, place.port),
            peers={Address(p): parse_endpoint(where) for p, where in self.settings.members.items()},
            wake=self.driver.wake,
        )
        try:
            await self.network.start()
        except OSError as error:
            raise cannot_listen("replicas", place.host, place.port, error) from None
        self._opened.push_async_callback(self.network.stop)

    async def _serve_http(self) -> None:
        http = HttpServer(
            self.config.node.host,
            self.config.node.port + HTTP_PORT_OFFSET,
            metrics=Metrics(self),
            status=self.status,
            not_serving=self.driver.not_serving,
        )
        await http.start()
        self._opened.push_async_callback(http.stop)

    async def until_recovered(self) -> None:
        """Wait until its files are read; ``NodeError`` says why they cannot be used."""
        while self.driver.running:
            self._check_not_refused()
            core = self.replica.core
            is_alone_and_reads = core.is_solo and core.state.restore is not None
            if core.state.is_started and not is_alone_and_reads:
                return
            await asyncio.sleep(_look_every_seconds)

    async def until_over(self) -> None:
        """Wait until it is told to stop; ``NodeError`` if it must not go on."""
        while not self.driver.finished.done():
            self._check_not_refused()
            await asyncio.wait([self.driver.finished], timeout=_look_again_seconds)
        self.driver.finished.result()

    def _check_not_refused(self) -> None:
        state = self.replica.core.state
        if state.status is Status.REFUSED:
            hint = "keep the files as they are, and look at them with `motet inspect`"
            raise NodeError(f"the files cannot be used: {state.refusal}", hint=hint)

    @property
    def replica(self) -> Replica:
        return cast("Replica", self.driver.hosted[0].machine)

    # What metrics and status see of a node

    def status(self) -> NodeStatus:
        return node_status(self, VSR_MACHINE)

    def waiting_requests(self) -> int:
        """Nobody is made to wait for room."""
        return 0

    def kept_for_zookeeper(self) -> tuple[int, int]:
        """There is no ZooKeeper port."""
        return 0, 0

    def refused_http(self) -> Mapping[str, int]:
        """Not counted here."""
        return {}

    def refused_clients(self) -> Mapping[str, int]:
        """A replica alone has no ZooKeeper port."""
        return {}

    def clock_drift_ms(self) -> int:
        """A replica has no cluster clock."""
        return 0

    def wall_drift_ms(self) -> int | None:
        """How far our time of day is ahead of the cluster's; None while that is not agreed on."""
        time = self.replica.core.state.time if self.driver.hosted else None
        return None if time is None else time.drift_ms(self._time.now())


async def _serve(settings: ReplicaSettings, *, may_format: bool) -> None:
    process = ReplicaProcess(settings)
    await process.start(may_format=may_format)
    try:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, process.driver.stop)
        await process.until_recovered()
        if process.driver.running:
            logger.info("replica_ready", extra={"fields": {"listen": settings.listen}})
            sys.stdout.write("ready\n")
            sys.stdout.flush()
        await process.until_over()
    finally:
        await process.stop()


def main(arguments: Sequence[str]) -> int:
    """Run a replica until it is told to stop; the exit code."""
    try:
        settings, may_format = _parse(arguments)
        logs.set_up(cast("LogLevel", settings.log_level), "text", {"replica": settings.replica})
        collect_rarely()
        run(_serve(settings, may_format=may_format))
    except MotetError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parse(arguments: Sequence[str]) -> tuple[ReplicaSettings, bool]:
    if sys.flags.optimize:
        raise NodeError("this Python runs without assertions", hint="start it without -O")
    files = [each for each in arguments if each != "--format"]
    if len(files) != 1 or len(arguments) > 2:
        raise BadInput(
            f"this needs one settings file, not {files}", hint="SETTINGS.json [--format]"
        )
    try:
        data = Path(files[0]).read_bytes()
    except OSError as error:
        raise BadInput(f"{files[0]} cannot be read: {error.strerror}") from None
    return decode_settings(data), "--format" in arguments


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
