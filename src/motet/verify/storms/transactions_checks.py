"""What must hold of transactions, by what the shards' logs have committed in the end.

Atomic         a transaction is committed in all its shards, with one clock, or in none; every change is there
               once
Decided        no log has two outcomes of a transaction; what a client was told is what became of it
KeyOrder       the changes of a key are in its log in the order of their clocks
ReadsValid     what a committed transaction has read was the latest change below its clock: no lost update
LatestKept     a get shows a change as it was committed, none older than one that anybody had been told of
               when it was asked for, and is never told that the key is forgotten, whatever was pruned
CausalOrder    a transaction's clock is above everything that its client had seen
SessionReads   a client reads its own writes, and never goes back
FeedComplete   readers were shown every change up to their cursor, once, by (clock, transaction, index); but
               for what was pruned before they got there, as they were told
CursorKept     who has a named cursor is never told that the feed is pruned, unless that was forced
Expired        who is told so can go on where all shards have the feed, and that is not above what was pruned
ClockVisibility what is committed has a clock for its readers as the last order before it in the log says; a
               transaction as its home shard says, in all shards, and as its client was told
Stuck          nothing is left open after the storm, and all accounts can be changed at once
"""

from __future__ import annotations

from typing import NamedTuple

from motet.core.clock.hlc import ZERO, Clock, maximum
from motet.core.metadata.definitions import KeyHash, StreamDefinition, shard_names, shard_of
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.change import FeedChange
from motet.core.streams.entries import (
    Committed,
    changes_of,
    decode_aborted,
    decode_committed,
    decode_records,
    unbatched,
)
from motet.core.streams.messages import DataRefused, LatestChangeIs
from motet.core.streams.orders import FeedRules, decode_order
from motet.core.streams.shard import state_of
from motet.errors.shards import KeyForgotten
from motet.ids import Offset, ShardId, ShardName, TransactionId
from motet.sim.world import World
from motet.verify.storms.streams_changes import STAYS
from motet.verify.storms.streams_checks import Watch

ACCOUNTS = [f"account-{number}".encode() for number in range(7)]
LATER_ACCOUNTS = [f"later-{number}".encode() for number in range(4)]
"""Of the second stream."""

QUIET_ACCOUNTS = [f"quiet-{number}".encode() for number in range(8)]
"""Seldom changed: their latest changes are pruned long before the next ones."""


class SeenChange(NamedTuple):
    """A change in the feed; sorts as the feed does."""

    clock: Clock
    transaction: TransactionId
    place: int
    shard: int
    offset: Offset
    key: bytes
    #: for its readers
    has_clock: bool


def seen_of(change: FeedChange) -> SeenChange:
    """A change as a reader has seen it."""
    return SeenChange(
        change.clock,
        change.transaction,
        change.index,
        change.shard,
        change.offset,
        change.key,
        change.has_clock,
    )


class Ledger:
    """What clients wanted and were told, compared with the logs in the end."""

    def __init__(
        self, world: World, watch: Watch, stays: StreamDefinition, later: StreamDefinition
    ) -> None:
        self._world = world
        self._watch = watch
        self.stays: list[ShardName] = list(shard_names(stays))
        self.later: list[ShardName] = list(shard_names(later))
        #: of both streams
        self.shards = self.stays + self.later
        #: nothing above it was asked to be pruned; and whether that is done by force
        self.pruned: Clock = ZERO
        self.is_forced = False
        #: transaction -> what it had read
        self._reads: dict[TransactionId, dict[bytes, Clock | None]] = {}
        self._committed: dict[TransactionId, Clock] = {}
        #: those whose clients were told no clock
        self._hidden: dict[TransactionId, None] = {}
        self._aborted: dict[TransactionId, None] = {}
        #: those of which a client has said half of the truth: only what it has named has to be there
        self._left_out: dict[TransactionId, None] = {}
        #: which ones a liar has given up in which shard
        self._given_up: dict[tuple[TransactionId, ShardName], None] = {}
        #: key -> the highest clock of a change of it that anybody was told of
        self._told: dict[bytes, Clock] = {}
        #: what gets have shown, and to whom
        self._shown: dict[FeedChange, str] = {}

    # What clients say

    def wants(self, name: TransactionId, reads: dict[bytes, Clock | None]) -> None:
        self._reads[name] = dict(reads)

    def leaves_out(self, name: TransactionId) -> None:
        """Its client has left out participants that have prepared."""
        self._left_out[name] = None

    def is_given_up_in(self, shard: ShardName, name: TransactionId) -> None:
        """A shard that is not its home was asked to give up a transaction."""
        self._given_up[name, shard] = None

    def shard_of(self, key: bytes) -> ShardName:
        """The shard of an account."""
        shards = self.later if key in LATER_ACCOUNTS else self.stays
        return shards[shard_of(key, len(shards), KeyHash.CRC32C)]

    def told_committed(
        self,
        client: str,
        name: TransactionId,
        clock: Clock,
        keys: list[bytes],
        *,
        has_clock: bool,
    ) -> None:
        for key in keys:
            self._told[key] = max(clock, self.told_of(key))
        if not has_clock:
            self._hidden[name] = None
            self._world.mark("clock_hidden")
        known = self._committed.setdefault(name, clock)
        if name in self._aborted or known != clock:
            self._violated("Decided", f"{client}: {name} is committed at {clock}, too")

    def told_aborted(self, client: str, name: TransactionId) -> None:
        self._aborted[name] = None
        if name in self._committed:
            self._violated("Decided", f"{client}: {name} is aborted, too")

    @property
    def newest(self) -> Clock:
        """The highest clock of a change that anybody was told of."""
        return maximum((ZERO, *self._told.values()))

    def told_of(self, key: bytes) -> Clock:
        """The clock of the newest change of a key that anybody was told of."""
        return self._told.get(key, ZERO)

    def shown(self, client: str, key: bytes, answer: LatestChangeIs, told: Clock) -> Clock | None:
        """A get was answered, for which the key was known to be changed at ``told``; what is its clock?"""
        change = None
        if answer.found is not None:
            shard = self.shard_of(key)
            change = changes_of(STAYS, self._number(shard), shard, answer.found)[answer.place]
            self._shown.setdefault(change, client)
        seen = None if change is None else change.clock
        if (seen or ZERO) < told or (change is not None and change.key != key):
            what = f"{client} {key!r}: {change}, and it was changed at {told}"
            self._violated("LatestKept", what)
        self._told[key] = max(seen or ZERO, self.told_of(key))
        return seen

    def refused_get(self, client: str, refused: DataRefused | None) -> None:
        """A get was not answered."""
        if refused is not None and refused.code == KeyForgotten.code:
            self._violated("LatestKept", f"{client}: {refused.what}")

    def _number(self, shard: ShardName) -> ShardId:
        return ShardId(self.shards.index(shard))

    def open_in(self, replica: ShardReplica) -> str | None:
        """What is still open in a shard."""
        state = state_of(replica)
        if state.prepared:
            return f"{replica.shard}: {next(iter(state.prepared))} is prepared"
        if state.decisions:
            return f"{replica.shard}: {next(iter(state.decisions))} is not acknowledged"
        return None

    def _violated(self, rule: str, what: str) -> None:
        self._world.violated(rule, what)

    # In the end

    def entries(self, shard: ShardName) -> list[Entry]:
        """What a shard has committed, what was batched one by one."""
        truth = self._watch.truth(shard)
        return [each for entry in truth.ids[1:] for each in unbatched(truth.entries[entry])]

    def check_all(self) -> None:
        """All rules about logs."""
        outcomes: dict[TransactionId, dict[ShardName, Committed | None]] = {}
        versions: dict[bytes, list[Clock]] = {}
        for shard in self.shards:
            rules = FeedRules()
            for entry in self.entries(shard):
                self._note(shard, entry, outcomes, versions)
                self._check_clock_visibility(shard, entry, rules)
        for name, branches in outcomes.items():
            self._check_atomic(name, branches)
        for name, clock in self._committed.items():
            branches = outcomes.get(name, {})
            committed = [branch for branch in branches.values() if branch is not None]
            if not committed or committed[0].clock != clock:
                self._violated("Decided", f"{name} was told committed at {clock}: {committed}")
            elif committed[0].has_clock == (name in self._hidden):
                self._violated("ClockVisibility", f"{name} was told otherwise: {committed[0]}")
        for name in self._aborted:
            if any(branch is not None for branch in outcomes.get(name, {}).values()):
                self._violated("Decided", f"{name} was told aborted, and is committed")
        self._check_reads(outcomes, versions)
        self._check_shown()

    def _note(
        self,
        shard: ShardName,
        entry: Entry,
        outcomes: dict[TransactionId, dict[ShardName, Committed | None]],
        versions: dict[bytes, list[Clock]],
    ) -> None:
        keys: list[bytes] = []
        clock = entry.clock
        if entry.kind == EntryKind.BRANCH_COMMITTED:
            body = decode_committed(entry.body)
            clock = body.clock
            keys = [change.key for change in body.branch.changes]
            self._end(shard, body.branch.transaction, body, outcomes)
            self._world.mark("transaction_committed")
        elif entry.kind == EntryKind.ABORTED:
            self._end(shard, decode_aborted(entry.body).transaction, None, outcomes)
        elif entry.kind == EntryKind.RECORDS and decode_records(entry.body).count:
            keys = [c.key for c in changes_of(STAYS, ShardId(0), shard, entry)]
        for key in dict.fromkeys(keys):
            known = versions.setdefault(key, [])
            if known and known[-1] >= clock:
                self._violated("KeyOrder", f"{shard} {key!r}: {clock} after {known[-1]}")
            known.append(clock)

    def _check_clock_visibility(self, shard: ShardName, entry: Entry, rules: FeedRules) -> None:
        if entry.kind == EntryKind.ORDERED:
            rules.apply(decode_order(entry.body))
            return
        is_wrong = (
            entry.kind == EntryKind.RECORDS
            and decode_records(entry.body).has_clock != rules.has_clock
        )
        if is_wrong:
            self._violated("ClockVisibility", f"{shard} {entry.id}: not as {rules.turned} says")

    def _end(
        self,
        shard: ShardName,
        name: TransactionId,
        body: Committed | None,
        outcomes: dict[TransactionId, dict[ShardName, Committed | None]],
    ) -> None:
        branches = outcomes.setdefault(name, {})
        if shard in branches:
            self._violated("Decided", f"{shard} has two outcomes of {name}")
        branches[shard] = body

    def _check_atomic(
        self, name: TransactionId, branches: dict[ShardName, Committed | None]
    ) -> None:
        committed = [branch for branch in branches.values() if branch is not None]
        if not committed:
            return
        clocks = {branch.clock: None for branch in committed}
        indices = sorted(change.index for branch in committed for change in branch.branch.changes)
        is_left_out = name in self._left_out
        aborted = [
            shard
            for shard, branch in branches.items()
            if branch is None and (name, shard) not in self._given_up
        ]
        if len(clocks) != 1 or (aborted and not is_left_out):
            self._violated("Atomic", f"{name}: {branches}")
        if indices != list(range(committed[0].branch.count)) and not is_left_out:
            self._violated("Atomic", f"{name}: changes {indices} of {committed[0].branch.count}")
        if len({branch.has_clock: None for branch in committed}) != 1:
            self._violated("ClockVisibility", f"{name}: {branches}")

    def _check_reads(
        self,
        outcomes: dict[TransactionId, dict[ShardName, Committed | None]],
        versions: dict[bytes, list[Clock]],
    ) -> None:
        for name, branches in outcomes.items():
            clock = next((branch.clock for branch in branches.values() if branch is not None), None)
            if clock is None:
                continue
            for key, seen in self._reads.get(name, {}).items():
                below = [each for each in versions.get(key, []) if each < clock]
                latest = below[-1] if below else None
                if latest != seen:
                    what = f"{name} at {clock} had read {key!r} at {seen}, latest was {latest}"
                    self._violated("ReadsValid", what)

    def _check_shown(self) -> None:
        committed: dict[FeedChange, None] = {}
        for shard in self.shards:
            for entry in self.entries(shard):
                committed |= dict.fromkeys(self._changes(shard, entry))
        for change, client in self._shown.items():
            if change not in committed:
                self._violated("LatestKept", f"{client} was shown {change}")

    def _changes(self, shard: ShardName, entry: Entry) -> list[FeedChange]:
        if entry.kind not in (EntryKind.BRANCH_COMMITTED, EntryKind.RECORDS):
            return []
        return changes_of(STAYS, self._number(shard), shard, entry)

    def check_feed(
        self,
        name: str,
        seen: list[SeenChange],
        after: Clock,
        gaps: list[tuple[Clock, Clock]],
        joined: Clock | None,
    ) -> None:
        """What a reader was shown is all there is up to its cursor.

        But for gaps, of which it was told, and for what the second stream had when the reader came to it.
        """

        def is_wanted(shard: ShardName, clock: Clock) -> bool:
            if shard in self.later and (joined is None or clock <= joined):
                return False
            return clock <= after and not any(low < clock <= high for low, high in gaps)

        wanted: list[SeenChange] = []
        for shard in self.shards:
            for entry in self.entries(shard):
                changes = self._changes(shard, entry)
                wanted += [seen_of(c) for c in changes if is_wanted(shard, c.clock)]
        wanted.sort()
        if seen != wanted:
            at = next(
                (n for n, (a, b) in enumerate(zip(seen, wanted, strict=False)) if a != b),
                min(len(seen), len(wanted)),
            )
            what = f"{name}: {len(seen)} of {len(wanted)}, at {at}: {seen[at : at + 1]}"
            self._violated("FeedComplete", f"{what}, not {wanted[at : at + 1]}")
