"""A client that coordinates transactions as the others do, and lies to the shards about them.

False votes are refused. A participant that it leaves out has no part in the transaction, and does not wait
for it for ever. And what it has a shard decide that is not the home of a transaction changes nothing for it,
be it its own or that of somebody else. All that holds for transactions holds for those of others, and for its
own but for what it has left out itself.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.machine import Effect, Message
from motet.core.streams.change import Branch
from motet.core.streams.messages import (
    AbortTransaction,
    CommitTransaction,
    DataRefused,
    GetLatestChange,
    PrepareTransaction,
    SeenKey,
    TransactionEnded,
)
from motet.core.streams.votes import Vote
from motet.errors import BadInput
from motet.ids import ShardName
from motet.verify.storms.transactions_clients import Bank, Banker, Deal

early_share, false_vote_share, elsewhere_share, alone_share = 0.2, 0.5, 0.1, 0.15
"""How often it commits before all have voted, or with other votes than they gave; asks a participant to
commit; and leaves out all participants."""
strange_share = 0.1
"""How often it gives up a transaction of somebody else, in a shard that is not its home."""

Next = GetLatestChange | PrepareTransaction | CommitTransaction | AbortTransaction


class Liar(Banker):
    """Lies now and then, and goes on with the truth."""

    def __init__(self, site: Bank, name: str, deals: int, others: list[Banker]) -> None:
        super().__init__(site, name, deals, has_last_word=False)
        self._others = others
        #: what it asks for now, if it is a lie; else None
        self._lie: Next | None = None
        #: the home shard has been asked to commit this deal as it is
        self._has_asked = False
        #: a vote of a deal before this one
        self._old = Vote(ZERO, b"")
        #: all keys of a deal whose participants are left out
        self._left_out: list[bytes] | None = None

    def _next(self, deal: Deal) -> Next:
        self._lie = None if deal.to_read or deal.is_aborting else self._false(deal)
        if self._lie is not None:
            return self._lie
        message = super()._next(deal)
        if isinstance(message, CommitTransaction):
            self._has_asked = True
            if self._left_out is not None:  # as if nobody had voted
                return msgspec.structs.replace(message, clock=deal.asked)
        return message

    def _false(self, deal: Deal) -> Next | None:
        """A lie, or now and then the truth."""
        if self.dice.chance(strange_share):
            return self._strange()
        if not deal.prepared:
            return None
        if deal.to_prepare:
            missing = [self._old] * len(deal.to_prepare)
            is_early = self.dice.chance(early_share)
            return self._commit(deal, deal.home, [*deal.votes, *missing]) if is_early else None
        if self.dice.chance(false_vote_share):
            return self._commit(deal, deal.home, self._false_votes(deal.votes))
        if self.dice.chance(elsewhere_share):
            return self._commit(deal, self.dice.pick(deal.prepared), [])
        if not self._has_asked and self.dice.chance(alone_share):
            self._leave_out(deal)
        return None

    def _commit(self, deal: Deal, shard: ShardName, votes: list[Vote]) -> CommitTransaction:
        branch, reads = self._part(deal, shard)
        participants = tuple(deal.prepared + deal.to_prepare)[: len(votes)]
        return CommitTransaction(
            self.next_request(), deal.asked, shard, branch, reads, participants, tuple(votes)
        )

    def _false_votes(self, votes: list[Vote]) -> list[Vote]:
        """One of the votes is not as it was given."""
        at, found = self.dice.between(0, len(votes) - 1), list(votes)
        clock, seal = votes[at].clock, votes[at].seal
        below = Clock(max(clock.logical - self.dice.between(1, 300), 1), 0)
        false = [
            Vote(below, seal),
            Vote(below, self._old.seal),
            Vote(plus(clock, 1), seal),
            Vote(clock, self._old.seal),
            self._old,
        ]
        found[at] = self.dice.pick(false)
        return found

    def _leave_out(self, deal: Deal) -> None:
        """From now on it says that there is only the home shard."""
        self.world.mark("participants_left_out")
        self._ledger.leaves_out(deal.name)
        self._left_out = deal.keys
        deal.prepared, deal.votes = [], []
        deal.keys = [key for key in deal.keys if self._shard(key) == deal.home]
        deal.reads = {key: at for key, at in deal.reads.items() if self._shard(key) == deal.home}

    def _part(self, deal: Deal, shard: ShardName) -> tuple[Branch, tuple[SeenKey, ...]]:
        if self._left_out is None:
            return super()._part(deal, shard)
        kept, deal.keys = deal.keys, self._left_out
        made = super()._part(deal, shard)
        deal.keys = kept
        return made

    def _strange(self) -> AbortTransaction | None:
        deal = self.dice.pick(self._others).deal
        if deal is None or self.place(self._ledger.later[0]) is None:
            return None
        shards = self._ledger.shards
        shard = self.dice.pick([each for each in shards if each != deal.home])
        self._ledger.is_given_up_in(shard, deal.name)
        participants = tuple(each for each in shards if each != shard)
        return AbortTransaction(
            self.next_request(), self._clock, shard, deal.name, deal.asked, participants
        )

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        lie, deal = self._lie, self._deal
        if lie is None or asked is not lie:
            return super().answered(asked, answer)
        assert deal is not None
        self._lie = None
        refused = answer if isinstance(answer, DataRefused) else None
        if refused is not None and refused.code == BadInput.code:
            self.world.mark("lie_refused")
            if self.dice.chance(0.3):
                self._drop()
        elif isinstance(answer, TransactionEnded):
            self._take_false_end(deal, lie, answer)
        else:
            self.lose_leader(lie.shard, refused)
        return self.pause()

    def _take_false_end(self, deal: Deal, lie: Next, answer: TransactionEnded) -> None:
        """It was over before: aborted, or committed with what it has said before."""
        if isinstance(lie, AbortTransaction):
            self.world.mark("given_up_by_a_stranger")
        elif answer.clock is not None and not self._has_asked:
            what = f"{self.name} {deal.name}: at {answer.clock} with {lie}"
            self.world.violated("FalseVotes", what)
        else:
            self._take_end(deal, lie, answer)

    def _take_end(self, deal: Deal, asked: Message, answer: TransactionEnded) -> None:
        super()._take_end(deal, asked, answer)
        self._end_deal(deal)

    def _drop(self) -> None:
        deal = self._deal
        super()._drop()
        if deal is not None:
            self._end_deal(deal)

    def _end_deal(self, deal: Deal) -> None:
        self._old = (*deal.votes, self._old)[0]
        self._has_asked, self._left_out = False, None
