"""A replica of a shard: a log with a state machine, on a node that does as the operator tells it.

The operator elects a leader by *fencing*: every node that answers stops, and says how far its log goes. The
one with the highest head leads, cuts back what others have beyond it, and pushes entries to its followers.
What a majority has on disk is committed, applied to the state machine, and never lost, whatever crashes.
Nodes know nothing of each other but what they are told, and nothing of the metadata store.

How to read it, a file per protocol:

==================  ============================================================================
``quorum``          what is committed; where a log is cut: pure
``fencing``         fence, become leader, add follower; damage
``leader``          append, push, count
``alignment``       making a follower's log the leader's: attach, truncate, snapshot
``follower``        take in, acknowledge, truncate
``snapshot``        giving one, and becoming one
``reconfiguration`` prepare, commit, abort: swap, expand, contract
``applying``        the state machine, and its state on disk; trimming the log
``reading``         entries back from disk
``storage``         segments and the meta file; ``log`` is what is known of them, ``meta`` their bytes
``recovery``        what the files say after a crash
``alone``           what is different for an ensemble of one, for good
==================  ============================================================================

A step is one event. Its handler changes the state; then ``_progress`` works out what has become possible: a
commit, something to apply, to push, or to answer. So no protocol calls another by surprise.

Invariants, checked after each step: I1 the commit index and the epoch never fall; I2 applied is at most
what is committed and durable; I3 only a leader has cursors, none for itself, and ``confirmed <= pushed <=
head``; I4 a leader's commit index is in its log; I5 the epoch is not below that of the head; and those of
the log, G1 to G3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from motet.core.clock.hlc import Clock
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import Effect, Message, Now, Violation
from motet.core.shardlog import (
    alignment,
    alone,
    applying,
    fencing,
    follower,
    leader,
    reading,
    reconfiguration,
    recovery,
    snapshot,
    storage,
)
from motet.core.shardlog.context import Core, EffectBuffer, ShardlogConfig, StateMachine
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import (
    AbortReconfigurationRequest,
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerRequest,
    BecomeLeaderRequest,
    CommitReconfigurationRequest,
    FenceRequest,
    PieceRequest,
    PieceResponse,
    PrepareReconfigurationRequest,
    Refused,
    ShardMessage,
    ShardReport,
    SnapshotRequest,
    SnapshotResponse,
    TruncateRequest,
    TruncateResponse,
)
from motet.core.shardlog.state import FinishedRead, Purpose, Reading, Status
from motet.errors import BadBytes, BadInput, DiskFull, DiskReadFailed, NodeError, TooLarge
from motet.errors.shards import EntriesGone, NotLeader
from motet.ids import Address, Epoch, LogName, NodeId, Offset, ReadId, WriteId
from motet.limits import shard_entry_body_bytes_max

HANDLERS: dict[type[Message], Callable[[Core, Any, Any], None]] = {
    AddEntryRequest: follower.on_add_entry_request,
    AddEntryResponse: leader.on_add_entry_response,
    TruncateRequest: follower.on_truncate_request,
    TruncateResponse: alignment.on_truncate_response,
    SnapshotRequest: snapshot.on_snapshot_request,
    SnapshotResponse: alignment.on_snapshot_response,
    PieceRequest: snapshot.on_piece_request,
    PieceResponse: snapshot.on_piece_response,
    FenceRequest: fencing.on_fence_request,
    BecomeLeaderRequest: fencing.on_become_leader_request,
    AddFollowerRequest: fencing.on_add_follower_request,
    PrepareReconfigurationRequest: reconfiguration.on_prepare,
    CommitReconfigurationRequest: reconfiguration.on_commit,
    AbortReconfigurationRequest: reconfiguration.on_abort,
}


class ShardReplica:
    """One replica. What it wants done is in the effect buffer of its node after each call."""

    def __init__(
        self,
        shard: LogName,
        own: NodeId,
        config: ShardlogConfig,
        effects: EffectBuffer,
        machine: StateMachine,
    ) -> None:
        self.core = Core(shard, own, config, effects, machine)

    # What the data node looks at

    @property
    def shard(self) -> LogName:
        return self.core.shard

    @property
    def status(self) -> Status:
        return self.core.state.status

    @property
    def epoch(self) -> Epoch:
        return self.core.state.epoch

    @property
    def known_epoch(self) -> Epoch | None:
        """The same; None while its files are read."""
        state = self.core.state
        return None if state.status is Status.RECOVERING else state.epoch

    @property
    def elected_epoch(self) -> Epoch:
        """What a leadership is known by: changes of the ensemble raise ``epoch`` alone."""
        return self.core.state.elected_epoch

    @property
    def is_serving(self) -> bool:
        """Leads, and what was in its log when it was elected is committed and applied."""
        return self.core.is_serving

    @property
    def is_damaged(self) -> bool:
        """Something of its log is not what was written: it counts for nothing until it is repaired."""
        return self.core.state.is_damaged

    @property
    def damage(self) -> str:
        """What was found, if it is damaged."""
        return self.core.state.damage

    @property
    def is_member(self) -> bool:
        """It has everything that it ever acknowledged."""
        return self.core.state.is_member

    @property
    def leader(self) -> NodeId | None:
        """Who leads, as far as this node has heard."""
        return self.core.state.leader

    @property
    def head(self) -> EntryId:
        return self.core.state.log.head

    @property
    def first_offset(self) -> Offset:
        """The first entry that is kept."""
        return self.core.state.log.first

    @property
    def commit_index(self) -> EntryId:
        return self.core.state.commit_index

    @property
    def applied_index(self) -> EntryId:
        state = self.core.state
        return state.log.runs.id_at(state.applied)

    @property
    def applied(self) -> Offset:
        return self.core.state.applied

    @property
    def segments(self) -> int:
        """How many files its log has."""
        return len(self.core.state.log.segments)

    @property
    def machine(self) -> StateMachine:
        return self.core.machine

    @property
    def last_clock(self) -> Clock:
        """No entry of the log has a higher one."""
        return self.core.state.log.clock

    @property
    def confirmed_round(self) -> int:
        """What was asked for by ``confirm`` up to this round is certain."""
        return self.core.state.confirmed_round

    # What the data node does

    def refusal(self, body_bytes: int) -> NotLeader | DiskFull | TooLarge | NodeError | None:
        """Why an entry of this size cannot be appended now; None when it can."""
        core = self.core
        state, config = core.state, core.config
        if body_bytes > shard_entry_body_bytes_max:
            return TooLarge(f"an entry of {body_bytes} bytes, at most {shard_entry_body_bytes_max}")
        if not core.is_serving:
            return NotLeader(f"this node does not lead shard {core.shard}")
        if state.is_disk_full:
            return DiskFull(f"no room for shard {core.shard}")
        waiting = state.log.head.offset - state.applied
        if (
            waiting >= config.uncommitted_entries_max
            or state.unapplied_bytes >= config.uncommitted_bytes_max
        ):
            what = f"too much of shard {core.shard} waits for its followers"
            return NodeError(what, hint="try again in a moment")
        return None

    def append(
        self, kind: int, clock: Clock, body: bytes, now: Now
    ) -> tuple[EntryId, list[Effect]]:
        """Append an entry; raises what ``refusal`` says. It is done when ``applied_index`` reaches it."""
        error = self.refusal(len(body))
        if error is not None:
            raise error
        self.core.effects.now = now
        entry = leader.append(self.core, kind, clock, body)
        return entry, self.core.effects.take()

    def look_for_room(self, now: Now) -> list[Effect]:
        """Try again what the disk had no room for, without waiting for the next beat."""
        self.core.effects.now = now
        storage.try_again(self.core)
        return self.core.effects.take()

    def confirm(self, now: Now) -> tuple[int, list[Effect]]:
        """A round: once it is confirmed, this node still led after the call."""
        if not self.core.is_serving:
            raise NotLeader(f"this node does not lead shard {self.shard}")
        self.core.effects.now = now
        number = leader.confirm(self.core)
        self._progress()
        return number, self.core.effects.take()

    def read(self, after: Offset, bytes_max: int) -> tuple[int, list[Effect]]:
        """Read committed entries after an offset; ``take_finished`` has them by and by, under this number.

        There may be fewer than fit. ``EntriesGone`` when the first of them is no longer kept.
        """
        core, state = self.core, self.core.state
        last = min(state.commit_index.offset, state.log.durable)
        if after < state.log.base.offset:
            raise EntriesGone(f"shard {self.shard} is kept from entry {state.log.first} on")
        if state.status is Status.RECOVERING or bytes_max <= 0:
            raise BadInput(f"shard {self.shard} cannot be read so")
        state.read_numbers += 1
        asked = Reading(Purpose.CLIENT, after, last, bytes_max, number=state.read_numbers)
        if after >= last or reading.begin(core, asked):
            reading.finish(core, asked)
        return asked.number, core.effects.take()

    def take_finished(self) -> list[FinishedRead]:
        """What has been read since the last call."""
        finished, self.core.state.finished = self.core.state.finished, []
        return finished

    def keep_from(self, offset: Offset | None, pruned: Offset | None = None) -> None:
        """Trim nothing from this entry on (None: all), but what is before ``pruned``, whatever the rules."""
        state = self.core.state
        if (state.keep_from, state.pruned_from) != (offset, pruned):
            state.keep_from, state.pruned_from = offset, pruned
            state.is_trim_due = True
            self.core.effects.touched[self.shard] = None

    def report(self) -> ShardReport:
        """For the answer to an operator's heartbeat."""
        core = self.core
        state = core.state
        caught_up = tuple(
            cursor.node
            for cursor in state.cursors.values()
            if cursor.is_attached and cursor.confirmed >= state.commit_index.offset
        )
        ends = (core.head, state.commit_index)
        fetched = 0 if state.installing is None else state.installing.fetched
        is_whole = state.is_member and not state.is_damaged
        status = state.status.value
        return ShardReport(
            core.shard, state.epoch, status, *ends, caught_up, fetched, is_whole, self._stalled()
        )

    def _stalled(self) -> tuple[tuple[NodeId, str], ...]:
        """Followers that lack something, and have got nothing new for long; with what is done about it."""
        core = self.core
        head = core.state.log.head.offset
        return tuple(
            (cursor.node, cursor.state.value)
            for cursor in core.state.cursors.values()
            if core.is_over(cursor.gained_ns, core.config.stalled_ms)
            and not cursor.is_leaving
            and not (cursor.is_attached and cursor.confirmed >= head)
        )

    # Events

    def found(self) -> None:
        """There is nothing of it on this node yet."""
        state = self.core.state
        state.recovery, state.status = None, Status.FENCED

    def start(self) -> None:
        """Read the files."""
        recovery.start(self.core)

    def on_message(self, sender: Address, message: ShardMessage) -> None:
        core = self.core
        if core.state.status is Status.RECOVERING:
            core.drop("recovering")
            return
        if type(message) is Refused:
            snapshot.on_refused(core, sender, message)
            leader.on_refused(core, NodeId(sender), message)
        elif (handler := HANDLERS.get(type(message))) is not None:
            handler(core, sender, message)
        else:
            core.drop("unexpected")
        self._progress()

    def on_written(self, write: WriteId) -> None:
        core, state = self.core, self.core.state
        if not storage.entries_written(core, state.log, write):
            fetched = state.installing
            _ = (
                (fetched is not None and storage.entries_written(core, fetched.log, write))
                or storage.meta_written(core, write)
                or storage.removed(core, write)
                or applying.state_written(core, write)
                or snapshot.state_written(core, write)
            )
        self._progress()

    def on_write_failed(self, write: WriteId, why: str) -> None:
        storage.write_failed(self.core, write, why)
        self._progress()

    def on_read_back(self, read: ReadId, data: bytes) -> None:
        core = self.core
        if not recovery.on_read_back(core, read, data):
            asked = core.state.readings.get(read)
            try:
                done = reading.go_on(core, read, data)
            except BadBytes as error:
                if not alone.is_borne(core, asked, error):
                    fencing.find_damage(core, error.what)
            else:
                if done is not None:
                    self._finish(done)
        self._progress()

    def _finish(self, done: Reading) -> None:
        core = self.core
        if done.purpose is Purpose.CLIENT:
            reading.finish(core, done)
        elif done.purpose is Purpose.APPLY:
            applying.apply_entries(core, done.entries)
        elif done.purpose is Purpose.PUSH:
            leader.push_read(core, done)
        else:
            snapshot.piece_read(core, done)

    def on_read_failed(self, read: ReadId, why: str) -> None:
        core = self.core
        if recovery.on_read_failed(core, read, why):
            return
        failed = core.state.readings.pop(read, None)
        if failed is None:
            return
        core.note("unreadable", why)
        if failed.purpose is Purpose.CLIENT:
            reading.finish(core, failed, (DiskReadFailed.code, why))
        elif failed.purpose is Purpose.PUSH and failed.node is not None:
            cursor = core.state.cursors.get(NodeId(failed.node))
            if cursor is not None:
                cursor.is_reading = False  # the next beat tries again
        if reading.is_unreadable(core, failed):
            fencing.find_damage(core, why)
            self._progress()

    def tick(self) -> None:
        """Time has passed: say again what was not answered, and look after the files."""
        core = self.core
        recovery.start(core)
        if core.state.status is Status.RECOVERING:
            return
        storage.try_again(core)
        if core.is_leader:
            leader.beat(core)
        snapshot.ask_again(core)
        snapshot.forget_idle_snapshots(core)
        self._progress()
        applying.trim(core)

    @property
    def is_at_rest(self) -> bool:
        """Nothing is late, or can become so: a tick now and then is enough."""
        core, state = self.core, self.core.state
        if state.status is Status.RECOVERING or state.readings or state.log.pending:
            return False
        if state.installing is not None or state.reconfiguring is not None:
            return False
        if state.is_disk_full or state.is_meta_due or state.meta_writes:
            return False
        if state.is_trim_due or state.state_write is not None:
            return False
        return state.status is not Status.LEADER or leader.is_at_rest(core)

    def _progress(self) -> None:
        """What has become possible."""
        core, state = self.core, self.core.state
        if state.is_disk_full and core.config.is_alone:
            alone.take_back(core)
        if state.status is Status.LEADER:
            leader.advance_commit(core)
            leader.push_all(core)
            leader.ask_next_round(core)
            if state.reconfiguring is not None:
                reconfiguration.answer_prepare(core)
        elif state.status is Status.FOLLOWER:
            follower.acknowledge_progress(core)
        applying.apply(core)
        if state.installing is not None:
            snapshot.progress(core)

    # What a checker needs

    def clone(self, effects: EffectBuffer) -> ShardReplica:
        core = self.core
        twin = ShardReplica(core.shard, core.own, core.config, effects, core.machine.clone())
        twin.core.state = clone_plain(core.state)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint((self.core.state, self.core.machine.fingerprint()))

    def invariants(self) -> list[Violation]:
        """I2 to I5, and those of the log; I1 is for whoever sees all steps."""
        core = self.core
        state, log = core.state, core.state.log
        if state.status is Status.RECOVERING:
            return []
        found = log.violations()
        if state.applied > min(state.commit_index.offset, log.durable):
            what = f"applied {state.applied}, committed {state.commit_index}, durable {log.durable}"
            found.append(Violation("I2", what))
        if state.cursors and (state.status is not Status.LEADER or core.own in state.cursors):
            found.append(Violation("I3", f"{state.status.value} with {list(state.cursors)}"))
        for cursor in state.cursors.values():
            if not cursor.confirmed <= cursor.pushed <= log.head.offset:
                found.append(Violation("I3", f"{cursor.node} {cursor.confirmed} {cursor.pushed}"))
        if state.status is Status.LEADER and not log.runs.has(state.commit_index):
            found.append(Violation("I4", f"{state.commit_index} is not in the log"))
        if log.head.epoch > state.epoch:
            found.append(Violation("I5", f"epoch {state.epoch}, head {log.head}"))
        return found
