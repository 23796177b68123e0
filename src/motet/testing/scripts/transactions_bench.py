"""The nodes of golden scripts about transactions, and what their client has heard."""

from __future__ import annotations

from motet.core.clock.hlc import Clock
from motet.core.streams.change import Branch
from motet.core.streams.cluster_messages import HeartbeatAnswer
from motet.core.streams.messages import TransactionPrepared
from motet.core.streams.pending import TransactionConfig
from motet.core.streams.votes import Vote, seal_of
from motet.ids import Address, RequestId, ShardName, TransactionId
from motet.testing.bench_network import InFlight
from motet.testing.bench_trace import Line
from motet.testing.scripts.shardlog_bench import OPERATOR, ShardBench
from motet.testing.scripts.transactions_told import told_answer

CLIENT = Address("client")
CONFIG = TransactionConfig(sweep_ms=100, doubt_ms=300, tell_ms=200, adjust_ms=400, wait_ms=1_000)
PREPARED = Clock(1, 1)
"""A clock of a prepare that is below all of them, for scripts that name none."""
NO_VOTE = Vote(PREPARED, b"")
"""Of who has not voted."""


class TransactionBench(ShardBench):
    """Data nodes; what a client hears is told, and what an operator hears is not."""

    def __init__(self) -> None:
        super().__init__()
        #: of which transaction and participant each prepare was that the client has asked for
        self.prepares: dict[RequestId, tuple[TransactionId, ShardName]] = {}
        #: and the votes that it has heard
        self.votes: dict[tuple[TransactionId, ShardName], Vote] = {}

    def _deliver(self, each: InFlight) -> list[Line]:
        if each.send.to == CLIENT:
            vote = each.send.message
            if isinstance(vote, TransactionPrepared):
                self.votes[self.prepares[vote.request]] = Vote(vote.clock, vote.seal)
            return [Line("note", f"client hears {told_answer(each.send.message)}")]
        if each.send.to == OPERATOR:
            answer = each.send.message
            if not isinstance(answer, HeartbeatAnswer) or not (answer.sealed or answer.missing):
                return []
            told = [f"{s.shard} is sealed, {s.unsettled} open" for s in answer.sealed]
            told += [f"{shard} is missing" for shard in answer.missing]
            return [Line("note", f"{each.sender} says {', '.join(told)}")]
        return super()._deliver(each)

    def vote(
        self,
        branch: Branch,
        participant: ShardName,
        home: ShardName,
        floor: Clock | None,
        claims: Clock | None,
    ) -> Vote:
        """The vote that was heard; with ``claims`` at another clock, with ``floor`` as if given at that."""
        if floor is not None:
            name, asked = branch.transaction, branch.asked
            return Vote(floor, seal_of(CONFIG.vote_key, name, asked, participant, home, floor))
        given = self.votes.get((branch.transaction, participant), NO_VOTE)
        return given if claims is None else Vote(claims, given.seal)
