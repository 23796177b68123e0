"""The parts of a node, served over HTTP from a thread of its own; nothing else of the node is there."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from tests.node.made_parts import SHARD, TABLE, MadePart
from tests.node.nodes import SECONDS_MAX, free_base_port

from motet.client.link import HTTP_PORT_OFFSET
from motet.core.mergetree.entries import PartHeader
from motet.ids import TableId
from motet.node.http import HttpServer
from motet.node.part_folders import PartFolders
from motet.node.part_forwarding import PartForwarding
from motet.node.status import Metrics
from motet.node.table_routes import ServedTables
from motet.real.part_files import PartKey, prepare_parts_folder


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """Of an error, which has all that errors of the house have."""
        error: dict[str, Any] = json.loads(self.body)["error"]
        assert error["what"]
        assert error["advice"]
        return str(error["code"])


@dataclass
class PartServer:
    """What is served, where, and what the machine was told."""

    folders: PartFolders
    port: int
    arrived: list[tuple[PartKey, PartHeader]] = field(default_factory=list)
    damaged: list[tuple[PartKey, str]] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        body: bytes | Iterator[bytes] | None = None,
    ) -> Answer:
        """One request, on a connection of its own."""
        port = self.port + HTTP_PORT_OFFSET
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def until_arrived(self) -> None:
        """A part has arrived here."""
        deadline = time.monotonic() + SECONDS_MAX
        while not self.arrived:
            assert time.monotonic() < deadline, "nothing arrives"
            time.sleep(0.005)

    def put(self, part: MadePart) -> list[int]:
        """Both files; what was answered."""
        return [
            self.ask("PUT", f"{part.path}/part.parquet", body=part.data).status,
            self.ask("PUT", f"{part.path}/manifest", body=part.manifest).status,
        ]


def _has_replica(table: TableId, shard: int) -> bool:
    return (table, shard) == (TABLE, SHARD)


@contextmanager
def part_server(
    root: Path, port: int | None = None, others: tuple[str, ...] = ()
) -> Iterator[PartServer]:
    """Serve the parts in this folder, which are opened as at the start of a node.

    What is put goes on to ``others``, which have the other replicas.
    """
    token = prepare_parts_folder(root)
    served = PartServer(PartFolders(root), free_base_port() if port is None else port)
    started = threading.Event()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()
    forwarding = PartForwarding(lambda *_: list(others))

    async def main() -> None:
        tables = ServedTables(
            served.folders,
            token,
            has_replica=_has_replica,
            arrived=lambda key, header: served.arrived.append((key, header)),
            damaged=lambda key, why: served.damaged.append((key, why)),
            forwarding=forwarding,
        )
        server = HttpServer(
            "127.0.0.1",
            served.port + HTTP_PORT_OFFSET,
            metrics=cast("Metrics", None),
            status=cast("Any", None),
            not_serving=list,
            parts=tables.routes(),
        )
        await server.start()
        started.set()
        await ended.wait()
        await server.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),))
    thread.start()
    try:
        assert started.wait(SECONDS_MAX)
        yield served
    finally:
        forwarding.stop()
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
