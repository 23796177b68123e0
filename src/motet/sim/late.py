"""Messages that arrive late: the network keeps copies, and delivers them in another life of either side.

A duplicate that comes a moment later meets its receiver as it was. What a protocol relies on across restarts
is only tried by a copy that comes when the receiver, the sender or both have been started again since. So
some messages of every kind are kept, whatever becomes of the message itself, and delivered soon after such a
start, once or twice; or at any time. Nothing is delivered any more when the storm is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from motet.core.machine import Message
from motet.sim.network import NS_PER_US

if TYPE_CHECKING:
    from motet.sim.world import SimNode, World

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
