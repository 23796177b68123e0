"""Sessions over connections: beginning, moving, ending; and the time they live by."""

from __future__ import annotations

import pytest
from tests.core.keeper.front.clusters import FRONT, NAMES, OPEN, Client, Cluster

from motet.core.keeper.messages import Connected, FrontEndConfig
from motet.format.zookeeper.messages import (
    CloseSession,
    Create,
    CreateFlags,
    ErrorCode,
    EventType,
    Exists,
    Failed,
    GetChildren,
    GetData,
    Ping,
    SetData,
)

EPHEMERAL = int(CreateFlags.EPHEMERAL)
DELETED, CHILD = int(EventType.DELETED), int(EventType.CHILD)


def told_away(client: Client) -> bool:
    client.cluster.until(lambda: client.is_hung_up)
    return client.inbox[0] == Connected(0, 0, bytes(16)) and client.kinds[1:] == ["Hangup"]


# Beginning


def test_a_new_session_has_a_number_and_a_password_of_its_own() -> None:
    cluster = Cluster()
    clients = [cluster.connected(name) for name in NAMES for _ in range(2)]
    assert len({client.connected.session for client in clients}) == 6
    assert len({client.connected.password for client in clients}) == 6
    assert {len(client.connected.password) for client in clients} == {16}


@pytest.mark.parametrize(("asked", "given"), [(0, 1_000), (7_000, 7_000), (10**9, 40_000)])
def test_a_timeout_is_moved_into_its_bounds(asked: int, given: int) -> None:
    assert Cluster().connected("r0", asked).connected.timeout_ms == given


def test_who_connects_too_early_waits() -> None:
    cluster = Cluster(start=False)
    for name in NAMES:
        cluster.bench.start(name)
    client = cluster.client("r1")
    client.say_connect()
    client.send(Create("/a", b"", OPEN, 0))
    assert client.inbox == []
    cluster.until(lambda: client.has_answer(1))
    assert client.kinds == ["Connected", "Answer"]


def test_there_is_a_bound_for_connections() -> None:
    cluster = Cluster(FrontEndConfig(connections_max=2))
    first, _ = cluster.connected("r0"), cluster.connected("r0")
    third = cluster.client("r0")
    third.say_connect()
    assert third.kinds == ["Hangup"]
    first.gone()
    assert cluster.connected("r0").connected.session > 0


def test_a_connection_begins_once() -> None:
    client = Cluster().connected("r0")
    client.say_connect()
    assert client.kinds == ["Connected", "Hangup"]


# Moving


def test_a_session_goes_on_over_another_connection() -> None:
    cluster = Cluster()
    client = cluster.connected("r0")
    client.create("/a", flags=EPHEMERAL)
    client.gone()
    again = client.reconnected("r2")
    assert again.connected == client.connected
    assert again.get("/a") == b""


@pytest.mark.parametrize("node", NAMES)
def test_the_connection_of_before_is_hung_up_when_a_session_moves(node: str) -> None:
    cluster = Cluster()
    old = cluster.connected("r1")
    new = old.reconnected(node)
    cluster.until(lambda: old.is_hung_up)
    assert old.kinds == ["Connected", "Hangup"]
    old.send(Create("/a", b"", OPEN, 0))
    assert new.get("/a") is None
    assert not new.is_hung_up


def test_the_connection_of_before_is_refused_by_a_node_that_lags() -> None:
    cluster = Cluster()
    behind = cluster.backups[0]
    old = cluster.connected(behind)
    cluster.let_lag(behind)
    new = old.reconnected(cluster.primary)
    write, read = old.send(Create("/a", b"", OPEN, 0)), old.send(GetData("/", False))
    cluster.run(300)
    assert old.kinds == ["Connected"], "the node does not know of the move yet"
    assert new.error(Exists("/a", False)) == ErrorCode.NO_NODE
    cluster.bench.heal()
    cluster.until(lambda: old.is_hung_up)
    assert not old.has_answer(read)
    assert not old.has_answer(write) or old.answer(write).error == ErrorCode.SESSION_MOVED


def test_a_write_of_an_old_generation_is_told_that_it_moved_and_hung_up() -> None:
    cluster = Cluster()
    behind = cluster.backups[0]
    old = cluster.connected(behind)
    connection = cluster.node(behind).front.context.state.connections.by_address[old.address]
    connection.generation -= 1  # type: ignore[assignment]
    assert old.error(Create("/a", b"", OPEN, 0)) == ErrorCode.SESSION_MOVED
    assert old.kinds == ["Connected", "Answer", "Hangup"]


def test_a_session_that_moved_twice_before_this_node_knew_is_the_last_one() -> None:
    cluster = Cluster()
    behind = cluster.backups[0]
    first = cluster.connected(cluster.primary)
    cluster.lose("prepare", to=behind)
    second = cluster.client(behind)
    second.say_connect(session=first.connected.session, password=first.connected.password)
    cluster.bench.heal()
    cluster.lose("request_prepare", sender=behind)  # one op is missing, the next is there
    third = first.reconnected(cluster.primary)
    cluster.run(300)
    cluster.bench.heal()
    cluster.until(lambda: second.is_hung_up)
    assert second.kinds == ["Hangup"]
    assert third.create("/a") == "/a"


@pytest.mark.parametrize("wrong", ["password", "long password", "session", "negative", "closed"])
def test_who_does_not_have_the_session_is_told_that_it_is_over(wrong: str) -> None:
    cluster = Cluster()
    owner = cluster.connected("r0")
    session, password = owner.connected.session, owner.connected.password
    if wrong == "closed":
        owner.ask(CloseSession())
    client = cluster.client("r1")
    if wrong == "session":
        client.say_connect(session=session + 1, password=password)
    elif wrong == "negative":
        client.say_connect(session=-1, password=password)
    elif wrong == "password":
        client.say_connect(session=session, password=bytes(16))
    elif wrong == "long password":
        client.say_connect(session=session, password=bytes(3_999))
    else:
        client.say_connect(session=session, password=password)
    assert told_away(client)
    assert owner.is_hung_up == (wrong == "closed")


def test_a_client_that_has_seen_more_waits_for_the_node_or_is_sent_away() -> None:
    cluster = Cluster()
    behind = cluster.backups[0]
    writer = cluster.connected(cluster.primary)
    cluster.let_lag(behind)
    writer.create("/a")
    seen = writer.ask(GetData("/a", False)).zxid
    client, dreamer = cluster.client(behind), cluster.client(behind)
    client.say_connect(last_zxid=seen)
    dreamer.say_connect(last_zxid=seen + 1_000)
    cluster.run(300)
    assert client.inbox == dreamer.inbox == []
    cluster.bench.heal()
    cluster.until(lambda: bool(client.inbox) and bool(dreamer.inbox))
    assert client.kinds == ["Connected"]
    assert dreamer.kinds == ["Hangup"]
    assert cluster.node(behind).keeper.counts().sessions == 2


# Ending


def test_ephemeral_nodes_vanish_at_a_goodbye_with_one_event_each() -> None:
    cluster = Cluster()
    owner, watcher = cluster.connected("r0"), cluster.connected("r2")
    for path in ("/a", "/b"):
        owner.create(path, flags=EPHEMERAL)
        watcher.ask(Exists(path, True))
    watcher.ask(GetChildren("/", True))
    owner.ask(CloseSession())
    assert owner.kinds[-2:] == ["Answer", "Hangup"]
    cluster.run(500)
    assert watcher.events == [(DELETED, "/a"), (CHILD, "/"), (DELETED, "/b")]
    assert watcher.get("/a") is None


def _expire(cluster: Cluster, *others: Client, ms: int) -> None:
    """Let time pass in which only these are heard of."""
    for _ in range(ms // 250):
        for other in others:
            other.send(Ping())
        cluster.run(250)


def test_a_session_that_is_not_heard_of_expires_once_and_its_nodes_vanish() -> None:
    cluster = Cluster()
    owner, watcher = cluster.connected("r0", 2_000), cluster.connected("r1", 2_000)
    owner.create("/a", flags=EPHEMERAL)
    watcher.ask(Exists("/a", True))
    before = watcher.ask(Exists("/a", False)).zxid
    _expire(cluster, watcher, ms=4_000)
    cluster.run(250)  # other replicas hear of what is committed with the next heartbeat
    assert watcher.events == [(DELETED, "/a")]
    assert owner.kinds[-1] == "Hangup"
    assert not watcher.is_hung_up, "whoever pings lives"
    assert watcher.ask(Exists("/a", False)).zxid == before + 1
    again = cluster.client("r2")
    again.say_connect(session=owner.connected.session, password=owner.connected.password)
    assert told_away(again)


def test_a_session_lives_for_its_timeout_after_its_connection_is_lost() -> None:
    cluster = Cluster()
    owner, watcher = cluster.connected("r0", 3_000), cluster.connected("r1", 3_000)
    owner.create("/a", flags=EPHEMERAL)
    owner.gone()
    _expire(cluster, watcher, ms=3_000)
    assert watcher.get("/a") == b""
    _expire(cluster, watcher, ms=3_000)
    assert watcher.get("/a") is None


def test_reads_keep_a_session_alive() -> None:
    cluster = Cluster()
    client = cluster.connected("r2", 1_000)
    for _ in range(10):
        client.get("/")
        cluster.run(500)
    assert not client.is_hung_up


def test_time_stands_still_where_nobody_leads() -> None:
    """Nothing expires by the clock of a node: without pulses in the log no time passes."""
    cluster = Cluster()
    owner = cluster.connected("r0", 1_000)
    owner.create("/a", flags=EPHEMERAL)
    owner.gone()
    for name in ("r1", "r2"):
        cluster.bench.crash(name)
    cluster.run(10_000)
    assert cluster.node("r0").keeper.counts().sessions == 1
    for name in ("r1", "r2"):
        cluster.bench.start(name)
    reader = cluster.connected("r1")
    assert reader.get("/a") == b"", "a new view grants a full timeout"


def test_a_new_view_grants_a_full_timeout() -> None:
    cluster = Cluster()
    first = cluster.primary
    owner = cluster.connected(cluster.backups[0], 2_000)
    watcher = cluster.connected(cluster.backups[1], 20_000)
    owner.create("/a", flags=EPHEMERAL)
    owner.gone()
    _expire(cluster, watcher, ms=1_500)
    cluster.bench.crash(first)
    cluster.until(lambda: cluster.primary not in (first, ""))
    _expire(cluster, watcher, ms=1_500)
    assert watcher.get("/a") == b""
    _expire(cluster, watcher, ms=3_000)
    assert watcher.get("/a") is None


def test_a_pulse_is_worth_at_most_its_interval() -> None:
    cluster = Cluster()
    cluster.connected("r0", 4_000)
    leader = cluster.node(cluster.primary)
    cluster.run(2_000)
    clock = leader.keeper._sessions.clock
    now_ms = clock.now_ms
    cluster.lose("prepare_ok", to=cluster.primary)
    cluster.run(1_200)  # too short for another view
    cluster.bench.heal()
    cluster.run(400)
    assert clock.view == leader.replica.core.state.view
    assert clock.now_ms - now_ms <= 1_000


def test_where_there_are_no_sessions_nothing_is_logged() -> None:
    cluster = Cluster()
    core = cluster.node("r0").replica.core
    before = core.state.op
    cluster.run(5_000)
    assert core.state.op == before


def test_a_client_of_a_node_that_is_cut_off_is_hung_up_before_others_end_its_session() -> None:
    cluster = Cluster()
    node = cluster.backups[0]
    client, witness = cluster.connected(node, 4_000), cluster.connected(cluster.backups[1], 4_000)
    client.create("/a", flags=EPHEMERAL)
    cluster.bench.isolate(node)
    for _ in range(40):
        client.send(Ping())
        witness.send(Ping())
        cluster.run(100)
        if client.is_hung_up:
            break
    assert client.is_hung_up
    assert witness.get("/a") == b"", "its session is still there"


def test_a_connection_whose_touch_is_refused_is_hung_up() -> None:
    cluster = Cluster()
    client = cluster.connected("r0")
    connection = cluster.node("r0").front.context.state.connections.by_address[client.address]
    connection.generation -= 1  # type: ignore[assignment]
    client.send(Ping())
    cluster.until(lambda: client.is_hung_up, 2_000)
    assert client.kinds == ["Connected", "Answer", "Hangup"]


def test_many_sessions_are_touched_in_several_operations() -> None:
    cluster = Cluster(FRONT)
    clients = [cluster.connected("r0", 1_000) for _ in range(12)]
    for _ in range(4):
        for client in clients:
            client.send(Ping())
        cluster.run(500)
    assert not any(client.is_hung_up for client in clients)
    assert all(isinstance(client.answers[0].result, Failed) is False for client in clients)
    assert clients[0].error(SetData("/none", b"", -1)) == ErrorCode.NO_NODE
