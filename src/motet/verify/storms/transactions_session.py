"""A client that moves from one process to the next with nothing but a bookmark, and loses nothing on the way.

SessionReads   it is shown all records that it has read or written before, by whichever replica, also behind a
               bookmark: read your writes, monotonic reads
SessionWrites  what it writes is above all clocks that it has seen: writes follow reads, monotonic writes
"""

from __future__ import annotations

from motet.client.cluster.session import Session
from motet.core.machine import Effect, Message
from motet.core.streams.entries import Chunk
from motet.core.streams.messages import (
    AppendRecords,
    CloseShard,
    DataRefused,
    GetShardMap,
    ReadRecords,
    RecordsAppended,
    RecordsRead,
    ShardClosed,
    Source,
)
from motet.format.record_block import encode_block
from motet.ids import Address, Offset, ShardName
from motet.sim.world import World
from motet.verify.storms.streams_checks import Watch
from motet.verify.storms.streams_clients import DataClient
from motet.verify.storms.transactions_checks import Ledger

hop_share = 0.15


class Traveller(DataClient):
    """Appends and reads; now and then it begins a new session behind a bookmark of the old one."""

    def __init__(
        self,
        world: World,
        name: str,
        watch: Watch,
        nodes: tuple[Address, ...],
        ledger: Ledger,
        *,
        is_forgetful: bool,
    ) -> None:
        super().__init__(world, name, watch, nodes)
        self._ledger = ledger
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
        behind = Offset(self._seen.get(self._shard, 0) - 1)
        return ReadRecords(
            self.next_request(), self._clock, self._shard, behind, 100, 1 << 16, source
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
        behind = Offset(place.first_offset + 1)
        self._session.reached(shard, behind)
        self._seen[shard] = max(self._seen.get(shard, Offset(0)), behind)
        self.see_clock(place.clock)
