"""Transactions in one shard, as its log tells: what is prepared, locked, decided, and what became of it.

A transaction has a *home shard*, one of those it changes or has read. Its client has every other shard log a
prepare, and asks the home shard to commit when all have voted. What the home shard then logs is the decision.

X1  A key is locked by at most one transaction: from its prepare on, until the outcome is logged here. Locks
    are a fold of the log, so every leader has them.
X2  A decision is logged once, by the home shard that the prepares name. Whoever asks again, or asks for
    something else, gets what was decided.
X3  The commit clock is the clock of the decision's entry, which is above the clocks of all prepares. An
    outcome's entry is above the commit clock. So the next transaction on a key has a higher clock than the
    one before. If it was fixed before the decision, it is the highest clock of the prepares, and the home
    shard has one too: it is above what was there before on all keys, and nobody has closed over it.
    Whether readers get to see it is decided with it (P3).
X4  A decision is forgotten only after every participant has logged the outcome; until then the home shard
    tells them, and whoever is in doubt asks.
X5  What became of a transaction is remembered for the newest ``remembered``. One that is not known
    and was asked for at or below the *low watermark* may be one that was forgotten: it is refused.
X6  *Closed*: no commit at or below this clock will follow in this log. With a prepare that is open it is
    the clock just below the oldest; else the clock of the last entry, since clocks rise along a log, and a
    transaction is never below its own prepare. As it follows from the log, every replica knows it.
X7  A commit clock is at or above the clock of every prepare. The home shard knows these from the votes, which
    the client brings and cannot change (:mod:`motet.core.streams.votes`). A participant that is told a
    commit below its own prepare all the same, by a node that believed a client, does its part at a clock of
    its own, since readers may be past that one: they see it late, miss nothing, and do not wait for ever.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.streams.entries import Aborted, Committed, Forgotten, Prepared
from motet.ids import ShardName, TransactionId
from motet.limits import outcomes_remembered

ABOVE_ZERO = Clock(0, 1)


class Open(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A prepare whose outcome is not logged yet."""

    #: of the entry of the prepare
    clock: Clock
    prepared: Prepared

    @property
    def keys(self) -> list[bytes]:
        """All that it locks, some perhaps twice."""
        return [*self.prepared.read_keys, *(c.key for c in self.prepared.branch.changes)]


class Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a transaction."""

    asked: Clock
    #: None: it was aborted
    clock: Clock | None
    #: for whoever asks
    has_clock: bool = True


class Decision(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the home shard has decided, and must tell."""

    asked: Clock
    #: None: it was aborted
    clock: Clock | None
    at_ms: int
    participants: tuple[ShardName, ...]
    #: for readers
    has_clock: bool = True


class TransactionState(msgspec.Struct, rename={"low_watermark": "horizon"}):
    """All that is replicated about transactions."""

    #: open prepares, in the order of the log
    prepared: dict[TransactionId, Open] = msgspec.field(default_factory=dict)
    #: bytes of their changes
    prepared_bytes: int = 0
    #: key -> who has locked it
    locks: dict[bytes, TransactionId] = msgspec.field(default_factory=dict)
    #: as the home shard: decided, and not known to be logged everywhere
    decisions: dict[TransactionId, Decision] = msgspec.field(default_factory=dict)
    #: the newest, in the order of the log
    outcomes: dict[TransactionId, Outcome] = msgspec.field(default_factory=dict)
    #: the highest ``asked`` of those that were forgotten
    low_watermark: Clock = ZERO
    #: of the last entry that was applied
    clock: Clock = ZERO
    #: how many outcomes are remembered: the same on all replicas
    remembered: int = outcomes_remembered

    @property
    def closed(self) -> Clock:
        """No commit at or below it will follow (X6)."""
        oldest = next(iter(self.prepared.values()), None)
        return self.clock if oldest is None else plus(oldest.clock, -1)

    @property
    def opens(self) -> tuple[tuple[TransactionId, Clock], ...]:
        """The open prepares and their clocks, the oldest first."""
        return tuple((name, each.clock) for name, each in self.prepared.items())

    def is_expired(self, asked: Clock) -> bool:
        """Whether a transaction that is not known may have been forgotten (X5)."""
        return self.low_watermark > ZERO and asked <= self.low_watermark

    def outcome_of(self, transaction: TransactionId) -> Outcome | None:
        """What became of it, as long as that is remembered, or has not been logged everywhere (X4)."""
        decision = self.decisions.get(transaction)
        if decision is not None:
            return Outcome(decision.asked, decision.clock, decision.has_clock)
        return self.outcomes.get(transaction)

    def knows(self, transaction: TransactionId) -> bool:
        """Whether it is prepared, or what became of it is remembered."""
        return transaction in self.prepared or self.outcome_of(transaction) is not None

    # Entries

    def prepare(self, clock: Clock, body: Prepared) -> None:
        name = body.branch.transaction
        assert name not in self.prepared, "X2"
        assert name not in self.outcomes, "X2"
        opened = self.prepared[name] = Open(clock, body)
        self.prepared_bytes += changes_bytes(body)
        for key in opened.keys:
            assert self.locks.setdefault(key, name) == name, "X1"

    def commit(self, clock: Clock, body: Committed) -> None:
        branch = body.branch
        assert body.clock <= clock, "X3"
        assert not self.locks or all(
            self.locks.get(c.key, branch.transaction) == branch.transaction for c in branch.changes
        )
        if body.participants:
            decided = Decision(
                branch.asked, body.clock, body.at_ms, body.participants, body.has_clock
            )
            self._decide(branch.transaction, decided)
        self._end(branch.transaction, Outcome(branch.asked, body.clock, body.has_clock))

    def abort(self, body: Aborted) -> None:
        if body.participants:
            self._decide(body.transaction, Decision(body.asked, None, 0, body.participants))
        self._end(body.transaction, Outcome(body.asked, None))

    def forget(self, body: Forgotten) -> None:
        for transaction in body.transactions:
            self.decisions.pop(transaction, None)

    def _decide(self, transaction: TransactionId, decision: Decision) -> None:
        assert transaction not in self.decisions, "X2"
        self.decisions[transaction] = decision

    def _end(self, transaction: TransactionId, outcome: Outcome) -> None:
        assert transaction not in self.outcomes, "X2"
        opened = self.prepared.pop(transaction, None) if self.prepared else None
        if opened is not None:
            self.prepared_bytes -= changes_bytes(opened.prepared)
            for key in opened.keys:
                self.locks.pop(key, None)
        self.outcomes[transaction] = outcome
        if len(self.outcomes) > self.remembered:
            oldest = next(iter(self.outcomes))
            # Never zero again: also who had seen no clock at all may have been forgotten.
            self.low_watermark = max(
                self.low_watermark, self.outcomes.pop(oldest).asked, ABOVE_ZERO
            )


def changes_bytes(body: Prepared) -> int:
    """What a prepare takes in memory, roughly."""
    changes = body.branch.changes
    return sum([len(c.key) + len(c.row or b"") + len(c.before or b"") for c in changes])
