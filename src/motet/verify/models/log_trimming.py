"""Log trimming as it was published (``TruncateLog.tla``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from motet.verify.model import (
    Model,
    Record,
    Variant,
    action,
    eventually,
    invariant,
    numbered,
    parameter,
    require,
    strong,
)
from motet.verify.models.merge_tree import LogRecord, Natural, Replica, ReplicaStates, put


class State(Record, frozen=True):
    """The log, the replicas, and how much of the log has been deleted."""

    log: tuple[LogRecord, ...]
    replica: ReplicaStates
    next_record_data: Natural = 0
    deleted_prefix: Natural = 0


class LogTrimming(Model[State]):
    """The log of a table shard is cut while replicas sleep; who slept too long is lost and clones.

    The log may be cut up to the slowest *active* replica. A replica that comes back and finds its next
    record gone was marked ``is_lost``, and copies the state of a replica that is not. The clone is one
    atomic step here; ``log-trimming-repaired`` takes it apart.
    """

    name = "log-trimming"
    state_type = State
    replicas = parameter(3, least=1, most=6, what="replicas of the shard")
    records = parameter(4, least=1, most=20, what="records that are inserted in all")
    Replicas = numbered("replicas", "r")
    symmetry = Replicas
    fairness = strong("insert", "replica_become_active", "execute_log", "clear_old_log")

    def initial(self) -> Iterator[State]:
        yield State((), (Replica(),) * self.replicas)

    @action(r=Replicas)
    def replica_become_inactive(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.is_active and not me.is_lost)
        return s.but(replica=put(s.replica, r, me.but(is_active=False)))

    @action(r=Replicas)
    def replica_become_active(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(not me.is_active and not me.is_lost)
        return s.but(replica=put(s.replica, r, me.but(is_active=True)))

    @action
    def clear_old_log(self, s: State) -> State:
        require(s.log)
        prefix = max(self.slowest(s), s.deleted_prefix)
        replica = tuple(self.after_clearing(one, prefix) for one in s.replica)
        return s.but(deleted_prefix=prefix, replica=replica)

    def slowest(self, s: State) -> int:
        """How far every active replica has come; nothing is deleted when none is active."""
        return min((one.log_pointer - 1 for one in s.replica if one.is_active), default=0)

    def after_clearing(self, replica: Replica, prefix: int) -> Replica:
        """A replica whose next record is gone is marked."""
        return replica.but(is_lost=replica.log_pointer - 1 < prefix)

    @action(r=Replicas, source=Replicas)
    def clone_replica(self, s: State, r: int, source: int) -> State:
        me, whole = s.replica[r], s.replica[source]
        require(not me.is_active and me.is_lost and whole.is_active and not whole.is_lost)
        return s.but(replica=put(s.replica, r, whole))

    @action(r=Replicas)
    def insert(self, s: State, r: int) -> State:
        require(s.replica[r].is_active and not s.replica[r].is_lost)
        require(len(s.log) < self.records)
        record = LogRecord(data=s.next_record_data, id=len(s.log))
        return s.but(log=(*s.log, record), next_record_data=s.next_record_data + 1)

    @action(r=Replicas)
    def execute_log(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.log_pointer <= len(s.log) and me.is_active and not me.is_lost)
        return s.but(replica=put(s.replica, r, me.fetched(s.log[me.log_pointer - 1].data)))

    @action
    def legitimate_termination(self, s: State) -> State:
        require(len(s.log) == self.records)
        return s

    @invariant
    def valid_log_pointer(self, s: State) -> bool:
        """No active replica stands at a record that is gone."""
        return all(s.deleted_prefix < one.log_pointer for one in s.replica if one.is_active)

    @eventually
    def is_log_cleared(self, s: State) -> bool:
        """Some of the log is deleted some day."""
        return s.deleted_prefix > 0

    def renamed(self, s: State, order: Sequence[int]) -> State:
        return s.but(replica=tuple(s.replica[old] for old in order))

    def rank(self, s: State, value: int) -> object:
        one = s.replica[value]
        return one.is_active, one.is_lost, one.log_pointer, sorted(one.local_parts)

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        return {
            "forget-lost": Variant(
                "the cleaner does not mark the replicas it leaves behind",
                ForgetLost,
                breaks="ValidLogPointer",
                settings={"replicas": 2, "records": 2},
            ),
            "wait-for-all": Variant(
                "the log is kept for replicas that are not active too",
                WaitForAll,
                breaks="IsLogCleared",
                settings={"replicas": 2, "records": 2},
            ),
            "wake-lost": Variant(
                "a lost replica becomes active again without a clone",
                WakeLost,
                breaks="ValidLogPointer",
                settings={"replicas": 2, "records": 2},
            ),
        }


class ForgetLost(LogTrimming):
    """A replica left behind is not marked, so it comes back and reads on where nothing is."""

    def after_clearing(self, replica: Replica, prefix: int) -> Replica:  # noqa: ARG002
        return replica


class WaitForAll(LogTrimming):
    """A replica that is gone for good keeps the log for ever."""

    def slowest(self, s: State) -> int:
        return min(one.log_pointer - 1 for one in s.replica)


class WakeLost(LogTrimming):
    """The mark is there, and nobody looks at it."""

    def replica_become_active(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(not me.is_active)
        return s.but(replica=put(s.replica, r, me.but(is_active=True)))
