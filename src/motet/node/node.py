"""One node as a process: its folder, its machines, its two ports, and the way in and out.

A node has its data folder to itself, hosts its machines in one driver, listens for frames at its base
port and for HTTP at +3. It stops on SIGTERM and SIGINT; ``kill -9`` is fine too, since everything that
was promised is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from motet.client.link import parse_endpoint
from motet.core.clock.hlc import ZERO, drift_ms
from motet.core.clock.time_peer import TimePeer
from motet.core.keeper.front.node import KeeperNode
from motet.core.keeper.messages import FrontEndConfig
from motet.core.machine import Received
from motet.core.metadata.messages import METADATA
from motet.core.operator.operator import Operator
from motet.core.streams.node import DataNode
from motet.errors import BadConfig, NodeError
from motet.format.zookeeper.four_letter import ServerFacts
from motet.ids import Address
from motet.limits import open_files_max, shard_files_open_max
from motet.node import logs
from motet.node.assembly import NodeTables
from motet.node.assembly import session_ms as table_session_ms
from motet.node.client_requests import ClientRequests
from motet.node.config import DATA_ROLE, KEEPER_ROLE, OPERATOR_ROLE, Config, check_roles
from motet.node.driver import Driver
from motet.node.hosted import Recorder
from motet.node.hosting import Hosting
from motet.node.hosts import (
    DATA_MACHINE,
    OPERATOR_MACHINE,
    TIME_MACHINE,
    OperatorWatch,
    host_data,
    host_operator,
    host_time,
    operator_metadata,
)
from motet.node.http import HttpServer, allowed_hosts
from motet.node.keeper import KEEPER_MACHINE, host_keeper, keeper_format, server_facts
from motet.node.logs import accept_failed, cannot_listen, complain, logger
from motet.node.metadata_port import MetadataPort
from motet.node.registry import KeeperAccess, Registry, keeper_endpoints, next_incarnation
from motet.node.replica_files import prepare_files
from motet.node.settings import REFUSAL_HINTS, keeper_secret, load_cluster_key, vote_key
from motet.node.status import ClientCounts, Metrics, NodeStatus, node_status
from motet.node.table_status import TABLES_MACHINE
from motet.node.trace import (
    KnownMetadata,
    Look,
    ProtocolTrace,
    ReplicaLooks,
    ShardSteps,
    TraceWriter,
    both,
)
from motet.node.zookeeper.server import ZooKeeperServer
from motet.real.disk import RealDisk
from motet.real.durable import FolderLock, make_folder
from motet.real.hello import Refusal
from motet.real.network import TcpNetwork
from motet.real.process import (
    RealEntropy,
    RealTime,
    ShiftedTime,
    allow_many_files,
    collect_rarely,
    run,
    share_out,
)
from motet.version import __version__

M = TypeVar("M")
R = TypeVar("R", TraceWriter, ProtocolTrace)


class Node:
    """A node in this process, between ``start`` and ``stop``."""

    def __init__(self, config: Config) -> None:
        check_can_run(config)
        self.config = config
        self._key = load_cluster_key(config)
        secret, reply_bytes_max = keeper_secret(config, self._key), config.keeper.request_bytes_max
        self._access = KeeperAccess(keeper_endpoints(config), secret, reply_bytes_max)
        wall = config.debug.wall
        self._time = ShiftedTime(Path(wall)) if wall else RealTime()
        self._started_ms = self._time.now().wall_ms
        self.started_at = datetime.fromtimestamp(self._started_ms / 1000, UTC)
        self._open_files = allow_many_files()
        self._limits = share_out(self._open_files)
        #: for clients of the keeper, if that is one of our roles
        self._zookeeper: ZooKeeperServer | None = None
        if KEEPER_ROLE in config.node.roles:
            self._zookeeper = ZooKeeperServer(
                self._time,
                connections_max=self._limits.zookeeper,
                accept_failed=partial(accept_failed, "zookeeper"),
            )
        #: the operator's way to the keeper, if that is one of our roles
        self._metadata: MetadataPort | None = None
        if OPERATOR_ROLE in config.node.roles:
            self._metadata = operator_metadata(
                self._access, OperatorWatch(config.node.peers, config.node.cluster)
            )
        #: table replicas, if data is one of our roles
        self._tables: NodeTables | None = None
        self._registry: Registry | None = None
        #: what has to be closed at the end, the last first
        self._opened = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Open the folder, start the machines, listen."""
        try:
            await self._start()
        except BaseException:
            await self._opened.aclose()
            raise

    def end(self) -> None:
        """End what others rely on in the keeper, which needs the machines, and then stop them."""
        self._ending = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        leaving = (self._tables, self._registry)
        await asyncio.gather(*(each.stop() for each in leaving if each is not None))
        self.driver.stop()

    async def stop(self) -> None:
        """End between two turns, and close everything. Nothing is left to be tidied up."""
        await self._opened.aclose()
        logger.info("node_ended")

    def status(self) -> NodeStatus:
        return node_status(self, DATA_MACHINE)

    def clock_drift_ms(self) -> int:
        """How far the cluster clock is ahead of the time of day; 0 while it does not serve."""
        now = self._time.now()
        clocks = [machine.state.clock.current for machine in self._machines_of(DataNode)]
        return max((drift_ms(clock, now.wall_ms) for clock in clocks if clock > ZERO), default=0)

    def wall_drift_ms(self) -> int | None:
        """How far our time of day is ahead of the cluster's; None while that is not agreed on."""
        now = self._time.now()
        times = [peer.time for peer in self._machines_of(TimePeer) if peer.time is not None]
        return times[0].drift_ms(now) if times else None

    def _machines_of(self, kind: type[M]) -> list[M]:
        machines = (hosted.machine for hosted in self.driver.hosted)
        return [machine for machine in machines if isinstance(machine, kind)]

    async def _start(self) -> None:
        settings = self.config.node
        self._open_folder()
        self.driver = self._make_driver()
        self._requests = ClientRequests(self._time, self.driver.wake, self.driver.client_left)
        self.driver.client_requests = self._requests
        self.network = TcpNetwork(
            Address(settings.id),
            cluster=settings.cluster,
            listen=(settings.host, settings.port),
            peers={Address(peer): parse_endpoint(text) for peer, text in settings.peers.items()},
            wake=self.driver.wake,
            takes=self.driver.kinds,
            clients=self._requests,
            key=self._key,
            incarnation=self._incarnation << 20 | RealEntropy().nonce() & 0xFFFFF,
            peers_only=True,
            report=self._on_refusal,
            limits=self._limits,
            accept_failed=partial(accept_failed, "native"),
            bulk=self.driver.bulk_kinds,
        )
        self._requests.attach(self.network)
        try:
            await self.network.start()
        except OSError as error:
            raise cannot_listen("peers", settings.host, settings.port, error) from None
        self._opened.push_async_callback(self.network.stop)
        self._http = http = HttpServer(
            settings.host,
            self.config.http_port,
            metrics=Metrics(self),
            status=self.status,
            not_serving=self.driver.not_serving,
            parts=() if self._tables is None else self._tables.routes(),
            connections_max=self._limits.http,
            hosts=allowed_hosts(self.config),
        )
        await http.start()
        self._opened.push_async_callback(http.stop)
        self.driver.start(self.network)
        self._opened.callback(self.driver.stop)
        if self._zookeeper is not None:
            tell = partial(self.driver.tell, KEEPER_MACHINE, Received)
            self._zookeeper.attach(tell, self._keeper_facts)
            await self._zookeeper.listen(settings.host, self.config.zookeeper_port)
            self._opened.push_async_callback(self._zookeeper.stop)
        if self._tables is not None:
            self._tables.start(self.driver)
            self._opened.push_async_callback(self._tables.stop)
        if settings.roles:
            self._registry = Registry(self.config, self._access, self._incarnation)
            self._registry.start()
            self.driver.also_needed = self._not_known
            self._opened.push_async_callback(self._registry.stop)
        if self._metadata is not None:
            self._metadata.start(partial(self.driver.tell, OPERATOR_MACHINE, Received, METADATA))
            self._opened.push_async_callback(self._metadata.stop)
        self._log_start()

    def _not_known(self) -> list[str]:
        """What is not begun with the keeper, of a node that has just started."""
        assert self._registry is not None
        reasons = self._registry.not_entered()
        return reasons if self._tables is None else [*reasons, *self._tables.not_begun()]

    def _on_refusal(self, why: Refusal, detail: str) -> None:
        """A connection was closed by us: say so if somebody can do something about it."""
        hint = REFUSAL_HINTS.get(why)
        if hint is not None:
            count = self.network.counters.refused[why]
            complain(count, "connection_refused", why=why.value, detail=detail, hint=hint)

    def _keeper_facts(self) -> ServerFacts:
        assert self._zookeeper is not None
        started_ms = int(self.started_at.timestamp() * 1000)
        uptime_ms = self._time.now().wall_ms - started_ms
        keeper = self._machines_of(KeeperNode)[0]
        return server_facts(self.config, keeper, self._zookeeper, uptime_ms)

    def clients(self) -> ClientCounts:
        """How it stands with clients at its ports."""
        waiting, http = self._requests.parked_count, self._http.connections.refusals
        if self._zookeeper is None:
            return ClientCounts(waiting, refused_http=http)
        budget, refused = self._zookeeper.budget, self._zookeeper.refusals
        return ClientCounts(waiting, budget.unsent_bytes, budget.unfinished_bytes, refused, http)

    def _open_folder(self) -> None:
        folder = Path(self.config.node.data)
        try:
            make_folder(folder)
            lock = FolderLock(folder / "lock~")
            self._opened.callback(lock.close)
            self._incarnation = next_incarnation(folder, self._started_ms)
        except OSError as error:
            raise NodeError(
                f"cannot use {folder} as data folder: {error.strerror}",
                hint="set node.data to a folder this user can write to",
            ) from None

    def _make_driver(self) -> Driver:
        settings, debug = self.config.node, self.config.debug
        recorder: Recorder | None = None
        if debug.trace:
            recorder = self._open_trace("debug.trace", debug.trace, TraceWriter)
        if debug.protocol:
            steps = self._open_trace("debug.protocol", debug.protocol, self._protocol_trace)
            recorder = both(recorder, steps)
        replicas = tuple(settings.peers) or (settings.id,)
        hostings: list[Hosting[Any]] = [
            host_time(settings.id, replicas, self._open_disk(TIME_MACHINE), self._time)
        ]
        if self._zookeeper is not None:
            disk = self._open_disk(KEEPER_MACHINE)
            wanted, keeper = keeper_format(self.config), self.config.keeper
            prepare_files(wanted, disk, may_format=keeper.format)
            hostings.append(
                host_keeper(
                    wanted,
                    disk,
                    self._zookeeper,
                    front=FrontEndConfig(reads_are_local=keeper.reads == "local"),
                    node_secret=self._access.secret,
                )
            )
        if DATA_ROLE in settings.roles:
            open_files = min(self._open_files // 6, shard_files_open_max)  # a quarter is for files
            disk = self._open_disk(DATA_MACHINE, open_files)
            votes = vote_key(self._key)
            hostings.append(host_data(settings.id, replicas, disk, self._time, votes))
            self._tables = self._make_tables()
            hostings.append(self._tables.hosting(self._open_disk(TABLES_MACHINE, open_files)))
        if self._metadata is not None:
            disk = self._open_disk(OPERATOR_MACHINE)
            hostings.append(host_operator(settings.id, disk, self._metadata))
        return Driver(
            hostings,
            time=self._time,
            entropy=RealEntropy(),
            recorder=recorder,
            check_invariants=debug.invariants,
        )

    def _make_tables(self) -> NodeTables:
        settings = self.config.node
        return NodeTables(
            settings.id,
            Path(settings.data),
            partial(self._access.session, table_session_ms),
            endpoint=settings.peers.get(settings.id, f"{settings.host}:{settings.port}"),
            endpoint_of=settings.peers.get,
        )

    def _open_trace(self, setting: str, file: str, make: Callable[[Path], R]) -> R:
        try:
            recorder = make(Path(file))
        except OSError as error:
            raise NodeError(
                f"cannot write the trace {file}: {error.strerror}",
                hint=f"set {setting} to a file this user can write, or to nothing",
            ) from None
        self._opened.callback(recorder.close)
        return recorder

    def _protocol_trace(self, path: Path) -> ProtocolTrace:
        own, machines_of = self.config.node.id, self._machines_of
        looks: dict[str, Look] = {
            DATA_MACHINE: ShardSteps(own, lambda: machines_of(DataNode)[0]),
            KEEPER_MACHINE: ReplicaLooks(own, lambda: machines_of(KeeperNode)[0]),
            OPERATOR_MACHINE: KnownMetadata(own, lambda: machines_of(Operator)[0]),
        }
        return ProtocolTrace(path, looks)

    def _open_disk(self, machine: str, open_files: int = open_files_max) -> RealDisk:
        disk = RealDisk(Path(self.config.node.data) / machine, open_files)
        self._opened.callback(disk.close)
        return disk

    def _log_start(self) -> None:
        if self._limits.is_lowered:
            shares = {
                "open_files": self._open_files,
                "native": self._limits.native,
                "zookeeper": self._limits.zookeeper,
                "http": self._limits.http,
                "advice": "raise the hard limit of open files (ulimit -Hn)",
            }
            logger.warning("connections_lowered", extra={"fields": shares})
        settings = self.config.node
        fields = {
            "version": __version__,
            "native": f"{settings.host}:{settings.port}",
            "http": f"http://{settings.host}:{self.config.http_port}",
            "data": settings.data,
            "pid": os.getpid(),
        }
        logger.info("node_started", extra={"fields": fields})
        if self._key is None:
            hint = "set cluster.key_file on all nodes to have them on several machines"
            logger.warning("peers_from_loopback_only", extra={"fields": {"hint": hint}})


def check_can_run(config: Config) -> None:
    """Refuse what cannot go well before anything is touched."""
    check_roles(config.node.roles)
    own, peers = config.node.id, config.node.peers
    if peers and own not in peers:
        raise BadConfig(
            f"node.peers does not name this node, {own}", hint="name all nodes of the cluster"
        )
    if KEEPER_ROLE in config.node.roles:
        keeper_format(config).config()


def run_node(config: Config) -> None:
    """Run a node until it is told to stop. ``NodeError`` when it had to stop by itself."""
    logs.set_up(config.log.level, config.log.format, {"node": config.node.id})
    collect_rarely()
    run(_serve(config))


async def _serve(config: Config) -> None:
    node = Node(config)
    await node.start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.end)
    try:
        await node.driver.finished
    finally:
        await node.stop()
