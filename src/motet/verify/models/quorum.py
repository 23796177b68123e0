"""Quorum inserts and sequential selects as they were published (``ClickHouseQuorum.tla``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

from motet.errors import BadInput
from motet.verify.model import (
    Model,
    Record,
    Variant,
    action,
    invariant,
    numbered,
    parameter,
    require,
)
from motet.verify.models.merge_tree import LogRecord, Natural, Replica, ReplicaStates, put


class Kind(IntEnum):
    """What a client sees."""

    START_INSERT = 0
    END_INSERT = 1
    FAILED_INSERT = 2
    READ = 3

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


START_INSERT, END_INSERT, FAILED_INSERT, READ = Kind


class Event(Record, frozen=True):
    """One event of the history, with the id of the record it is about."""

    kind: Kind
    record_id: Natural


class QuorumNode(Record, frozen=True):
    """The insert that waits for its quorum: which data, on which replicas."""

    data: Natural
    replicas: frozenset[Natural]
    id: Natural


class State(Record, frozen=True):
    """The log, the replicas, the insert in flight, the failed ones, and what clients have seen."""

    log: tuple[LogRecord, ...]
    replica: ReplicaStates
    next_record_data: Natural = 0
    quorum: QuorumNode | None = None
    failed_parts: tuple[LogRecord, ...] = ()
    last_added_data: Natural | None = None
    history: tuple[Event, ...] = ()


class Quorum(Model[State]):
    """An insert is acknowledged when a quorum has it; a select answers only where all of them are.

    One insert is in flight at a time. The published guard bounds the *set* of reads in the history, which
    the same read again does not enlarge, so its state space has no end; here reads are counted, which is
    what was meant (the variant ``reads-as-a-set`` shows the published guard). ``NoStaleRead`` is ours: the
    published properties let a single stale read pass.
    """

    name = "quorum"
    state_type = State
    auxiliary = ("history",)
    replicas = parameter(3, least=1, most=5, what="replicas of the shard")
    quorum = parameter(2, least=1, most=5, what="replicas that must have an insert")
    records = parameter(2, least=1, most=6, what="inserts in all")
    reads = parameter(2, least=0, most=6, what="reads in all")
    Replicas = numbered("replicas", "r")
    symmetry = Replicas

    def prepare(self) -> None:
        if self.quorum > self.replicas:
            raise BadInput(
                f"a quorum of {self.quorum} cannot be had from {self.replicas} replicas",
                hint="choose quorum <= replicas",
            )
        self.most_reads, self.most_records, self.least = self.reads, self.records, self.quorum

    def initial(self) -> Iterator[State]:
        yield State((), (Replica(),) * self.replicas)

    # what actions and properties ask

    def read_count(self, s: State) -> int:
        """The reads so far."""
        return sum([event.kind == READ for event in s.history])

    def visible(self, s: State, r: int) -> frozenset[int]:
        """The parts of a replica without the one in flight and the failed ones."""
        parts = s.replica[r].local_parts
        if s.quorum is not None:
            parts -= {s.quorum.data}
        return parts - {part.data for part in s.failed_parts} if s.failed_parts else parts

    def committed(self, s: State) -> int:
        """How many inserts are done: in the log, not failed, not in flight."""
        return len(s.log) - len(s.failed_parts) - (s.quorum is not None)

    def quorum_is_unalive(self, s: State, node: QuorumNode) -> bool:
        """Nobody who has the block is active."""
        return not any(s.replica[r].is_active for r in node.replicas)

    # the client

    @action(r=Replicas)
    def quorum_insert(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(s.quorum is None and len(s.log) < self.most_records and me.is_active)
        data, record_id = s.next_record_data, len(s.log)
        return s.but(
            quorum=QuorumNode(data, frozenset((r,)), record_id),
            replica=put(
                s.replica, r, me.but(is_lost=False, local_parts=me.local_parts | frozenset((data,)))
            ),
            log=(*s.log, LogRecord(data, record_id)),
            next_record_data=data + 1,
            history=(*s.history, Event(START_INSERT, record_id)),
        )

    @action(r=Replicas)
    def quorum_read_lin(self, s: State, r: int) -> State:
        require(s.log and s.replica[r].is_active and self.read_count(s) < self.most_reads)
        seen = self.visible(s, r)
        require(seen and len(seen) == self.committed(s))
        return s.but(history=(*s.history, Event(READ, s.log[max(seen)].id)))

    # a replica

    @action(r=Replicas)
    def execute_log(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.is_active and me.log_pointer <= len(s.log))
        record = s.log[me.log_pointer - 1]
        if s.quorum is None or record.id != s.quorum.id:
            require(record not in s.failed_parts)
        else:
            require(r in s.quorum.replicas and me.log_pointer == len(s.log))
        return s.but(replica=put(s.replica, r, me.fetched(record.data)))

    @action(r=Replicas)
    def update_quorum(self, s: State, r: int) -> State:
        me, node = s.replica[r], s.quorum
        require(node is not None and me.is_active and me.log_pointer <= len(s.log))
        assert node is not None
        record = s.log[me.log_pointer - 1]
        require(record.id == node.id and r not in node.replicas)
        require(not self.quorum_is_unalive(s, node))
        return s.but(
            quorum=QuorumNode(node.data, node.replicas | {r}, node.id),
            replica=put(s.replica, r, me.fetched(record.data)),
        )

    @action(r=Replicas)
    def end_quorum(self, s: State, r: int) -> State:
        node = s.quorum
        require(node is not None and s.replica[r].is_active)
        assert node is not None
        require(r in node.replicas and len(node.replicas) >= self.least)
        return s.but(
            quorum=None,
            last_added_data=node.data,
            history=(*s.history, Event(END_INSERT, node.id)),
        )

    @action(r=Replicas)
    def failed_quorum(self, s: State, r: int) -> State:
        me, node = s.replica[r], s.quorum
        require(node is not None and me.is_active and me.log_pointer <= len(s.log))
        assert node is not None
        require(s.log[me.log_pointer - 1].id == node.id and r not in node.replicas)
        require(self.quorum_is_unalive(s, node))
        return s.but(
            quorum=None,
            failed_parts=(*s.failed_parts, LogRecord(node.data, node.id)),
            history=(*s.history, Event(FAILED_INSERT, node.id)),
        )

    @action(r=Replicas)
    def become_inactive(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.is_active)
        return s.but(replica=put(s.replica, r, me.but(is_active=False)))

    @action(r=Replicas)
    def become_active(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(not me.is_active)
        return s.but(replica=put(s.replica, r, me.but(is_active=True)))

    @action
    def legitimate_termination(self, s: State) -> State:
        require(self.committed(s) + len(s.failed_parts) == self.most_records)
        require(self.read_count(s) >= self.most_reads)
        return s

    # what must hold

    @invariant
    def quorum_select(self, s: State) -> bool:
        """Every record is on a quorum of replicas, or in flight, or failed."""
        for record in s.log:
            if s.quorum is not None and record.id == s.quorum.id:
                continue
            holders = sum([record.data in one.local_parts for one in s.replica])
            if holders < self.least and record not in s.failed_parts:
                return False
        return True

    @invariant
    def read_after_write(self, s: State) -> bool:
        """A record is read only after its insert has begun and ended."""
        seen: set[int] = set()
        for event in s.history:
            if event.kind == READ:
                seen.add(event.record_id)
            elif event.kind != FAILED_INSERT and event.record_id in seen:
                return False
        return True

    @invariant
    def end_or_failed_after_start_write(self, s: State) -> bool:
        """An insert ends or fails after it has begun. (Published as "eventually", which is true at once.)"""
        begun: set[int] = set()
        for event in s.history:
            if event.kind == START_INSERT:
                begun.add(event.record_id)
            elif event.kind != READ and event.record_id not in begun:
                return False
        return True

    @invariant
    def monotonic_read(self, s: State) -> bool:
        """Two reads see records in the order in which their inserts ended."""
        read = [event.record_id for event in s.history if event.kind == READ]
        if len(read) < 2:
            return True
        ended = [event.record_id for event in s.history if event.kind == END_INSERT]
        order = [ended.index(record_id) for record_id in read if record_id in ended]
        return order == sorted(order)

    @invariant
    def no_stale_read(self, s: State) -> bool:
        """No read is older than an insert that had ended before it."""
        newest = -1
        for event in s.history:
            if event.kind == END_INSERT:
                newest = max(newest, event.record_id)
            elif event.kind == READ and event.record_id < newest:
                return False
        return True

    def renamed(self, s: State, order: Sequence[int]) -> State:
        node = s.quorum
        if node is not None:
            node = node.but(replicas=frozenset(order.index(old) for old in node.replicas))
        return s.but(replica=tuple(s.replica[old] for old in order), quorum=node)

    def rank(self, s: State, value: int) -> object:
        one = s.replica[value]
        member = s.quorum is not None and value in s.quorum.replicas
        return one.is_active, member, one.log_pointer, sorted(one.local_parts)

    def kernels(self) -> Any:
        if type(self) not in (Quorum, QuorumStale):
            return None  # a variant changes an action, and its kernel would not know
        from motet.verify.explore.kernels import numpy_or_refuse

        numpy_or_refuse()
        from motet.verify.models.quorum_kernels import QuorumKernels

        return QuorumKernels

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        from motet.verify.models.quorum_variants import quorum_variants

        return quorum_variants()


class QuorumStale(Quorum):
    """The same with selects that do not ask whether the replica has everything (QuorumReadWithoutLin).

    That is what a select gets from a metadata store whose reads may lag behind.
    """

    name = "quorum-stale"
    without = ("quorum_read_lin",)
    Replicas = Quorum.Replicas

    @action(r=Replicas)
    def quorum_read_without_lin(self, s: State, r: int) -> State:
        require(s.log and s.replica[r].is_active and self.read_count(s) < self.most_reads)
        seen = self.visible(s, r)
        require(seen)
        return s.but(history=(*s.history, Event(READ, s.log[max(seen)].id)))

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        return {}
