"""Replication with merges where a part knows what it covers: nothing that was merged comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TypeAlias

from motet.verify.model import (
    Model,
    Record,
    Variant,
    action,
    always_eventually,
    chosen,
    invariant,
    numbered,
    parameter,
    require,
    weak,
)
from motet.verify.models.merge_tree import Natural, Pointer

Part: TypeAlias = tuple[int, ...]
"""The inserts that a part holds, in order. A part covers another if it holds all of them."""


class Member(Record, frozen=True):
    """A replica: the next record to execute, and its parts."""

    log_pointer: Pointer = 1
    parts: frozenset[tuple[int, ...]] = frozenset()


class State(Record, frozen=True):
    """The log (each record is the part it makes), the replicas, and who assigns merges."""

    log: tuple[tuple[int, ...], ...]
    replica: tuple[Member, ...]
    leader: Natural | None = None


def covers(one: Part, other: Part) -> bool:
    """Whether a part holds all that another holds."""
    return set(one) >= set(other)


def _pairs(_: object, s: State) -> list[tuple[Part, Part]]:
    return [] if s.leader is None else list(combinations(sorted(s.replica[s.leader].parts), 2))


class ReplicationRepaired(Model[State]):
    """Replication with covering: a record whose part, or a larger one, is there already is skipped.

    Parts come from other replicas, which may have merged them meanwhile and give the larger part.

    And a merge is assigned only by a leader that has executed the whole log: an append is a compare-and-set
    on the log, so two leaders cannot merge one part twice.
    """

    name = "replication-repaired"
    state_type = State
    replicas = parameter(3, least=1, most=5, what="replicas of the shard")
    records = parameter(4, least=1, most=8, what="records of the log, inserts and merges")
    Replicas = numbered("replicas", "r")
    symmetry = Replicas
    may_end = True
    fairness = weak("execute", "insert", each=True)

    def initial(self) -> Iterator[State]:
        yield State((), (Member(),) * self.replicas)

    def put(self, s: State, r: int, member: Member) -> State:
        """The state with one replica replaced."""
        return s.but(replica=(*s.replica[:r], member, *s.replica[r + 1 :]))

    def added(self, parts: frozenset[Part], new: Part) -> frozenset[Part]:
        """The parts with a new one, without those that it covers."""
        return frozenset([*(old for old in parts if not covers(new, old)), new])

    @action(r=Replicas)
    def insert(self, s: State, r: int) -> State:
        require(len(s.log) < self.records)
        part = (len(s.log),)
        me = s.replica[r]
        return self.put(s, r, me.but(parts=me.parts | {part})).but(log=(*s.log, part))

    @action(r=Replicas)
    def become_leader(self, s: State, r: int) -> State:
        require(s.leader is None)
        return s.but(leader=r)

    @action
    def expired_leader(self, s: State) -> State:
        require(s.leader is not None)
        return s.but(leader=None)

    @action(pair=chosen(_pairs))
    def leader_create_merge(self, s: State, pair: tuple[Part, Part]) -> State:
        assert s.leader is not None
        me = s.replica[s.leader]
        require(len(s.log) < self.records and self.may_merge(s, me))
        part = tuple(sorted({*pair[0], *pair[1]}))
        after = me.but(parts=self.added(me.parts, part))
        return self.put(s, s.leader, after).but(log=(*s.log, part))

    def may_merge(self, s: State, leader: Member) -> bool:
        """The leader knows every record before the one it appends."""
        return leader.log_pointer > len(s.log)

    @action(r=Replicas)
    def execute(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.log_pointer <= len(s.log))
        part = s.log[me.log_pointer - 1]
        parts = me.parts if self.skips(me, part) else self.added(me.parts, part)
        return self.put(s, r, me.but(log_pointer=me.log_pointer + 1, parts=parts))

    @action(r=Replicas, source=Replicas)
    def fetch_covering(self, s: State, r: int, source: int) -> State:
        """Instead of the part of its next record a replica may be given a larger one that covers it."""
        me = s.replica[r]
        require(me.log_pointer <= len(s.log))
        part = s.log[me.log_pointer - 1]
        require(not self.skips(me, part))
        larger = [p for p in sorted(s.replica[source].parts) if p != part and covers(p, part)]
        require(larger)
        parts = self.added(me.parts, larger[0])
        return self.put(s, r, me.but(log_pointer=me.log_pointer + 1, parts=parts))

    def skips(self, me: Member, part: Part) -> bool:
        """Whether a record has nothing to add."""
        return any(covers(held, part) for held in me.parts)

    @invariant
    def no_covered_part(self, s: State) -> bool:
        """No part stands beside one that covers it."""
        return not any(
            covers(one, other)
            for m in s.replica
            for one in m.parts
            for other in m.parts
            if one != other
        )

    @invariant
    def no_intersection(self, s: State) -> bool:
        """No insert is in two parts of one replica."""
        return all(len(held) == len(set(held)) for held in self.held(s))

    def held(self, s: State) -> list[list[int]]:
        """The inserts in the parts of each replica, as often as they are there."""
        return [[insert for part in m.parts for insert in part] for m in s.replica]

    @invariant
    def converged_at_end(self, s: State) -> bool:
        """Replicas that have executed the whole log have the same parts."""
        ended = {m.parts for m in s.replica if m.log_pointer > len(s.log)}
        return len(ended) < 2

    @always_eventually
    def equivalent_replicas(self, s: State) -> bool:
        """Again and again all replicas have executed the whole log and are equal."""
        return all(m.log_pointer > len(s.log) and m.parts == s.replica[0].parts for m in s.replica)

    def renamed(self, s: State, order: Sequence[int]) -> State:
        leader = None if s.leader is None else order.index(s.leader)
        return s.but(replica=tuple(s.replica[old] for old in order), leader=leader)

    def rank(self, s: State, value: int) -> object:
        m = s.replica[value]
        return s.leader == value, m.log_pointer, sorted(m.parts)

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        small = {"replicas": 2, "records": 3}
        return {
            "replay-own-records": Variant(
                "a record is executed even if a part that covers it is there",
                ReplayOwnRecords,
                breaks="NoCoveredPart",
                settings=small,
            ),
            "merge-from-behind": Variant(
                "a leader assigns merges before it has executed the log",
                MergeFromBehind,
                breaks="NoIntersection",
                settings={"replicas": 2, "records": 5},
            ),
        }


class ReplayOwnRecords(ReplicationRepaired):
    """A replica that was given a merged part comes to one of its sources, and adds it beside the merge."""

    def skips(self, me: Member, part: Part) -> bool:
        return part in me.parts


class MergeFromBehind(ReplicationRepaired):
    """A new leader that has not heard of a merge merges one of its sources with something else."""

    def may_merge(self, s: State, leader: Member) -> bool:  # noqa: ARG002
        return True
