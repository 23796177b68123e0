"""One copy in S3: merges and moves by several replicas, and the lock that only one of them holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

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
from motet.verify.models.merge_tree import Natural

Step = Literal["idle", "looked", "locked", "sure", "written", "done"]


class Maker(Record, frozen=True):
    """A replica that wants the result: how far it is, and the copy it wrote or uses."""

    step: Step = "idle"
    copy: Natural | None = None


class State(Record, frozen=True):
    """The result of one merge (or one part that is moved): who makes it, and the copies there are."""

    replica: tuple[Maker, ...]
    #: who has the ephemeral lock on the name of the result
    lock: Natural | None = None
    #: copies that the keeper knows
    known: frozenset[Natural] = frozenset()
    #: copies in S3; what is not known is garbage by name
    objects: frozenset[Natural] = frozenset()
    minted: Natural = 0
    crashes: Natural = 0
    expiries: Natural = 0


class ZeroCopyExclusive(Model[State]):
    """Replicas merge into one part, or move one part to S3: one of them does, and the rest fetch it.

    Who finds no result takes an ephemeral lock on its name, looks once more (what it saw may be old by then),
    writes the objects, and commits by a multi that checks its lock. A lock ends with its session, at any
    moment and without its holder noticing: then the commit is refused, and what was written is garbage.
    """

    name = "zero-copy-exclusive"
    state_type = State
    may_end = True
    replicas = parameter(3, least=1, most=5, what="replicas that want the result")
    most_crashes = parameter(1, least=0, most=3, what="crashes in all")
    most_expiries = parameter(1, least=0, most=3, what="sessions that expire unnoticed")
    Replicas = numbered("replicas", "r")
    symmetry = Replicas
    fairness = strong(
        *("look", "fetch", "take_lock", "look_again", "write_objects", "commit", "refused"),
        each=True,
    )

    def initial(self) -> Iterator[State]:
        yield State((Maker(),) * self.replicas)

    def put(self, s: State, r: int, step: Step, copy: int | None = None, **rest: object) -> State:
        """The state with one replica replaced."""
        return s.but(replica=(*s.replica[:r], Maker(step, copy), *s.replica[r + 1 :]), **rest)

    def at(self, s: State, r: int, *steps: Step) -> Maker:
        """The replica; requires that it stands at one of these steps."""
        require(s.replica[r].step in steps)
        return s.replica[r]

    def given_back(self, s: State, r: int) -> int | None:
        """The lock after this replica has let go of it, if it had it."""
        return None if s.lock == r else s.lock

    @action(r=Replicas)
    def look(self, s: State, r: int) -> State:
        self.at(s, r, "idle")
        require(not s.known)
        return self.put(s, r, "looked")

    @action(r=Replicas)
    def fetch(self, s: State, r: int) -> State:
        self.at(s, r, "idle")
        require(s.known)
        return self.put(s, r, "done", min(s.known))

    @action(r=Replicas)
    def take_lock(self, s: State, r: int) -> State:
        """Or wait, when another has it."""
        self.at(s, r, "looked")
        if s.lock is not None:
            return self.put(s, r, "idle")
        return self.put(s, r, "locked", lock=r)

    @action(r=Replicas)
    def look_again(self, s: State, r: int) -> State:
        self.at(s, r, "locked")
        if s.known:
            return self.put(s, r, "idle", lock=self.given_back(s, r))
        return self.put(s, r, "sure")

    @action(r=Replicas)
    def write_objects(self, s: State, r: int) -> State:
        self.at(s, r, "sure")
        minted = s.minted + 1
        return self.put(s, r, "written", s.minted, objects=s.objects | {s.minted}, minted=minted)

    @action(r=Replicas)
    def commit(self, s: State, r: int) -> State:
        copy = self.at(s, r, "written").copy
        require(self.may_commit(s, r))
        assert copy is not None
        return self.put(s, r, "done", copy, known=s.known | {copy}, lock=self.given_back(s, r))

    @action(r=Replicas)
    def refused(self, s: State, r: int) -> State:
        self.at(s, r, "written")
        require(not self.may_commit(s, r))
        return self.put(s, r, "idle")

    def may_commit(self, s: State, r: int) -> bool:
        """What the multi checks."""
        return s.lock == r

    @action(r=Replicas)
    def crash(self, s: State, r: int) -> State:
        require(s.crashes < self.most_crashes and s.replica[r].step not in ("idle", "done"))
        return self.put(s, r, "idle", lock=self.after_crash(s, r), crashes=s.crashes + 1)

    def after_crash(self, s: State, r: int) -> int | None:
        """An ephemeral lock ends with its session."""
        return self.given_back(s, r)

    @action(r=Replicas)
    def session_expires(self, s: State, r: int) -> State:
        require(s.expiries < self.most_expiries and s.lock == r)
        return s.but(lock=None, expiries=s.expiries + 1)

    @invariant
    def one_copy(self, s: State) -> bool:
        """The keeper never knows two copies of one result."""
        return len(s.known) <= 1

    @invariant
    def done_is_readable(self, s: State) -> bool:
        """Who has the result has a copy that is known and there."""
        return all(
            one.copy in s.known and one.copy in s.objects for one in s.replica if one.step == "done"
        )

    @eventually
    def everybody_has_it(self, s: State) -> bool:
        """Nobody waits for ever."""
        return all(one.step == "done" for one in s.replica)

    def renamed(self, s: State, order: Sequence[int]) -> State:
        lock = None if s.lock is None else order.index(s.lock)
        return s.but(replica=tuple(s.replica[old] for old in order), lock=lock)

    def rank(self, s: State, value: int) -> object:
        one = s.replica[value]
        return one.step, -1 if one.copy is None else one.copy, s.lock == value

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        small = {"replicas": 2, "most_crashes": 0, "most_expiries": 0}
        return {
            "two-move-at-once": Variant(
                "as in the text, both look, see nothing, and move", TwoMoveAtOnce, "OneCopy", small
            ),
            "dead-merger-returns": Variant(
                "as in the text, who lost its lock while merging commits all the same",
                DeadMergerReturns,
                "OneCopy",
                small | {"most_expiries": 1},
            ),
            "no-second-look": Variant(
                "nobody looks again after taking the lock", NoSecondLook, "OneCopy", small
            ),
            "unlocks-early": Variant(
                "the lock is given back before the commit", UnlocksEarly, "OneCopy", small
            ),
            "lasting-lock": Variant(
                "the lock outlives whoever took it",
                LastingLock,
                "EverybodyHasIt",
                small | {"most_crashes": 1},
            ),
        }


class TwoMoveAtOnce(ZeroCopyExclusive):
    """Two nodes see that nothing is there yet, and each moves its own."""

    def take_lock(self, s: State, r: int) -> State:
        self.at(s, r, "looked")
        return self.put(s, r, "sure")

    def may_commit(self, s: State, r: int) -> bool:  # noqa: ARG002
        return True


class DeadMergerReturns(ZeroCopyExclusive):
    """A node is taken for dead while it merges; another merges; the first one goes on."""

    def may_commit(self, s: State, r: int) -> bool:  # noqa: ARG002
        return True


class NoSecondLook(ZeroCopyExclusive):
    """Between the look and the lock somebody may have made the result and given the lock back."""

    def look_again(self, s: State, r: int) -> State:
        self.at(s, r, "locked")
        return self.put(s, r, "sure")


class UnlocksEarly(ZeroCopyExclusive):
    """The result is written but not known, and the name is free."""

    def write_objects(self, s: State, r: int) -> State:
        written = super().write_objects(s, r)
        return written.but(lock=self.given_back(s, r))

    def may_commit(self, s: State, r: int) -> bool:  # noqa: ARG002
        return True


class LastingLock(ZeroCopyExclusive):
    """The lock of a node that died is never taken away."""

    def after_crash(self, s: State, r: int) -> int | None:  # noqa: ARG002
        return s.lock
