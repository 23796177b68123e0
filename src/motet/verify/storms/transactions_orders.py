"""Those who order things in the storm of transactions: a second stream, clock visibility, and pruning."""

from __future__ import annotations

from collections.abc import Callable

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Effect, Message
from motet.core.metadata.definitions import StreamDefinition
from motet.core.streams.cluster_messages import EnableClock, OperatorRequest, StreamCreated
from motet.core.streams.messages import DataRefused, GetShardMap, OrderShard, ShardOrdered
from motet.core.streams.orders import Prune
from motet.errors import BadInput
from motet.errors.shards import CursorInTheWay
from motet.ids import Address, ShardName
from motet.verify.storms.streams_changes import Changer, MayContract
from motet.verify.storms.streams_clients import DataClient, Site
from motet.verify.storms.transactions_clients import Bank

found_share, turn_share = 0.3, 0.25
rest_share, hasty_share = 0.9, 0.5
resends_max = 4


class Orderer(Changer):
    """Asks operators for what a ``Changer`` does, for a second stream, and to turn the clock off and on."""

    def __init__(
        self,
        site: Site,
        name: str,
        operators: tuple[Address, ...],
        stays: StreamDefinition,
        may_contract: MayContract,
        *,
        between_ms_max: int,
        later: StreamDefinition,
    ) -> None:
        super().__init__(site, name, operators, stays, may_contract, between_ms_max=between_ms_max)
        self._later = later
        self._has_later = False
        self._is_on = True
        #: in the end the clock is on
        self._is_left_on = False

    def begin(self) -> list[Effect]:
        is_over = self.world.fabric.healed and self._is_founded and not self._to_fill
        if is_over and self._insists is None and self._drained is None:
            if not self._has_later:
                self._insists = self._found
            elif not self._is_left_on:
                self._insists = lambda: EnableClock(self.next_request(), is_enabled=True)
        return super().begin()

    def _found(self) -> OperatorRequest:
        return self._create(self._later)

    def _decide(self) -> OperatorRequest | None:
        if not self._has_later and self.dice.chance(found_share):
            self._insists = self._found
            return self._found()
        if self.dice.chance(turn_share):
            self._is_on = not self._is_on
            return EnableClock(self.next_request(), self._is_on)
        return super()._decide()

    def _done(self, asked: Message, answer: Message) -> None:
        super()._done(asked, answer)
        if isinstance(answer, StreamCreated) and answer.place.definition.id == self._later.id:
            self._has_later = True
        elif isinstance(asked, EnableClock):
            self.world.mark("clock_turned_on" if asked.is_enabled else "clock_turned_off")
            self._insists = None
            self._is_left_on = asked.is_enabled and self.world.fabric.healed


class Pruner(DataClient):
    """Prunes all shards up to one clock now and then, as far as named cursors let it, or by force."""

    def __init__(
        self,
        site: Bank,
        name: str,
        kept: Callable[[], list[ShardName]],
        places: Callable[[], list[Clock]],
    ) -> None:
        super().__init__(site, name)
        self._ledger = site.ledger
        #: shards that a reader holds by its cursor: others are let be
        self._kept = kept
        #: where readers are
        self._places = places
        self._left: list[ShardName] = []
        self._up_to: Clock = ZERO
        self._resends = 0
        #: bankers had been told of this clock when it last looked
        self._newest: Clock = ZERO
        #: readers are done: then all that they have read goes
        self.is_last_round = False
        self._is_ending = False

    def begin(self) -> list[Effect]:
        if self._map is None:
            return self.look()
        if not self._left:
            self._decide()
        if self.is_done:
            return []
        if not self._left:
            return self.pause()
        leader = self.leader(self._left[0])
        if leader is None:
            return self.look()
        order = Prune(self._up_to, self._ledger.is_forced or self._is_ending)
        return self.ask_at(
            leader, OrderShard(self.next_request(), self._clock, self._left[0], order)
        )

    def _decide(self) -> None:
        if self.is_last_round:
            self.is_done, self._is_ending = self._is_ending, True
            self._left, self._up_to = list(self._ledger.shards), min(self._places())
            return
        up_to = self.dice.pick(self._places())
        left = self._kept()
        if self._ledger.is_forced and self.dice.chance(hasty_share):
            # Where no reader is yet: what bankers read next is pruned, and about to be compacted.
            left = self.dice.shuffled(self._ledger.stays)
            up_to, self._newest = self._newest, self._ledger.newest
        if up_to == ZERO or self.world.fabric.healed or self.dice.chance(rest_share):
            return
        self._left, self._up_to, self._resends = left, up_to, 0
        self._ledger.pruned = max(self._ledger.pruned, up_to)

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(asked, GetShardMap):
            return self.take_map(answer)
        assert isinstance(asked, OrderShard)
        if isinstance(answer, ShardOrdered):
            self.world.mark("feed_pruned")
            self.see_clock(answer.clock)
            del self._left[0]
            return self.pause()
        refused = answer if isinstance(answer, DataRefused) else None
        if refused is not None and refused.code == CursorInTheWay.code:
            self.world.mark("pruning_held_back")
            self._left = []
            return self.pause()
        if refused is not None and refused.code == BadInput.code:
            del self._left[
                0
            ]  # readers have not heard of it, and it is not closed as far as they have read
            return self.pause()
        self.lose_leader(asked.shard, refused)
        self._resends += 1
        if self._resends > resends_max and not self._is_ending:
            self._left = []
        return self.pause()
