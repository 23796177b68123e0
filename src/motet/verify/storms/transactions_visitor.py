"""A client that asks for the latest changes of accounts, and never changes any: also when all is pruned.

What it is shown is looked at by ``LatestKept`` in ``transactions_checks``.
"""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Effect, Message
from motet.core.streams.messages import DataRefused, GetLatestChange, GetShardMap, LatestChangeIs
from motet.ids import Address
from motet.sim.world import World
from motet.verify.storms.streams_checks import Watch
from motet.verify.storms.streams_clients import DataClient
from motet.verify.storms.transactions_checks import ACCOUNTS, QUIET_ACCOUNTS, Ledger

quiet_share = 0.6


class Visitor(DataClient):
    """Asks for any account at any time, and in the end once for each."""

    def __init__(
        self, world: World, name: str, watch: Watch, nodes: tuple[Address, ...], ledger: Ledger
    ) -> None:
        super().__init__(world, name, watch, nodes)
        #: nothing is written or pruned any more
        self.is_last_round = False
        self._ledger = ledger
        self._left = [*ACCOUNTS, *QUIET_ACCOUNTS]
        #: what it asks for, and the clock at which somebody was told it was changed
        self._key: bytes | None = None
        self._told: Clock = ZERO

    def begin(self) -> list[Effect]:
        if self._map is None:
            return self.look()
        if self._key is None and not self._decide():
            return self.pause()
        assert self._key is not None
        shard = self._ledger.shard_of(self._key)
        leader = self.leader(shard)
        if leader is None:
            return self.look()
        self._told = self._ledger.told_of(self._key)
        return self.ask_at(
            leader, GetLatestChange(self.next_request(), self._clock, shard, self._key)
        )

    def _decide(self) -> bool:
        if self.is_last_round:
            self.is_done = not self._left
            self._key = self._left.pop() if self._left else None
            return self._key is not None
        self._key = self.dice.pick(QUIET_ACCOUNTS if self.dice.chance(quiet_share) else ACCOUNTS)
        return True

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(asked, GetShardMap):
            return self.take_map(answer)
        assert isinstance(asked, GetLatestChange)
        if isinstance(answer, LatestChangeIs):
            seen = self._ledger.shown(self.name, asked.key, answer, self._told)
            self.see_clock(seen or ZERO)
            self._key = None
            return self.pause()
        refused = answer if isinstance(answer, DataRefused) else None
        self._ledger.refused_get(self.name, refused)
        self.lose_leader(asked.shard, refused)
        return self.pause()
