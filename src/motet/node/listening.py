"""What is said when a port cannot be had, or connections cannot be accepted."""

from __future__ import annotations

import os

from motet.errors import NodeError
from motet.node.logs import complain


def cannot_listen(what: str, host: str, port: int, error: OSError) -> NodeError:
    """The error for a port that cannot be had."""
    return NodeError(
        f"cannot listen at {host}:{port} for {what}: {os.strerror(error.errno or 0)}",
        hint="stop what runs there, or choose another node.port",
    )


_failures: dict[str, int] = {}


def accept_failed(port: str, error: OSError) -> None:
    """A connection could not be accepted; the port goes on after a moment."""
    _failures[port] = _failures.get(port, 0) + 1
    why = os.strerror(error.errno or 0)
    complain(_failures[port], "accept_failed", port=port, why=why)
