"""What is said when a port cannot be had."""

from __future__ import annotations

import os

from motet.errors import NodeError


def cannot_listen(what: str, host: str, port: int, error: OSError) -> NodeError:
    """The error for a port that cannot be had."""
    return NodeError(
        f"cannot listen at {host}:{port} for {what}: {os.strerror(error.errno or 0)}",
        hint="stop what runs there, or choose another node.port",
    )
