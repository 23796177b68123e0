"""Objects in S3 that replicas share: fetch against delete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

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
from motet.verify.models.merge_tree import Natural

Step = Literal["uploaded", "asked", "locked", "received", "released", "alone", "free"]
Marks = frozenset[tuple[Natural, Natural]]


class Work(Record, frozen=True):
    """What a replica is in the middle of, and with which copy of the part."""

    step: Step
    id: Natural


class Holder(Record, frozen=True):
    """A replica: the copy its part refers to, and what it is doing."""

    part: Natural | None = None
    work: Work | None = None


class State(Record, frozen=True):
    """One part by its name: its copies in S3, the marks on them in the keeper, and the replicas."""

    replica: tuple[Holder, ...]
    #: copies whose objects are in S3
    objects: frozenset[Natural] = frozenset()
    #: copies that have a node ``<part>/<id>`` in the keeper
    nodes: frozenset[Natural] = frozenset()
    #: (copy, replica) below such a node; temporary ones end with the session that set them
    marks: Marks = frozenset()
    temporary: Marks = frozenset()
    minted: Natural = 0
    crashes: Natural = 0
    expiries: Natural = 0


class ZeroCopy(Model[State]):
    """Replicas hand on references to objects in S3, and nobody deletes what another still reads.

    A receiver learns the id of a copy, sets a temporary mark below the id's node, which must be there, and
    only then looks at what it was sent: the answer may be older than anything that happened since. The part
    is committed by one multi that turns the temporary mark into a lasting one. To delete is to remove one's
    own mark, and then, if no other is left, the node; the objects go only if that removal succeeded. A
    fetch that is given up ends by the same rule. After a crash objects may stay that nobody refers to:
    garbage before loss.
    """

    name = "zero-copy"
    state_type = State
    may_end = True
    replicas = parameter(3, least=1, most=5, what="replicas of the shard")
    copies = parameter(2, least=1, most=4, what="copies of the part that are ever made")
    most_crashes = parameter(1, least=0, most=3, what="crashes in all")
    most_expiries = parameter(1, least=0, most=3, what="sessions that expire unnoticed")
    Replicas = numbered("replicas", "r")
    symmetry = Replicas

    def initial(self) -> Iterator[State]:
        yield State((Holder(),) * self.replicas)

    def put(self, s: State, r: int, part: int | None, work: Work | None, **rest: object) -> State:
        """The state with one replica replaced."""
        return s.but(replica=(*s.replica[:r], Holder(part, work), *s.replica[r + 1 :]), **rest)

    def step_of(self, s: State, r: int, *steps: Step) -> int:
        """The copy a replica works on; requires that it stands at one of these steps."""
        work = s.replica[r].work
        require(work is not None and work.step in steps)
        assert work is not None
        return work.id

    def is_marked(self, s: State, copy: int) -> bool:
        """Whether anything is left below the node of a copy."""
        return any(each == copy for each, _ in s.marks | s.temporary)

    # a new part

    @action(r=Replicas)
    def upload(self, s: State, r: int) -> State:
        require(s.replica[r] == Holder() and s.minted < self.copies)
        work = Work("uploaded", s.minted)
        return self.put(s, r, None, work, objects=s.objects | {s.minted}, minted=s.minted + 1)

    @action(r=Replicas)
    def commit_insert(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "uploaded")
        return self.put(s, r, copy, None, nodes=s.nodes | {copy}, marks=s.marks | {(copy, r)})

    # fetch

    @action(r=Replicas, source=Replicas)
    def fetch_ask(self, s: State, r: int, source: int) -> State:
        copy = s.replica[source].part
        require(s.replica[r] == Holder() and copy is not None)
        assert copy is not None
        return self.put(s, r, None, Work("asked", copy))

    @action(r=Replicas)
    def fetch_lock(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "asked")
        require(copy in s.nodes)  # it is never created here
        return self.put(s, r, None, Work("locked", copy), temporary=s.temporary | {(copy, r)})

    @action(r=Replicas)
    def fetch_receive(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "locked")
        require(copy in s.objects)  # the receiver looks whether the objects can be read
        return self.put(s, r, None, Work("received", copy))

    @action(r=Replicas)
    def fetch_commit(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "received")
        require(self.may_commit(s, copy, r))
        return self.put(
            s,
            r,
            copy,
            None,
            nodes=s.nodes | {copy},
            marks=s.marks | {(copy, r)},
            temporary=s.temporary - {(copy, r)},
        )

    def may_commit(self, s: State, copy: int, r: int) -> bool:
        """What the multi checks."""
        return (copy, r) in s.temporary

    @action(r=Replicas)
    def fetch_give_up(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "asked", "locked", "received")
        if (copy, r) not in s.temporary:
            return self.put(s, r, None, None)
        left = s.temporary - {(copy, r)}
        return self.put(s, r, None, self.after_giving_up(copy), temporary=left)

    def after_giving_up(self, copy: int) -> Work | None:
        """Who removes a mark asks whether it was the last."""
        return Work("released", copy)

    # delete

    @action(r=Replicas)
    def remove_own_mark(self, s: State, r: int) -> State:
        copy = s.replica[r].part
        require(copy is not None)
        assert copy is not None
        return self.put(s, r, None, Work("released", copy), marks=s.marks - {(copy, r)})

    @action(r=Replicas)
    def list_marks(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "released")
        alone = not self.protects(s, copy)
        return self.put(s, r, None, Work("alone", copy) if alone else None)

    def protects(self, s: State, copy: int) -> bool:
        """Whether what the keeper lists keeps the objects of this copy."""
        return self.is_marked(s, copy)

    @action(r=Replicas)
    def remove_id(self, s: State, r: int) -> State:
        """ "Not empty" means that somebody came, "not there" that nobody knows; both keep the data."""
        copy = self.step_of(s, r, "alone")
        removed = copy in s.nodes and not self.is_marked(s, copy)
        if not removed and not self.dares(s, copy):
            return self.put(s, r, None, None)
        nodes = s.nodes - {copy} if removed else s.nodes
        return self.put(s, r, None, Work("free", copy), nodes=nodes)

    def dares(self, s: State, copy: int) -> bool:  # noqa: ARG002
        """Whether the objects go though the node could not be removed."""
        return False

    @action(r=Replicas)
    def delete_objects(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "free")
        return self.put(s, r, None, None, objects=s.objects - {copy})

    # what goes wrong

    @action(r=Replicas)
    def crash(self, s: State, r: int) -> State:
        require(s.crashes < self.most_crashes and s.replica[r].work is not None)
        return self.put(
            s, r, s.replica[r].part, None, temporary=self.expired(s, r), crashes=s.crashes + 1
        )

    @action(r=Replicas)
    def session_expires(self, s: State, r: int) -> State:
        """The keeper forgets a replica that goes on working; it has a new session at once."""
        left = self.expired(s, r)
        require(s.expiries < self.most_expiries and left != s.temporary)
        return s.but(temporary=left, expiries=s.expiries + 1)

    def expired(self, s: State, r: int) -> Marks:
        """The temporary marks without those of this replica."""
        return frozenset(mark for mark in s.temporary if mark[1] != r)

    # what must hold

    @invariant
    def part_has_its_data(self, s: State) -> bool:
        """Whatever a replica would read is there."""
        return all(one.part is None or one.part in s.objects for one in s.replica)

    @invariant
    def part_is_marked(self, s: State) -> bool:
        """No part is ever without its mark."""
        return all(
            one.part is None or (one.part in s.nodes and (one.part, r) in s.marks)
            for r, one in enumerate(s.replica)
        )

    @invariant
    def nothing_is_left_behind(self, s: State) -> bool:
        """Unless something crashed or expired, objects in S3 are of somebody's part or work."""
        if s.crashes or s.expiries:
            return True
        held = {one.part for one in s.replica} | {one.work.id for one in s.replica if one.work}
        return s.objects <= held

    def renamed(self, s: State, order: Sequence[int]) -> State:
        new = {old: number for number, old in enumerate(order)}
        return s.but(
            replica=tuple(s.replica[old] for old in order),
            marks=frozenset((copy, new[r]) for copy, r in s.marks),
            temporary=frozenset((copy, new[r]) for copy, r in s.temporary),
        )

    def rank(self, s: State, value: int) -> object:
        one = s.replica[value]
        work = ("", -1) if one.work is None else (one.work.step, one.work.id)
        part = -1 if one.part is None else one.part
        kept = sorted((copy, 0) for copy, r in s.marks if r == value)
        return part, work, kept + sorted((copy, 1) for copy, r in s.temporary if r == value)

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        return shared_variants()


# Shared objects with one thing wrong each: the races that the text names, and those its successors had.


class SendThenDelete(ZeroCopy):
    """As in the text: the metadata is sent, and the receiver's mark follows when it has arrived."""

    without = ("fetch_lock",)

    def fetch_receive(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "asked")
        require(copy in s.objects)
        return self.put(s, r, None, Work("received", copy))

    def may_commit(self, s: State, copy: int, r: int) -> bool:  # noqa: ARG002
        return True


class MakesAncestors(ZeroCopy):
    """The mark makes the node that it needs, so it is set below what has just been given up."""

    def fetch_lock(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "asked")
        temporary = s.temporary | {(copy, r)}
        return self.put(
            s, r, None, Work("locked", copy), nodes=s.nodes | {copy}, temporary=temporary
        )


class CommitsWithoutSession(ZeroCopy):
    """The commit does not notice that the mark has gone with its session."""

    def may_commit(self, s: State, copy: int, r: int) -> bool:  # noqa: ARG002
        return True


class IgnoresTheCode(ZeroCopy):
    """The list was empty, and what the removal of the node answers is not looked at."""

    def dares(self, s: State, copy: int) -> bool:  # noqa: ARG002
        return True


class DeletesTheUnknown(ZeroCopy):
    """A node that is not there is taken for removed. No id is ever made again, so it does no harm."""

    def dares(self, s: State, copy: int) -> bool:
        return copy not in s.nodes


class ListsTheName(ZeroCopy):
    """Any mark below the name of the part protects every copy of it."""

    def protects(self, s: State, copy: int) -> bool:  # noqa: ARG002
        return bool(s.marks | s.temporary)


class GivesUpSilently(ZeroCopy):
    """A fetch that is given up takes its mark away and does not ask whether it was the last."""

    def after_giving_up(self, copy: int) -> Work | None:  # noqa: ARG002
        return None


class MarksLater(ZeroCopy):
    """The part is swapped in first, and its lasting mark follows."""

    Replicas = ZeroCopy.Replicas

    def fetch_commit(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "received")
        require((copy, r) in s.temporary)
        return self.put(s, r, copy, Work("received", copy), temporary=s.temporary - {(copy, r)})

    @action(r=Replicas)
    def fetch_mark(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "received")
        require(s.replica[r].part is not None)
        return self.put(s, r, copy, None, marks=s.marks | {(copy, r)})


class Optimistic(SendThenDelete):
    """No temporary mark: the lasting one needs the node. Fetches may be in vain, and nothing is lost."""

    def may_commit(self, s: State, copy: int, r: int) -> bool:  # noqa: ARG002
        return copy in s.nodes


def shared_variants() -> dict[str, Variant]:
    """What must fail beside the model, and what may be left out without harm."""
    small = {"replicas": 2, "copies": 1, "most_crashes": 0, "most_expiries": 0}
    lost = "PartHasItsData"
    left = "NothingIsLeftBehind"
    return {
        "send-then-delete": Variant(
            "as in the text, the receiver's mark follows the metadata", SendThenDelete, lost, small
        ),
        "makes-ancestors": Variant(
            "a mark creates the node that it is set below", MakesAncestors, lost, small
        ),
        "commits-without-session": Variant(
            "a fetch is committed after its session has ended",
            CommitsWithoutSession,
            lost,
            small | {"most_expiries": 1},
        ),
        "ignores-the-code": Variant(
            "objects are deleted whatever the removal of the node answers",
            IgnoresTheCode,
            lost,
            small,
        ),
        "lists-the-name": Variant(
            "another copy of the same part protects this one",
            ListsTheName,
            left,
            small | {"copies": 2},
        ),
        "gives-up-silently": Variant(
            "a fetch that is given up does not ask whether its mark was the last",
            GivesUpSilently,
            left,
            small,
        ),
        "marks-later": Variant(
            "a part is swapped in before its mark is set", MarksLater, "PartIsMarked", small
        ),
        "deletes-the-unknown": Variant(
            "a node that is not there is taken for removed; harmless, as ids are never reused",
            DeletesTheUnknown,
            None,
            small | {"most_expiries": 1, "most_crashes": 1},
        ),
        "optimistic": Variant(
            "no temporary mark, and a commit that needs the node; fetches may be in vain",
            Optimistic,
            None,
            small | {"replicas": 3},
        ),
    }
