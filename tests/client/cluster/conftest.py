"""Three nodes with all roles, for all tests of this folder that share a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import motet
from motet.node.roles import ROLES
from motet.testing.dev_cluster import DevCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    folder = tmp_path_factory.mktemp("streams")
    with DevCluster(3, folder, None, roles=ROLES) as running:
        yield running


@pytest.fixture
def db(cluster: DevCluster) -> Iterator[motet.Database]:
    with motet.connect(cluster.endpoints) as database:
        yield database
