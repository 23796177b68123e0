"""What clients may say to the machines of a node: requests of clients, and nothing that nodes say."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from tests.node.nodes import free_base_port

from motet.core.machine import Message
from motet.core.mergetree.conversation import REFERENCE as TABLES
from motet.core.mergetree.conversation import TableCall
from motet.core.streams.cluster_messages import REFERENCE, OperatorCall
from motet.core.streams.messages import DataRequest
from motet.ids import NodeId
from motet.node.config import ROLES, Config, KeeperSettings, NodeSettings
from motet.node.driver import Driver
from motet.node.node import Node


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    settings = NodeSettings(id=NodeId("n0"), port=free_base_port(), data=str(tmp_path), roles=ROLES)
    small = KeeperSettings(format=True, log_slots=64, checkpoint_ops=16)
    return Node(Config(node=settings, keeper=small))._make_driver()


def test_every_machine_of_a_node_says_what_clients_may_say(driver: Driver) -> None:
    allowed = {hosting.name: hosting.from_clients for hosting in driver._hostings}
    assert sorted(allowed) == ["data", "keeper", "operator", "tables", "time"]
    assert None not in allowed.values()
    assert allowed["keeper"] == allowed["time"] == frozenset(), "those are for nodes alone"
    assert allowed["data"]
    assert all(issubclass(kind, DataRequest) for kind in allowed["data"] or ())
    said_by_clients: set[type[Message]] = {kind for kind, who, _ in REFERENCE if who == "client"}
    assert set(allowed["operator"] or ()) == said_by_clients
    assert said_by_clients < set(get_args(OperatorCall))
    of_tables: set[type[Message]] = {kind for kind, who, _ in TABLES if who == "client"}
    assert set(allowed["tables"] or ()) == of_tables
    assert of_tables < set(get_args(TableCall))
