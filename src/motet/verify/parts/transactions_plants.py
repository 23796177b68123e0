"""Data nodes with one rule about transactions left out."""

from __future__ import annotations

from collections.abc import Callable

from motet.core.datanode.node import DataNode
from motet.core.shardlog.config import ShardlogConfig
from motet.core.transaction.config import TransactionConfig
from motet.ids import NodeId

NODES: dict[str, type[DataNode]] = {}
TRANSACTION_PLANTS: tuple[str, ...] = tuple(NODES)


def transaction_node(
    plant: str | None, own: NodeId, config: ShardlogConfig, transactions: TransactionConfig
) -> Callable[[], DataNode]:
    """What makes the data node of each incarnation."""
    kind = NODES.get(plant or "", DataNode)
    return lambda: kind(own, config, transactions)
