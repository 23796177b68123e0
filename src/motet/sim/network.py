"""The simulated network: who can reach whom right now, and when a message arrives if at all.

``Fabric`` is the whole network. It decides the fate of each message by the seed and hands the surviving
copies to the world's agenda. ``SimNetwork`` is one node's place in it, the network port.

Messages that arrive late: the network keeps copies, and delivers them in another life of either side.

A duplicate that comes a moment later meets its receiver as it was. What a protocol relies on across restarts
is only tried by a copy that comes when the receiver, the sender or both have been started again since. So
some messages of every kind are kept, whatever becomes of the message itself, and delivered soon after such a
start, once or twice; or at any time. Nothing is delivered any more when the storm is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from motet.core.machine import Message
from motet.format.frame import FRAME_HEADER_BYTES, Frame
from motet.ids import Address
from motet.limits import peer_queue_bytes_max
from motet.ports import Delivery
from motet.sim.dice import Dice
from motet.sim.faults import NetworkFaults

if TYPE_CHECKING:
    from motet.sim.world import SimNode, World


NS_PER_US = 1_000

Schedule = Callable[[int, Callable[[object], None], object], None]
"""Run this with that argument so many nanoseconds from now."""


class NetworkCounts(msgspec.Struct):
    """What became of the messages so far."""

    sent: int = 0
    lost: int = 0
    cut_off: int = 0
    repeated: int = 0
    delivered: int = 0


class Fabric:
    """The network between all nodes of one world."""

    def __init__(self, dice: Dice, faults: NetworkFaults) -> None:
        self._unit = dice.unit
        self._delay_us_min = faults.delay_us_min
        self._delay_us_spread = faults.delay_us_max - faults.delay_us_min + 1
        self._faults = faults
        self._calm = not (faults.loss or faults.duplication or faults.reordering)
        #: (sender, receiver) pairs that lose everything
        self.blocked: dict[tuple[Address, Address], None] = {}
        #: (sender, receiver) pairs that hold everything back until this virtual time
        self.clogged: dict[tuple[Address, Address], int] = {}
        #: (sender, receiver) -> when the newest message arrives that kept its place in the line
        self._newest_ns: dict[tuple[Address, Address], int] = {}
        self.counts = NetworkCounts()
        #: while set, nothing is lost or repeated any more: the end of a run lets everything settle
        self.healed = False

    def fates_ns(self, sender: Address, receiver: Address, now_ns: int) -> list[int]:
        """The delays after which copies of a message arrive; none when it is lost."""
        counts = self.counts
        counts.sent += 1
        link = (sender, receiver)
        if self.blocked and link in self.blocked:
            counts.cut_off += 1
            return []
        delay_ns = (self._delay_us_min + int(self._unit() * self._delay_us_spread)) * NS_PER_US
        if self.clogged:
            delay_ns += max(0, self.clogged.get(link, 0) - now_ns)
        if self._calm or self.healed:
            return [self._in_line_ns(link, now_ns, delay_ns)]
        return self._troubled(link, now_ns, delay_ns)

    def _in_line_ns(self, link: tuple[Address, Address], now_ns: int, delay_ns: int) -> int:
        """One link is one connection: a message comes no sooner than the one before it."""
        arrives_ns = now_ns + delay_ns
        newest_ns = self._newest_ns.get(link, 0)
        if arrives_ns < newest_ns:
            return newest_ns - now_ns
        self._newest_ns[link] = arrives_ns
        return delay_ns

    def _troubled(self, link: tuple[Address, Address], now_ns: int, delay_ns: int) -> list[int]:
        faults, unit = self._faults, self._unit
        if unit() < faults.loss:
            self.counts.lost += 1
            return []
        if unit() < faults.reordering:
            delay_ns *= 1 + int(unit() * 50)
        else:
            delay_ns = self._in_line_ns(link, now_ns, delay_ns)
        if unit() < faults.duplication:
            self.counts.repeated += 1
            return [delay_ns, delay_ns * (1 + int(unit() * 50))]
        return [delay_ns]

    def disconnect(self, address: Address) -> None:
        """The connections of this node are gone: what it sends next waits for nothing sent before."""
        self._newest_ns = {
            link: at_ns for link, at_ns in self._newest_ns.items() if address not in link
        }

    def cut(self, left: Sequence[Address], right: Sequence[Address], *, one_way: bool) -> None:
        """Let nothing pass from left to right, and nothing back unless it is a one-way cut."""
        for a in left:
            for b in right:
                self.blocked[a, b] = None
                if not one_way:
                    self.blocked[b, a] = None

    def heal(self) -> None:
        """Let everything pass again."""
        self.blocked.clear()
        self.clogged.clear()


class SimNetwork:
    """The network port of one node: frames through the fabric into the receiver's inbox."""

    def __init__(
        self,
        address: Address,
        fabric: Fabric,
        members: dict[Address, SimNetwork],
        now_ns: Callable[[], int],
        schedule: Schedule,
        inbox_messages_max: int,
    ) -> None:
        self._address = address
        self._fabric = fabric
        self._members = members
        self._now_ns = now_ns
        self._schedule = schedule
        self._inbox_messages_max = inbox_messages_max
        self._outbox: list[tuple[Address, Frame]] = []
        #: peer -> bytes in the outbox
        self._queued_bytes: dict[Address, int] = {}
        self._inbox: list[Delivery] = []
        members[address] = self

    @property
    def address(self) -> Address:
        return self._address

    def send(self, to: Address, frame: Frame) -> bool:
        queued_bytes = self._queued_bytes.get(to, 0) + FRAME_HEADER_BYTES + len(frame.body)
        if to not in self._members or queued_bytes > peer_queue_bytes_max:
            return False
        self._queued_bytes[to] = queued_bytes
        self._outbox.append((to, frame))
        return True

    def flush(self) -> None:
        outbox, self._outbox, self._queued_bytes = self._outbox, [], {}
        for to, frame in outbox:
            delivery = Delivery(self._address, frame)
            for delay_ns in self._fabric.fates_ns(self._address, to, self._now_ns()):
                self._schedule(delay_ns, self._members[to]._arrive, delivery)

    def take(self, limit: int) -> Sequence[Delivery]:
        taken, self._inbox = self._inbox[:limit], self._inbox[limit:]
        return taken

    def _arrive(self, delivery: object) -> None:
        assert isinstance(delivery, Delivery)
        if len(self._inbox) < self._inbox_messages_max:
            self._inbox.append(delivery)
            self._fabric.counts.delivered += 1


LATE = "late_message"
LATE_AFTER_RESTART = "late_after_restart"
kept_max = 16
"""Copies of one kind of message at most; then each new one takes the place of another."""

rare = 6
"""So many of each kind are kept in any case, about: what is seldom sent comes late as well as the rest."""

soon_us_max = 400_000
"""How long after a start a copy comes, at most."""


class Copy(msgspec.Struct, frozen=True):
    """A message that has left its sender."""

    #: counts up
    number: int

    to: SimNode
    #: of the machine on both nodes
    host: str
    sender: SimNode
    message: Message
    #: the lives of receiver and sender when it was sent
    lives: tuple[int, int]


class LateMessages:
    """Keeps copies of what is sent in a world, and delivers them."""

    def __init__(
        self, world: World, may_keep: Callable[[Message], bool] = lambda _message: True
    ) -> None:
        self._world = world
        self._may_keep = may_keep
        self._dice = world.dice.fork("late")
        #: kind of message -> copies, and how many messages there were
        self._kept: dict[type[Message], list[Copy]] = {}
        self._seen: dict[type[Message], int] = {}
        #: what is not delivered any more: copies up to a number, of messages like this
        self._forgotten: list[tuple[int, Callable[[Message], bool]]] = []

    def sent(self, to: SimNode, host: str, sender: SimNode, message: Message) -> None:
        """A message leaves its sender: keep a copy of it, now and then."""
        if not self._may_keep(message):
            return
        faults, kind = self._world.faults.network, type(message)
        seen = self._seen[kind] = self._seen.get(kind, 0) + 1
        if self._world.fabric.healed or not self._dice.chance(max(faults.kept, rare / seen)):
            return
        lives = (to.incarnation, sender.incarnation)
        copy = Copy(sum(self._seen.values()), to, host, sender, message, lives)
        kept = self._kept.setdefault(kind, [])
        if len(kept) < kept_max:
            kept.append(copy)
        else:
            kept[self._dice.between(0, kept_max - 1)] = copy
        after_us = self._dice.between(1, faults.kept_ms_max * 1_000)
        self._world.at(after_us * NS_PER_US, self._deliver, (copy,))

    def started(self, node: SimNode) -> None:
        """A node begins a life: what it has sent, or was sent, in earlier ones may come now."""
        for copy in [copy for kept in self._kept.values() for copy in kept]:
            if node in (copy.to, copy.sender) and self._dice.chance(0.25):
                for _ in range(self._dice.pick([1, 1, 2])):
                    after_us = self._dice.between(1, soon_us_max)
                    self._world.at(after_us * NS_PER_US, self._deliver, (copy,))

    def forget(self, is_meant: Callable[[Message], bool]) -> None:
        """Deliver no copy of these any more."""
        self._forgotten.append((sum(self._seen.values()), is_meant))

    def _is_forgotten(self, copy: Copy) -> bool:
        return any(copy.number <= last and meant(copy.message) for last, meant in self._forgotten)

    def _deliver(self, copy: Copy) -> None:
        world = self._world
        if world.fabric.healed or self._is_forgotten(copy) or not copy.to.up:
            return
        world.mark(LATE)
        if copy.lives[0] != copy.to.incarnation or copy.lives[1] != copy.sender.incarnation:
            world.mark(LATE_AFTER_RESTART)
        world.deliver(copy.to, copy.host, copy.sender, copy.message)
