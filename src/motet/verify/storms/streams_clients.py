"""Clients of a simulated cluster's shards: they append, with tokens and without, and read what is there.

All of them find their way by shard maps that any data node hands out, and by what nodes say when they refuse.
What became of an append that was not answered is unknown: with tokens it is asked again until there is an
answer, without it is let go.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Effect, Message
from motet.core.streams.change import Token
from motet.core.streams.cluster_messages import ShardMap, ShardPlace
from motet.core.streams.entries import Chunk
from motet.core.streams.messages import (
    AppendRecords,
    DataRefused,
    DataRequest,
    DescribeShard,
    GetShardMap,
    ReadRecords,
    RecordsAppended,
    RecordsRead,
    ShardDescribed,
    ShardMapIs,
)
from motet.errors import NoSuchShard, OutcomeUnknown, TokenExpired
from motet.errors.shards import NotLeader, OffsetExpired
from motet.format.record_block import encode_block
from motet.ids import Address, Offset, ShardName
from motet.sim.faults import Faults
from motet.sim.world import World
from motet.verify.storms.asker import Asker
from motet.verify.storms.streams_checks import Watch

TIMEOUT_MS = 250
BETWEEN_MS_MAX = 30
UNHINDERED_MS_MAX = 200
"""Where nothing ever fails there would be ten times as many events."""

look_again_share = 0.03
token_share = 0.7


class Site(msgspec.Struct):
    """Where clients are: their world, who watches them, and the nodes that they know."""

    world: World
    watch: Watch
    nodes: tuple[Address, ...]


class DataClient(Asker):
    """Knows where shards are, as far as it was told."""

    def __init__(self, site: Site, name: str) -> None:
        between_ms = UNHINDERED_MS_MAX if site.world.faults == Faults() else BETWEEN_MS_MAX
        super().__init__(
            site.world, name, site.nodes[0], timeout_ms=TIMEOUT_MS, between_ms_max=between_ms
        )
        self.watch = site.watch
        self.is_done = False
        self._nodes = site.nodes
        self._clock: Clock = ZERO
        self._map: ShardMap | None = None
        #: told by whoever refused, newer than the map
        self._hints: dict[ShardName, Address] = {}

    def ask_at(self, node: Address, message: Message) -> list[Effect]:
        self._server = node
        return self.ask(message)

    def look(self) -> list[Effect]:
        """Ask anybody for the map."""
        self._hints = {}
        return self.ask_at(
            self.dice.pick(self._nodes), GetShardMap(self.next_request(), self._clock)
        )

    def places(self) -> list[ShardPlace]:
        """All shards that are known of."""
        if self._map is None:
            return []
        return [place for stream in self._map.streams for place in stream.places]

    def place(self, shard: ShardName) -> ShardPlace | None:
        return next((place for place in self.places() if place.shard == shard), None)

    def leader(self, shard: ShardName) -> Address | None:
        if shard in self._hints:
            return self._hints[shard]
        place = self.place(shard)
        return None if place is None or place.leader is None else Address(place.leader)

    def take_map(self, answer: Message | None) -> list[Effect]:
        new = answer.map if isinstance(answer, ShardMapIs) else None
        if new is not None and (self._map is None or new.version >= self._map.version):
            self._map = new
        return self.pause()

    def see_clock(self, clock: Clock) -> None:
        self._clock = max(self._clock, clock)

    def lose_leader(self, shard: ShardName, refused: DataRefused | None) -> None:
        """Whoever was asked does not lead, or does not answer."""
        asked = self._server
        self._hints.pop(shard, None)
        named = None if refused is None or refused.leader is None else Address(refused.leader)
        if named is not None and named != asked:
            self._hints[shard] = named
        elif self._map is not None and self.leader(shard) == asked:
            self._map = None


class Writer(DataClient):
    """Appends what nobody else appends, and goes on while the storm does."""

    def __init__(self, site: Site, name: str, appends: int) -> None:
        super().__init__(site, name)
        self.left = appends
        #: set when there were steps enough: then it may stop when it is done
        self.is_last_round = False
        self._values = 0
        self._tokens = 0
        self._pending: tuple[ShardName, tuple[Chunk, ...]] | None = None

    def begin(self) -> list[Effect]:
        if self._map is None or self.dice.chance(look_again_share):
            return self.look()
        if self._pending is None and not self._decide():
            return self.pause()
        assert self._pending is not None
        shard, chunks = self._pending
        leader = self.leader(shard)
        if leader is None:
            if self.place(shard) is None:
                self._pending = None  # it was deleted
            return self.look()
        return self.ask_at(leader, AppendRecords(self.next_request(), self._clock, shard, chunks))

    def _decide(self) -> bool:
        """What to append next; False if nothing."""
        if self.left <= 0 and self.is_last_round:
            self.is_done = True
            return False
        places = self.places()
        if not places:
            self._map = None
            return False
        shard = self.dice.pick(places).shard
        count = self.dice.pick([1, 1, 1, 2, 3])
        has_tokens = self.dice.chance(token_share)
        self._pending = shard, tuple(self._chunk(has_token=has_tokens) for _ in range(count))
        return True

    def _chunk(self, *, has_token: bool) -> Chunk:
        values = [self._value() for _ in range(self.dice.pick([1, 1, 2, 4]))]
        token = None
        if has_token:
            self._tokens += 1
            token = Token(self.name, self._tokens)
        return Chunk(len(values), token, encode_block([b"k"] * len(values), values))

    def _value(self) -> bytes:
        """Never the same twice; long enough, now and then, to span sectors."""
        self._values += 1
        padding = "." * self.dice.pick([0, 0, 20, 100, 400])
        return f"{self.name}-{self._values}{padding}".encode()

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(asked, GetShardMap):
            return self.take_map(answer)
        assert isinstance(asked, AppendRecords)
        if isinstance(answer, RecordsAppended):
            self.watch.acknowledged(self.name, asked.shard, asked.chunks, answer.places)
            for place in answer.places:
                self.see_clock(place.clock)
                if place.duplicate:
                    self.world.mark("token_repeated")
            self._pending = None
            self.left -= 1
            return self.pause()
        refused = answer if isinstance(answer, DataRefused) else None
        code = "" if refused is None else refused.code
        if refused is None or code in (NotLeader.code, NoSuchShard.code, OutcomeUnknown.code):
            self.lose_leader(asked.shard, refused)
        if refused is None or code == OutcomeUnknown.code:
            self.world.mark("append_unknown")
            if asked.chunks[0].token is None:
                self._pending = None
        elif code == TokenExpired.code:
            self.world.violated("TokensOnce", f"{self.name}: its newest token has expired")
        else:
            self.world.mark(f"append_{code.lower()}")
        return self.pause()


class Reader(DataClient):
    """Pages through all shards with its own cursors, asking leaders and replicas as it comes."""

    def __init__(self, site: Site, name: str, *, has_gaps: bool) -> None:
        super().__init__(site, name)
        #: what is no longer kept may be skipped
        self._has_gaps = has_gaps
        self._cursors: dict[ShardName, Offset] = {}
        self._resumes: dict[ShardName, Offset] = {}
        self._floor: Offset | None = None
        #: set when writers are done: then every shard is read to its end once more
        self.is_last_round = False
        self._ended: dict[ShardName, None] = {}

    def begin(self) -> list[Effect]:
        if self._map is None or self.dice.chance(look_again_share):
            return self.look()
        places = [place for place in self.places() if place.shard not in self._ended]
        if not places:
            self.is_done = self.is_last_round and bool(self._ended)
            self._map = None
            return self.pause()
        place = self.dice.pick(places)
        shard = place.shard
        is_leader = self.is_last_round or self.dice.chance(0.6)
        leader = self.leader(shard)
        node = leader if is_leader else Address(self.dice.pick(place.ensemble or (str(leader),)))
        if node is None:
            return self.look()
        truth = self.watch.truth(shard)
        self._floor = truth.acknowledged if is_leader else None
        if self.dice.chance(0.05) and is_leader:
            return self.ask_at(node, DescribeShard(self.next_request(), self._clock, shard))
        message = ReadRecords(
            self.next_request(),
            self._clock,
            shard,
            self._cursors.get(shard, Offset(-1)),
            500 if self.is_last_round else self.dice.pick([1, 5, 50]),
            20_000 if self.is_last_round else self.dice.pick([1, 700, 20_000]),
            "leader" if is_leader else "replica",
            self._resumes.get(shard) if self.dice.chance(0.8) else None,
        )
        return self.ask_at(node, message)

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(asked, GetShardMap):
            return self.take_map(answer)
        assert isinstance(asked, ReadRecords | DescribeShard)
        if isinstance(asked, ReadRecords) and isinstance(answer, RecordsRead):
            self._take_page(asked, answer)
        elif isinstance(asked, DescribeShard) and isinstance(answer, ShardDescribed):
            self._take_description(asked, answer)
        else:
            self._refused(asked, answer if isinstance(answer, DataRefused) else None)
        return self.pause()

    def _take_page(self, asked: ReadRecords, page: RecordsRead) -> None:
        shard = asked.shard
        after = self.watch.read(self.name, shard, asked.after, self._floor, page)
        if after > asked.after:
            self._resumes[shard] = page.resume
            self.world.mark(f"read_from_{asked.source}")
        self._cursors[shard] = after
        self.see_clock(page.clock)
        is_end = not page.entries and asked.source == "leader"
        if is_end and self.is_last_round:
            self._ended[shard] = None

    def _take_description(self, asked: DescribeShard, answer: ShardDescribed) -> None:
        truth = self.watch.truth(asked.shard)
        if self._floor is not None and answer.next_offset < self._floor:
            what = f"{self.name} {asked.shard}: described with {answer.next_offset}"
            self.world.violated("LinearizableReads", f"{what} of {self._floor}")
        is_known = truth.is_again or answer.next_offset <= truth.next_record
        if not is_known or answer.first_offset > answer.next_offset:
            self.world.violated("NoLogDivergence", f"{self.name} {asked.shard}: {answer}")
        self._skip_to(asked.shard, answer.first_offset)

    def _skip_to(self, shard: ShardName, first: Offset) -> None:
        if self._has_gaps and first > self._cursors.get(shard, Offset(-1)) + 1:
            self._cursors[shard] = Offset(first - 1)
            self._resumes.pop(shard, None)
            self.world.mark("read_skipped")

    def _refused(self, asked: DataRequest, refused: DataRefused | None) -> None:
        assert isinstance(asked, ReadRecords | DescribeShard)
        shard = asked.shard
        code = "" if refused is None else refused.code
        if refused is not None:
            self.world.mark(f"read_{code.lower()}")
        if code == OffsetExpired.code:
            if not self._has_gaps:
                self.world.violated("PagesWithoutGap", f"{self.name} {shard}: {refused}")
            elif isinstance(asked, ReadRecords):
                self.watch.expired(self.name, shard, asked.after)
            # The next pages come from wherever the shard begins now.
            self._cursors[shard] = Offset(_first_in(refused) - 1)
            self._resumes.pop(shard, None)
            return
        if self.watch.truth(shard).is_deleted and self.is_last_round:
            self._map = None
        self.lose_leader(shard, refused)


def _first_in(refused: DataRefused | None) -> int:
    """The record that the advice names."""
    assert refused is not None
    return int(refused.advice.rsplit(" ", 1)[1])
