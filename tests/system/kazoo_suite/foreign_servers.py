"""A plugin for pytest: kazoo's harness finds servers that run already, instead of starting ZooKeeper.

``KAZOO_HOSTS`` says where they are, as ``host:port,host:port``, and ``KAZOO_CONTROL`` where somebody listens
who can stop and start them (``kazoo_suite.control``); without that they cannot be.

The harness would make certificates and key stores for servers that it starts. It starts none, so the
libraries for that need not be there; a small one for counting objects is stood in for.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from dataclasses import dataclass
from types import ModuleType

_UNUSED = ("jks", "OpenSSL")


def _stand_in() -> None:
    for name in (*_UNUSED, "objgraph"):
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = ModuleType(name)
            if name == "objgraph":
                sys.modules[name].count = _count  # type: ignore[attr-defined]


def _count(type_name: str) -> int:
    return sum(type(each).__name__ == type_name for each in gc.get_objects())


_stand_in()

from kazoo.testing import harness  # noqa: E402
from tests.system.kazoo_suite.control import tell  # noqa: E402


@dataclass
class Server:
    """One of them, as the harness wants to see it."""

    number: int
    address: str
    running: bool = True

    @property
    def client_port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def run(self) -> None:
        self._tell("run")
        self.running = True

    def stop(self) -> None:
        self._tell("stop")
        self.running = False

    def _tell(self, what: str) -> None:
        control = os.environ.get("KAZOO_CONTROL")
        if control is None:
            raise RuntimeError("these servers cannot be stopped and started")
        tell(control, what, self.number)


class Servers(list[Server]):
    """All of them."""

    def start(self) -> None:
        for server in self:
            if not server.running:
                server.run()

    def stop(self) -> None:
        """They go on."""

    def terminate(self) -> None:
        """They are not ours."""


SERVERS = Servers(
    Server(number, host) for number, host in enumerate(os.environ["KAZOO_HOSTS"].split(","))
)
harness.get_global_cluster = lambda: SERVERS
