"""When a data node says that it cannot serve, and why."""

from __future__ import annotations

from typing import cast

from tests.core.streams.test_many_shards import Leader, shard
from tests.node.fakes import MemoryDisk

from motet.core.metadata.definitions import StreamDefinition
from motet.core.streams.cluster_messages import ShardMap, ShardPlace, StreamPlace
from motet.ids import Epoch, LogName, NodeId, StreamId, StreamName
from motet.node.hosting import LocalPort
from motet.node.hosts import _why_data_does_not_serve as why_not
from motet.node.hosts import host_data, host_operator
from motet.real.process import RealTime

OWN, OTHER = NodeId("n1"), NodeId("n2")


def map_of(shards: int, leader: NodeId | None, *ensemble: NodeId) -> ShardMap:
    definition = StreamDefinition(StreamId("s"), StreamName("orders"), shards, 2)
    places = tuple(ShardPlace(shard(n), Epoch(1), leader, ensemble) for n in range(shards))
    return ShardMap(1, OTHER, (), (StreamPlace(definition, places),))


def test_shards_that_it_holds_and_nobody_leads_are_named() -> None:
    node = Leader(5).node
    assert why_not(node) is None
    node.state.map = map_of(5, OWN, OWN, OTHER)
    assert why_not(node) is None
    node.state.map = map_of(5, None, OWN, OTHER)
    assert why_not(node) == "no leader: orders/0, orders/1, orders/2 and 2 more"
    node.state.map = map_of(1, None, OWN, OTHER)
    assert why_not(node) == "no leader: orders/0"


def test_shards_of_others_do_not_matter() -> None:
    node = Leader(2).node
    node.state.map = map_of(2, None, OTHER)
    assert why_not(node) is None


def test_a_full_disk_is_told() -> None:
    node = Leader(2).node
    replica = node.shards.replica(LogName(shard(1)))
    assert replica is not None
    replica.core.state.is_disk_full = True
    assert why_not(node) == "its disk is full"
    replica.core.state.is_disk_full = False
    assert why_not(node) is None


def test_shards_are_logged_as_people_know_them() -> None:
    noted, known = f"{shard(1)} epoch 3", map_of(2, OWN, OWN)
    data = host_data(OWN, (OWN,), MemoryDisk([]), RealTime(), b"")
    node = data.machine()
    assert data.readable(node, noted) == noted, "before it has a map"
    node.state.map = known
    assert data.readable(node, noted) == "orders/1 epoch 3"
    operator = host_operator(OWN, MemoryDisk([]), cast("LocalPort", None))
    machine = operator.machine()
    machine.core.state.map = known
    assert operator.readable(machine, noted) == "orders/1 epoch 3"
