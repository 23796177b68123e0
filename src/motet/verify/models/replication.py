"""Replication with merges as it was published (``Replication.tla``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from motet.verify.model import (
    Model,
    Record,
    Variant,
    action,
    always_eventually,
    chosen,
    eventually,
    invariant,
    numbered,
    parameter,
    require,
    strong,
)
from motet.verify.models.merge_tree import Natural, Parts, Replica, ReplicaStates, put


class Entry(Record, frozen=True):
    """A record of the log: an insert, or a merge of the parts ``old_records``."""

    data: Natural
    id: Natural
    old_records: Parts = frozenset()

    @property
    def is_merge(self) -> bool:
        """Whether it replaces parts by one."""
        return bool(self.old_records)


class State(Record, frozen=True):
    """The log, the replicas, and who assigns merges."""

    log: tuple[Entry, ...]
    replica: ReplicaStates
    next_record_data: Natural = 0
    leader: Natural | None = None


def _pairs(_: object, s: State) -> list[tuple[int, int]]:
    if s.leader is None:
        return []
    parts = sorted(s.replica[s.leader].local_parts)
    return [(one, two) for one in parts for two in parts if one != two]


class Replication(Model[State]):
    """Any replica takes an insert, an elected leader assigns merges, and all follow one log."""

    name = "replication"
    state_type = State
    replicas = parameter(3, least=1, most=5, what="replicas of the shard")
    records = parameter(4, least=1, most=8, what="records of the log, inserts and merges")
    Replicas = numbered("replicas", "r")
    symmetry = Replicas
    fairness = strong("expired_leader", "leader_create_merge")

    def initial(self) -> Iterator[State]:
        yield State((), (Replica(),) * self.replicas)

    @action(r=Replicas)
    def insert(self, s: State, r: int) -> State:
        require(len(s.log) < self.records)
        me = s.replica[r]
        data = s.next_record_data
        return s.but(
            replica=put(
                s.replica, r, me.but(is_lost=False, local_parts=me.local_parts | frozenset((data,)))
            ),
            log=(*s.log, Entry(data, len(s.log))),
            next_record_data=data + 1,
        )

    @action
    def expired_leader(self, s: State) -> State:
        require(s.leader is not None)
        assert s.leader is not None
        me = s.replica[s.leader]
        return s.but(
            replica=put(s.replica, s.leader, me.but(is_active=True, is_lost=False)), leader=None
        )

    @action(pair=chosen(_pairs))
    def leader_create_merge(self, s: State, pair: tuple[int, int]) -> State:
        require(len(s.log) < self.records)
        assert s.leader is not None
        me = s.replica[s.leader]
        data, old = s.next_record_data, frozenset(pair)
        merged = me.but(is_lost=False, local_parts=(me.local_parts | {data}) - old)
        return s.but(
            replica=put(s.replica, s.leader, merged),
            log=(*s.log, Entry(data, len(s.log), old)),
            next_record_data=data + 1,
        )

    @action(r=Replicas)
    def execute_insert(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.log_pointer <= len(s.log) and not s.log[me.log_pointer - 1].is_merge)
        return s.but(replica=put(s.replica, r, me.fetched(s.log[me.log_pointer - 1].data)))

    @action(r=Replicas)
    def execute_merge(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.log_pointer <= len(s.log) and s.log[me.log_pointer - 1].is_merge)
        entry = s.log[me.log_pointer - 1]
        after = me.fetched(entry.data)
        after = after.but(local_parts=after.local_parts - entry.old_records)
        return s.but(replica=put(s.replica, r, after))

    @action(r=Replicas)
    def become_leader(self, s: State, r: int) -> State:
        require(s.leader is None)
        return s.but(leader=r)

    @action
    def legitimate_termination(self, s: State) -> State:
        require(len(s.log) == self.records)
        return s

    @eventually
    def equivalent_replicas(self, s: State) -> bool:
        """All replicas have the same parts some day. True at once: at first all have none."""
        return len({one.local_parts for one in s.replica}) == 1

    @invariant
    def converged_at_end(self, s: State) -> bool:
        """Replicas that have executed the whole log have the same parts. (Not in the published one.)"""
        ended = [one.local_parts for one in s.replica if one.log_pointer > len(s.log)]
        return len(ended) < self.replicas or len(set(ended)) == 1

    def renamed(self, s: State, order: Sequence[int]) -> State:
        leader = None if s.leader is None else order.index(s.leader)
        return s.but(replica=tuple(s.replica[old] for old in order), leader=leader)

    def rank(self, s: State, value: int) -> object:
        one = s.replica[value]
        return s.leader == value, one.log_pointer, sorted(one.local_parts)

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        small = {"replicas": 2, "records": 3}
        return {
            "resurrection": Variant(
                "as published, asked whether a merged part comes back beside its merge",
                Resurrection,
                breaks="NoResurrection",
                settings=small,
            ),
            "vacuous": Variant(
                "as published, asked for equal replicas again and again instead of once",
                EquivalentAgain,
                breaks="EquivalentAgainAndAgain",
                settings=small,
            ),
        }


class Resurrection(Replication):
    """A replica executes its own insert again after its own merge, and the merged part is back."""

    @invariant
    def no_resurrection(self, s: State) -> bool:
        merges = [entry for entry in s.log if entry.is_merge]
        return not any(
            entry.data in one.local_parts and entry.old_records & one.local_parts
            for one in s.replica
            for entry in merges
        )


class EquivalentAgain(Replication):
    """``EquivalentReplicas`` holds before anything happens; asked for again later, it does not."""

    @always_eventually
    def equivalent_again_and_again(self, s: State) -> bool:
        return self.equivalent_replicas(s)
