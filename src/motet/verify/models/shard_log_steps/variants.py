"""The steps with one thing wrong each."""

from __future__ import annotations

from motet.verify.model import Variant, require
from motet.verify.models.shard_log_steps.protocol import ShardLogSteps
from motet.verify.models.shard_log_steps.records import Log, Node, State, cut, highest_of, length


class MinorityElects(ShardLogSteps):
    """A leader alone is enough."""

    @property
    def majority(self) -> int:
        return 1

    def commit(self, s: State, n: int, upto: int) -> State:
        me = s.node[n]
        held = sum(e == me.epoch and at >= upto for e, m, at in s.acks if m != n)
        require(held + (me.durable >= upto) >= self.nodes // 2 + 1)
        return super().commit(s, n, upto)


class LowestHeadLeads(ShardLogSteps):
    """Nobody asks whose head is higher."""

    def is_not_above(self, other: tuple[int, int], log: Log) -> bool:  # noqa: ARG002
        return True


class NoTruncation(ShardLogSteps):
    """A follower is gone on with from where its log ends, and counts, whatever is in it."""

    def counts(self, s: State, follower: Node) -> bool:  # noqa: ARG002
        return True

    def may_take(self, me: Node, log: Log) -> bool:
        return length(me.log) <= length(log)

    def append(self, s: State, n: int, epoch: int, last: int) -> State:
        me, after = s.node[n], super().append(s, n, epoch, last)
        kept = length(me.log)
        if after.node[n].log == cut(after.node[n].log, kept):
            return self.put(after, n, after.node[n].but(log=me.log))
        return after


OLD_ENTRIES: tuple[str, ...] = (
    *(
        "Fence(n0, e1)",
        "Fence(n1, e1)",
        "BecomeLeader(n0, <1>)",
        "Write(n0, at 1)",
        "Sync(n0, at 1)",
    ),
    *(
        "Fence(n1, e2)",
        "Fence(n2, e2)",
        "BecomeLeader(n1, <2>)",
        "Write(n1, at 1)",
        "Sync(n1, at 1)",
    ),
    *("Fence(n0, e3)", "Fence(n2, e3)", "BecomeLeader(n0, <2>)"),
    *("Append(n2, e3, at 1)", "Sync(n2, at 1)"),
)
"""n0 has an entry of epoch 1, n1 one of epoch 2 in its place; n0 leads again, and n2 has the older one."""


class OldEntries(ShardLogSteps):
    """The model as it is, from where an entry of an earlier epoch is on a majority."""

    script = OLD_ENTRIES


class CountsByOffset(ShardLogSteps):
    """An acknowledgement is counted by its offset, whatever entry is there."""

    def counts(self, s: State, follower: Node) -> bool:  # noqa: ARG002
        return True


DIVERGENT: tuple[str, ...] = (
    *(
        "Fence(n0, e1)",
        "Fence(n2, e1)",
        "BecomeLeader(n0, <2>)",
        "Write(n0, at 1)",
        "Sync(n0, at 1)",
    ),
    *(
        "Fence(n1, e2)",
        "Fence(n2, e2)",
        "BecomeLeader(n1, <2>)",
        "Write(n1, at 1)",
        "Sync(n1, at 1)",
    ),
    *(
        "Fence(n0, e3)",
        "Fence(n2, e3)",
        "BecomeLeader(n0, <2>)",
        "Write(n0, at 2)",
        "Sync(n0, at 2)",
    ),
    *("Fence(n1, e4)", "Fence(n2, e4)", "BecomeLeader(n1, <2>)", "Fence(n0, e4)"),
)
"""n0 has entries of epochs 1 and 3, n1 leads epoch 4 and has one of epoch 2 in the place of the first."""


class KeptDivergent(CountsByOffset):
    """From where a follower is cut back to an epoch that it has no entry of."""

    script = DIVERGENT


class Divergent(ShardLogSteps):
    """The model as it is, from where a follower is cut back to an epoch that it has no entry of."""

    script = DIVERGENT


class DirectCommit(OldEntries):
    """Entries of earlier epochs are committed by counting."""

    def may_commit(self, me: Node, upto: int) -> bool:  # noqa: ARG002
        return True


class AckBeforeDurable(ShardLogSteps):
    """What is on its way to the disk is acknowledged."""

    def put(self, s: State, n: int, node: Node, **rest: object) -> State:
        after = super().put(s, n, node, **rest)
        if node.status != "follower":
            return after
        return after.but(acks=after.acks | {(node.epoch, n, length(node.log))})


class LateTruncate(ShardLogSteps):
    """A fenced node cuts its log for any head that it had when it was fenced in this epoch."""

    def truncate(self, s: State, n: int, keep: int) -> State:
        me = s.node[n]
        require(me.status == "fenced")
        their = self.leadership(s, me.epoch)
        told = [e for epoch, m, e, _ in sorted(s.fences) if (epoch, m) == (me.epoch, n)]
        points = [highest_of(their.elected, epoch) for epoch in told]
        cuts = [min(point[1], highest_of(me.log, point[0])[1]) for point in points]
        require(their.leader != n and keep in cuts and me.commit <= keep <= length(me.log))
        log, durable = cut(me.log, keep), min(me.durable, keep)
        return self.put(s, n, me.but(status="follower", may_lead=False, log=log, durable=durable))


def step_variants() -> dict[str, Variant]:
    """What must fail."""
    small = {"nodes": 3, "entries": 1, "epochs": 2, "most_restarts": 0}
    lost = "NoLossOfConfirmedWrite"
    return {
        "minority-elects": Variant(
            "a leader is elected by itself alone", MinorityElects, lost, small
        ),
        "lowest-head-leads": Variant(
            "a leader need not have the highest head of its majority", LowestHeadLeads, lost, small
        ),
        "no-truncation": Variant(
            "followers are not cut back", NoTruncation, "FollowersAgree", small | {"entries": 2}
        ),
        "direct-commit": Variant(
            "entries of earlier epochs are committed by counting",
            DirectCommit,
            lost,
            small | {"epochs": 4},
        ),
        "divergent": Variant(
            "the model as it is, from where a follower is cut back to an epoch it has no entry of",
            Divergent,
            None,
            small | {"entries": 2, "epochs": 4},
        ),
        "old-entries": Variant(
            "the model as it is, from where an entry of an earlier epoch is on a majority",
            OldEntries,
            None,
            small | {"epochs": 4},
        ),
        "counts-by-offset": Variant(
            "an acknowledgement counts by its offset, also of an entry that the leader has not",
            KeptDivergent,
            "FollowersAgree",
            small | {"entries": 2, "epochs": 4},
        ),
        "late-truncate": Variant(
            "a request to cut a log is obeyed after a restart, wherever the log ends by then",
            LateTruncate,
            "FollowersAgree",
            small | {"most_restarts": 1},
        ),
        "ack-before-durable": Variant(
            "a follower acknowledges what is not durable",
            AckBeforeDurable,
            "FollowersAgree",
            small | {"most_restarts": 1},
        ),
    }
