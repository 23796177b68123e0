"""A replica of one shard of a table, as part of its node.

==============  =====================================================================
``activation``  from a session with the keeper to an active replica; disk and keeper compared
``pulling``     reading the log
``executed``    the file of what was executed, and ``log_pointer``
``executing``   getting the parts that entries bring, registering them, joining quorums
``ending``      failing quorums, and what failed blocks leave
``damage``      parts whose bytes are not what was written
``inserting``   inserts of clients
``dropping``    drops of clients
``reading``     answering readers as of a head
``windows``     forgetting tokens, producers and hashes of content
==============  =====================================================================

Each step is one event. What follows from it for the others is worked out once, at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Self

from motet.core.fingerprint import clone_plain
from motet.core.machine import Message, Violation
from motet.core.mergetree import (
    activation,
    collecting,
    damage,
    dropping,
    ending,
    executed,
    executing,
    finding,
    inserting,
    publication_dedup,
    pulling,
    pushing,
    reading,
    staging,
    windows,
)
from motet.core.mergetree.config import MergeTreeConfig
from motet.core.mergetree.context import Core, NodeContext, ReplicaKey
from motet.core.mergetree.entries import DoneEntry
from motet.core.mergetree.messages import (
    DropPartitions,
    FindVersion,
    HoldPart,
    InsertBlock,
    ListParts,
    LogHas,
    PartArrived,
    PartBroken,
    PartHeld,
    PartPushed,
    ReadDrops,
    StagePart,
)
from motet.core.mergetree.paths import entry_number
from motet.core.mergetree.standing_messages import QueuedEntry, ReplicaStanding
from motet.core.mergetree.state import (
    Activate,
    Call,
    CommitDrop,
    CommitInsert,
    Compare,
    Deregister,
    EndJob,
    Fail,
    FindEntries,
    FindHead,
    GiveUp,
    JudgeLeases,
    Leave,
    LetGo,
    ListJobs,
    ListWindow,
    LoadOwn,
    LoadQueue,
    Locate,
    LookAtWindows,
    Phase,
    Pull,
    PullManifests,
    PutPointer,
    ReadBroken,
    ReadForDrop,
    ReadForInsert,
    ReadJobs,
    ReadLeases,
    ReadLogHead,
    ReadPointer,
    ReadQuorum,
    ReadStatuses,
    ReadToFail,
    ReadWindow,
    Register,
    SettleRead,
    SettleWrite,
    TouchStaging,
    TrimWindow,
    WatchLog,
)
from motet.core.mergetree.work import NOBODY, Looked
from motet.core.metadata.messages import Changed, MetadataAnswer, Watching, Written
from motet.ids import Address, RequestId, WorkId, WriteId


def _on_watching(core: Core, _call: WatchLog, answer: MetadataAnswer) -> None:
    if isinstance(answer, Watching):
        pulling.pull(core)  # what came before the watch is told by nobody


def _on_registered(core: Core, call: Register, answer: MetadataAnswer) -> None:
    executing.on_registered(core, call, answer)
    if isinstance(answer, Written) and call.ends is not None:
        path = answer.results[-1]
        assert isinstance(path, str), "the entry is the last operation"
        pulling.on_appended(core, entry_number(path), answer.zxid, DoneEntry(call.ends))


ROUTES: dict[type[Call], Callable[[Core, Any, MetadataAnswer], None]] = {
    LoadOwn: activation.on_own,
    Activate: activation.on_activated,
    Compare: activation.on_compared,
    ReadStatuses: activation.on_statuses,
    Deregister: activation.on_deregistered,
    LoadQueue: activation.on_queue,
    Pull: pulling.on_pulled,
    PullManifests: pulling.on_manifests,
    PutPointer: executed.on_pointer,
    ReadPointer: executed.on_pointer_read,
    ReadForInsert: inserting.on_read,
    CommitInsert: inserting.on_committed,
    SettleWrite: inserting.on_settled,
    SettleRead: inserting.on_settle_read,
    ReadForDrop: dropping.on_read,
    CommitDrop: dropping.on_dropped,
    Locate: executing.on_located,
    ReadQuorum: executing.on_quorum,
    Register: _on_registered,
    ReadToFail: ending.on_read_to_fail,
    Fail: ending.on_failed,
    Leave: ending.on_left,
    ReadBroken: damage.on_read_broken,
    GiveUp: damage.on_given_up,
    ReadJobs: staging.on_jobs,
    LetGo: staging.on_let_go,
    ReadLogHead: staging.on_log_head,
    ListJobs: collecting.on_jobs,
    ReadLeases: collecting.on_leases,
    TouchStaging: collecting.on_touched,
    JudgeLeases: collecting.on_judged,
    EndJob: collecting.on_ended,
    FindHead: finding.on_head,
    FindEntries: finding.on_entries,
    LookAtWindows: windows.on_looked,
    ListWindow: windows.on_listed,
    ReadWindow: windows.on_read,
    TrimWindow: windows.on_trimmed,
    WatchLog: _on_watching,
}
"""Who takes the answer to a call."""

REQUESTS: dict[type[Message], Callable[[Core, Address, Any], None]] = {
    InsertBlock: inserting.take,
    DropPartitions: dropping.drop,
    ListParts: reading.take,
    FindVersion: finding.take,
    StagePart: staging.take,
    HoldPart: staging.hold,
    PartHeld: staging.on_held,
    ReadDrops: publication_dedup.tell_drops,
}
"""Who takes what clients and other nodes ask, and answers them."""

told_queue_max = 100
"""Parts that a replica waits for, of those that it tells of."""


class TableReplica:
    """One replica."""

    def __init__(self, node: NodeContext, key: ReplicaKey, config: MergeTreeConfig) -> None:
        self.core = Core(node, key, config)

    @property
    def phase(self) -> Phase:
        return self.core.state.phase

    # What happens

    def on_file_read(self, data: bytes) -> None:
        executed.on_file_read(self.core, data)

    def on_session(self) -> None:
        activation.begin(self.core)

    def on_session_end(self) -> None:
        activation.end(self.core)

    def on_request(self, sender: Address, message: Message) -> None:
        core = self.core
        if type(message) in REQUESTS:
            REQUESTS[type(message)](core, sender, message)
        elif isinstance(message, LogHas):
            pulling.hear(core, message.number)
        elif isinstance(message, PartArrived):
            executing.on_arrived(core, message.part)
            damage.on_arrived(core, message.part)
        elif isinstance(message, PartBroken):
            damage.on_broken(core, message.part)
        elif isinstance(message, PartPushed):
            pushing.take(core, message)

    def on_changed(self, changed: Changed) -> None:
        if changed.path == self.core.paths.log:
            pulling.on_changed(self.core, changed.zxid)

    def on_answer(self, request: RequestId, answer: MetadataAnswer) -> None:
        call = self.core.state.calls.pop(request, None)
        if call is not None:
            ROUTES[type(call)](self.core, call, answer)

    def on_work(self, work: WorkId, result: Message | None, why: str | None) -> None:
        """Work has ended: well, or not, and why."""
        core, state = self.core, self.core.state
        core.node.end_block(work)
        part = state.works.pop(work)
        if part == NOBODY:
            self._on_looked(work, result if isinstance(result, Looked) else None, why)
            return
        if state.leaving.pop(work, None) is not None:
            executing.on_put_away(core, part)
            return
        if work in state.arriving:
            pushing.on_arrived(core, work, why)
            return
        if work in state.holding:
            staging.on_hold_ended(core, work, why)
            return
        for number, insert in list(state.inserts.items()):
            if insert.work == work:
                if why is None:
                    inserting.on_kept(core, number)
                else:
                    inserting.on_not_kept(core, number, why)
                return
        if damage.on_work(core, part, work, why):
            return
        if why is None:
            executing.on_stored(core, part, work)
        else:
            executing.on_not_stored(core, part, work, why)

    def _on_looked(self, work: WorkId, looked: Looked | None, why: str | None) -> None:
        core, state = self.core, self.core.state
        if work == state.reading:
            damage.on_looked(core, looked)
        elif work == state.look and looked is not None:
            activation.on_looked(core, looked)
        elif work == state.look:  # another one is of an activation that was given up (A7)
            state.look = None
            core.step_back(f"its disk could not be read: {why}")

    def on_written(self, write: WriteId) -> None:
        executed.on_written(self.core, write)

    def on_write_failed(self, write: WriteId, why: str) -> None:
        executed.on_write_failed(self.core, write, why)

    def on_tick(self) -> None:
        core = self.core
        finding.on_tick(core)
        if core.state.phase in (Phase.WAITING, Phase.READ_ONLY):
            activation.begin(core)
        elif core.is_active:
            inserting.on_tick(core)
            executing.on_tick(core)
            damage.on_tick(core)
            pushing.on_tick(core)
            staging.on_tick(core)
            collecting.on_tick(core)
            windows.on_tick(core)
            pulling.on_tick(core)
            if executed.is_pointer_due(core):
                executed.put_pointer(core)

    def follow_up(self) -> None:
        """What the step means for everybody who waits."""
        core = self.core
        executed.write_file(core)
        if core.is_active:
            executing.advance(core)
            ending.advance(core)
            damage.advance(core)
            staging.release(core)
        staging.look(core)
        inserting.look(core)
        reading.look(core)

    # What people and checkers need

    def standing(self) -> ReplicaStanding:
        """How it stands with it."""
        state = self.core.state
        stored = [own.header.size_bytes for own in state.parts.values() if own.is_stored]
        queue = tuple(
            QueuedEntry(each.number, part, each.reason or each.step, each.tries)
            for part, each in islice(state.queue.items(), told_queue_max)
        )
        head = max(state.head_heard, state.history.next_number - 1)
        return ReplicaStanding(
            *self.core.key,
            phase=str(state.phase),
            why=state.why,
            log_pointer=state.pointer,
            head=head,
            parts=len(stored),
            size_bytes=sum(stored),
            queue=queue,
        )

    def clone(self, node: NodeContext) -> Self:
        twin = type(self)(node, self.core.key, self.core.config)
        twin.core.state = clone_plain(self.core.state)
        return twin

    def invariants(self) -> list[Violation]:
        state, found = self.core.state, []
        if state.durable_number > state.history.next_number:
            found.append(Violation("L2", "more is durable than was executed"))
        if state.pointer > state.durable_number and state.phase is Phase.ACTIVE:
            found.append(Violation("L2", f"pointer {state.pointer} passes {state.durable_number}"))
        found += [
            Violation("E4", f"{part} is registered and not synced")
            for part, own in state.parts.items()
            if own.is_registered
            and not (own.is_stored or own.is_broken)
            and state.phase is Phase.ACTIVE
        ]
        return found
