"""Watches: set with their read, fired once, before any answer that tells of the same change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.keeper.front.clusters import OPEN, Cluster

from motet.core.keeper.front.watches import Watches, WatchKind
from motet.core.keeper.messages import Answer, FrontEndConfig, Happened
from motet.core.machine import NS_PER_MS
from motet.format.zookeeper.messages import (
    Acl,
    Auth,
    Create,
    Data,
    Delete,
    ErrorCode,
    EventType,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    Multi,
    SetAcl,
    SetData,
    SetWatches,
    StatResult,
    WatchEvent,
)
from motet.format.zookeeper.records import AnyRequest
from motet.ids import Address

CREATED, DELETED, CHANGED, CHILD = map(int, EventType)


@pytest.mark.parametrize("node", ["r0", "r1", "r2"])
def test_an_event_waits_for_no_heartbeat(node: str) -> None:
    cluster = Cluster()
    watcher, writer = cluster.connected(node), cluster.connected("r1")
    writer.create("/log")
    for number in range(3):
        cluster.run(700)  # all is quiet
        watcher.ask(GetChildren("/log", True))
        before_ns = cluster.bench.monotonic_ns
        writer.create(f"/log/{number}")
        cluster.run(1)
        assert watcher.events == [(CHILD, "/log")] * (number + 1)
        assert cluster.bench.monotonic_ns - before_ns <= 2 * NS_PER_MS


def test_where_nobody_watches_nothing_is_told_before_the_heartbeat() -> None:
    cluster = Cluster()
    writer, watcher = cluster.connected("r1"), cluster.connected("r0")
    watcher.ask(Exists("/log", True))
    cluster.run(1_000)
    assert list(cluster.node("r1").replica.core.state.awaiting) == [0]
    watcher.gone()
    cluster.run(1_000)
    assert cluster.node("r1").replica.core.state.awaiting == {}
    writer.create("/log")
    assert (
        cluster.node("r0").replica.core.state.commit_min
        < cluster.node("r1").replica.core.state.commit_min
    )


@pytest.mark.parametrize(
    ("watch", "change", "expected"),
    [
        (GetData("/a", True), SetData("/a", b"2", -1), [(CHANGED, "/a")]),
        (GetData("/a", True), Delete("/a", -1), [(DELETED, "/a")]),
        (GetData("/a", True), Create("/a/b", b"", OPEN, 0), []),
        (Exists("/a", True), SetData("/a", b"2", -1), [(CHANGED, "/a")]),
        (Exists("/new", True), Create("/new", b"", OPEN, 0), [(CREATED, "/new")]),
        (GetChildren("/a", True), Create("/a/b", b"", OPEN, 0), [(CHILD, "/a")]),
        (GetChildren2("/a", True), Delete("/a", -1), [(DELETED, "/a")]),
        (GetChildren("/", True), Create("/new", b"", OPEN, 0), [(CHILD, "/")]),
        (GetChildren("/a", True), SetData("/a", b"2", -1), []),
        (GetData("/new", True), Create("/new", b"", OPEN, 0), []),
        (GetChildren("/new", True), Create("/new", b"", OPEN, 0), []),
        (GetData("/a", False), SetData("/a", b"2", -1), []),
    ],
)
def test_a_watch_hears_of_what_it_is_for(
    watch: AnyRequest, change: AnyRequest, expected: list[tuple[int, str]]
) -> None:
    cluster = Cluster()
    watcher, writer = cluster.connected("r0"), cluster.connected("r1")
    writer.create("/a", b"1")
    watcher.ask(watch)
    assert writer.error(change) == 0
    cluster.run(500)
    assert watcher.events == expected


def test_a_watch_fires_once_and_can_be_set_again() -> None:
    cluster = Cluster()
    watcher, writer = cluster.connected("r0"), cluster.connected("r2")
    writer.create("/a")
    watcher.get("/a", watch=True)
    for _ in range(3):
        writer.ask(SetData("/a", b"", -1))
    cluster.run(500)
    assert watcher.events == [(CHANGED, "/a")]
    watcher.get("/a", watch=True)
    writer.ask(SetData("/a", b"", -1))
    cluster.run(500)
    assert watcher.events == [(CHANGED, "/a")] * 2


def test_a_deletion_is_one_event_to_who_watches_data_and_children() -> None:
    client = Cluster().connected("r1")
    client.create("/a")
    client.get("/a", watch=True)
    client.ask(GetChildren("/a", True))
    client.ask(GetChildren("/", True))
    client.ask(Delete("/a", -1))
    assert client.events == [(DELETED, "/a"), (CHILD, "/")]


def test_events_are_in_the_order_of_what_happened_and_before_the_answer() -> None:
    client = Cluster().connected("r2")
    for path in ("/a", "/b"):
        client.ask(Exists(path, True))
    client.ask(GetChildren("/", True))
    client.clear()
    client.ask(Multi((Create("/b", b"", OPEN, 0), Create("/a", b"", OPEN, 0))))
    assert client.events == [(CREATED, "/b"), (CHILD, "/"), (CREATED, "/a")]
    assert client.kinds == ["Happened"] * 3 + ["Answer"]


@pytest.mark.parametrize("reads_are_local", [False, True])
def test_the_event_comes_before_the_answer_that_tells_of_the_change(
    *, reads_are_local: bool
) -> None:
    cluster = Cluster(FrontEndConfig(timeout_ms_min=1_000, reads_are_local=reads_are_local))
    node = cluster.backups[0]
    watcher, writer = cluster.connected(node), cluster.connected(cluster.primary)
    writer.create("/a", b"old")
    cluster.run(500)
    watcher.get("/a", watch=True)
    cluster.let_lag(node)
    writer.ask(SetData("/a", b"new", -1))
    first = watcher.send(GetData("/a", False))
    cluster.run(300)
    assert watcher.events == [], "this replica knows of nothing"
    assert watcher.has_answer(first) == reads_are_local
    cluster.bench.heal()
    cluster.run(2_000)
    second = watcher.send(GetData("/a", False))
    cluster.until(lambda: watcher.has_answer(second))
    has_heard = False
    for message in watcher.inbox:
        has_heard = has_heard or isinstance(message, Happened)
        if isinstance(message, Answer) and isinstance(message.result, Data):
            assert has_heard or message.result.data == b"old"
    assert watcher.events == [(CHANGED, "/a")]


def test_what_is_written_right_behind_a_watched_read_fires() -> None:
    cluster = Cluster()
    client = cluster.connected("r0")
    client.create("/a")
    read, write = client.send(GetData("/a", True)), client.send(SetData("/a", b"1", -1))
    cluster.until(lambda: client.has_answer(write))
    assert client.kinds[-3:] == ["Answer", "Happened", "Answer"]
    assert client.answers[-2].xid == read


def test_watches_die_with_their_connection() -> None:
    cluster = Cluster()
    watcher, writer = cluster.connected("r0"), cluster.connected("r1")
    writer.create("/a")
    watcher.get("/a", watch=True)
    watches = cluster.node("r0").front.context.state.watches
    assert watches.count == 1
    watcher.gone()
    assert (watches.count, watches.by_path, watches.by_connection) == (0, {}, {})
    writer.ask(SetData("/a", b"", -1))
    cluster.run(500)
    assert watcher.events == []


def test_there_is_a_bound_for_watches() -> None:
    client = Cluster(FrontEndConfig(watches_max=2)).connected("r0")
    assert client.error(GetChildren("/", True)) == 0
    assert client.error(Exists("/a", True)) == ErrorCode.NO_NODE
    assert client.error(Exists("/b", True)) == ErrorCode.SYSTEM_ERROR
    assert client.error(SetWatches(0, (), ("/b",), ())) == ErrorCode.SYSTEM_ERROR
    client.create("/a")
    assert client.events == [(CREATED, "/a"), (CHILD, "/")]
    assert client.error(Exists("/b", True)) == ErrorCode.NO_NODE


# Watches of before


def test_watches_of_before_fire_at_once_for_what_was_missed_and_are_set_for_the_rest() -> None:
    cluster = Cluster()
    client, writer = cluster.connected("r0"), cluster.connected("r1")
    for path in ("/same", "/changed", "/deleted", "/parent", "/quiet"):
        writer.create(path)
    seen = client.ask(GetChildren("/", False)).zxid
    writer.ask(SetData("/changed", b"", -1))
    writer.ask(Delete("/deleted", -1))
    writer.create("/parent/child")
    writer.create("/came")
    client.gone()
    again = client.reconnected("r2")
    again.clear()
    again.ask(
        SetWatches(
            seen,
            ("/same", "/changed", "/deleted"),
            ("/came", "/to_come"),
            ("/parent", "/quiet", "/deleted"),
        )
    )
    expected = [
        (CHANGED, "/changed"),
        (DELETED, "/deleted"),
        (CREATED, "/came"),
        (CHILD, "/parent"),
        (DELETED, "/deleted"),
    ]
    assert again.events == expected
    assert again.kinds == ["Happened"] * 5 + ["Answer"]
    again.clear()
    writer.ask(SetData("/same", b"", -1))
    writer.create("/to_come")
    writer.create("/quiet/child")
    writer.ask(SetData("/changed", b"", -1))
    cluster.run(500)
    assert again.events == [(CHANGED, "/same"), (CREATED, "/to_come"), (CHILD, "/quiet")]


def test_where_a_client_may_not_look_it_is_told_to_look() -> None:
    cluster = Cluster()
    client, owner = cluster.connected("r0"), cluster.connected("r1")
    owner.ask(Auth("digest", b"me:secret"))
    owner.create("/a")
    owner.ask(SetAcl("/a", (Acl(31, "auth", ""),), -1))
    hidden = owner.ask(GetData("/a", False)).zxid
    client.clear()
    client.ask(SetWatches(hidden, ("/a",), (), ()))
    assert client.events in ([(CHANGED, "/a")], []), "an event too many, at most"


# Against a list


class _Plain:
    """Watches as a list of what everybody wants."""

    def __init__(self) -> None:
        self.wanted: list[tuple[WatchKind, str, Address]] = []

    def set(self, kind: WatchKind, path: str, address: Address) -> None:
        if (kind, path, address) not in self.wanted:
            self.wanted.append((kind, path, address))

    def fire(self, event: WatchEvent) -> list[Address]:
        data = event.type in (CREATED, CHANGED, DELETED)
        child = event.type in (CHILD, DELETED)
        told = []
        for kind, hears in ((WatchKind.DATA, data), (WatchKind.CHILD, child)):
            fired = [w for w in self.wanted if hears and w[:2] == (kind, event.path)]
            self.wanted = [w for w in self.wanted if w not in fired]
            told += [w[2] for w in fired if w[2] not in told]
        return told

    def forget(self, address: Address) -> None:
        self.wanted = [w for w in self.wanted if w[2] != address]


_paths = st.sampled_from(("/a", "/b", "/a/c"))
_addresses = st.sampled_from([Address(f"zk/{n}") for n in range(3)])
_steps = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(WatchKind), _paths, _addresses),
    st.tuples(st.just("fire"), st.sampled_from([*map(int, EventType), 9]), _paths),
    st.tuples(st.just("forget"), _addresses),
)


@given(st.lists(_steps, max_size=40))
def test_watches_are_a_list_of_who_wants_what(steps: list[tuple[object, ...]]) -> None:
    watches, plain = Watches(), _Plain()
    for what, *rest in steps:
        if what == "fire":
            event = WatchEvent(*rest)  # type: ignore[arg-type]
            assert watches.fire(event) == plain.fire(event)
        else:
            getattr(watches, str(what))(*rest)
            getattr(plain, str(what))(*rest)
        kept = {(k, p, a): None for (k, p), own in watches.by_path.items() for a in own}
        assert sorted(kept) == sorted(plain.wanted)
        assert watches.count == len(plain.wanted)
        by_connection = [(*w, a) for a, own in watches.by_connection.items() for w in own]
        assert sorted(by_connection) == sorted(plain.wanted)


def test_stat_results_are_what_exists_answers() -> None:
    client = Cluster().connected("r0")
    client.create("/a")
    assert isinstance(client.result(Exists("/a", False)), StatResult)
