"""Parts for tests: a database that serves them, and files to put."""

from __future__ import annotations

import http.client
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import motet
from motet.client.link import HTTP_PORT_OFFSET
from motet.format.manifest import Manifest, content_hash, encode_manifest, manifest_key, part_key
from motet.ids import ObjectKey, PartId, ShardId, TableId, TableName
from motet.node.embedded_http import EmbeddedView

TABLE = TableId("0123456789abcdef")
SECONDS_MAX = 60.0
"""Patience of a test; nothing is measured by it."""


class PartFile(NamedTuple):
    """A file and where it goes."""

    key: ObjectKey
    data: bytes

    @property
    def path(self) -> str:
        return f"/parts/{self.key}"


def part_file(size_bytes: int, seed: int = 0) -> PartFile:
    """Some bytes under the name they should have."""
    data = random.Random(seed).randbytes(size_bytes)
    part = PartId(f"{seed:016x}")
    return PartFile(part_key(TABLE, part, f"0-{content_hash(data)}"), data)


def manifest_of(file: PartFile, rows: int = 1) -> PartFile:
    """The manifest that lies beside a file."""
    _, part, name = file.key.split("/")
    manifest = Manifest(
        TableName("t"), TABLE, PartId(part), ShardId(0), "merge", ("a",), rows,
        name, len(file.data), content_hash(file.data), "[1]", "[2]", 0,
    )  # fmt: skip
    return PartFile(manifest_key(TABLE, PartId(part)), encode_manifest(manifest))


_numbers: dict[tuple[str, int], int] = {}


def number_of(server: tuple[str, int]) -> int:
    """Of the database that serves there."""
    return _numbers[server]


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, int]]:
    """The host and the HTTP port of a database in this folder, which has a table with the id ``TABLE``."""
    has_table = EmbeddedView.has_table
    with motet.open(folder) as db, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            EmbeddedView, "has_table", lambda self, table: table == TABLE or has_table(self, table)
        )
        host, port = db.endpoint.split(":")
        server = host, int(port) + HTTP_PORT_OFFSET
        _numbers[server] = db.database_id
        yield server


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def ask(
    server: tuple[str, int],
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: bytes | Iterator[bytes] | None = None,
) -> Answer:
    """One request, on a connection of its own."""
    connection = http.client.HTTPConnection(*server, timeout=SECONDS_MAX)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read())
    finally:
        connection.close()
