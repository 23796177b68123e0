"""Who may write below ``/motet``: nodes of the cluster. And what becomes of junk that is there already."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, NoAuthError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

import motet
from motet.errors import StreamExists
from motet.node.config import ROLES, Config
from motet.node.settings import keeper_secret
from motet.real.hello import ClusterKey
from motet.testing.cluster_status import wait_for
from motet.testing.local_cluster import LocalCluster

WAIT_S = 60.0
SMALL = {"MOTET_KEEPER__LOG_SLOTS": "512", "MOTET_KEEPER__CHECKPOINT_OPS": "200"}
JUNK = "/motet/streams/junk"


@contextmanager
def kazoo(cluster: LocalCluster) -> Iterator[KazooClient]:
    client = KazooClient(hosts=cluster.zookeeper(0), timeout=10.0)
    client.start(timeout=WAIT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def below(client: KazooClient, path: str) -> list[str]:
    found = [path]
    for name in client.get_children(path):
        found += below(client, f"{path}/{name}")
    return found


def is_closed(client: KazooClient) -> bool:
    """To everybody but nodes, all of it."""
    try:
        lists = [client.get_acls(path)[0] for path in below(client, "/motet")]
    except NoNodeError:  # what belonged to an earlier life has just gone
        return False
    closed = [(1, "world"), (31, "motet")]
    return all(sorted((each.perms, each.id.scheme) for each in acl) == closed for acl in lists)


def bad_definitions(cluster: LocalCluster) -> list[str]:
    machines = cluster.status(0)
    return [] if machines is None else list(machines["operator"]["detail"]["bad_definitions"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("has_key", [True, False])
def test_nodes_alone_write_what_is_theirs(tmp_path: Path, has_key: bool) -> None:
    with LocalCluster(1, tmp_path, roles=ROLES, environment=SMALL, has_key=has_key) as cluster:
        with motet.connect(cluster.endpoints) as db:
            db.create_stream("orders", shards=1)
        with kazoo(cluster) as stranger:
            refused_and_readable(stranger)
        with kazoo(cluster) as wrong, pytest.raises(AuthFailedError):
            wrong.add_auth("motet", "a guess")
        # A tree of an earlier release, in which everything was open, with junk in it.
        key_file = tmp_path / "cluster-key"
        key = ClusterKey(key_file.read_text().strip()) if has_key else None
        with kazoo(cluster) as node:
            node.add_auth("motet", keeper_secret(Config(), key).decode())
            for path in below(node, "/motet"):
                node.set_acls(path, OPEN_ACL_UNSAFE)
        with kazoo(cluster) as stranger:
            stranger.create(JUNK, b"junk")
        cluster.restart(0)
        with kazoo(cluster) as stranger:
            wait_for(lambda: is_closed(stranger), "an operator closes the tree", WAIT_S)
            wait_for(lambda: bad_definitions(cluster) == [JUNK], "the status names it", WAIT_S)
            refused_and_readable(stranger)
            assert stranger.get(JUNK)[0] == b"junk"
        with motet.connect(cluster.endpoints) as db:
            with pytest.raises(StreamExists, match="not the definition of a stream"):
                db.create_stream("junk", shards=1)
            db.create_stream("more", shards=1)
            assert cluster.log(0).count("bad_definition") <= 2, "once in each of two lives"
            delete_as_node(cluster, key_file if has_key else None)
            wait_for(lambda: bad_definitions(cluster) == [], "the status forgets it", WAIT_S)
            db.create_stream("junk", shards=1)


def refused_and_readable(stranger: KazooClient) -> None:
    assert "orders" in stranger.get_children("/motet/streams")
    assert b"orders" in stranger.get("/motet/streams/orders")[0]
    assert stranger.get_children("/motet/nodes") == ["n0"]
    for path in ("/motet/x", "/motet/streams/x", "/motet/nodes/x", "/motet/operators/n9-"):
        with pytest.raises(NoAuthError):
            stranger.create(path, b"junk")
    for path in ("/motet", "/motet/streams/orders", "/motet/nodes/n0", "/motet/maps/term"):
        with pytest.raises(NoAuthError):
            stranger.set(path, b"junk")
        with pytest.raises(NoAuthError):
            stranger.set_acls(path, OPEN_ACL_UNSAFE)
    for path in ("/motet/streams/orders", "/motet/nodes/n0"):
        with pytest.raises(NoAuthError):
            stranger.delete(path)
    stranger.ensure_path("/theirs")  # all else is as open as ever
    stranger.delete("/theirs")


def delete_as_node(cluster: LocalCluster, key_file: Path | None) -> None:
    words = ["keeper", "delete", JUNK, "--zookeeper", cluster.zookeeper(0), "--as-node"]
    environment = {} if key_file is None else {"MOTET_CLUSTER__KEY_FILE": str(key_file)}
    done = subprocess.run(
        [sys.executable, "-m", "motet", *words],
        env={"PATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
