"""Messages of a data node by their type: whose they are, and to which of the shards it leads they go.

Messages between leaders go where the shard map says; one that is lost, or comes to somebody who does not
lead, is said again by whoever is concerned.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import get_args

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.clock.node_clock import DataClock
from motet.core.machine import Effect, Message, Note, Now, Send
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.shards import Shards
from motet.core.streams import compaction, decisions, leader
from motet.core.streams.appends import ShardAppends
from motet.core.streams.checks import check_request
from motet.core.streams.cluster_messages import SealedShard, ShardMap, TurnClock
from motet.core.streams.leader import Tick
from motet.core.streams.messages import (
    AbortTransaction,
    AppendRecords,
    BetweenLeaders,
    CloseShard,
    CommitTransaction,
    Forward,
    OrderShard,
    Outgoing,
    PrepareTransaction,
    TransactionResolved,
)
from motet.core.streams.pending import PendingRequest, ShardTransactions, TransactionConfig, Turn
from motet.core.streams.reads import Question, Readings
from motet.core.streams.shard import machine_of, state_of
from motet.errors import MotetError
from motet.ids import Address, LogName, NodeId, Offset, ShardName
from motet.limits import epoch_step_max, missing_shards_max

Asked = PrepareTransaction | CommitTransaction | AbortTransaction | CloseShard | OrderShard


class PendingRequests(msgspec.Struct):
    """All requests of a node."""

    of_shards: dict[ShardName, ShardTransactions] = msgspec.field(default_factory=dict)
    #: shards with requests under way, in the order in which they came (the values mean nothing)
    busy: dict[ShardName, None] = msgspec.field(default_factory=dict)
    #: shards that something has happened to since they were last swept, or in which something may be late
    to_sweep: dict[ShardName, None] = msgspec.field(default_factory=dict)


def clocks_of(message: Asked) -> tuple[Clock, ...]:
    """The clocks that a request carries besides what its client has seen."""
    if isinstance(message, CommitTransaction):
        fixed = () if message.fixed is None else (message.fixed,)
        return message.floor, message.branch.asked, *fixed
    if isinstance(message, PrepareTransaction):
        return (message.branch.asked,)
    if isinstance(message, AbortTransaction):
        return (message.asked,)
    if isinstance(message, CloseShard) and message.at_least is not None:
        return (message.at_least,)
    return ()


def take(
    requests: PendingRequests, replica: ShardReplica, client: Address, message: Asked, now: Now
) -> None:
    """Take what a client asks for; an error says why not."""
    check_request(message)
    _take(requests, replica, PendingRequest(client, message, now.monotonic_ns))


def _take(requests: PendingRequests, replica: ShardReplica, pending: PendingRequest) -> None:
    leader.take(_of(requests, replica), replica, pending)
    requests.busy[replica.shard] = None


def refuse_waiting(requests: PendingRequests, error: MotetError) -> list[Effect]:
    """No request of any shard can go on."""
    refused = [leader.refuse_waiting(ours, error) for ours in requests.of_shards.values()]
    return [each for some in refused for each in some if not isinstance(each, Forward)]


def forget_clients(requests: PendingRequests, gone: Container[Address]) -> list[ShardName]:
    """Nobody is there any more to be answered: what is not in the log does not go there.

    The shards in which somebody was.
    """
    left: list[ShardName] = []
    for shard in requests.busy:
        ours = requests.of_shards[shard]
        if any(pending.client in gone for pending in ours.waiting):
            ours.waiting = [pending for pending in ours.waiting if pending.client not in gone]
            left.append(shard)
    return left


def has_clock(requests: PendingRequests, replica: ShardReplica) -> bool:
    """Whether what is put into the log of a shard now has a clock for its readers."""
    rules, ours = machine_of(replica).state.rules, requests.of_shards.get(replica.shard)
    if ours is None or ours.elected_epoch != replica.elected_epoch:
        return rules.has_clock
    return ours.has_clock(rules)


def _of(requests: PendingRequests, replica: ShardReplica) -> ShardTransactions:
    ours = requests.of_shards.get(replica.shard)
    if ours is None:
        ours = requests.of_shards[replica.shard] = ShardTransactions()
    return ours


class Dispatcher:
    """One step of a node about its requests; messages to itself, as another leader, are handled at once."""

    def __init__(
        self,
        own: NodeId,
        requests: PendingRequests,
        readings: Readings,
        shards: Shards,
        leaders: dict[ShardName, NodeId | None],
        config: TransactionConfig,
        now: Now,
    ) -> None:
        self._own = own
        self._requests = requests
        self._readings = readings
        self._shards = shards
        #: of each shard of the map, if there is one
        self._leaders = leaders
        self._config = config
        self._now = now

    def _serving(self, shard: ShardName) -> ShardReplica | None:
        """The replica of a shard that is led here."""
        replica = self._shards.replica(LogName(shard))
        return replica if replica is not None and replica.is_serving else None

    def _turn(self, replica: ShardReplica) -> Turn | None:
        """A step of a leader; None: another leadership of this node has to be ended first."""
        ours = _of(self._requests, replica)
        if ours.is_of_another(replica):
            return None
        leader.lead(ours, replica)
        return Turn(ours, replica, self._now, self._config)

    def on_message(self, sender: Address, message: BetweenLeaders) -> list[Effect]:
        """Another leader says something; it may be this very node."""
        replica = self._serving(message.shard)
        if replica is None:
            return [Note("transaction_message_astray", type(message).__name__)]
        turn = self._turn(replica)
        if turn is None:
            return []  # it is said again
        if isinstance(message, TransactionResolved):
            return self._deliver(decisions.on_resolved(turn, message))
        self._shards.touch(LogName(message.shard))
        try:
            _take(self._requests, replica, PendingRequest(sender, message, self._now.monotonic_ns))
        except MotetError as error:
            return [Note("transaction_request_failed", error.what)]
        return []

    def sweep(self) -> list[Effect]:
        """Time has passed: look at everything that may be late."""
        effects: list[Effect] = []
        to_sweep = self._requests.to_sweep
        for shard in list(to_sweep):
            replica, ours = self._serving(shard), self._requests.of_shards.get(shard)
            if replica is None:
                del to_sweep[shard]  # whoever leads it next hears of that
                continue
            compaction.hold_retention(replica)
            self._look_for_compaction(replica, ours)
            if self._is_settled(replica):
                del to_sweep[shard]
                continue
            turn = self._turn(replica)
            if turn is None:
                continue
            effects += self._deliver(decisions.sweep(turn))
            ours, forgetting = turn.ours, decisions.to_forget(turn)
            if forgetting is not None:
                ours.waiting.append(forgetting)
            if ours.waiting:
                ours.looked_at = Offset(-1)
                self._requests.busy[shard] = None
            self._shards.touch(LogName(shard))
        return effects

    def _is_settled(self, replica: ShardReplica) -> bool:
        """Whether nothing is under way in a shard, and no other shard is waited for."""
        state, ours = state_of(replica), self._requests.of_shards.get(replica.shard)
        return not state.prepared and not state.decisions and (ours is None or ours.is_idle)

    def _look_for_compaction(self, replica: ShardReplica, ours: ShardTransactions | None) -> None:
        if not compaction.is_due(ours, replica):
            return
        turn = self._turn(replica)
        if turn is not None:
            compaction.begin(turn.ours, replica)
            self._requests.busy[replica.shard] = None
            self._shards.touch(replica.shard)

    # Clock visibility

    def turn_clock(self, order: TurnClock | None) -> tuple[tuple[ShardName, int], ...]:
        """Have the shards that are led here obey the setting; and which version of it each has obeyed."""
        if order is None:
            return ()
        found = []
        for shard, replica in self._shards.replicas.items():
            if not replica.is_serving:
                continue
            version = machine_of(replica).state.rules.clock_version
            found.append((shard, version))
            ours = _of(self._requests, replica)
            is_next = version < order.version <= version + epoch_step_max
            if not is_next or ours.is_of_another(replica) or ours.is_turned:
                continue
            pending = PendingRequest(Address(""), order, self._now.monotonic_ns)
            with suppress(MotetError):  # it is said again with the next heartbeat
                _take(self._requests, replica, pending)
                self._shards.touch(shard)
        return tuple(found)

    # Streams that are deleted

    def seal(self, shards: Iterable[ShardName]) -> tuple[SealedShard, ...]:
        """Take no more transactions in these shards; and how many are open in each that is led here."""
        found = []
        for shard in shards:
            replica = self._serving(shard)
            turn = None if replica is None else self._turn(replica)
            if replica is None or turn is None:
                continue
            turn.ours.is_sealed = True
            found.append(SealedShard(shard, replica.epoch, leader.unsettled(turn.ours, replica)))
        return tuple(found)

    def missing(self) -> tuple[ShardName, ...]:
        """Shards that transactions wait for, and that nobody has told this node of."""
        known = self._leaders
        if not known:
            return ()
        found: dict[ShardName, None] = {}
        for name in self._requests.to_sweep:
            replica = self._serving(name)
            if replica is not None:
                missing = [each for each in decisions.awaited(replica) if each not in known]
                found |= dict.fromkeys(missing)
        return tuple(found)[:missing_shards_max]

    def lose(self, shards: tuple[ShardName, ...]) -> list[Effect]:
        """These shards have been deleted: nobody decides there any more, or has to hear of anything."""
        effects: list[Effect] = []
        for name in list(self._requests.to_sweep):
            replica = self._serving(name)
            turn = None if replica is None else self._turn(replica)
            if turn is not None:
                effects += self._deliver(decisions.lose(turn, shards))
        return effects

    def go_on(
        self,
        touched: Iterable[ShardName],
        appends: dict[ShardName, ShardAppends],
        tick: Callable[[ShardReplica], Tick],
    ) -> list[Effect]:
        """What a step of these replicas means for those who wait."""
        effects: list[Effect] = []
        for shard in touched:
            if shard not in self._requests.busy:
                continue
            ours, replica = self._requests.of_shards[shard], self._shards.replica(LogName(shard))
            if replica is None:
                effects += self._deliver(leader.abandon(ours, shard))
                del self._requests.of_shards[shard]
            else:
                effects += self._go_on(ours, replica, appends, tick(replica))
            if ours.is_idle:
                self._requests.busy.pop(shard, None)
        return effects

    def _go_on(
        self,
        ours: ShardTransactions,
        replica: ShardReplica,
        appends: dict[ShardName, ShardAppends],
        tick: Tick,
    ) -> list[Effect]:
        turn = Turn(ours, replica, self._now, self._config)
        effects = self._deliver(leader.settle(turn))
        if ours.compaction is not None:
            effects += compaction.go_on(turn, self._readings)
        if ours.waiting:
            beside = appends.setdefault(replica.shard, ShardAppends())
            effects += self._deliver(leader.advance(turn, beside, tick))
        return effects

    def _deliver(self, outgoing: Outgoing) -> list[Effect]:
        effects: list[Effect] = []
        for each in outgoing:
            if not isinstance(each, Forward):
                effects.append(each)
                continue
            to = each.to if each.to is not None else self._leader_of(each.shard)
            if to is None:
                effects.append(Note("transaction_shard_without_leader", each.shard))
            elif to == Address(self._own):
                effects += self.on_message(to, each.message)
            else:
                effects.append(Send(Address(to), each.message))
        return effects

    def _leader_of(self, shard: ShardName) -> Address | None:
        if self._serving(shard) is not None:
            return Address(self._own)
        leader = self._leaders.get(shard)
        return None if leader is None or leader == self._own else Address(leader)


def leaders_of(shard_map: ShardMap) -> dict[ShardName, NodeId | None]:
    """Who leads each shard, as the operator has said."""
    return {place.shard: place.leader for stream in shard_map.streams for place in stream.places}


def ticker(clock: DataClock, shards: Shards, now: Now) -> Callable[[ShardReplica], Tick]:
    """For each shard what gives its entries their clocks: above all that the node and the shard have seen."""

    wall_ms = now.wall_ms

    def of(replica: ShardReplica) -> Tick:
        def tick(floor: Clock) -> Clock | None:
            seen = max(floor, shards.clock, replica.last_clock)
            return clock.tick_above(seen, wall_ms)

        return tick

    return of


TRANSACTION_REQUESTS: frozenset[type[Message]] = frozenset(get_args(Asked))
QUESTIONS: frozenset[type[Message]] = frozenset(get_args(Question))
BETWEEN_LEADERS: tuple[type[Message], ...] = get_args(BetweenLeaders)

GATHERED = TRANSACTION_REQUESTS | {AppendRecords, *BETWEEN_LEADERS}
"""What is put into a log together with what else has come in the same turn."""
