"""A replica of a cluster: Viewstamped Replication that survives its disks.

Clients' requests become operations in one order. Each is on the disks of a replication quorum before it is
executed and answered, and none that was answered is ever lost, whatever crashes, lags, is cut off or has its
sectors rot, as long as the quorums are there (``quorums``).

How to read it, a file per protocol:

====================  ==========================================================================
``normal``            request, prepare along the chain, prepare_ok
``bounds``            what a message may say at all
``commit``            the heartbeat; executing what is committed
``clock``             ping and pong: a time that a quorum agrees on
``start_view_change`` leaving a view, only together
``view_change``       do_view_change; ``view_change_quorum`` is the decision what the new log is
``start_view``        leading; joining; request_start_view
``repair``            headers backwards, prepares forwards; ``replies`` and ``blocks`` likewise
``checkpointing``     the state on disk; ``sync`` fetches a whole checkpoint
``recovery``          what its files say after a crash; ``wal_recovery`` is the table
``read_barrier``      reading without writing
``storage``           writing the log and the superblock
====================  ==========================================================================

A step is one event. Its handler changes the state; then ``_progress`` works out what has become possible: a
commit, a checkpoint, the start of a view, the next request. So no protocol calls another by surprise.

Invariants, checked after each step: V1 commit_min <= commit_max; V2 the checkpoint is not ahead of
commit_min; V3 log_view <= view; V4 a primary has executed all it knows to be committed before it began, and
its pipeline follows its commit; V5 view and log_view are not below what is on disk; and those of the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Message,
    ReadBack,
    ReadFailed,
    Received,
    Started,
    Violation,
    WriteFailed,
    Written,
)
from motet.core.vsr import (
    blocks,
    bounds,
    checkpointing,
    clients,
    clock,
    commit,
    divergence,
    normal,
    read_barrier,
    recovery,
    repair,
    replies,
    scrub,
    start_view,
    start_view_change,
    storage,
    sync,
    view_change,
)
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.context import Core
from motet.core.vsr.invariants import invariants
from motet.core.vsr.messages import (
    Block,
    Commit,
    ConfirmView,
    DoViewChange,
    Eviction,
    Headers,
    Ping,
    PingClient,
    Pong,
    Prepare,
    PrepareOk,
    ReadBarrier,
    ReplicaMessage,
    Reply,
    Request,
    RequestBlocks,
    RequestHeaders,
    RequestPrepare,
    RequestReply,
    RequestStartView,
    StartView,
    StartViewChange,
    ViewConfirmed,
    VsrMessage,
)
from motet.core.vsr.state import PendingRead, Status
from motet.core.vsr.state_machine import StateMachine
from motet.ids import Address, ReplicaIndex, TimerName, WriteId

Handler = Callable[[Core, Any], None]
ReadHandler = Callable[[Core, PendingRead, bytes | None], None]

FROM_REPLICAS: dict[type[Message], Handler] = {
    Ping: clock.on_ping,
    Pong: clock.on_pong,
    PrepareOk: normal.on_prepare_ok,
    Commit: commit.on_commit,
    StartViewChange: start_view_change.on_start_view_change,
    DoViewChange: view_change.on_do_view_change,
    StartView: start_view.on_start_view,
    RequestStartView: start_view.on_request_start_view,
    RequestHeaders: repair.on_request_headers,
    Headers: repair.on_headers,
    RequestPrepare: repair.on_request_prepare,
    RequestReply: replies.on_request_reply,
    RequestBlocks: blocks.on_request_blocks,
    Block: blocks.on_block,
    ConfirmView: read_barrier.on_confirm_view,
    ViewConfirmed: read_barrier.on_view_confirmed,
}
"""Commands that only a replica sends, in its own name."""

CARRIED = (Prepare, Reply, Eviction)
"""What a replica may pass on for another, or for a client."""

WHILE_RECOVERING = (Ping, Pong, RequestBlocks, Block, RequestPrepare)
"""What a replica deals with before it knows its own past."""

READS: dict[str, ReadHandler] = {
    recovery.SUPERBLOCK_COPY: recovery.on_superblock_read,
    recovery.WAL_PIECE: recovery.on_wal_read,
    commit.PREPARE: commit.on_prepare_read,
    repair.SERVE_PREPARE: repair.on_prepare_to_serve,
    repair.CHECK_PREPARE: repair.on_prepare_checked,
    replies.REPLY: replies.on_reply_read,
    blocks.RESTORE: blocks.on_blocks_read,
    blocks.SERVE: blocks.on_block_to_serve,
    blocks.CHECK: blocks.on_block_checked,
}

TIMERS: dict[TimerName, Callable[[Core], None]] = {
    clock.PING: clock.send_pings,
    view_change.SILENCE: start_view_change.on_silence,
    view_change.VOTE: start_view_change.vote,
    view_change.SEND: view_change.send_do_view_change,
    view_change.GIVE_UP: start_view_change.on_silence,
    start_view.ASK: start_view.keep_asking,
    repair.REPAIR: repair.on_repair_timer,
    scrub.SCRUB: scrub.on_scrub_timer,
    checkpointing.DISK: checkpointing.retry_writes,
}


class Replica:
    """One replica, as a machine."""

    def __init__(self, config: VsrConfig, own: ReplicaIndex, machine: StateMachine) -> None:
        self.core = Core(config, own, machine)

    def step(self, event: Event) -> list[Effect]:
        core = self.core
        core.now = event.now
        effects: list[Effect] = []
        core.effects = effects
        if core.state.status is not Status.REFUSED and not (
            type(event) is Written and self._is_one_of_many(event)
        ):
            self._handle(event)
            self._progress()
        core.effects = []
        return effects

    def _is_one_of_many(self, event: Written) -> bool:
        """A write that is durable, of several that only matter together: nothing follows from it alone."""
        state = self.core.state
        if state.checkpointing is not None and len(state.checkpointing.writes) > 1:
            return state.checkpointing.writes.pop(event.write, event) is None
        if len(state.other_writes) > 1 or state.restore is None:
            return state.other_writes.pop(event.write, event) is None
        return False

    def _handle(self, event: Event) -> None:
        core = self.core
        if isinstance(event, Received):
            self._on_message(event.sender, event.message)
        elif isinstance(event, Written):
            self._on_written(event.write)
        elif isinstance(event, Fired):
            self._on_timer(event.timer)
        elif isinstance(event, ReadBack):
            why = core.state.reads.pop(event.read)
            READS[why.why](core, why, event.data)
        elif isinstance(event, ReadFailed):
            why = core.state.reads.pop(event.read)
            READS[why.why](core, why, None)
        elif isinstance(event, WriteFailed):
            self._on_write_failed(event.write)
        elif isinstance(event, Started):
            recovery.start(core, event.nonce)
            core.timer(scrub.SCRUB, core.config.timeouts.scrub_ms)

    # Messages

    def _on_message(self, sender: Address, message: Message) -> None:
        core = self.core
        if not isinstance(message, VsrMessage) or message.cluster != core.config.cluster:
            core.drop("foreign")
            return
        replica = core.replica_at.get(sender)
        problem = None if replica is None else bounds.problem_with(core, message)
        if problem is not None:
            bounds.refuse(core, message, problem)
        elif not core.state.is_started and not isinstance(message, WHILE_RECOVERING):
            core.drop("recovering")
        elif isinstance(message, CARRIED):
            self._on_compacted(replica, message)
        elif isinstance(message, ReplicaMessage):
            self._on_replica_message(replica, message)
        else:
            self._on_client_message(sender, replica, message)

    def _on_replica_message(self, replica: ReplicaIndex | None, message: ReplicaMessage) -> None:
        core = self.core
        handler = FROM_REPLICAS.get(type(message))
        if handler is None or replica is None or replica != message.replica:
            core.drop("not_a_replica")
            return
        core.state.heard_monotonic_ns[replica] = core.now.monotonic_ns
        if isinstance(message, Commit):
            self._hear_of_view(message)
        if isinstance(message, divergence.WITNESSES):
            divergence.compare_checkpoints(core, message)
        handler(core, message)
        if isinstance(message, Commit) and core.is_backup and message.view == core.state.view:
            start_view_change.watch_primary(core)

    def _hear_of_view(self, message: ReplicaMessage) -> None:
        """A commit or prepare of a newer view: something was missed."""
        state = self.core.state
        if message.view > state.view or (
            message.view == state.view and state.status is Status.VIEW_CHANGE
        ):
            start_view.ask_for_view(self.core, message.view)

    def _on_compacted(
        self, replica: ReplicaIndex | None, message: Prepare | Reply | Eviction
    ) -> None:
        """What a replica may pass on for another, or for a client."""
        core = self.core
        if replica is None:
            core.drop("not_a_replica")
        elif isinstance(message, Prepare):
            self._on_prepare(message)
        elif isinstance(message, Eviction):
            address = core.state.addresses.get(message.client)
            if address is not None:
                core.send_address(address, message)
        elif not replies.repair_reply(core, message):
            clients.relay_reply(core, message)

    def _on_prepare(self, message: Prepare) -> None:
        core = self.core
        if not repair.is_intact(core, message):
            core.drop("prepare_checksum")
            return
        self._hear_of_view(message)
        if repair.is_repair(core, message):
            repair.repair_prepare(core, message)
            return
        normal.on_prepare(core, message)
        if core.is_backup and message.header.view == core.state.view:
            start_view_change.watch_primary(core)

    def _on_client_message(
        self, sender: Address, replica: ReplicaIndex | None, message: VsrMessage
    ) -> None:
        core = self.core
        if isinstance(message, Request):
            if replica is None:
                clients.remember_address(core, message.client, sender)
            normal.on_request(core, message, replica)
        elif isinstance(message, PingClient):
            clients.on_ping_client(core, message, sender)
        elif isinstance(message, ReadBarrier):
            read_barrier.on_read_barrier(core, message, sender)
        else:
            core.drop("unexpected")

    # Timers and the disk

    def _on_timer(self, timer: TimerName) -> None:
        core = self.core
        if timer == commit.HEARTBEAT:
            if commit.on_heartbeat(core):
                start_view_change.take_vote_back(core)
            else:
                start_view_change.vote(core)
            read_barrier.ask_round(core)
            return
        if timer == view_change.GIVE_UP:
            core.timer(view_change.GIVE_UP, core.config.timeouts.view_change_ms)
        TIMERS[timer](core)

    def _on_written(self, write: WriteId) -> None:
        core, state = self.core, self.core.state
        if write in state.prepare_writes:
            slot = state.prepare_writes.pop(write)
            header = state.journal.written(slot, write)
            if header is not None:
                normal.acknowledge(core, header)
        elif write in state.superblock_writes:
            if storage.superblock_written(core, write):
                self._on_superblock()
        elif state.checkpointing is not None and write in state.checkpointing.writes:
            del state.checkpointing.writes[write]
        elif state.block_writes.pop(write, None) is None:
            state.other_writes.pop(write, None)

    def _on_superblock(self) -> None:
        """What waited for it."""
        core, state = self.core, self.core.state
        checkpointing.checkpoint_named(core)
        if core.is_syncing and state.commit_min < core.checkpoint_op:
            sync.begin_fetch(core)
        if not state.is_started or not core.is_view_durable:
            return
        storage.write_kept_prepares(core)
        if state.status is Status.VIEW_CHANGE:
            view_change.send_do_view_change(core)
        elif state.status is Status.NORMAL:
            normal.send_all_prepare_oks(core)

    def _on_write_failed(self, write: WriteId) -> None:
        """A full disk: what was to be written is written later."""
        core, state = self.core, self.core.state
        core.note("disk_full")
        core.timer(checkpointing.DISK, checkpointing.disk_retry_ms)
        if write in state.prepare_writes:
            storage.prepare_failed(core, write)
        elif write in state.superblock_writes:
            storage.superblock_failed(core, write)
        elif state.checkpointing is not None and write in state.checkpointing.writes:
            checkpointing.block_write_failed(core, write)
        elif write in state.block_writes:
            state.blocks_faulty[state.block_writes.pop(write)] = None
        else:
            state.other_writes.pop(write, None)

    # What has become possible

    def _progress(self) -> None:
        # This runs at every event. What is rare is asked for here, without a call.
        core, state = self.core, self.core.state
        if state.restore is not None:
            sync.finish_restore(core)
            blocks.read_wanted_blocks(core)
        if state.is_started:
            if state.commit_heard > state.commit_max:
                core.believe_commit()
            self._commit()
            if state.queue:
                normal.prepare_queued(core)
            if state.awaiting and not state.pipeline:
                commit.tell_awaiting(core)
            if state.leading and start_view.is_ready_to_lead(core):
                start_view.begin_view(core)
            if (
                state.commit_min < state.commit_max
                or state.commit_min < state.commit_heard
                or state.restore is not None
            ):
                start_view.ask_if_stuck(core)
            if core.is_syncing:
                sync.end_sync(core)
        if state.checkpointing is not None:
            checkpointing.write_more_blocks(core)
            checkpointing.finish_checkpoint(core)
        if state.superblock_due:
            storage.write_due_superblock(core)
        if len(state.journal.cache) > 8 * core.config.pipeline_max:
            storage.forget_old_prepares(core)
        self._set_timers()

    def _set_timers(self) -> None:
        """Those that run only while there is something to do."""
        core, state = self.core, self.core.state
        if state.is_heartbeat_idle and commit.is_busy(core):
            commit.set_heartbeat(core)
        if not state.is_repair_due and repair.is_needed(core) and not core.is_solo:
            repair.start_timer(core)

    def _commit(self) -> None:
        core, state = self.core, self.core.state
        if state.connected_op > core.checkpoint_op + 1:
            commit.connect_headers(core)
        if state.pipeline:
            commit.commit_by_quorum(core)
        interval = core.config.checkpoint_ops
        if state.commit_min % interval == 0:
            checkpointing.begin_checkpoint(core)
        while state.commit_min < state.commit_max and commit.execute(core):
            if state.commit_min % interval == 0:
                checkpointing.begin_checkpoint(core)

    # What is beside it

    def await_commits(self, *, is_so: bool) -> None:
        """Whether somebody here waits for what is executed next (X3)."""
        self.core.state.awaits_commits = is_so

    # What a driver and a checker need

    def clone(self) -> Self:
        twin = type(self)(self.core.config, self.core.own, self.core.machine.clone())
        twin.core.state = clone_plain(self.core.state)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint((self.core.state, self.core.machine.fingerprint()))

    def invariants(self) -> list[Violation]:
        return invariants(self.core)
