"""Where the keeper has what is known of a database or a cluster; the only place that says so.

Where it has tables is in :mod:`motet.core.mergetree.paths`.

::

    /motet
      database            which database this is, and which incarnation of its keeper
      streams/<name>      the definition of a stream
      shards/<shard>      the metadata of a shard; operators alone read and write it
      nodes/<id>          a node that lives (ephemeral)
      drains/<id>         is there while a node is to be emptied
      operators/<id>-<n>  who stands for the office of the operator (ephemeral)
      settings/<name>     what holds for the whole cluster: ``clock.enabled``, true or false
      maps/term           counts the operators that have been active, and says which cluster this is
"""

from __future__ import annotations

from motet.ids import NodeId, ShardName, StreamName

ROOT = "/motet"
DATABASE = f"{ROOT}/database"
STREAMS = f"{ROOT}/streams"
SHARDS = f"{ROOT}/shards"
NODES = f"{ROOT}/nodes"
DRAINS = f"{ROOT}/drains"
OPERATORS = f"{ROOT}/operators"
SETTINGS = f"{ROOT}/settings"
CLOCK_ENABLED = f"{SETTINGS}/clock.enabled"
"""Whether users get to see clocks."""

MAPS = f"{ROOT}/maps"
MAP_TERM = f"{MAPS}/term"
"""What makes the versions of shard maps rise from one operator to the next, and the number of the cluster."""


def stream_path(name: StreamName) -> str:
    """Names begin with a letter and have no slash: each is a step of a path."""
    return f"{STREAMS}/{name}"


def shard_path(shard: ShardName) -> str:
    """The metadata of a shard."""
    return f"{SHARDS}/{shard}"


def drain_path(node: NodeId) -> str:
    """Is there while a node is to be emptied."""
    return f"{DRAINS}/{node}"
