"""How many files and sockets this process may have open, and how they are shared out."""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass

from motet.limits import (
    connections_max,
    http_connections_max,
    peer_connections_max,
    zookeeper_connections_max,
)

wanted = 65_536
"""More than that nobody needs here, and some systems say that there is no end."""

own_files_min = 128
"""Descriptors that a node keeps for its own files, if it has twice as many."""


def allow_many_files() -> int:
    """Have the system allow as many as it would; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft < most or soft == resource.RLIM_INFINITY:
        with contextlib.suppress(OSError, ValueError):  # then what there was has to do
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return most
    return min(soft, wanted)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections each port of a node takes; the rest of all descriptors is for its own files."""

    native: int = connections_max
    zookeeper: int = zookeeper_connections_max
    http: int = http_connections_max
    #: of nodes, at the native port, beside those of clients
    peers: int = peer_connections_max
    #: there are fewer descriptors than all of them together would take
    is_lowered: bool = False


def share_out(open_files: int) -> ConnectionLimits:
    """The limits for a process that may have so many descriptors."""
    full = ConnectionLimits()
    own_files = max(open_files // 4, min(own_files_min, open_files // 2))
    for_connections = open_files - own_files
    most = full.native + full.zookeeper + full.http + full.peers
    if for_connections >= most:
        return full

    def share(limit: int) -> int:
        return max(limit * for_connections // most, 1)

    return ConnectionLimits(
        share(full.native), share(full.zookeeper), share(full.http), share(full.peers), True
    )
