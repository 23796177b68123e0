"""A plugin for pytest: kazoo's harness finds servers that run already, instead of starting ZooKeeper.

``KAZOO_HOSTS`` says where they are, as ``host:port,host:port``. They cannot be stopped or started from here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from kazoo.testing import harness


@dataclass
class Server:
    """One of them, as the harness wants to see it."""

    address: str
    running: bool = True

    @property
    def client_port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def run(self) -> None:
        """It runs."""

    def stop(self) -> None:
        """It goes on all the same."""


class Servers(list[Server]):
    """All of them."""

    def start(self) -> None:
        """They are started."""

    def stop(self) -> None:
        """They go on."""

    def terminate(self) -> None:
        """They are not ours."""


SERVERS = Servers(Server(host) for host in os.environ["KAZOO_HOSTS"].split(","))
harness.get_global_cluster = lambda: SERVERS
