"""Where things stand in the keeper."""

from __future__ import annotations

from motet.ids import NodeId, ShardName, StreamName, TableName

ROOT = "/motet"
NODES = "/motet/nodes"
STREAMS = "/motet/streams"
TABLES = "/motet/tables"
SHARDS = "/motet/shards"
DRAINS = "/motet/drains"
OPERATORS = "/motet/operators"
MAPS = "/motet/maps"
MAP_TERM = "/motet/maps/term"
"""Counts the operators that have been active: what makes versions of shard maps rise from one to the next."""


def stream_path(name: StreamName) -> str:
    """The definition of a stream."""
    return f"{STREAMS}/{name}"


def table_path(name: TableName) -> str:
    """The definition of a table."""
    return f"{TABLES}/{name}"


def shard_path(shard: ShardName) -> str:
    """The metadata of a shard; operators alone read and write it."""
    return f"{SHARDS}/{shard}"


def drain_path(node: NodeId) -> str:
    """Is there while a node is to be emptied."""
    return f"{DRAINS}/{node}"
