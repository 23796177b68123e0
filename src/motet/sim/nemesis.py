"""The nemesis: breaks things at random times, as the fault options say, and heals them in the end."""

from __future__ import annotations

from collections.abc import Callable

from motet.core.machine import NS_PER_MS
from motet.ids import Address
from motet.sim import trace as glyph
from motet.sim.network import NS_PER_US
from motet.sim.world import SimNode, World

US_PER_MS = 1_000

Permit = Callable[[str, Address], bool]
"""May this fault hit this node now? A part says no to what its protocol does not claim to survive."""


class Nemesis:
    """Schedules the faults of one run. Its dice are its own: faults do not depend on the traffic."""

    def __init__(self, world: World, permit: Permit | None = None) -> None:
        self._world = world
        self._dice = world.dice.fork("nemesis")
        self._permit = permit or (lambda _fault, _node: True)
        self._at_work = False

    def unleash(self) -> None:
        """Begin."""
        self._at_work = True
        for node in self._world.nodes.values():
            for host in node.hosts.values():
                host.disk.steady = node.immune or not self._permit("read_error", node.address)
        faults = self._world.faults
        for interval_ms, strike in (
            (faults.nodes.crash_interval_ms, self._crash),
            (faults.nodes.pause_interval_ms, self._pause),
            (faults.network.partition_interval_ms, self._partition),
            (faults.network.clog_interval_ms, self._clog),
            (faults.disk.rot_interval_ms, self._rot),
            (faults.disk.slow_interval_ms, self._slow),
            (faults.disk.full_interval_ms, self._fill),
            (faults.time.jump_interval_ms, self._jump),
        ):
            if interval_ms:
                self._again(interval_ms, strike)

    def stop(self) -> None:
        """No more faults, and everything that is broken for a while is whole again."""
        self._at_work = False
        world = self._world
        world.fabric.heal()
        world.fabric.healed = True
        for node in world.nodes.values():
            world.at(0, world.resume, (node,))
            node.ambush = None
            for host in node.hosts.values():
                host.slow = False
                host.disk.full = False
                host.disk.steady = True
            if not node.up:
                world.start(node)

    def _again(self, interval_ms: int, strike: Callable[[], None]) -> None:
        self._later(2 * interval_ms, self._strike, interval_ms, strike)

    def _strike(self, interval_ms: int, strike: Callable[[], None]) -> None:
        if self._at_work:
            strike()
            self._again(interval_ms, strike)

    def _victims(self, fault: str) -> list[SimNode]:
        """The nodes that are up and may be hit."""
        nodes = self._world.nodes.values()
        return [n for n in nodes if n.up and not n.immune and self._permit(fault, n.address)]

    def _happen(self, fault: str, who: str, detail: str = "") -> None:
        self._world.mark(fault)
        self._world.record(who, glyph.FAULT, f"{fault} {detail}".rstrip())

    def _later(self, most_ms: int, action: Callable[..., None], *args: object) -> None:
        """Not by whole milliseconds: what works by the clock must be struck at any moment of its work."""
        after_us = self._dice.between(1, max(1, most_ms) * US_PER_MS)
        self._world.at(after_us * NS_PER_US, action, args)

    # Each kind of fault

    def _crash(self) -> None:
        victims = self._victims("crash")
        if not victims:
            return
        if self._dice.chance(self._world.faults.nodes.all_at_once):
            for node in victims:
                self._bring_down("crash_all", node)
            return
        node = self._dice.pick(victims)
        if self._dice.chance(0.5):
            node.ambush = lambda: self._spring(node)
        else:
            self._bring_down("crash", node)

    def _spring(self, node: SimNode) -> None:
        """A write has begun: crash before it ends, or just after. Most bugs of durability live here."""
        node.ambush = None
        after_us = self._dice.between(0, self._world.faults.disk.latency_us_max)
        self._world.at(after_us * NS_PER_US, self._pounce, (node, node.incarnation))

    def _pounce(self, node: SimNode, incarnation: int) -> None:
        if node.incarnation == incarnation:
            self._bring_down("crash_writing", node)

    def _bring_down(self, fault: str, node: SimNode) -> None:
        if not self._at_work:
            return
        self._happen(fault, node.address)
        self._world.crash(node)
        self._later(self._world.faults.nodes.down_ms_max, self._restart, node)

    def _restart(self, node: SimNode) -> None:
        if not node.up:
            self._world.start(node)

    def _pause(self) -> None:
        victims = self._victims("pause")
        if victims:
            node = self._dice.pick(victims)
            pause_ms = self._dice.between(1, self._world.faults.nodes.pause_ms_max)
            self._world.pause(node, pause_ms)
            self._happen("pause", node.address, f"{pause_ms} ms")

    def _partition(self) -> None:
        world = self._world
        addresses = [node.address for node in self._victims("partition")]
        clients = [node.address for node in world.nodes.values() if node.immune]
        left = self._dice.subset(addresses)
        rest = [address for address in addresses if address not in left]
        rest += self._dice.subset(clients)
        if not left or not rest:
            return
        one_way = self._dice.chance(world.faults.network.one_way)
        if one_way and self._dice.chance(0.5):
            left, rest = rest, left
        world.fabric.cut(left, rest, one_way=one_way)
        arrow = "->" if one_way else "<->"
        fault = "partition_one_way" if one_way else "partition"
        self._happen(fault, "network", f"{','.join(left)} {arrow} {','.join(rest)}")
        self._later(world.faults.network.partition_ms_max, world.fabric.heal)

    def _clog(self) -> None:
        addresses = list(self._world.nodes)
        if len(addresses) < 2:
            return
        sender = self._dice.pick(addresses)
        receiver = self._dice.pick([a for a in addresses if a != sender])
        clog_ms = self._dice.between(1, self._world.faults.network.clog_ms_max)
        until_ns = self._world.virtual.elapsed_ns + clog_ms * NS_PER_MS
        self._world.fabric.clogged[sender, receiver] = until_ns
        self._happen("clog", "network", f"{sender} -> {receiver} {clog_ms} ms")

    def _rot(self) -> None:
        victims = self._victims("rot")
        if victims:
            host = self._dice.pick(list(self._dice.pick(victims).hosts.values()))
            file = host.disk.rot()
            if file is not None:
                self._happen("rot", host.label, file)

    def _slow(self) -> None:
        victims = self._victims("slow_disk")
        if victims:
            node = self._dice.pick(victims)
            self._disk_state(node, slow=True)
            self._happen("slow_disk", node.address)
            self._later(self._world.faults.disk.slow_ms_max, self._unslow, node)

    def _unslow(self, node: SimNode) -> None:
        self._disk_state(node, slow=False)

    def _fill(self) -> None:
        victims = self._victims("full_disk")
        if victims:
            node = self._dice.pick(victims)
            self._disk_state(node, full=True)
            self._happen("full_disk", node.address)
            self._later(self._world.faults.disk.full_ms_max, self._unfill, node)

    def _unfill(self, node: SimNode) -> None:
        self._disk_state(node, full=False)

    def _disk_state(
        self, node: SimNode, *, slow: bool | None = None, full: bool | None = None
    ) -> None:
        for host in node.hosts.values():
            host.slow = host.slow if slow is None else slow
            host.disk.full = host.disk.full if full is None else full

    def _jump(self) -> None:
        victims = self._victims("clock_jump")
        if victims:
            node = self._dice.pick(victims)
            most_ms = self._world.faults.time.jump_ms_max
            by_ms = self._dice.between(-most_ms, most_ms)
            node.time.jump(by_ms)
            self._happen("clock_jump", node.address, f"{by_ms} ms")
