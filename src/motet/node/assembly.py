"""What a node has to do with tables, put together in the same way for a process and for a folder.

::

    data/
      parts/        the files of parts (:mod:`motet.real.part_files`)
        .folder     what this folder is called in the keeper, so that another one is not taken for it
      tables/       of each replica, what it has executed of its shard's log
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from motet.core.keeper.acl import NODES_ACL
from motet.core.machine import Message, Received
from motet.core.mergetree.conversation import ClientCalls, NodeRequests, TableCall
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    DescribeTables,
    ListParts,
    ListTables,
    PartArrived,
    PartBroken,
)
from motet.core.mergetree.node import TableNode
from motet.core.mergetree.paths import ROOTS
from motet.core.metadata.messages import METADATA
from motet.errors import NodeError
from motet.format.frame import FrameKind
from motet.format.zookeeper.messages import Acl
from motet.ids import Address, NodeId, TableId
from motet.limits import KIB
from motet.node.driver import Driver
from motet.node.hosting import Hosting
from motet.node.metadata_port import MetadataPort, OpenSession
from motet.node.part_draft import PartDraft
from motet.node.part_folders import PartFolders
from motet.node.part_forwarding import PartForwarding
from motet.node.table_status import TABLES_MACHINE, describe_tables
from motet.node.table_work import EndpointOf, TableWork
from motet.ports import Disk
from motet.real.durable import replace_file
from motet.real.part_files import PartKey, PartState, prepare_parts_folder

if TYPE_CHECKING:
    from starlette.routing import Route

PARTS_FOLDER = "parts"
FOLDER_FILE = ".folder"
session_ms = 4_000
"""Of a data node's session for its tables: so long the replicas of one that was killed count as active."""

begin_seconds_max = 5.0
"""How long a node is not ready because its tables have no session with the keeper."""

part_listed_bytes = 512
listed_bytes_min = 16 * KIB
described_bytes = 256 * KIB

_FOLDER_ID = re.compile(r"[0-9a-f]{16}")


class NodeTables:
    """The tables of a node: their machine, its session with the keeper, the files of parts and their routes.

    ::

        tables = NodeTables(own, data_folder, open_session, acl=NODES_ACL, endpoint="127.0.0.1:7400", …)
        driver = Driver([…, tables.hosting(disk)], …)
        server = HttpServer(…, parts=tables.routes())
        driver.start(network)
        tables.start(driver)
        …
        await tables.stop()

    ``endpoint`` is where clients and others reach the node, empty for one that is embedded; ``endpoint_of``
    says where another node is.
    """

    def __init__(
        self,
        own: NodeId,
        folder: Path,
        open_session: OpenSession,
        *,
        acl: tuple[Acl, ...] = NODES_ACL,
        endpoint: str = "",
        endpoint_of: EndpointOf = lambda _: None,
    ) -> None:
        self.own = own
        self._endpoint = endpoint
        root = folder / PARTS_FOLDER
        try:
            #: in ``parts/.store``: who reads it there is on this machine
            self.token = prepare_parts_folder(root)
            self._folder_id = _folder_id(root / FOLDER_FILE)
        except OSError as error:
            raise NodeError(f"cannot use {root} for parts: {error.strerror}") from None
        self.folders = PartFolders(root)
        self._endpoint_of = endpoint_of
        self._work = TableWork(self.folders, endpoint_of)
        self._forwarding = PartForwarding(self._others)
        self._metadata = MetadataPort(open_session, acl=acl, roots=ROOTS)

    def hosting(self, disk: Disk) -> Hosting[TableNode]:
        """The machine, with these files."""
        return Hosting(
            name=TABLES_MACHINE,
            kind=FrameKind.TABLES,
            messages=TableCall,
            machine=self._make_machine,
            disk=disk,
            from_clients=frozenset((*ClientCalls, *get_args(NodeRequests))),
            describe=describe_tables,
            local=self._metadata,
            workshop=self._work,
            is_bulk=True,
            answer_bytes=self._answer_bytes,
        )

    def start(self, driver: Driver) -> None:
        """The driver runs: begin a session with the keeper."""
        self._driver = driver
        self._started_seconds = asyncio.get_running_loop().time()
        self._metadata.start(partial(driver.tell, TABLES_MACHINE, Received, METADATA))

    async def stop(self) -> None:
        """End the session, so that others know at once, and break off what is being fetched."""
        await self._metadata.stop()
        self._work.stop()
        self._forwarding.stop()

    def not_begun(self) -> list[str]:
        """Why tables cannot be asked for yet; a keeper that is away is not waited for any longer."""
        seconds = asyncio.get_running_loop().time() - self._started_seconds
        if self.machine.node.memory.incarnation or seconds > begin_seconds_max:
            return []
        return [f"{TABLES_MACHINE}: no session with the keeper yet"]

    def routes(self) -> list[Route]:
        """Of the parts, at the node's HTTP port."""
        from motet.node.table_routes import ServedTables  # most who open a folder never serve

        served = ServedTables(
            self.folders,
            self.token,
            has_replica=self.has_replica,
            arrived=self._on_arrived,
            damaged=lambda key, _: self.on_damaged(key),
            forwarding=self._forwarding,
        )
        return served.routes()

    def arrive(
        self, key: PartKey, header: PartHeader, manifest: bytes, fill: Callable[[PartDraft], None]
    ) -> None:
        """Have a part arrive without HTTP, durably; for clients in this process. It blocks."""
        self.folders.receive(key, header, manifest, fill, PartState.ARRIVED)

    def has_replica(self, table: TableId, shard: int) -> bool:
        """Whether this node keeps the shard."""
        return (table, shard) in self.machine.replicas

    def _others(self, table: TableId, shard: int) -> list[str]:
        """Where the other replicas of a shard are."""
        core = self.machine.replicas[table, shard].core
        nodes = (self._endpoint_of(each) for each in core.state.replicas if each != self.own)
        return [endpoint for endpoint in nodes if endpoint][: core.config.pushes_max]

    def on_damaged(self, key: PartKey) -> None:
        """Somebody has read a stored part that is not what was written: the machine looks after it."""
        self._tell(PartBroken(key.table, key.shard, key.part))

    def _make_machine(self) -> TableNode:
        self.machine = TableNode(self.own, (), folder=self._folder_id, endpoint=self._endpoint)
        return self.machine

    def _on_arrived(self, key: PartKey, header: PartHeader) -> None:
        self._tell(PartArrived(key.table, key.shard, header, self.own))

    def _tell(self, message: Message) -> None:
        self._driver.tell(TABLES_MACHINE, Received, Address(self.own), message)

    def _answer_bytes(self, message: Message) -> int:
        """About as much as the answer will take."""
        if isinstance(message, ListParts):
            replica = self.machine.replicas.get((message.table, message.shard))
            parts = 0 if replica is None else len(replica.core.state.parts)
            listed = min(parts, self.machine.config.page_max)
            return listed_bytes_min + part_listed_bytes * listed
        return described_bytes if isinstance(message, ListTables | DescribeTables) else 0


def _folder_id(path: Path) -> str:
    """The id of this folder, which is drawn when there is none."""
    try:
        found = path.read_text("ascii").strip()
    except (FileNotFoundError, ValueError):
        found = ""
    if _FOLDER_ID.fullmatch(found) is None:
        found = secrets.token_hex(8)
        replace_file(path, f"{found}\n".encode())
    return found
