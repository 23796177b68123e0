"""Lanes over restarts: the places that are reserved for them are used again, and nobody else loses one."""

from __future__ import annotations

from tests.core.keeper.front.clusters import OPEN, Cluster

from motet.core.vsr.sessions import Session
from motet.format.zookeeper.messages import Children, Create, GetChildren

RESTARTS = 50


def reserved(cluster: Cluster, name: str) -> list[Session]:
    sessions = cluster.node(name).replica.core.state.sessions.by_client.values()
    return [session for session in sessions if session.is_reserved]


def lanes_of(cluster: Cluster, name: str) -> list[int]:
    """The ids of its lanes that have reserved places, without the asker."""
    lanes = cluster.node(name).front.context.lanes._lanes
    return [lane.client.state.client for lane in lanes[:-1]]


def test_fifty_restarts_take_no_places_and_do_nothing_twice() -> None:
    cluster = Cluster()
    steady, restarted = cluster.primary, cluster.backups[0]
    cluster.connected(steady).create("/made")
    others = [
        lane
        for name in cluster.bench.nodes
        if name != restarted
        for lane in lanes_of(cluster, name)
    ]
    assert len(reserved(cluster, steady)) == 6
    for number in range(RESTARTS):
        client = cluster.connected(restarted)
        client.send(
            Create(f"/made/{number:02}-", b"", OPEN, 2)
        )  # a sequential node: twice would be two
        cluster.bench.crash(restarted)
        cluster.bench.start(restarted)
    client = cluster.connected(restarted)
    assert client.create("/made/last") == "/made/last"
    found = {session.client for session in reserved(cluster, steady)}
    assert len(found) == 6, "two for each of three front ends"
    assert found == {*others, *lanes_of(cluster, restarted)}
    made = cluster.connected(steady).result(GetChildren("/made", False))
    assert isinstance(made, Children)
    begun = [name[:2] for name in made.children if name != "last"]
    assert len(begun) == len(set(begun)), "each was done once or not at all"
    assert cluster.primary == steady
