"""Ports that are free."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """So many, from the range that the system gives out."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
