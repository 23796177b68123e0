"""Three nodes with all roles, for all tests of this folder that share a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import motet
from motet.node.config import ROLES
from motet.testing.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("streams")
    with LocalCluster(3, folder, roles=ROLES) as running:
        yield running


@pytest.fixture
def db(cluster: LocalCluster) -> Iterator[motet.Database]:
    with motet.connect(cluster.endpoints) as database:
        yield database
