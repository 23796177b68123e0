"""Nodes that crash, lag, are cut off or lose their lanes: no answer is wrong, doubled or made up."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.keeper.front.clusters import KEEPER, NAMES, OPEN, VSR, Client, Cluster

from motet.core.keeper.front.node import FRONT as FRONT_ADDRESS
from motet.core.keeper.front.node import KeeperNode
from motet.core.keeper.messages import Connect, FrontEndConfig, Hangup
from motet.core.machine import Now, Read, ReadBack, Received, Send, SetTimer, Started
from motet.core.vsr.messages import Eviction, Reply, Request
from motet.core.vsr.sessions import reply_checksum
from motet.format.zookeeper.messages import (
    Children,
    Create,
    Created,
    CreateFlags,
    ErrorCode,
    EventType,
    Exists,
    GetChildren,
    GetData,
    Ping,
    SetData,
    StatResult,
    Sync,
)
from motet.ids import Address, Op, ReplicaIndex

SEQUENTIAL = int(CreateFlags.SEQUENTIAL)


def children(client: Client) -> list[str]:
    result = client.result(GetChildren("/", False))
    assert isinstance(result, Children)
    return list(result.children)


def own_clients(cluster: Cluster, name: str) -> list[int]:
    return [lane.client.state.client for lane in cluster.node(name).front.context.lanes._lanes]


# The primary


@pytest.mark.parametrize("lost", ["reply", "prepare_ok", "request"])
def test_a_primary_that_crashes_in_the_middle_loses_and_doubles_nothing(lost: str) -> None:
    cluster = Cluster()
    first = cluster.primary
    clients = [cluster.connected(name, 20_000) for name in cluster.backups]
    cluster.lose(lost)
    xids = [[each.send(Create("/n-", b"", OPEN, SEQUENTIAL)) for _ in range(3)] for each in clients]
    cluster.run(100)
    assert not any(client.answers for client in clients)
    cluster.bench.crash(first)
    cluster.bench.heal()
    cluster.until(lambda: all(len(each.answers) == 3 for each in clients))
    names = [
        a.result.path for each in clients for a in each.answers if isinstance(a.result, Created)
    ]
    assert [[answer.xid for answer in each.answers] for each in clients] == xids
    assert sorted(names) == [f"/n-{number:010d}" for number in range(6)]
    assert children(clients[0]) == sorted(name[1:] for name in names)


def test_a_change_of_the_primary_is_answered_soon_after_it() -> None:
    cluster = Cluster()
    first = cluster.primary
    client = cluster.connected(cluster.backups[0], 20_000)
    cluster.bench.crash(first)
    xid = client.send(Create("/a", b"", OPEN, 0))
    read = client.send(GetData("/a", False))
    cluster.until(lambda: cluster.primary not in (first, ""))
    cluster.until(lambda: client.has_answer(read), 700)
    assert client.answer(xid).error == 0


def test_clients_of_a_primary_that_is_cut_off_are_told_nothing_wrong() -> None:
    cluster = Cluster()
    old = cluster.primary
    inside = cluster.connected(old, 4_000)
    outside = cluster.connected(cluster.backups[0], 20_000)
    outside.create("/a", b"1")
    cluster.bench.isolate(old)
    cluster.until(lambda: cluster.primary not in (old, ""))
    outside.ask(SetData("/a", b"2", -1))
    read, sync = inside.send(GetData("/a", False)), inside.send(Sync("/"))
    write = inside.send(SetData("/a", b"3", 0))
    cluster.run(2_000)
    assert not any(inside.has_answer(xid) for xid in (read, sync, write))
    cluster.bench.heal()
    cluster.run(3_000)
    assert outside.get("/a") == b"2"
    if inside.has_answer(write):
        assert inside.answer(write).error == ErrorCode.BAD_VERSION


# Lanes


def evict(cluster: Cluster, name: str, lane: int) -> None:
    """As the primary would if it knew of no such session."""
    node, sender = cluster.node(name), cluster.primary
    core = cluster.node(sender).replica.core
    client = node.front.context.lanes._lanes[lane].client.state.client
    gone = Eviction(VSR.cluster, core.own, core.state.view, client, "no_session")
    cluster.bench.hand(name, sender, gone)


def test_an_evicted_lane_hangs_up_whom_it_had_something_of_and_begins_anew() -> None:
    cluster = Cluster()
    name = cluster.backups[0]
    busy, other_lane, idle = (cluster.connected(name) for _ in range(3))
    before = own_clients(cluster, name)
    cluster.lose("reply")
    write = busy.send(Create("/a", b"", OPEN, 0))
    behind = busy.send(Create("/b", b"", OPEN, 0))
    cluster.bench.heal()
    evict(cluster, name, 0)
    assert busy.kinds == ["Connected", "Hangup"]
    assert not busy.has_answer(write)
    assert not busy.has_answer(behind)
    assert not other_lane.is_hung_up
    assert not idle.is_hung_up, "it is on the same lane, but nothing of it was under way"
    cluster.run(1_000)
    after = own_clients(cluster, name)
    assert after[0] != before[0]
    assert after[1:] == before[1:]
    assert idle.error(Exists("/a", False)) == 0, "it was done, and once"
    assert idle.error(Exists("/b", False)) == ErrorCode.NO_NODE, "it never went"
    assert idle.error(Create("/c", b"", OPEN, 0)) == 0
    assert len(busy.inbox) == 2


def test_a_lane_that_is_evicted_while_idle_hurts_nobody() -> None:
    cluster = Cluster()
    name = cluster.primary
    client = cluster.connected(name)
    for lane in range(3):
        evict(cluster, name, lane)
    assert client.create("/a") == "/a"
    assert client.get("/a") == b""


def test_an_asker_that_is_evicted_asks_again() -> None:
    cluster = Cluster()
    name = cluster.backups[0]
    client = cluster.connected(name)
    cluster.lose("read_point")
    cluster.lose("read_barrier")
    read = client.send(GetData("/", False))
    evict(cluster, name, 2)
    cluster.bench.heal()
    cluster.until(lambda: client.has_answer(read))
    assert client.answer(read).error == 0


def test_a_touch_or_pulse_that_is_lost_with_its_lane_is_said_again() -> None:
    cluster = Cluster()
    name = cluster.primary
    client = cluster.connected(name, 20_000)
    state = cluster.node(name).front.context.state
    connection = state.connections.by_address[client.address]
    client.send(Ping())
    cluster.lose("prepare_ok")
    cluster.until(lambda: state.pulses.touching is not None and state.pulses.is_pulsing)
    evict(cluster, name, 0)
    assert state.pulses.touching is None
    assert not state.pulses.is_pulsing
    touched_ns = connection.touched_monotonic_ns
    cluster.bench.heal()
    cluster.run(1_500)
    assert connection.touched_monotonic_ns > touched_ns
    assert not client.is_hung_up


def test_an_answer_that_is_none_hangs_up() -> None:
    cluster = Cluster()
    name = cluster.backups[0]
    client = cluster.connected(name)
    cluster.lose("request")
    xid = client.send(Create("/a", b"", OPEN, 0))
    lane = cluster.node(name).front.context.lanes._lanes[0]
    asked = lane.client.state.in_flight
    assert asked is not None
    assert isinstance(asked, Request)
    body = b"nonsense"
    digest = reply_checksum(asked.client, asked.request, Op(99), body)
    reply = Reply(
        VSR.cluster, ReplicaIndex(1), asked.view, asked.client, asked.request, Op(99), body, digest
    )
    cluster.bench.hand(name, "r1", reply)
    assert client.is_hung_up
    assert not client.has_answer(xid)


# A replica that has missed much


def test_a_replica_that_takes_over_a_whole_state_hangs_up_who_may_have_missed_events() -> None:
    cluster = Cluster()
    behind = cluster.backups[0]
    watcher, plain = cluster.connected(behind, 40_000), cluster.connected(behind, 40_000)
    writer = cluster.connected(cluster.primary, 40_000)
    writer.create("/a")
    watcher.ask(Exists("/a", True))
    cluster.let_lag(behind)
    for number in range(3 * VSR.checkpoint_ops):
        writer.ask(SetData("/a", str(number).encode(), -1))
    read = plain.send(GetData("/a", False))
    assert not watcher.is_hung_up
    cluster.bench.heal()
    cluster.until(lambda: plain.has_answer(read))
    assert watcher.kinds[-1] == "Hangup"
    assert not plain.is_hung_up
    assert isinstance(plain.result(Exists("/a", False)), StatResult)


def test_a_replica_that_is_still_fetching_a_state_answers_nothing_from_its_old_one() -> None:
    cluster = Cluster()
    behind = cluster.backups[0]
    reader = cluster.connected(behind, 40_000)
    writer = cluster.connected(cluster.primary, 40_000)
    writer.create("/a")
    cluster.run(500)
    cluster.let_lag(behind)
    writer.ask(SetData("/a", b"new", -1))
    read = reader.send(GetData("/a", False))
    for _ in range(4 * VSR.checkpoint_ops):
        writer.ask(SetData("/a", b"newer", -1))
    cluster.bench.heal()
    cluster.lose("block")
    state = cluster.node(behind).replica.core.state
    cluster.until(lambda: state.restore is not None)
    cluster.run(1_000)
    assert state.restore is not None
    assert not reader.has_answer(read)
    cluster.bench.heal()
    cluster.until(lambda: reader.has_answer(read))
    assert reader.get("/a") == b"newer"


def test_a_node_that_restarts_serves_again_under_new_ids() -> None:
    cluster = Cluster()
    name = cluster.backups[0]
    client = cluster.connected(name)
    client.create("/a")
    before = own_clients(cluster, name)
    cluster.bench.restart(name)
    again = client.reconnected(name)
    assert again.get("/a") == b""
    assert not set(before) & set(own_clients(cluster, name))


def test_a_node_alone_serves() -> None:
    vsr = msgspec.structs.replace(VSR, replicas=(Address("r0"),))
    cluster = Cluster(vsr=vsr)
    client = cluster.connected("r0")
    client.create("/a", b"1")
    assert client.get("/a", watch=True) == b"1"
    client.ask(SetData("/a", b"2", -1))
    assert client.events == [(EventType.CHANGED, "/a")]


def test_a_replica_that_cannot_use_its_files_serves_nobody() -> None:
    node = KeeperNode(VSR, ReplicaIndex(0), KEEPER, FrontEndConfig())
    now = Now(0, 0)
    client = Address("zk/1")
    effects = node.step(Started(now, nonce=5))
    assert node.step(Received(now, client, Connect(0, 4_000, 0, bytes(16)))) == []
    said = [
        each
        for read in effects
        if isinstance(read, Read)
        for each in node.step(ReadBack(now, read.id, b""))
    ]
    hangups = [each for each in said if isinstance(each, Send) and each.to == client]
    assert [type(each.message) for each in hangups] == [Hangup]
    later = node.step(Received(now, Address("zk/2"), Connect(0, 4_000, 0, bytes(16))))
    assert [type(each.message) for each in later if isinstance(each, Send)] == [Hangup]


# The node as a whole


def test_nothing_that_the_two_say_to_each_other_leaves_the_node() -> None:
    cluster = Cluster()
    sent: list[tuple[str, str]] = []
    usual = cluster.bench._sent

    def watched(sender: Address, send: Send) -> list:  # type: ignore[type-arg]
        sent.append((sender, send.to))
        return usual(sender, send)

    cluster.bench._sent = watched  # type: ignore[method-assign]
    for name in NAMES:
        client = cluster.connected(name)
        client.create(f"/{name}")
        client.get("/")
    assert not [to for _, to in sent if to == FRONT_ADDRESS]
    assert not [(sender, to) for sender, to in sent if sender == to]


def test_timers_of_the_two_have_names_of_their_own() -> None:
    node = KeeperNode(VSR, ReplicaIndex(0), KEEPER, FrontEndConfig())
    effects = node.step(Started(Now(0, 0), nonce=5))
    timers = [effect.timer for effect in effects if isinstance(effect, SetTimer)]
    ours = [timer for timer in timers if timer.startswith("front/")]
    assert ours == ["front/retry/0", "front/retry/1", "front/retry/2", "front/pulse"]
    assert len(set(timers)) == len(timers)
    assert all(node.front.is_timer(timer) == (timer in ours) for timer in timers)


def test_a_reply_that_a_replica_has_lost_reaches_it_although_it_is_a_lanes() -> None:
    cluster = Cluster()
    name, primary = cluster.backups[0], cluster.primary
    cluster.connected(name)
    cluster.run(500)
    core = cluster.node(name).replica.core
    client = cluster.node(name).front.context.lanes._lanes[0].client.state.client
    reply = core.state.replies.pop(client)
    core.state.replies_faulty[client] = reply.checksum
    cluster.bench.hand(name, primary, reply)
    assert client not in core.state.replies_faulty


def test_too_many_requests_hang_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.core.keeper.front.front_end.requests_overrun_max", 2)
    cluster = Cluster(FrontEndConfig(requests_max=5))
    client = cluster.connected("r0")
    cluster.lose("read_point")
    cluster.lose("view_confirmed")
    for _ in range(7):
        client.send(GetData("/", False))
    assert not client.is_hung_up
    client.send(Ping())
    assert client.kinds == ["Connected", "Hangup"]


def test_everybody_gets_its_own_answers() -> None:
    cluster = Cluster()
    clients = [cluster.connected(name) for name in NAMES for _ in range(3)]
    sent = [each.send(Create(f"/{each.address[3:]}", b"", OPEN, 0)) for each in clients]
    cluster.until(lambda: all(each.answers for each in clients))
    cluster.run(2_000)
    for each, xid in zip(clients, sent, strict=True):
        assert [(answer.xid, answer.result) for answer in each.answers] == [
            (xid, Created(f"/{each.address[3:]}"))
        ]
