"""kazoo, unchanged, against a keeper of three real processes: its recipes do what they promise."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)
from kazoo.recipe.cache import TreeCache, TreeEvent

from motet.testing.local_cluster import LocalCluster

WAIT_S = 60.0
"""Patience of a test; nothing is measured by it."""

SMALL = {
    "MOTET_KEEPER__LOG_SLOTS": "256",
    "MOTET_KEEPER__CHECKPOINT_OPS": "100",
    "MOTET_LOG__LEVEL": "warning",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("keeper")
    with LocalCluster(3, folder, roles=["keeper"], environment=SMALL) as running:
        yield running


@contextmanager
def kazoo(cluster: LocalCluster, *nodes: int, timeout: float = 10.0) -> Iterator[KazooClient]:
    """A client of some nodes, or of all."""
    hosts = ",".join(cluster.zookeeper(i) for i in nodes or range(3))
    client = KazooClient(hosts=hosts, timeout=timeout)
    client.start(timeout=WAIT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_what_is_written_through_one_node_is_read_through_any_other(cluster: LocalCluster) -> None:
    with kazoo(cluster, 0) as one, kazoo(cluster, 1) as two, kazoo(cluster, 2) as three:
        one.create("/plain", b"first")
        for number in range(20):
            one.set("/plain", b"%d" % number)
            assert two.get("/plain")[0] == b"%d" % number
            assert three.get("/plain")[0] == b"%d" % number
        data, stat = three.get("/plain")
        assert (data, stat.version, stat.data_length) == (b"19", 20, 2)
        with pytest.raises(BadVersionError):
            two.set("/plain", b"", version=3)
        with pytest.raises(NodeExistsError):
            two.create("/plain")
        with pytest.raises(NoNodeError):
            two.create("/not/there")
        one.create("/plain/child")
        with pytest.raises(NotEmptyError):
            two.delete("/plain")
        two.delete("/plain", recursive=True)
        assert one.exists("/plain") is None


def test_sequence_numbers_and_ephemeral_nodes(cluster: LocalCluster) -> None:
    with kazoo(cluster, 0) as watcher:
        watcher.ensure_path("/seq")
        with kazoo(cluster, 1) as owner:
            names = [owner.create("/seq/n-", ephemeral=True, sequence=True) for _ in range(3)]
            assert names == [f"/seq/n-{number:010d}" for number in range(3)]
            assert sorted(watcher.get_children("/seq")) == [name[5:] for name in names]
            gone = threading.Event()
            assert watcher.exists(names[0], watch=lambda _event: gone.set())
        assert gone.wait(WAIT_S)
        assert watcher.get_children("/seq") == []


def test_a_transaction_is_done_whole_or_not_at_all(cluster: LocalCluster) -> None:
    with kazoo(cluster, 0) as client:
        good = client.transaction()
        good.create("/txn", b"1")
        good.create("/txn/a", b"2")
        good.set_data("/txn", b"3", version=0)
        good.check("/txn/a", version=0)
        results = good.commit()
        assert results[:2] == ["/txn", "/txn/a"]
        bad = client.transaction()
        bad.delete("/txn/a")
        bad.check("/txn", version=7)
        bad.create("/txn/b")
        first, failed, _ = bad.commit()
        assert isinstance(first, RolledBackError)
        assert isinstance(failed, BadVersionError)
        assert client.get_children("/txn") == ["a"]


def test_large_data_is_kept_and_one_byte_too_many_is_refused(cluster: LocalCluster) -> None:
    with kazoo(cluster, 1) as client, kazoo(cluster, 2) as other:
        data = bytes(range(256)) * 4000
        client.create("/large", data)
        assert other.get("/large")[0] == data
        client.set("/large", data + b"x")
        assert other.get("/large")[0] == data + b"x"


def test_lock(cluster: LocalCluster) -> None:
    inside, most, done = [0], [0], []

    def work(node: int) -> None:
        with kazoo(cluster, node) as client:
            lock = client.Lock("/lock", f"worker {node}")
            for _ in range(5):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    done.append(node)
                    inside[0] -= 1

    threads = [threading.Thread(target=work, args=(node,)) for node in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert most == [1]
    assert sorted(done) == [0] * 5 + [1] * 5 + [2] * 5


def test_election(cluster: LocalCluster) -> None:
    leads = [threading.Event(), threading.Event()]
    resign = [threading.Event(), threading.Event()]

    def run(number: int) -> None:
        with kazoo(cluster, number) as client:

            def lead() -> None:
                leads[number].set()
                resign[number].wait(WAIT_S)

            client.Election("/election", f"candidate {number}").run(lead)

    first = threading.Thread(target=run, args=(0,))
    first.start()
    assert leads[0].wait(WAIT_S)
    second = threading.Thread(target=run, args=(1,))
    second.start()
    with kazoo(cluster, 2) as observer:
        election = observer.Election("/election")
        while len(election.contenders()) < 2:
            pass
        assert not leads[1].is_set()
        resign[0].set()
        assert leads[1].wait(WAIT_S)
        resign[1].set()
    first.join(WAIT_S)
    second.join(WAIT_S)


def test_queues_and_counter(cluster: LocalCluster) -> None:
    with kazoo(cluster, 0) as one, kazoo(cluster, 1) as two:
        queue, other = one.Queue("/queue"), two.Queue("/queue")
        for number in range(5):
            queue.put(b"%d" % number)
        assert [other.get() for _ in range(5)] == [b"%d" % number for number in range(5)]
        locking, taker = one.LockingQueue("/locking"), two.LockingQueue("/locking")
        locking.put_all([b"a", b"b"])
        assert taker.get(timeout=WAIT_S) == b"a"
        assert taker.consume()
        assert locking.get(timeout=WAIT_S) == b"b"
        counter, same = one.Counter("/counter"), two.Counter("/counter")
        for _ in range(5):
            counter += 2
            same -= 1
        assert counter.value == 5


def test_party_barrier_and_semaphore(cluster: LocalCluster) -> None:
    with kazoo(cluster, 0) as one, kazoo(cluster, 1) as two:
        party, guest = one.Party("/party", "one"), two.Party("/party", "two")
        party.join()
        guest.join()
        assert sorted(party) == ["one", "two"]
        guest.leave()
        assert list(party) == ["one"]
        entered: list[str] = []

        def enter(client: KazooClient, name: str) -> None:
            barrier = client.DoubleBarrier("/barrier", 2, name)
            barrier.enter()
            entered.append(name)
            barrier.leave()

        threads = [
            threading.Thread(target=enter, args=pair) for pair in ((one, "one"), (two, "two"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert sorted(entered) == ["one", "two"]
        semaphore = one.Semaphore("/semaphore", "one", max_leases=1)
        assert semaphore.acquire()
        assert two.Semaphore("/semaphore", "two", max_leases=1).acquire(blocking=False) is False
        semaphore.release()


def test_watchers_and_cache(cluster: LocalCluster) -> None:
    with kazoo(cluster, 0) as one, kazoo(cluster, 1) as two:
        one.create("/watched", b"0")
        seen: list[bytes] = []
        last, children = threading.Event(), threading.Event()

        def on_data(data: bytes, _stat: object) -> None:
            seen.append(data)
            if data == b"9":
                last.set()

        def on_children(names: list[str]) -> None:
            if len(names) == 3:
                children.set()

        one.DataWatch("/watched", on_data)
        one.ChildrenWatch("/watched", on_children)
        for number in range(1, 10):
            two.set("/watched", b"%d" % number)
        assert last.wait(WAIT_S)
        numbers = [int(data) for data in seen]
        assert numbers == sorted(numbers), "never back in time"
        for name in "abc":
            two.create(f"/watched/{name}")
        assert children.wait(WAIT_S)
        cache = TreeCache(one, "/watched")
        ready = threading.Event()
        cache.listen(
            lambda event: ready.set() if event.event_type == TreeEvent.INITIALIZED else None
        )
        cache.start()
        assert ready.wait(WAIT_S)
        assert sorted(cache.get_children("/watched")) == ["a", "b", "c"]
        cache.close()


def test_acls_and_authentication(cluster: LocalCluster) -> None:
    from kazoo.exceptions import NoAuthError
    from kazoo.security import make_digest_acl

    with kazoo(cluster, 0) as owner, kazoo(cluster, 1) as stranger:
        owner.add_auth("digest", "user:secret")
        owner.create("/private", b"x", acl=[make_digest_acl("user", "secret", all=True)])
        assert owner.get("/private")[0] == b"x"
        with pytest.raises(NoAuthError):
            stranger.get("/private")
        stranger.add_auth("digest", "user:secret")
        assert stranger.get("/private")[0] == b"x"


def test_a_session_moves_to_another_node_with_its_ephemeral_nodes(
    cluster: LocalCluster,
) -> None:
    with kazoo(cluster, 0, timeout=4.0) as client, kazoo(cluster, 2) as observer:
        client.create("/mine", ephemeral=True)
        client.set_hosts(cluster.zookeeper(1))
        session = client.client_id
        client._connection._socket.shutdown(2)  # as if the network had gone
        assert client.retry(client.get, "/mine")[0] == b""
        assert client.client_id == session, "the same session, through another node"
        gone = threading.Event()
        assert observer.exists("/mine", watch=lambda _event: gone.set())
        client.stop()
        assert gone.wait(WAIT_S)
