"""Log trimming with the clone and the cleaner taken apart: what a running system does in several steps."""

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
from motet.verify.models.merge_tree import Natural, Parts, Pointer


class Member(Record, frozen=True):
    """A replica. While it clones it is active and still lost: ``source`` says from whom."""

    is_active: bool = True
    is_lost: bool = False
    log_pointer: Pointer = 1
    local_parts: Parts = frozenset()
    source: Natural | None = None


class Cleaning(Record, frozen=True):
    """A cleaner at work: how far the replicas it has asked so far have come."""

    prefix: Natural
    #: it has asked the recovering replicas too
    asked_all: bool = False
    #: a replica that it would leave behind became active since: its multi will be refused
    is_void: bool = False


class State(Record, frozen=True):
    """The number of records in the log, the replicas, the deleted prefix, and the cleaner."""

    records: Natural
    replica: tuple[Member, ...]
    deleted_prefix: Natural = 0
    cleaning: Cleaning | None = None


class LogTrimmingRepaired(Model[State]):
    """Trimming with a clone in two steps and a cleaner that reads pointers one group after the other.

    A clone first takes over the pointer, and its parts later. That may move a pointer backwards, so the
    cleaner asks recovering replicas last, and with them those that have recovered since it began: whoever
    starts to clone after that takes the pointer of a replica that had been asked. What the cleaner does is
    one multi, refused if a replica that it would mark as lost became active since it began.
    """

    name = "log-trimming-repaired"
    state_type = State
    replicas = parameter(3, least=1, most=5, what="replicas of the shard")
    records = parameter(2, least=1, most=8, what="records that are inserted in all")
    Replicas = numbered("replicas", "r")
    symmetry = Replicas
    may_end = True
    fairness = (
        *strong("insert", "clear_old_log", "read_pointers", "read_recovering"),
        *strong("give_up_clearing"),
        *strong("execute_log", "replica_become_active", each=True),
    )

    def initial(self) -> Iterator[State]:
        yield State(0, (Member(),) * self.replicas)

    def put(self, s: State, r: int, member: Member) -> State:
        """The state with one replica replaced."""
        return s.but(replica=(*s.replica[:r], member, *s.replica[r + 1 :]))

    @action(r=Replicas)
    def replica_become_inactive(self, s: State, r: int) -> State:
        require(s.replica[r].is_active)
        return self.put(s, r, s.replica[r].but(is_active=False, source=None))

    @action(r=Replicas)
    def replica_become_active(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(not me.is_active and not me.is_lost)
        cleaning = s.cleaning
        if cleaning is not None and me.log_pointer - 1 < cleaning.prefix:
            cleaning = cleaning.but(is_void=True)  # a version that the cleaner's multi checks
        return self.put(s, r, me.but(is_active=True)).but(cleaning=cleaning)

    @action
    def insert(self, s: State) -> State:
        require(s.records < self.records and any(m.is_active and not m.is_lost for m in s.replica))
        return s.but(records=s.records + 1)

    @action(r=Replicas)
    def execute_log(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.is_active and not me.is_lost and me.log_pointer <= s.records)
        parts = me.local_parts | {me.log_pointer}
        return self.put(s, r, me.but(log_pointer=me.log_pointer + 1, local_parts=parts))

    # the cleaner

    def whole(self, s: State) -> list[int]:
        """How far the active replicas that are not lost have come."""
        return [m.log_pointer - 1 for m in s.replica if m.is_active and not m.is_lost]

    def recovering(self, s: State) -> list[int]:
        """And the recovering ones."""
        return [m.log_pointer - 1 for m in s.replica if m.is_active and m.is_lost]

    def active(self, s: State) -> list[int]:
        """And both."""
        return [m.log_pointer - 1 for m in s.replica if m.is_active]

    @action
    def read_pointers(self, s: State) -> State:
        first = self.asked_first(s)
        require(s.cleaning is None and s.records > 0 and self.whole(s))
        return s.but(cleaning=Cleaning(min(first, default=s.records)))

    @action
    def read_recovering(self, s: State) -> State:
        require(s.cleaning is not None and not s.cleaning.asked_all)
        assert s.cleaning is not None
        prefix = min([s.cleaning.prefix, *self.asked_last(s)])
        return s.but(cleaning=s.cleaning.but(prefix=prefix, asked_all=True))

    def asked_first(self, s: State) -> list[int]:
        """Whose pointers the cleaner reads first."""
        return self.whole(s)

    def asked_last(self, s: State) -> list[int]:
        """Whose pointers it reads last."""
        return self.active(s)

    @action
    def clear_old_log(self, s: State) -> State:
        require(s.cleaning is not None and s.cleaning.asked_all and self.accepts(s.cleaning))
        assert s.cleaning is not None
        prefix = max(s.cleaning.prefix, s.deleted_prefix)
        replica = tuple(
            m.but(is_lost=True) if m.log_pointer - 1 < prefix and not m.is_active else m
            for m in s.replica
        )
        return s.but(deleted_prefix=prefix, replica=replica, cleaning=None)

    def accepts(self, cleaning: Cleaning) -> bool:
        """Whether the metadata store takes the cleaner's multi."""
        return not cleaning.is_void

    @action
    def give_up_clearing(self, s: State) -> State:
        require(s.cleaning is not None and s.cleaning.is_void)
        return s.but(cleaning=None)

    # the clone

    @action(r=Replicas, source=Replicas)
    def start_clone(self, s: State, r: int, source: int) -> State:
        me, whole = s.replica[r], s.replica[source]
        require(not me.is_active and me.is_lost and whole.is_active and not whole.is_lost)
        return self.put(s, r, self.started(me.but(is_active=True, source=source), whole))

    @action(r=Replicas)
    def finish_clone(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.is_active and me.source is not None)
        assert me.source is not None
        whole = s.replica[me.source]
        require(whole.is_active and not whole.is_lost)
        return self.put(s, r, self.finished(me.but(is_lost=False, source=None), whole))

    def started(self, me: Member, whole: Member) -> Member:
        """First the pointer …"""
        return me.but(log_pointer=whole.log_pointer)

    def finished(self, me: Member, whole: Member) -> Member:
        """… and then the parts, which are then at least those before the pointer."""
        return me.but(local_parts=whole.local_parts)

    # what must hold

    @invariant
    def valid_log_pointer(self, s: State) -> bool:
        """No active replica that is not lost stands at a record that is gone."""
        return all(
            s.deleted_prefix < m.log_pointer for m in s.replica if m.is_active and not m.is_lost
        )

    @invariant
    def parts_follow_log(self, s: State) -> bool:
        """A replica that is not lost has the part of every record before its pointer."""
        return all(
            m.is_lost or m.local_parts >= frozenset(range(1, m.log_pointer)) for m in s.replica
        )

    @invariant
    def somebody_is_whole(self, s: State) -> bool:
        """Not all replicas are lost: there is somebody to clone from."""
        return not all(m.is_lost for m in s.replica)

    @eventually
    def is_log_cleared(self, s: State) -> bool:
        """Some of the log is deleted some day."""
        return s.deleted_prefix > 0

    def renamed(self, s: State, order: Sequence[int]) -> State:
        return s.but(
            replica=tuple(
                m if m.source is None else m.but(source=order.index(m.source))
                for m in (s.replica[old] for old in order)
            )
        )

    def rank(self, s: State, value: int) -> object:
        m = s.replica[value]
        return m.is_active, m.is_lost, m.log_pointer, sorted(m.local_parts), m.source is None

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        return {
            "recovering-first": Variant(
                "the cleaner asks the recovering replicas first",
                RecoveringFirst,
                breaks="ValidLogPointer",
                settings={"replicas": 2, "records": 2},
            ),
            "recovered-in-between": Variant(
                "the cleaner asks recovering replicas last, and not those that recovered meanwhile",
                RecoveringOnlyLast,
                breaks="ValidLogPointer",
                settings={"replicas": 2, "records": 2},
            ),
            "no-version-check": Variant(
                "the cleaner's multi does not notice who became active meanwhile",
                NoVersionCheck,
                breaks="ValidLogPointer",
                settings={"replicas": 2, "records": 1},
            ),
            "parts-first": Variant(
                "a clone copies the parts first and the pointer last",
                PartsFirst,
                breaks="PartsFollowLog",
                settings={"replicas": 2, "records": 2},
            ),
        }


class RecoveringFirst(LogTrimmingRepaired):
    """A clone that begins in between takes a pointer that the cleaner has not seen and will not see."""

    def asked_first(self, s: State) -> list[int]:
        return self.recovering(s)

    def asked_last(self, s: State) -> list[int]:
        require(self.whole(s))
        return self.whole(s)


class RecoveringOnlyLast(LogTrimmingRepaired):
    """A replica that recovers between the two readings is asked in neither."""

    def asked_last(self, s: State) -> list[int]:
        return self.recovering(s)


class NoVersionCheck(LogTrimmingRepaired):
    """A replica that wakes between the reading and the cutting is cut off while it is active."""

    def accepts(self, cleaning: Cleaning) -> bool:  # noqa: ARG002
        return True


class PartsFirst(LogTrimmingRepaired):
    """What the source executes in between is before the pointer and not among the parts."""

    def started(self, me: Member, whole: Member) -> Member:
        return me.but(local_parts=whole.local_parts, log_pointer=whole.log_pointer)

    def finished(self, me: Member, whole: Member) -> Member:
        return me.but(log_pointer=whole.log_pointer)
