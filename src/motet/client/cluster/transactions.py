"""Transactions of a cluster: this client is their coordinator, until the home shard has decided.

Everything on one shard is one request to its leader. Else all shards but one, the home shard, are asked at
once to prepare; when all have voted, the home shard is asked to commit, with their votes. From then on it is
the home shard that sees to it. Every request may be repeated: a leader that knows the transaction says what
became of it. A transaction that this client leaves before the last step is given up by the home shard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

import msgspec

from motet.client.calls import Changes, ToldClock
from motet.client.cluster.router import D, MakeData, Router
from motet.client.link import answer_seconds_max
from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import KeyRead
from motet.core.streams.change import Branch, FeedChange, RowChange, Standing
from motet.core.streams.entries import changes_of
from motet.core.streams.messages import (
    AbortTransaction,
    CloseShard,
    CommitTransaction,
    DataAnswer,
    GetLatestChange,
    GetTransaction,
    LatestChangeIs,
    PrepareTransaction,
    SeenKey,
    ShardClosed,
    TransactionEnded,
    TransactionIs,
    TransactionPrepared,
)
from motet.core.streams.votes import Vote
from motet.errors import Conflict, MotetError, NodeError, NoSuchShard, OutcomeUnknown, TooLarge
from motet.errors.shards import NotLeader, TransactionExpired
from motet.ids import RequestId, ShardName, StreamName, TransactionId
from motet.limits import transaction_participants_max

commit_seconds_max = answer_seconds_max + 5.0
"""How long a leader may take over a commit: it may have to wait for locks."""

fresh_seconds_max = 1.0
"""Who has not heard of the cluster for so long asks for its clock before a commit: shards forget old ones."""


Branches = dict[ShardName, tuple[Branch, tuple[SeenKey, ...]]]
"""What a transaction changes and has read in each of its shards; the first one is its home shard."""


class Coordinator:
    """The transactions of one client."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._fresh_at: float | None = None
        #: those that are prepared in all shards, the home shard too, with what is sent to commit them
        self._fixed: dict[TransactionId, CommitTransaction] = {}

    @property
    def clock(self) -> Clock:
        return self._router.clock

    # Reading

    async def latest(self, stream: StreamName, key: bytes) -> FeedChange | None:
        """The latest committed change of a key."""
        place = await self._router.stream(stream)
        number = place.shard_of(key)
        shard = place.places[number].shard
        answer = await self._router.ask_leader(
            shard,
            lambda n, clock: GetLatestChange(n, clock, shard, key),
            LatestChangeIs,
            may_repeat=True,
            seconds=commit_seconds_max,
        )
        if answer.found is None:
            return None
        change = list(changes_of(stream, number, shard, answer.found))[answer.place]
        self._router.see(change.clock)
        return change

    # Committing

    async def commit(
        self, name: TransactionId, begin: Clock, reads: Sequence[KeyRead], changes: Changes
    ) -> ToldClock:
        """Commit, and the clock; ``Conflict`` when it was not, ``OutcomeUnknown`` when nobody can tell."""
        branches = await self._divided(name, begin, reads, changes)
        votes: tuple[Vote, ...] = ()
        if len(branches) > 1:
            _, votes = await self._prepare(branches, list(branches)[1:])
        return await self._commit(_commit_of(branches, votes))

    async def fix(
        self, name: TransactionId, begin: Clock, reads: Sequence[KeyRead], changes: Changes
    ) -> ToldClock:
        """Have all shards prepare, the home shard too: what it will be committed at, if it is."""
        branches = await self._divided(name, begin, reads, changes)
        told, votes = await self._prepare(branches, list(branches))
        self._fixed[name] = _commit_of(branches, votes, told.clock)
        return told

    async def commit_fixed(self, transaction: TransactionId) -> ToldClock:
        """Commit what is prepared, at the clock that was told."""
        message = self._fixed.pop(transaction, None)
        if message is None:
            raise Conflict(f"transaction {transaction} has no clock, so it is not committed")
        return await self._commit(message)

    async def release(self, transaction: TransactionId) -> None:
        """Have it given up."""
        message = self._fixed.pop(transaction, None)
        if message is not None:
            await self._abort(message.shard, message.participants, message.branch)

    async def _divided(
        self, name: TransactionId, begin: Clock, reads: Sequence[KeyRead], changes: Changes
    ) -> Branches:
        """By shard, with a clock that is not old; ``NoSuchStream`` if a fresh map lacks a stream."""
        while (found := self._by_shard(reads, changes)) is None:
            for stream in (*(stream for stream, _ in changes), *(read.stream for read in reads)):
                if self._router.known_stream(stream) is None:
                    await self._router.stream(stream)
        if len(found) > transaction_participants_max:
            raise TooLarge(f"a transaction has at most {transaction_participants_max} shards")
        if not self._is_fresh():
            await self._freshen(next(iter(found)))
        asked, count = self._router.clock, len(changes)
        return {
            shard: (Branch(name, begin, asked, count, tuple(changed)), tuple(seen))
            for shard, (changed, seen) in found.items()
        }

    def _by_shard(
        self, reads: Sequence[KeyRead], changes: Changes
    ) -> dict[ShardName, tuple[list[RowChange], list[SeenKey]]] | None:
        """The first one with a change, or else a read, is home. None: some stream is not known."""
        known = self._router.known_stream
        found: dict[ShardName, tuple[list[RowChange], list[SeenKey]]] = {}
        for stream, change in changes:
            place = known(stream)
            if place is None:
                return None
            shard = place.places[place.shard_of(change.key)].shard
            found.setdefault(shard, ([], []))[0].append(change)
        for read in reads:
            place = known(read.stream)
            if place is None:
                return None
            shard = place.places[place.shard_of(read.key)].shard
            found.setdefault(shard, ([], []))[1].append(SeenKey(read.key, read.seen))
        return found

    def _is_fresh(self) -> bool:
        return self._fresh_at is not None and monotonic() - self._fresh_at < fresh_seconds_max

    async def _freshen(self, shard: ShardName) -> None:
        """Have a clock that is not old: what is asked at an old one may have been forgotten."""
        now = monotonic()
        closed = await self._router.ask_leader(
            shard,
            lambda n, clock: CloseShard(n, clock, shard),
            ShardClosed,
            may_repeat=True,
            seconds=answer_seconds_max,
        )
        self._router.see(closed.clock)
        self._fresh_at = now

    async def _prepare(
        self, branches: Branches, voters: Sequence[ShardName]
    ) -> tuple[ToldClock, tuple[Vote, ...]]:
        """Have these vote: the highest clock, what the home shard says, if it votes; and the other votes."""
        home, *participants = branches
        others = tuple(participants)

        def make_for(shard: ShardName) -> MakeData:
            branch, reads = branches[shard]
            return lambda n, clock: PrepareTransaction(n, clock, shard, branch, reads, home, others)

        # All are asked before any is waited for, without a task for each.
        asked = [(shard, make := make_for(shard), self._begin(shard, make)) for shard in voters]
        prepared: list[TransactionPrepared] = []
        errors: list[Exception] = []
        try:
            for shard, make, begun in asked:
                try:
                    prepared.append(await self._answer(shard, make, TransactionPrepared, begun))
                except MotetError as error:
                    errors.append(error)
        finally:
            for _, _, begun in asked:
                if begun is not None and not begun.cancel() and not begun.cancelled():
                    begun.exception()  # known, or for nobody any more if this was given up
        if errors:
            if prepared or not all(isinstance(error, Conflict) for error in errors):
                await self._abort(home, participants, branches[home][0])
            raise _worst(errors)
        highest = max(vote.clock for vote in prepared)
        self._router.see(highest)
        # The home shard is the first of those that vote, if it is one of them.
        others_voted = prepared[len(voters) - len(participants) :]
        votes = tuple([Vote(vote.clock, vote.seal) for vote in others_voted])
        return ToldClock(highest, prepared[0].has_clock), votes

    async def _abort(
        self, home: ShardName, participants: Sequence[ShardName], branch: Branch
    ) -> None:
        """Have it given up now. If nobody hears this, the home shard will do so by itself."""
        try:
            await self._router.ask_leader(
                home,
                lambda n, clock: AbortTransaction(
                    n, clock, home, branch.transaction, branch.asked, tuple(participants)
                ),
                TransactionEnded,
                may_repeat=True,
                seconds=answer_seconds_max,
            )
        except MotetError:
            return

    async def _commit(self, message: CommitTransaction) -> ToldClock:
        home, transaction = message.shard, message.branch.transaction

        def make(request: RequestId, clock: Clock) -> CommitTransaction:
            return msgspec.structs.replace(message, request=request, clock=clock)

        try:
            ended = await self._answer(home, make, TransactionEnded, self._begin(home, make))
        except (NotLeader, NoSuchShard, NodeError, TransactionExpired, OutcomeUnknown) as error:
            # One of the repeats may have been heard.
            raise OutcomeUnknown(
                f"it is not known what became of transaction {transaction}: {error.what}",
                hint="ask db.transaction_status(id) later",
            ) from None
        if ended.clock is None:
            raise Conflict(f"transaction {transaction} was given up: another one was in its way")
        self._router.see(ended.clock)
        shards = (home, *message.participants)
        self._router.session.committed(shards, ended.clock, is_settled=ended.is_settled)
        self._fresh_at = monotonic()
        return ToldClock(ended.clock, ended.has_clock)

    def _begin(self, shard: ShardName, make: MakeData) -> asyncio.Future[DataAnswer] | None:
        return self._router.begin_with_leader(shard, make, commit_seconds_max)

    async def _answer(
        self,
        shard: ShardName,
        make: MakeData,
        kind: type[D],
        begun: asyncio.Future[DataAnswer] | None,
    ) -> D:
        """What comes of a question that was begun: nearly always the first answer, else as leaders change."""
        if begun is not None:
            with suppress(MotetError, TimeoutError):  # looked at once more below
                answer = await begun
                if isinstance(answer, kind):
                    return answer
        return await self._router.ask_leader(
            shard, make, kind, may_repeat=True, seconds=commit_seconds_max, begun=begun
        )

    # Asking later

    async def status(self, transaction: TransactionId) -> tuple[Standing, Clock | None, bool]:
        """What became of a transaction, as far as any shard knows."""
        await self._router.refresh()
        shards = [place.shard for stream in self._router.map.streams for place in stream.places]
        answers = await asyncio.gather(*(self._ask(shard, transaction) for shard in shards))
        standings = {answer.standing: answer for answer in answers if answer is not None}
        for standing in ("committed", "aborted", "prepared"):
            if standing in standings:
                found = standings[standing]
                return found.standing, found.clock, found.has_clock
        if None in answers:
            raise OutcomeUnknown(f"not all shards can say what became of {transaction}")
        return "unknown", None, True

    async def _ask(self, shard: ShardName, transaction: TransactionId) -> TransactionIs | None:
        def make(request: RequestId, clock: Clock) -> GetTransaction:
            return GetTransaction(request, clock, shard, transaction)

        try:
            return await self._router.ask_leader(
                shard, make, TransactionIs, may_repeat=True, seconds=answer_seconds_max
            )
        except MotetError:
            return None


def _commit_of(
    branches: Branches, votes: tuple[Vote, ...], fixed: Clock | None = None
) -> CommitTransaction:
    """What the home shard is asked when all participants have voted."""
    (home, (branch, reads)), *others = branches.items()
    participants = tuple([shard for shard, _ in others])
    return CommitTransaction(RequestId(0), ZERO, home, branch, reads, participants, votes, fixed)


def _worst(errors: Sequence[BaseException]) -> BaseException:
    """What to tell of several: what is not a mere conflict, else the first."""
    for error in errors:
        if not isinstance(error, MotetError):
            return error
    for error in errors:
        if isinstance(error, OutcomeUnknown):
            # Nobody was asked to commit: it will not be.
            return NodeError(f"a participant did not vote, nothing was changed: {error.what}")
        if not isinstance(error, Conflict):
            return error
    return errors[0]
