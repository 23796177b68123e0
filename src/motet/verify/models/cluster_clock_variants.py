"""The cluster clock with one thing wrong each: what the text leaves open, and what it would cost."""

from __future__ import annotations

from motet.verify.model import Variant, invariant
from motet.verify.models.cluster_clock import ClusterClock, Node, Nodes, State, Transaction


class ReadsCommitted(ClusterClock):
    """As in the text without its note: whatever is committed is read, by clock."""

    def readable_up_to(self, s: State) -> int:
        return max(node.hlc for node in s.node)


class EmptyTableIsEnough(ClusterClock):
    """As in the note: only transactions in their second phase are waited for."""

    def counts(self, one: Transaction) -> bool:
        return one.status == "committed"


class ClosesAtItsClock(ClusterClock):
    """A node closes its clock without a look at what is prepared on it."""

    def counts(self, one: Transaction) -> bool:  # noqa: ARG002
        return False


class NoAdjust(ClusterClock):
    """The nodes are not moved to the clock of the transaction."""

    def adjusted(self, node: Node, clock: int) -> Node:  # noqa: ARG002
        return node


class DisjointNodes(ClusterClock):
    """As in the text: a client brings no clock along, so two nodes may never have heard of each other."""

    def carried(self, clock: int) -> int:  # noqa: ARG002
        return 0


class ClockBeforeTheLock(ClusterClock):
    """The clock is taken when the transaction begins, and not after its last write."""

    def may_prepare(self, one: Transaction) -> Nodes:
        return one.nodes


class SequenceNotFlushed(ClusterClock):
    """As it was built: the sequence is written, and nobody waits for the disk."""

    def on_disk(self, node: Node, clock: int) -> int:  # noqa: ARG002
        return node.sequence


class OrderByClockAlone(ClusterClock):
    """As in the text, asked whether the clock alone orders everything."""

    @invariant
    def clocks_differ(self, s: State) -> bool:
        clocks = [one.clock for one in s.transaction if one.status == "committed"]
        return len(clocks) == len(set(clocks))


def clock_variants() -> dict[str, Variant]:
    """What must fail, each at two nodes and two transactions."""
    return {
        "reads-committed": Variant(
            "as in the text, all that is committed is read by clock",
            ReadsCommitted,
            "FeedIsComplete",
            {"most_restarts": 0},
        ),
        "empty-table-is-enough": Variant(
            "as in the note, the clock is visible once no second phase is under way",
            EmptyTableIsEnough,
            "FeedIsComplete",
            {"most_restarts": 0},
        ),
        "closes-at-its-clock": Variant(
            "a node closes its clock over what is prepared on it",
            ClosesAtItsClock,
            "FeedIsComplete",
            {"most_restarts": 0},
        ),
        "no-adjust": Variant(
            "nodes are not moved to the clock of the transaction",
            NoAdjust,
            "KeyOrderIsClockOrder",
            {"most_restarts": 1},
        ),
        "disjoint-nodes": Variant(
            "as in the text, a client brings no clock along",
            DisjointNodes,
            "CauseIsBeforeEffect",
            {"most_restarts": 0},
        ),
        "clock-before-the-lock": Variant(
            "the clock is taken before the key is locked",
            ClockBeforeTheLock,
            "KeyOrderIsClockOrder",
            {"most_restarts": 0},
        ),
        "sequence-not-flushed": Variant(
            "a tick is used before it is on disk",
            SequenceNotFlushed,
            "NodeClockNeverFalls",
            {"most_restarts": 1},
        ),
        "order-by-clock-alone": Variant(
            "as in the text, asked whether two transactions can have one clock",
            OrderByClockAlone,
            "ClocksDiffer",
            {"most_restarts": 0},
        ),
    }
