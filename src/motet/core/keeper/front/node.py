"""A node of the keeper: a replica of the tree, and a front end for ZooKeeper's clients over it.

To the other replicas the two are one. What the front end's lanes say to another replica leaves as it is, and
comes from our replica's address; what they say to our own is given to it in the same step, and what it
answers is given back in the same step. ``FRONT`` is where the front end is for its own replica; nothing that
goes there ever leaves the node.

D1  What comes from a connection is the front end's. So is what other replicas have to say to one of its
    lanes, and what the replica says to ``FRONT``. All else is the replica's.
D2  After each step of the replica the front end takes what was applied, before anything else is answered.
D3  Timers that begin with ``front/`` are the front end's, all others the replica's; files are the replica's.
D4  While clients watch here, the primary is told that commits are awaited: an event waits for no heartbeat.
"""

from __future__ import annotations

from typing import Self

from motet.core.fingerprint import fingerprint
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.front.front_end import FrontEnd
from motet.core.keeper.machine import Keeper
from motet.core.keeper.messages import FrontEndConfig, is_connection
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Message,
    Now,
    Received,
    Send,
    Started,
    Violation,
)
from motet.core.vsr.bounds import problem_with
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.messages import Eviction, PongClient, ReadPoint, Reply, VsrMessage
from motet.core.vsr.replica import Replica
from motet.ids import Address, ReplicaIndex

FRONT = Address("front")


class KeeperNode:
    """One node, as a machine. ``vsr`` and ``keeper`` must be the same on all nodes, for ever."""

    def __init__(
        self, vsr: VsrConfig, own: ReplicaIndex, keeper: KeeperConfig, front: FrontEndConfig
    ) -> None:
        assert keeper.reply_bytes_max <= vsr.body_bytes_max, "a reply fits into what carries it"
        assert vsr.index_of(FRONT) is None
        self.keeper = Keeper(keeper)
        self.replica = Replica(vsr, own, self.keeper)
        self.front = FrontEnd(self.replica.core, front)
        self._own = vsr.replicas[own]
        self._out: list[Effect] = []

    def step(self, event: Event) -> list[Effect]:
        self._take(event)
        self._settle(event.now)
        out, self._out = self._out, []
        return out

    def _take(self, event: Event) -> None:
        """D1, D3."""
        if isinstance(event, Received) and is_connection(event.sender):
            self.front.on_connection(event.sender, event.message, event.now)
        elif isinstance(event, Received) and self._is_for_lanes(event.sender, event.message):
            self.front.on_cluster(event.sender, event.message, event.now)
            if isinstance(event.message, Reply):
                # What is answered is committed, and our replica can apply it. It may also be a reply that
                # the replica has lost.
                self._step_replica(event)
        elif isinstance(event, Fired) and self.front.is_timer(event.timer):
            self.front.on_timer(event.timer, event.now)
        else:
            if isinstance(event, Started):
                self.front.begin(event.nonce, event.now)
            self._step_replica(event)

    def _is_for_lanes(self, sender: Address, message: Message) -> bool:
        core = self.replica.core
        if core.config.index_of(sender) is None:
            return False
        if isinstance(message, VsrMessage) and problem_with(core, message) is not None:
            return False  # the replica refuses it
        if isinstance(message, Reply | Eviction):
            return self.front.is_about_us(message.client)
        return isinstance(message, ReadPoint | PongClient)

    def _settle(self, now: Now) -> None:
        """Let the two talk until neither has anything to say to the other."""
        self.front.settle(now)
        while effects := self.front.take_effects():
            for effect in effects:
                if isinstance(effect, Send) and effect.to == self._own:
                    self._step_replica(Received(now, FRONT, effect.message))
                else:
                    self._out.append(effect)
            self.front.settle(now)

    def _step_replica(self, event: Event) -> None:
        self.replica.await_commits(is_so=self.front.has_watches)  # D4
        for effect in self.replica.step(event):
            if isinstance(effect, Send) and effect.to == FRONT:
                self.front.on_cluster(self._own, effect.message, event.now)
            else:
                self._out.append(effect)
        self.front.on_replica(event.now)  # D2

    # What a driver and a checker need

    def clone(self) -> Self:
        core = self.replica.core
        twin = type(self)(core.config, core.own, self.keeper.config, self.front.context.config)
        twin.replica = self.replica.clone()
        assert isinstance(twin.replica.core.machine, Keeper)
        twin.keeper = twin.replica.core.machine
        twin.front = self.front.clone(twin.replica.core)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint((self.replica.fingerprint(), self.front.fingerprint()))

    def invariants(self) -> list[Violation]:
        return [*self.replica.invariants(), *self.front.invariants()]
