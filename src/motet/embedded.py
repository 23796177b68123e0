"""A node and its client in one process: a database in a folder, for whoever opens it first.

::

    data/
      lock~         held as long as the database is open; says by which process
      endpoint~     where that process serves others, from the first time it was asked
      keeper/       the files of the keeper: which streams and tables there are
      streams/      the files of the streams
      tables/       what the replicas of its tables have executed
      parts/        the files of the parts of its tables
      pipelines/    the checkpoints of pipelines that were run on the folder

The client speaks to the node as it would over a socket, without the socket. ``motet.open`` runs both in a
thread of their own, ``motet.aio.open`` in the caller's event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.client.database import AsyncDatabase, begin
from motet.client.keeper.client import OPEN
from motet.client.link import Link
from motet.client.publication import NodeFiles
from motet.client.sync import Database
from motet.client.table_link import TableLink
from motet.client.tables import Tables
from motet.core.catalog.machine import CatalogedStreams
from motet.core.machine import Received
from motet.core.mergetree.conversation import TablesAnswer
from motet.core.metadata.messages import METADATA
from motet.core.metadata.paths import STREAMS
from motet.core.onelog.context import Phase
from motet.core.onelog.messages import StreamsAnswer, StreamsCall
from motet.core.onelog.starting import IDENTITY_FILE
from motet.errors import BadInput, DatabaseLocked, MotetError, NodeError, error_of
from motet.format.frame import FrameKind
from motet.ids import Address, NodeId
from motet.limits import MIB
from motet.node.assembly import NodeTables
from motet.node.driver import Driver
from motet.node.embedded_keeper import EmbeddedKeeper
from motet.node.hosting import Hosting, LocalPort
from motet.node.keeper import KEEPER_MACHINE
from motet.node.metadata_port import MetadataPort
from motet.node.part_draft import PartDraft
from motet.node.table_status import TABLES_MACHINE
from motet.ports import Disk
from motet.real.disk import RealDisk
from motet.real.durable import FolderLock, make_folder
from motet.real.in_process import LOOPBACK, InProcessClient, InProcessNetwork
from motet.real.part_files import PartKey
from motet.real.process import RealEntropy, RealTime, collect_nothing

if TYPE_CHECKING:
    from motet.columnar.encode import EncodedPart

NODE = NodeId("embedded")
ADDRESS = Address(NODE)
CLUSTER = "motet"
STREAMS_MACHINE = "streams"
LOCK_FILE = "lock~"
ENDPOINT_FILE = "endpoint~"
look_seconds_max = 0.02
"""How long is waited at most before looking again whether a node that starts can serve."""


class EmbeddedNode:
    """A node that lives in this process and in this folder, between ``start`` and ``stop``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: what has to be closed at the end, the last first
        self._opened = AsyncExitStack()
        self._serving = asyncio.Lock()
        #: where it serves others, once it does
        self._port: int | None = None
        self._links: list[Link[Any]] = []

    async def start(self) -> None:
        """Lock the folder, and read what is in it; an error says why it cannot be served."""
        try:
            self._lock_folder()
            self._driver = self._make_driver()
            self._network = InProcessNetwork(ADDRESS, cluster=CLUSTER, wake=self._driver.wake)
            self._opened.push_async_callback(self._network.stop)
            self._driver.start(self._network)
            self._opened.callback(self._driver.stop)
            self._driver.finished.add_done_callback(self._ended)
            self._keeper.start(self._driver)
            self._opened.push_async_callback(self._keeper.server.stop)
            self._catalog.start(partial(self._driver.tell, STREAMS_MACHINE, Received, METADATA))
            self._opened.push_async_callback(self._catalog.stop)
            self._tables.start(self._driver)
            self._opened.push_async_callback(self._tables.stop)
            with collect_nothing():
                await self._until_serving()
        except BaseException:
            await self._opened.aclose()
            raise

    def _make_driver(self) -> Driver:
        """The streams and the tables, the keeper, and what speaks to it for them."""
        streams = self._open_disk(STREAMS_MACHINE)
        time = RealTime()
        self._keeper = EmbeddedKeeper(ADDRESS, CLUSTER, self._open_disk(KEEPER_MACHINE), time)
        if not self._keeper.is_there and streams.size(IDENTITY_FILE):
            raise NodeError(
                f"{self._folder} has streams and no keeper that says which",
                hint="a release before this one made it: read it with that; or put its `keeper` back",
            )
        try:
            self._keeper.prepare()
        except MotetError as error:
            raise self._named(error) from None
        self._catalog = MetadataPort(self._keeper.client, acl=OPEN, roots=(STREAMS,))
        self._tables = NodeTables(NODE, self._folder, self._keeper.client, acl=OPEN)
        hostings: list[Hosting[Any]] = [
            host_streams(streams, self._catalog),
            self._keeper.hosting(),
            self._tables.hosting(self._open_disk(TABLES_MACHINE)),
        ]
        return Driver(hostings, time=time, entropy=RealEntropy())

    def _open_disk(self, machine: str) -> RealDisk:
        disk = RealDisk(self._folder / machine)
        self._opened.callback(disk.close)
        return disk

    async def stop(self) -> None:
        """End between two turns, and give the folder back."""
        if self._driver.finished.done():
            await self._keeper.server.stop()  # its machine does not answer who ends a session
        await self._opened.aclose()

    def client(self, wake: Callable[[], None]) -> InProcessClient:
        """A place in the network of this node."""
        return self._network.client(wake)

    def link(self) -> Link[StreamsAnswer]:
        """A way to the streams of this node."""
        link: Link[StreamsAnswer] = Link({}, FrameKind.STREAMS, StreamsAnswer, network=self.client)
        self._links.append(link)
        return link

    def table_link(self) -> Link[TablesAnswer]:
        """A way to its tables."""
        link: Link[TablesAnswer] = Link({}, FrameKind.TABLES, TablesAnswer, network=self.client)
        self._links.append(link)
        return link

    def part_files(self) -> NodeFiles:
        """Where the parts of its tables are."""
        endpoint = "" if self._port is None else f"{LOOPBACK}:{self._port}"
        return NodeFiles(str(self._tables.folders.root), self._tables.token, endpoint)

    async def put_part(self, part: EncodedPart) -> None:
        """Have the bytes of a part arrive, durably."""
        await asyncio.to_thread(self._arrive, part)

    def _arrive(self, part: EncodedPart) -> None:
        manifest = part.manifest
        key = PartKey.checked(manifest.table_id, manifest.shard, manifest.part_id)

        def fill(draft: PartDraft) -> None:
            if part.path is None:
                draft.write(part.data or b"")
                return
            with part.path.open("rb") as file:
                while piece := file.read(MIB):
                    draft.write(piece)

        self._tables.arrive(key, part.header, part.manifest_bytes, fill)

    async def endpoint(self) -> str:
        """Where other processes reach it; it serves them from the first time this is asked.

        HTTP is three ports above, as with every node.
        """
        async with self._serving:
            if self._port is None:
                self._port = await self._serve()
            endpoint = f"{LOOPBACK}:{self._port}"
            (self._folder / ENDPOINT_FILE).write_text(f"{os.getpid()} {endpoint}\n")
        return endpoint

    async def _serve(self) -> int:
        from motet.node.embedded_http import serve_embedded  # most never serve, and it is large

        port, server = await serve_embedded(
            self._folder, self._driver, self._network, self._tables.routes()
        )
        self._opened.push_async_callback(server.stop)
        return port

    def _lock_folder(self) -> None:
        lock_file = self._folder / LOCK_FILE
        try:
            make_folder(self._folder)
            lock = FolderLock(lock_file)
        except OSError as error:
            raise NodeError(
                f"cannot open {self._folder} as a database: {error.strerror}",
                hint="name a folder this user can write to, or one that is not there yet",
            ) from None
        except NodeError as error:
            raise self._locked(error) from None
        self._opened.callback(lock.close)
        endpoint_file = self._folder / ENDPOINT_FILE
        endpoint_file.unlink(missing_ok=True)  # of somebody who was killed
        self._opened.callback(endpoint_file.unlink, missing_ok=True)

    def _locked(self, error: NodeError) -> DatabaseLocked:
        """Who has the folder, and where it serves; what is not of that process is old."""
        try:
            holder = (self._folder / LOCK_FILE).read_text().strip()
            process, _, endpoint = (self._folder / ENDPOINT_FILE).read_text().strip().partition(" ")
        except OSError:
            holder, process, endpoint = "", "", ""
        if not endpoint or process != holder:
            hint = "use db.endpoint there and connect to it, or end that process"
            return DatabaseLocked(error.what, hint=hint)
        what = f"{error.what}, which serves at {endpoint}"
        return DatabaseLocked(what, hint=f'motet.connect("{endpoint}"), or end that process')

    async def _until_serving(self) -> None:
        seconds = 0.0
        while self._driver.not_serving():
            if self._driver.finished.done():
                await self._driver.finished  # raises why it had to end
            machine = self._driver.hosted[0].machine
            assert isinstance(machine, CatalogedStreams)
            if machine.broken is not None:
                raise self._named(error_of(*machine.broken))
            self._keeper.check_not_refused()
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds + 0.0005, look_seconds_max)

    def _named(self, error: MotetError) -> MotetError:
        return type(error)(f"{self._folder}: {error.what}", hint=error.advice)

    def _ended(self, finished: asyncio.Future[None]) -> None:
        """The node had to stop by itself: whoever waits for it is told."""
        error = None if finished.cancelled() else finished.exception()
        if isinstance(error, NodeError):
            for link in self._links:
                link.end(error)


async def open_async(path: str | os.PathLike[str]) -> AsyncDatabase:
    """Open the database in a folder, in this event loop; a folder that is not there is made."""
    folder = _folder(path)
    async with AsyncExitStack() as opening:
        node = EmbeddedNode(folder)
        await node.start()
        opening.push_async_callback(node.stop)
        link = await opening.enter_async_context(node.link())
        table_link = await opening.enter_async_context(node.table_link())
        ways = TableLink(table_link, str(folder), lambda: {ADDRESS: ""})
        tables = Tables(ways, RealEntropy(), node)
        opened = AsyncExitStack()
        database = await begin(link, ADDRESS, str(folder), node, tables, opened)
        opened.push_async_exit(opening.pop_all())
        return database


def open(path: str | os.PathLike[str]) -> Database:  # noqa: A001
    """Open the database in a folder; one that is not there is made.

    One process has it at a time: ``DatabaseLocked`` says who, and where to connect to instead.
    """
    return Database.made(str(_folder(path)), open_async, path)


def _folder(path: object) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise BadInput(f"{path!r} is not the path of a folder")
    return Path(os.fsdecode(path))


# The streams, as the node's driver hosts them


def host_streams(disk: Disk, local: LocalPort) -> Hosting[CatalogedStreams]:
    """This node's streams, with these files; ``local`` speaks to the keeper for them."""
    return Hosting(
        name=STREAMS_MACHINE,
        kind=FrameKind.STREAMS,
        messages=StreamsCall,
        machine=CatalogedStreams,
        disk=disk,
        serving=_why_streams_do_not_serve,
        describe=_describe,
        local=local,
    )


def _why_streams_do_not_serve(machine: CatalogedStreams) -> str | None:
    if machine.is_serving:
        return None
    if machine.broken is not None:
        return " ".join(machine.broken)
    phase = machine.streams.state.phase
    return f"it is {machine.state.phase.value if phase is Phase.SERVING else phase.value}"


def _describe(machine: CatalogedStreams) -> Mapping[str, object]:
    state = machine.streams.state
    return {
        "phase": state.phase.value,
        "clock": str(state.clock.last),
        "streams": len(machine.state.streams),
        "waiting": len(state.waiting) + len(state.pending) + len(machine.state.asked),
    }
