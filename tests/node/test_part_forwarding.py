"""What clients put goes on to the other replicas, and nothing depends on that."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node.made_parts import made_part, random_bytes
from tests.node.nodes import SECONDS_MAX, free_base_port
from tests.node.part_server import PartServer, part_server

from motet.client.link import HTTP_PORT_OFFSET
from motet.errors import NodeError
from motet.node.part_forwarding import ForwardedFile, pieces_max
from motet.real.part_files import PartState, part_folder

LARGE = made_part(1, random_bytes(3_000_000))


@pytest.fixture
def other(tmp_path: Path) -> Iterator[PartServer]:
    with part_server(tmp_path / "other") as served:
        yield served


def test_it_arrives_at_all_replicas(tmp_path: Path, other: PartServer) -> None:
    with (
        part_server(tmp_path / "third") as third,
        part_server(tmp_path / "parts", others=(other.endpoint, third.endpoint)) as server,
    ):
        assert server.put(LARGE) == [201, 201]
        for each in (other, third):
            each.until_arrived()
            assert each.arrived == server.arrived == [(LARGE.key, LARGE.header)]
            file = part_folder(each.folders.root, LARGE.key, PartState.ARRIVED) / "part.parquet"
            assert file.read_bytes() == LARGE.data


def test_it_is_not_forwarded_again(tmp_path: Path) -> None:
    """V3: each names the other."""
    ports = free_base_port(), free_base_port()
    names = [f"127.0.0.1:{port}" for port in ports]
    with (
        part_server(tmp_path / "one", ports[0], (names[1],)) as one,
        part_server(tmp_path / "two", ports[1], (names[0],)) as two,
    ):
        assert one.put(LARGE) == [201, 201]
        two.until_arrived()
        assert two.put(LARGE) == [200, 200]
        assert len(one.arrived) == len(two.arrived) == 1


def test_a_replica_that_is_away_is_no_failure(tmp_path: Path) -> None:
    away = f"127.0.0.1:{free_base_port()}"
    with part_server(tmp_path / "parts", others=(away,)) as server:
        assert server.put(LARGE) == [201, 201]
        assert len(server.arrived) == 1


def test_half_a_file_arrives_nowhere(tmp_path: Path, other: PartServer) -> None:
    with part_server(tmp_path / "parts", others=(other.endpoint,)) as server:
        head = f"PUT {LARGE.path}/part.parquet HTTP/1.1\r\nhost: x\r\n"
        head += f"content-length: {len(LARGE.data)}\r\n\r\n"
        at = "127.0.0.1", server.port + HTTP_PORT_OFFSET
        with socket.create_connection(at, SECONDS_MAX) as connection:
            connection.sendall(head.encode() + LARGE.data[:2_000_000])
        assert server.put(LARGE) == [201, 201]
        other.until_arrived()
        file = part_folder(other.folders.root, LARGE.key, PartState.ARRIVED) / "part.parquet"
        assert file.read_bytes() == LARGE.data


def test_a_replica_that_is_too_slow_is_left() -> None:
    """V2."""
    file = ForwardedFile("127.0.0.1:1")
    for _ in range(pieces_max + 1):
        file.give(b"x")
    with pytest.raises(NodeError, match="did not come to its end"):
        next(file.pieces(pieces_max + 1))
