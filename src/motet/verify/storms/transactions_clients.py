"""Clients that move amounts between accounts: they coordinate transactions, and give up wherever they are.

Some ponder before they commit, so that others do much in the shards that have prepared. And one has the last
word: after the storm it changes all accounts at once, which nothing that was left behind may prevent.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Effect, Message, SetTimer
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.entries import Chunk
from motet.core.streams.messages import (
    AbortTransaction,
    AppendRecords,
    CommitTransaction,
    DataRefused,
    GetLatestChange,
    GetShardMap,
    LatestChangeIs,
    PrepareTransaction,
    SeenKey,
    TransactionEnded,
    TransactionPrepared,
)
from motet.core.streams.transactions import ABOVE_ZERO
from motet.core.streams.votes import Vote
from motet.errors import Conflict, NoSuchShard, OutcomeUnknown
from motet.errors.shards import NotLeader, TransactionExpired
from motet.format.record_block import encode_block
from motet.ids import ShardName, TransactionId
from motet.verify.storms.asker import NEXT
from motet.verify.storms.streams_clients import DataClient, Site, Writer
from motet.verify.storms.transactions_checks import (
    ACCOUNTS,
    LATER_ACCOUNTS,
    QUIET_ACCOUNTS,
    Ledger,
)

dies_share = 0.03
blind_share = 0.2
quiet_share, look_share = 0.15, 0.4
"""How often an account is changed, and looked at, that is quiet for long: it is pruned meanwhile."""
ponder_share, ponder_ms_max = 0.1, 1_000
resends_max = 12


class Deal(msgspec.Struct):
    """One transaction on its way."""

    name: TransactionId
    #: to be changed
    keys: list[bytes]
    begin: Clock
    asked: Clock = ZERO
    #: keys that are still to be read
    to_read: list[bytes] = msgspec.field(default_factory=list)
    reads: dict[bytes, Clock | None] = msgspec.field(default_factory=dict)
    #: somebody had been told that the key that is being read was changed at this clock
    told: Clock = ZERO
    #: shards that are still to be prepared; the last shard is home
    to_prepare: list[ShardName] = msgspec.field(default_factory=list)
    prepared: list[ShardName] = msgspec.field(default_factory=list)
    home: ShardName = ShardName("")
    #: votes[i] is that of prepared[i]
    votes: list[Vote] = msgspec.field(default_factory=list)
    is_aborting: bool = False
    resends: int = 0
    #: a prepare or a commit may have been logged although nobody said so
    is_unsure: bool = False


def is_last(deal: Deal) -> bool:
    """Whether it changes all accounts, after the storm."""
    return len(deal.keys) == len(ACCOUNTS + LATER_ACCOUNTS)


class Bank(Site):
    """A site where accounts are kept."""

    ledger: Ledger


class Banker(DataClient):
    """Coordinates transactions, one at a time."""

    def __init__(self, site: Bank, name: str, deals: int, *, has_last_word: bool) -> None:
        super().__init__(site, name)
        self.left = deals
        #: all accounts are still to be changed at once
        self._has_last_word = has_last_word
        self._ledger = site.ledger
        self._deal: Deal | None = None
        self._deals = 0
        #: the age that a deal keeps when it is tried again
        self._begin: Clock | None = None
        #: key -> no read may show an older change
        self._floors: dict[bytes, Clock] = {}

    @property
    def deal(self) -> Deal | None:
        """What it is about."""
        return self._deal

    def begin(self) -> list[Effect]:
        if self._map is None or self.dice.chance(0.03):
            return self.look()
        if self._deal is None and not self._decide():
            return self.pause()
        deal = self._deal
        assert deal is not None
        if self.dice.chance(dies_share):
            self.world.mark("coordinator_died")
            self._drop()
            return self.pause()
        message = self._next(deal)
        if isinstance(message, GetLatestChange):
            deal.told = self._ledger.told_of(message.key)
        leader = self.leader(message.shard)
        return self.look() if leader is None else self.ask_at(leader, message)

    def _decide(self) -> bool:
        is_over = self.left <= 0 and self.world.fabric.healed
        if is_over and not self._has_last_word:
            self.is_done = True
            return False
        if self.place(self._ledger.shards[0]) is None:
            self._map = None
            return False
        if is_over:
            return self._decide_last()
        self._deals += 1
        count = self.dice.pick([1, 2, 2, 3])
        has_later = self.place(self._ledger.later[0]) is not None
        accounts = ACCOUNTS + LATER_ACCOUNTS if has_later else ACCOUNTS
        keys = self.dice.shuffled(accounts)[:count]
        quiet = self.dice.pick(QUIET_ACCOUNTS)
        if self.dice.chance(quiet_share):
            keys[0] = quiet
        reads: list[bytes] = []
        if not self.dice.chance(blind_share):
            reads = list(keys)
            if quiet not in keys and self.dice.chance(look_share):
                reads.append(quiet)
        deal = self._deal_of(keys, reads)
        self._deal = deal
        return True

    def _decide_last(self) -> bool:
        """Change everything; not before the second stream is there."""
        if self.place(self._ledger.later[0]) is None:
            self._map = None
            return False
        self._deals += 1
        keys = ACCOUNTS + LATER_ACCOUNTS
        self._deal = self._deal_of(keys, list(keys))
        return True

    def _deal_of(self, keys: list[bytes], reads: list[bytes]) -> Deal:
        deal = Deal(TransactionId(f"{self.name}-{self._deals}"), keys, self._begin or self._clock)
        deal.to_read = reads
        *deal.to_prepare, deal.home = dict.fromkeys(self._shard(key) for key in (*keys, *reads))
        return deal

    def _shard(self, key: bytes) -> ShardName:
        return self._ledger.shard_of(key)

    def _next(
        self, deal: Deal
    ) -> GetLatestChange | PrepareTransaction | CommitTransaction | AbortTransaction:
        request = self.next_request()
        if deal.to_read:
            key = deal.to_read[0]
            return GetLatestChange(request, self._clock, self._shard(key), key)
        if deal.asked == ZERO:
            deal.asked = max(self._clock, ABOVE_ZERO)  # the same in all that is asked
        participants = tuple(deal.prepared + deal.to_prepare)
        if deal.is_aborting:
            return AbortTransaction(
                request, self._clock, deal.home, deal.name, deal.asked, participants
            )
        if deal.to_prepare:
            shard = deal.to_prepare[0]
            branch, reads = self._part(deal, shard)
            return PrepareTransaction(
                request, self._clock, shard, branch, reads, deal.home, participants
            )
        branch, reads = self._part(deal, deal.home)
        return CommitTransaction(
            request, self._clock, deal.home, branch, reads, participants, tuple(deal.votes)
        )

    def _part(self, deal: Deal, shard: ShardName) -> tuple[Branch, tuple[SeenKey, ...]]:
        mine = [(n, key) for n, key in enumerate(deal.keys) if self._shard(key) == shard]
        changes = tuple(RowChange(n, key, "update", deal.name.encode(), None) for n, key in mine)
        read = [key for key in deal.reads if self._shard(key) == shard]
        reads = tuple(SeenKey(key, deal.reads[key]) for key in read)
        branch = Branch(deal.name, deal.begin, deal.asked, len(deal.keys), changes)
        self._ledger.wants(deal.name, deal.reads)
        return branch, reads

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(asked, GetShardMap):
            return self.take_map(answer)
        deal = self._deal
        assert deal is not None
        if isinstance(answer, LatestChangeIs):
            self._take_read(deal, answer)
        elif isinstance(answer, TransactionPrepared):
            deal.prepared.append(deal.to_prepare.pop(0))
            deal.votes.append(Vote(answer.clock, answer.seal))
            self.see_clock(answer.clock)
            if not deal.to_prepare and not self.world.fabric.healed:
                return self._ponder()
        elif isinstance(answer, TransactionEnded):
            self._take_end(deal, asked, answer)
        else:
            refused = answer if isinstance(answer, DataRefused) else None
            self._take_refusal(deal, asked, refused)
        return self.pause()

    def _ponder(self) -> list[Effect]:
        """All have voted; there may be time before the commit."""
        if not self.dice.chance(ponder_share):
            return self.pause()
        self.world.mark("coordinator_pondered")
        return [SetTimer(NEXT, self.dice.between(0, ponder_ms_max))]

    def _take_read(self, deal: Deal, answer: LatestChangeIs) -> None:
        key = deal.to_read.pop(0)
        seen = self._ledger.shown(self.name, key, answer, deal.told)
        deal.reads[key] = seen
        floor = self._floors.get(key)
        if floor is not None and (seen is None or seen < floor):
            self.world.violated("SessionReads", f"{self.name} {key!r}: {seen} after {floor}")
        if seen is not None:
            self._floors[key] = seen
            self.see_clock(seen)
        if is_last(deal):  # who is far behind is refused as one that may have been forgotten
            self.see_clock(answer.clock)

    def _take_end(self, deal: Deal, asked: Message, answer: TransactionEnded) -> None:
        self._deal = None
        if answer.clock is None:
            self._ledger.told_aborted(self.name, deal.name)
            self._begin = deal.begin
            self.world.mark("transaction_aborted")
            return
        assert isinstance(asked, CommitTransaction | AbortTransaction)
        if isinstance(asked, CommitTransaction) and deal.asked >= answer.clock:
            what = f"{self.name} {deal.name}: {answer.clock} after it had seen {deal.asked}"
            self.world.violated("CausalOrder", what)
        self._ledger.told_committed(
            self.name, deal.name, answer.clock, deal.keys, has_clock=answer.has_clock
        )
        self.see_clock(answer.clock)
        for key in deal.keys:
            self._floors[key] = answer.clock
        self._begin = None
        self.left -= 1
        if is_last(deal):
            self._has_last_word = False

    def _take_refusal(self, deal: Deal, asked: Message, refused: DataRefused | None) -> None:
        code = "" if refused is None else refused.code
        shard: ShardName = asked.shard  # type: ignore[attr-defined]
        self._ledger.refused_get(self.name, refused)
        if refused is None or code in (NotLeader.code, NoSuchShard.code, OutcomeUnknown.code):
            self.lose_leader(shard, refused)
            if not isinstance(asked, GetLatestChange) and code not in (
                NotLeader.code,
                NoSuchShard.code,
            ):
                deal.is_unsure = True
        elif code == Conflict.code:
            self.world.mark("transaction_conflict")
            self._begin = deal.begin
            if isinstance(asked, CommitTransaction) or not (deal.prepared or deal.is_unsure):
                self._ledger.told_aborted(self.name, deal.name)
                self._drop()
            else:
                deal.is_aborting = True
            return
        elif code == TransactionExpired.code:
            self.world.mark("transaction_expired")
            self._drop()
            return
        else:
            self.world.mark(f"transaction_{code.lower()}")
        deal.resends += 1
        if deal.resends > resends_max:
            self.world.mark("transaction_unknown")
            self._drop()

    def _drop(self) -> None:
        self._deal = None
        self.left -= 1


class KeyWriter(Writer):
    """Appends raw records to the very keys that transactions lock."""

    def __init__(self, site: Bank, name: str, appends: int) -> None:
        super().__init__(site, name, appends)
        self._ledger = site.ledger

    def begin(self) -> list[Effect]:
        if self._pending is not None or self._map is None:
            return super().begin()
        if self.left <= 0 and self.world.fabric.healed:
            self.is_done = True
            return self.pause()
        key = self.dice.pick(ACCOUNTS)
        shard = self._ledger.shard_of(key)
        leader = self.leader(shard)
        if leader is None:
            return self.look()
        self._values += 1
        block = encode_block([key], [f"{self.name}-{self._values}".encode()])
        self._pending = shard, (Chunk(1, None, block),)
        message = AppendRecords(self.next_request(), self._clock, shard, self._pending[1])
        return self.ask_at(leader, message)
