"""Blocks of ten ports on loopback, each for one node of one local cluster and nobody else's.

A node takes the ports +0 to +3 of its block. The block itself is claimed by holding +9 bound for as long
as it is used: two test processes that look for ports at the same time never get the same block. A program
that knows nothing of this can still take a port between our look and the node's bind; then the node
cannot start, and the cluster tries again with other blocks.

Blocks lie below the range from which systems give out ports on their own.
"""

from __future__ import annotations

import os
import socket
from typing import Self

from motet.errors import NodeError

HOST = "127.0.0.1"
BLOCK_PORTS = 10
NODE_PORTS = (0, 1, 2, 3)
HTTP_PORT = 3
CLAIM_PORT = 9
FIRST_BASE = 20_000
LAST_BASE = 32_000


class PortBlock:
    """Ten ports from ``base`` on, ours until ``release``."""

    def __init__(self, base: int, claim: socket.socket) -> None:
        self.base = base
        self._claim = claim

    @classmethod
    def claim(cls) -> Self:
        """A block whose ports are free right now."""
        bases = range(FIRST_BASE, LAST_BASE, BLOCK_PORTS)
        # Processes that start together begin at different places.
        start = os.getpid() % len(bases)
        for base in [*bases[start:], *bases[:start]]:
            claim = _bind(base + CLAIM_PORT, shared=False)
            if claim is None:
                continue
            block = cls(base, claim)
            if block.is_free():
                return block
            block.release()
        raise NodeError(
            f"no block of {BLOCK_PORTS} free ports from {FIRST_BASE} to {LAST_BASE}",
            hint="end the clusters that nobody needs any more",
        )

    @classmethod
    def at(cls, base: int) -> Self:
        """This very block; ``NodeError`` if somebody has it, or one of its ports."""
        claim = _bind(base + CLAIM_PORT, shared=False)
        if claim is not None:
            block = cls(base, claim)
            if block.is_free():
                return block
            block.release()
        raise NodeError(
            f"the ports from {base} to {base + CLAIM_PORT} are not all free",
            hint="end what uses them, or take another --port",
        )

    def is_free(self) -> bool:
        """Whether a node could bind all of its ports now."""
        for offset in NODE_PORTS:
            probe = _bind(self.base + offset, shared=True)
            if probe is None:
                return False
            probe.close()
        return True

    def release(self) -> None:
        self._claim.close()


def _bind(port: int, *, shared: bool) -> socket.socket | None:
    """Bound, but not listening; ``shared`` as servers do it, over connections that linger on."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if shared:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, port))
    except OSError:
        probe.close()
        return None
    return probe
