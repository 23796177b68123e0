"""Every test of the keeper's contract runs once for each server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.keeper.servers import SERVERS, KeeperServer
from tests.contract.keeper.world import World


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeeperServer]:
    server = SERVERS["zookeeper"](tmp_path_factory.mktemp("zookeeper"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def motet_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeeperServer]:
    server = SERVERS["motet"](tmp_path_factory.mktemp("motet"))
    yield server
    server.close()


@pytest.fixture(scope="session", params=list(SERVERS))
def keeper_server(request: pytest.FixtureRequest) -> KeeperServer:
    """One server for all tests; each has a place of its own in the tree."""
    server: KeeperServer = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture
def world(keeper_server: KeeperServer, request: pytest.FixtureRequest) -> World:
    name = request.node.originalname.removeprefix("test_")
    return World(keeper_server, f"/contract/{name}")
