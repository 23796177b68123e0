"""Nodes and operators with planted bugs: the real ones, with one rule of the protocol left out."""

from __future__ import annotations

from collections.abc import Callable

from motet.core.datanode.node import DataNode
from motet.core.operator.config import OperatorConfig
from motet.core.operator.operator import Operator
from motet.core.shardlog.config import ShardlogConfig
from motet.ids import NodeId

DATA_PLANTS: dict[str, type[DataNode]] = {}
OPERATOR_PLANTS: dict[str, type[Operator]] = {}
BLIND_STORE = "no-compare-and-set"
"""Metadata is written whatever stands there."""

PLANTS = (*DATA_PLANTS, *OPERATOR_PLANTS, BLIND_STORE)


def data_node(plant: str | None, own: NodeId, config: ShardlogConfig) -> Callable[[], DataNode]:
    """What makes the data node of each incarnation."""
    kind = DATA_PLANTS.get(plant or "", DataNode)
    return lambda: kind(own, config)


def operator(plant: str | None, config: OperatorConfig, own: NodeId) -> Operator:
    kind = OPERATOR_PLANTS.get(plant or "", Operator)
    return kind(config, own)
