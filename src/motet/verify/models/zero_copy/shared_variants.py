"""Shared objects with one thing wrong each: the races that the text names, and those its successors had."""

from __future__ import annotations

from motet.verify.model import Variant, action, require
from motet.verify.models.zero_copy.shared import State, Work, ZeroCopy


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


class Optimistic(ZeroCopy):
    """No temporary mark: the lasting one needs the node. Fetches may be in vain, and nothing is lost."""

    without = ("fetch_lock",)

    def fetch_receive(self, s: State, r: int) -> State:
        copy = self.step_of(s, r, "asked")
        require(copy in s.objects)
        return self.put(s, r, None, Work("received", copy))

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
