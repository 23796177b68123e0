"""Data nodes that believe what a client says about transactions, be it true or not."""

from __future__ import annotations

from motet.core.streams import judging, leader
from motet.core.streams.judging import Verdict
from motet.core.streams.messages import ResolveTransaction
from motet.core.streams.pending import ShardTransactions
from motet.core.streams.transactions import TransactionState
from motet.verify.storms.planting import Planted


class BelievesVotes(Planted):
    """A home shard takes the votes for what the client says they are."""

    planted = (judging, "_check_votes", lambda _message, _key: None)


class BelievesHomes(Planted):
    """A participant commits or aborts what it has prepared for another shard."""

    planted = (judging, "_check_home", lambda _opened, _message: None)


def _takes_any_outcome(
    state: TransactionState, ahead: ShardTransactions, message: ResolveTransaction
) -> Verdict:
    if ahead.is_in_flight(message.transaction):
        return Verdict.WAIT
    return Verdict.GO if message.transaction in state.prepared else Verdict.KNOWN


class ObeysAnybody(Planted):
    """An outcome is logged, whichever shard has decided it."""

    planted = (leader, "judge_outcome", _takes_any_outcome)


LIAR_PLANTS = ("votes-believed", "home-believed", "outcome-of-a-stranger")
"""They are found by a client that lies: so there is one wherever these are planted."""
