"""Faults that are aimed: a node that goes down now, a link that is cut now, and both whole again later.

The nemesis strikes anywhere at any time. Some moments of a protocol are so short, and some sequences so long,
that it would take a million seeds to hit them: those are aimed at (``streams_moments``, ``streams_plays``).
Nothing is done here that the world's faults could not do; and nothing at all once the storm is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from motet.core.machine import NS_PER_MS
from motet.ids import Address, NodeId
from motet.sim.faults import NetworkFaults
from motet.sim.host import Host
from motet.sim.network import NS_PER_US
from motet.sim.world import SimNode, World

Link = tuple[Address, Address]


class Strikes:
    """What an aimed fault is made of."""

    def __init__(self, world: World, hosts: dict[NodeId, Host], operators: list[Host]) -> None:
        self._world = world
        self._hosts = hosts
        self._operators = operators
        self.may_crash = world.faults.nodes.crash_interval_ms > 0
        self.may_cut = world.faults.network != NetworkFaults()

    @property
    def is_over(self) -> bool:
        return self._world.fabric.healed

    @property
    def operators(self) -> list[Address]:
        return [host.node.address for host in self._operators]

    def others(self, *nodes: NodeId) -> list[Address]:
        """All data nodes but these."""
        return [Address(name) for name in self._hosts if name not in nodes]

    def later(self, after_us: int, action: Callable[..., None], *args: object) -> None:
        """Do this then, if the storm still goes on."""
        self._world.at(after_us * NS_PER_US, self._unless_over, (action, args))

    def _unless_over(self, action: Callable[..., None], args: tuple[object, ...]) -> None:
        if not self.is_over:
            action(*args)

    # Nodes

    def crash(self, name: str, down_ms: int, what: str) -> None:
        """Down now, and up again then."""
        node = self._world.nodes[Address(name)]
        if self.is_over or not self.may_crash:
            return
        if node.up:
            self._world.record(name, "!", f"aimed: {what}")
            self._world.crash(node)
        self._world.at(down_ms * NS_PER_MS, self._start, (node,))

    def start(self, name: str) -> None:
        """Up now, if it is down."""
        self._start(self._world.nodes[Address(name)])

    def _start(self, node: SimNode) -> None:
        if not node.up:
            self._world.start(node)

    # Links

    def cut(
        self,
        left: Iterable[str],
        right: Sequence[str],
        for_ms: int,
        what: str,
        *,
        is_one_way: bool = False,
    ) -> list[Link]:
        """Nothing passes from left to right, nor back unless it is one way, for so long."""
        if self.is_over or not self.may_cut:
            return []
        links: list[Link] = []
        for a in left:
            for b in right:
                links.append((Address(a), Address(b)))
                if not is_one_way:
                    links.append((Address(b), Address(a)))
        self._world.record("network", "!", f"aimed: {what}")
        self._world.fabric.blocked.update(dict.fromkeys(links))
        self._world.at(for_ms * NS_PER_MS, self.mend, (links,))
        return links

    def mend(self, links: list[Link]) -> None:
        """Let these pass again."""
        for link in links:
            self._world.fabric.blocked.pop(link, None)
