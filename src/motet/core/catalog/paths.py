"""Where the keeper has what is known of a database or a cluster; the only place that says so.

::

    /motet
      database            which database this is: its number
      streams/<name>      the definition of a stream
      tables/<name>       the definition of a table
      nodes/<id>          a node that lives (ephemeral)
"""

from __future__ import annotations

from motet.ids import StreamName, TableName

ROOT = "/motet"
DATABASE = f"{ROOT}/database"
STREAMS = f"{ROOT}/streams"
TABLES = f"{ROOT}/tables"
NODES = f"{ROOT}/nodes"


def stream_path(name: StreamName) -> str:
    """Names begin with a letter and have no slash: each is a step of a path."""
    return f"{STREAMS}/{name}"


def table_path(name: TableName) -> str:
    return f"{TABLES}/{name}"
