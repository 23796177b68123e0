"""A client that moves from one process to the next with nothing but a bookmark, and loses nothing on the way.

SessionReads   it is shown all records that it has read or written before, by whichever replica, also after a
               bookmark: read your writes, monotonic reads
SessionWrites  what it writes is above all clocks that it has seen: writes follow reads, monotonic writes

A client that asks for the latest changes of accounts, and never changes any: also when all is pruned.

What it is shown is looked at by ``LatestKept`` in ``transactions_checks``.
"""

from __future__ import annotations

from motet.client.cluster.session import Session
from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Effect, Message
from motet.core.streams.entries import Chunk
from motet.core.streams.messages import (
    AppendRecords,
    CloseShard,
    DataRefused,
    GetLatestChange,
    GetShardMap,
    LatestChangeIs,
    ReadRecords,
    RecordsAppended,
    RecordsRead,
    ShardClosed,
    Source,
)
from motet.format.record_block import encode_block
from motet.ids import Address, Offset, ShardName
from motet.verify.storms.streams_clients import DataClient
from motet.verify.storms.transactions_checks import ACCOUNTS, QUIET_ACCOUNTS
from motet.verify.storms.transactions_clients import Bank

hop_share = 0.15


class Traveller(DataClient):
    """Appends and reads; now and then it begins a new session after a bookmark of the old one."""

    def __init__(self, site: Bank, name: str, *, is_forgetful: bool) -> None:
        super().__init__(site, name)
        self._ledger = site.ledger
        self._session = Session()
        #: planted: the bookmark is left behind
        self._is_forgetful = is_forgetful
        #: shard -> records before this one were read or written, in any session
        self._seen: dict[ShardName, Offset] = {}
        self._shard = ShardName("")
        self._values = 0
        self._asks_leader = False
        self._closes = False

    def begin(self) -> list[Effect]:
        if self.world.fabric.healed:
            self.is_done = True
            return []
        if self._map is None or self.place(self._ledger.shards[0]) is None:
            return self.look()
        if not self._asks_leader:
            self._choose()
        place = self.place(self._shard)
        if place is None or not place.ensemble:
            return self.look()
        leader = self.leader(self._shard)
        if self.dice.chance(0.3) and not self._asks_leader:
            return self.look() if leader is None else self.ask_at(leader, self._append())
        if not self._asks_leader:
            return self.ask_at(Address(self.dice.pick(place.ensemble)), self._read("replica"))
        if leader is None:
            return self.look()
        floor = self._session.closed_floor(self._shard)
        if self._closes:
            message = CloseShard(self.next_request(), self._clock, self._shard, floor)
            return self.ask_at(leader, message)
        return self.ask_at(leader, self._read("leader"))

    def _choose(self) -> None:
        self._shard = self.dice.pick(
            [shard for shard in self._ledger.shards if self.place(shard) is not None]
        )
        if self.dice.chance(hop_share):
            self._session = Session()
            self.world.mark("session_hop")
            if not self._is_forgetful:
                self._session.resume_after(self._clock)

    def _append(self) -> AppendRecords:
        self._values += 1
        block = encode_block([self._shard.encode()], [f"{self.name}-{self._values}".encode()])
        chunks = (Chunk(1, None, block),)
        return AppendRecords(self.next_request(), self._clock, self._shard, chunks)

    def _read(self, source: Source) -> ReadRecords:
        after = Offset(self._seen.get(self._shard, 0) - 1)
        return ReadRecords(
            self.next_request(), self._clock, self._shard, after, 100, 1 << 16, source
        )

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(asked, GetShardMap):
            return self.take_map(answer)
        if isinstance(asked, ReadRecords) and isinstance(answer, RecordsRead):
            self._take_read(asked, answer)
        elif isinstance(answer, RecordsAppended):
            self._take_place(answer)
        elif isinstance(answer, ShardClosed):
            self.see_clock(answer.clock)
            self._closes = False
        else:
            refused = answer if isinstance(answer, DataRefused) else None
            self.lose_leader(self._shard, refused)
            self._asks_leader = self._closes = False
        return self.pause()

    def _take_read(self, asked: ReadRecords, answer: RecordsRead) -> None:
        shard, session = asked.shard, self._session
        if asked.source == "replica" and not session.is_enough(shard, answer):
            self.world.mark("session_replica_behind")
            self._asks_leader = True
            return
        if asked.source == "leader" and answer.closed < session.closed_floor(shard):
            self._closes = True
            return
        self._asks_leader = False
        seen = self._seen.get(shard, 0)
        if answer.next_offset < seen:
            what = f"{self.name} {shard}: {answer.next_offset} records after {seen}"
            self.world.violated("SessionReads", what)
        session.reached(shard, answer.next_offset)
        self._seen[shard] = answer.next_offset
        self.see_clock(answer.clock)

    def _take_place(self, answer: RecordsAppended) -> None:
        place, shard = answer.places[0], self._shard
        if place.clock <= self._clock:
            what = f"{self.name} {shard}: {place.clock} after {self._clock}"
            self.world.violated("SessionWrites", what)
        after = Offset(place.first_offset + 1)
        self._session.reached(shard, after)
        self._seen[shard] = max(self._seen.get(shard, Offset(0)), after)
        self.see_clock(place.clock)


quiet_share = 0.6


class Visitor(DataClient):
    """Asks for any account at any time, and in the end once for each."""

    def __init__(self, site: Bank, name: str) -> None:
        super().__init__(site, name)
        #: nothing is written or pruned any more
        self.is_last_round = False
        self._ledger = site.ledger
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
