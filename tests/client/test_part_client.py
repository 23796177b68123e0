"""The client for parts at a node's HTTP port."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node.made_parts import made_part, random_bytes
from tests.node.nodes import free_base_port
from tests.node.part_server import PartServer, part_server

from motet.client.part_client import PartClient, http_address
from motet.errors import BadInput, NodeError, ObjectError, ObjectExists, ObjectMissing, TooLarge
from motet.ids import TableId
from motet.limits import part_file_bytes_max
from motet.real.part_files import PartKey, PartState

LARGE = made_part(1, random_bytes(12_000_000))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PartServer]:
    with part_server(tmp_path / "parts") as served:
        yield served


@pytest.fixture
def client() -> Iterator[PartClient]:
    client = PartClient()
    yield client
    client.close()


def test_a_node_says_where_its_parts_are(server: PartServer, client: PartClient) -> None:
    assert client.place(server.endpoint).folder == str(server.folders.root)
    with pytest.raises(NodeError, match="nothing answers there"):
        client.place(f"127.0.0.1:{free_base_port()}")


@pytest.mark.parametrize("is_file", [False, True])
def test_what_is_put_is_read(server: PartServer, client: PartClient, is_file: bool) -> None:
    file = io.BytesIO(b"before" + LARGE.data)
    file.seek(len(b"before"))
    client.put(server.endpoint, LARGE.key, LARGE.manifest, file if is_file else LARGE.data)
    assert server.folders.has(LARGE.key, LARGE.header, PartState.ARRIVED)
    client.put(server.endpoint, LARGE.key, LARGE.manifest, LARGE.data)
    assert client.manifest(server.endpoint, LARGE.key) == LARGE.manifest
    size = len(LARGE.data)
    for start, length in ((0, 10), (5_000_000, 3_000_000), (size - 1, 1), (0, size), (7, 0)):
        read = client.read(server.endpoint, LARGE.key, start, length, size_bytes=size)
        assert read == LARGE.data[start : start + length]


def test_a_refusal_is_an_error_of_ours_however_much_is_sent(
    server: PartServer, client: PartClient
) -> None:
    elsewhere = PartKey(TableId("0" * 16), 0, LARGE.key.part)
    with pytest.raises(ObjectMissing, match="has no replica"):
        client.put(server.endpoint, elsewhere, LARGE.manifest, LARGE.data)
    with pytest.raises(ObjectMissing, match="there is no part"):
        client.read(server.endpoint, elsewhere, 0, 1, size_bytes=10)
    client.put(server.endpoint, LARGE.key, LARGE.manifest, LARGE.data)
    with pytest.raises(ObjectExists):
        client.put(server.endpoint, LARGE.key, LARGE.manifest, LARGE.data + b"more")


def test_a_file_beyond_the_limit_is_refused_before_it_is_sent(
    server: PartServer, client: PartClient
) -> None:
    class Huge(io.BytesIO):
        """Only says how long it is."""

        def seek(self, offset: int, whence: int = 0) -> int:
            return part_file_bytes_max + 1 if whence == 2 else 0

    with pytest.raises((TooLarge, ObjectError)):
        client.put(server.endpoint, LARGE.key, LARGE.manifest, Huge())


def test_a_file_of_another_size_is_not_believed(server: PartServer, client: PartClient) -> None:
    server.folders.write(LARGE.key, LARGE.header, LARGE.block, PartState.STORED)
    size = len(LARGE.data)
    for wrong in (size - 1, size + 1):
        with pytest.raises(ObjectError, match="gives"):
            client.read(server.endpoint, LARGE.key, 0, 10, size_bytes=wrong)
    with pytest.raises(ObjectError, match="gives"):
        client.read(server.endpoint, LARGE.key, size + 5, 10, size_bytes=size + 100)


def test_after_its_end_it_asks_nobody(server: PartServer, client: PartClient) -> None:
    client.close()
    with pytest.raises(NodeError, match="ending"):
        client.place(server.endpoint)


def test_the_http_port_follows_from_the_endpoint() -> None:
    assert http_address("127.0.0.1:7400") == "127.0.0.1:7403"
    assert http_address("[::1]:7400") == "[::1]:7403"
    with pytest.raises(BadInput):
        http_address("nowhere")
