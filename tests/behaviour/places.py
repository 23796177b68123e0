"""Where a database can be: in a folder, behind the endpoint of one, or on the nodes of a cluster.

A case is written once and runs in each place. The folder is new for each case; the other places are shared by
all cases of a process, so a case names its streams, tables, cursors and writers with :func:`fresh`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import motet.aio
from motet.aio import Opening
from motet.core.metadata.definitions import shard_of

EMBEDDED, CONNECTED, ONE_NODE, THREE_NODES = "embedded", "connected", "cluster-1", "cluster-3"
FOLDERS = (EMBEDDED, CONNECTED)
CLUSTERS = (ONE_NODE, THREE_NODES)
PLACES = (*FOLDERS, *CLUSTERS)
SYNC_PLACES = (EMBEDDED, THREE_NODES)


@dataclass(frozen=True)
class Place:
    """One of ``PLACES``."""

    name: str
    #: opens the database that is there, in the event loop of the caller; the same one each time
    open: Callable[[], Opening]
    #: the same without an event loop
    open_sync: Callable[[], motet.Database]

    @property
    def is_cluster(self) -> bool:
        return self.name in CLUSTERS

    @property
    def nodes(self) -> int:
        """How many nodes hold its data."""
        return 3 if self.name == THREE_NODES else 1


_numbers = count()


def fresh(stem: str) -> str:
    """A name that no other case uses."""
    return f"{stem}_{next(_numbers)}"


def keys_of_shards(shards: int, stem: str = "k") -> list[str]:
    """One key for each shard, in order."""
    found: dict[int, str] = {}
    for number in count():
        found.setdefault(shard_of(f"{stem}-{number}".encode(), shards), f"{stem}-{number}")
        if len(found) == shards:
            return [found[shard] for shard in range(shards)]
    raise AssertionError
