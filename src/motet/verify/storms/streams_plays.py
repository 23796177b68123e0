"""Plays: faults in an order that brings a shard to where a rule of the protocol is all that saves it.

DeposedLeader  a leader is cut off from the other nodes and from operators, not from clients: it goes on
               until it hears of the next one, and comes back with entries that nobody else has
OldEntries     figure 8 of the Raft paper: A has entries alone, B a barrier of the next epoch alone; then A
               leads again, gets some of its old entries to C, and dies; B and C elect. What A had on a
               majority is gone, rightly, unless A took it for committed
LostCopy       of two nodes that have an entry one loses its disk and the other is away: those that answer
               are a majority, and have never heard of it
PowerCut       all nodes lose their power the moment a client is told that its append is safe

One at a time, for one shard of three replicas; each is given up when it takes too long.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import msgspec

from motet.core.machine import Effect, Event, Send
from motet.core.shardlog.messages import BecomeLeaderRequest
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import Status
from motet.core.streams.cluster_messages import ShardMetadata, ShardStatus
from motet.core.streams.messages import RecordsAppended
from motet.ids import Address, NodeId
from motet.sim.dice import Dice
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.storms.streams_checks import Watch
from motet.verify.storms.streams_faults import Link, Strikes

US_PER_MS = 1_000
long_ms = 4_000
replicas = 3


Step = Callable[[Host, list[Effect]], None]


class Stage(msgspec.Struct, frozen=True):
    """What all plays work with."""

    world: World
    dice: Dice
    watch: Watch
    strikes: Strikes
    #: empty this node's disk if all shards can bear it; whether it was
    wipe: Callable[[NodeId], bool]


class Play(ABC):
    """One run of one play."""

    def __init__(self, stage: Stage, metadata: ShardMetadata) -> None:
        assert metadata.leader is not None
        self.stage = stage
        self.strikes = stage.strikes
        self.shard = metadata.shard
        self.leader = metadata.leader
        self.others = [node for node in metadata.ensemble if node != metadata.leader]
        self.is_over = False
        #: when it is given up
        self.until_ms = long_ms

    @abstractmethod
    def begin(self) -> None:
        """The first strike."""

    def saw(self, _host: Host, _effects: list[Effect]) -> None:
        """A machine has taken a step."""
        return

    def end(self) -> None:
        self.is_over = True

    def ms(self, low: int, high: int) -> int:
        return self.stage.dice.between(low, high)

    def cut_off(self, node: NodeId, for_ms: int, *, has_operators: bool = False) -> list[Link]:
        """From all other data nodes, and from operators."""
        away = self.strikes.others(node)
        if not has_operators:
            away += self.strikes.operators
        return self.strikes.cut([node], away, for_ms, f"{node} is cut off, {type(self).__name__}")

    def told_to_lead(self, effects: list[Effect]) -> NodeId | None:
        """Whom an operator has just told to lead the shard."""
        for effect in effects:
            if not isinstance(effect, Send):
                continue
            message = effect.message
            if isinstance(message, BecomeLeaderRequest) and message.shard == self.shard:
                return NodeId(effect.to)
        return None


class DeposedLeader(Play):
    """See above, as for all of them."""

    def begin(self) -> None:
        for_ms = self.ms(500, 1_500)
        self.cut_off(self.leader, for_ms)
        self.strikes.later(for_ms * US_PER_MS, self.end)


class LostCopy(Play):
    def begin(self) -> None:
        self._laggard, self._loser = self.stage.dice.shuffled(self.others)
        lag_ms = self.ms(100, 500)
        self.cut_off(self._laggard, lag_ms + 5, has_operators=True)
        self.strikes.later(lag_ms * US_PER_MS, self._lose)

    def _lose(self) -> None:
        self.end()
        if self.strikes.may_crash and self.stage.wipe(self._loser):
            self.strikes.crash(self.leader, self.ms(800, 1_500), "LostCopy")


class PowerCut(Play):
    def begin(self) -> None:
        self._acks = self.ms(1, 20)

    def saw(self, _host: Host, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, RecordsAppended):
                self._acks -= 1
                if self._acks == 0:
                    self.end()
                    self.strikes.later(0, self._strike)

    def _strike(self) -> None:
        for node in self.strikes.others():
            self.strikes.crash(node, self.ms(20, 400), "PowerCut")


class OldEntries(Play):
    def begin(self) -> None:
        self._next: NodeId | None = None  # B
        self._third: NodeId | None = None  # C
        self._step: Step = self._while_dirty
        self._links = self.cut_off(self.leader, long_ms, has_operators=True)
        self.strikes.later(self.ms(100, 600) * US_PER_MS, self._hide)

    def end(self) -> None:
        super().end()
        self.strikes.heal(self._links)

    def _hide(self) -> None:
        """A has gathered entries that nobody else has: now it is taken for dead."""
        if not self.is_over:
            self._links += self.cut_off(self.leader, long_ms)

    def saw(self, host: Host, effects: list[Effect]) -> None:
        self._step(host, effects)

    def _while_dirty(self, _host: Host, effects: list[Effect]) -> None:
        told = self.told_to_lead(effects)
        if told == self.leader or told not in (None, *self.others):
            self.end()
        elif told is not None:
            self._next = told
            self._third = next(node for node in self.others if node != told)
            self._alone = self.cut_off(told, long_ms, has_operators=True)
            self._step = self._while_alone

    def _while_alone(self, host: Host, _effects: list[Effect]) -> None:
        """B writes its barrier, and nobody else gets it; then B goes, and A comes back."""
        assert self._next is not None
        replica = self._replica(host, self._next)
        if replica is None or replica.status is not Status.LEADER:
            return
        log = replica.core.state.log
        if log.head.epoch == replica.epoch and log.durable == log.head.offset:
            self._step = self._while_old
            self.strikes.later(0, self._turn)

    def _turn(self) -> None:
        assert self._next is not None
        self.strikes.crash(self._next, long_ms, "OldEntries, B")
        self.strikes.heal(self._alone)
        self.strikes.heal(self._links)

    def _while_old(self, _host: Host, effects: list[Effect]) -> None:
        told = self.told_to_lead(effects)
        if told is not None and told == self.leader:
            self._step = self._while_pushing
        elif told is not None:
            self.end()

    def _while_pushing(self, host: Host, _effects: list[Effect]) -> None:
        """C has some of the old entries on disk, and nothing of the new epoch: A is heard no more."""
        assert self._third is not None
        replica = self._replica(host, self._third)
        if replica is None or replica.leader != self.leader:
            return
        log = replica.core.state.log
        if log.head.epoch == replica.epoch:
            self.end()
        elif log.durable > replica.commit_index.offset:
            what = "OldEntries, A to C"
            a_to_c = self.strikes.cut([self.leader], [self._third], 200, what, is_one_way=True)
            self._links += a_to_c
            self._step = self._nothing
            self.strikes.later(self.ms(20, 60) * US_PER_MS, self._swap)

    def _swap(self) -> None:
        """A goes, and B comes back."""
        assert self._next is not None
        self.stage.world.mark("old_entries_played")
        self.strikes.crash(self.leader, self.ms(1_000, 1_500), "OldEntries, A")
        self.strikes.start(self._next)
        self.end()

    def _nothing(self, _host: Host, _effects: list[Effect]) -> None:
        pass

    def _replica(self, host: Host, node: NodeId) -> ShardReplica | None:
        return (
            self.stage.watch.replica(node, self.shard)
            if host.node.address == Address(node)
            else None
        )


PLAYS: tuple[type[Play], ...] = (DeposedLeader, OldEntries, LostCopy, PowerCut)


class Plays:
    """Has one play after the other performed."""

    def __init__(self, stage: Stage, between_ms_max: int) -> None:
        self._stage = stage
        self._between_ms_max = between_ms_max
        self._play: Play | None = None
        self._later()

    def _later(self) -> None:
        after_ms = self._stage.dice.between(1, self._between_ms_max)
        self._stage.strikes.later(after_ms * US_PER_MS, self._next)

    def _next(self) -> None:
        stage, play = self._stage, self._play
        if play is not None and not play.is_over:
            play.until_ms -= self._between_ms_max
            if play.until_ms <= 0:
                play.end()
        else:
            shards = [each for each in stage.watch.metadata.values() if _is_fit(each)]
            if shards:
                kind = stage.dice.pick(PLAYS)
                stage.world.mark(f"play_{kind.__name__}")
                self._play = kind(stage, stage.dice.pick(shards))
                self._play.begin()
        self._later()

    def saw(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        play = self._play
        if play is not None and not play.is_over and not self._stage.strikes.is_over:
            play.saw(host, effects)


def _is_fit(metadata: ShardMetadata) -> bool:
    is_steady = metadata.status is ShardStatus.STEADY_STATE and metadata.leader is not None
    return is_steady and len(metadata.ensemble) == replicas
