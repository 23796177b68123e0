"""Changing ensembles with one thing wrong each, from where a change has stalled."""

from __future__ import annotations

from collections.abc import Iterable

from motet.verify.model import Variant, require
from motet.verify.models.shard_log_steps.changing import ShardLogChanges
from motet.verify.models.shard_log_steps.records import Change, Leadership, Node, State, Stored


def _written_by(leader: int, *others: int, of: int) -> tuple[str, ...]:
    """An ensemble of so many elects a leader; it commits an entry that these have on disk."""
    rest = ", ".join(str(n) for n in range(of) if n != leader)
    return (
        *(f"Fence(n{n}, e1)" for n in range(of)),
        f"BecomeLeader(n{leader}, <{rest}>)",
        "Elected",
        f"Write(n{leader}, at 1)",
        f"Sync(n{leader}, at 1)",
        *(step for n in others for step in (f"Append(n{n}, e1, at 1)", f"Sync(n{n}, at 1)")),
        f"Commit(n{leader}, at 1)",
    )


def _change(op: str, *, old: int = -1, new: int = -1) -> tuple[str, ...]:
    return f"BeginChange((op={op} old={old} new={new}))", "PrepareChange(n0, e2)"


def _becomes(new: int) -> tuple[str, ...]:
    return f"Summon(n{new}, e2)", f"Become(n{new}, at 1)", "OrderChange"


SWAP_PREPARED = (*_written_by(0, 2, of=3), *_change("swap", old=2, new=3))
"""n0 and n2 have a committed entry, n1 has not; n2 is to leave, and n3 to come."""

SWAP_ORDERED = (*SWAP_PREPARED, *_becomes(3))
_SECOND = ("Write(n0, at 2)", "Sync(n0, at 2)", "Append(n2, e2, at 2)", "Sync(n2, at 2)")
"""n0 and n2 have another entry, of the epoch of the change."""

_ELECTS = ("Elect", "Fence(n2, e3)", "Fence(n3, e3)")


class StalledSwap(ShardLogChanges):
    """The model as it is, from where one of two nodes is to be replaced. There are no changes but swaps."""

    ops = ("swap",)
    script = (*_written_by(0, 1, of=2), *_change("swap", old=1, new=2), *_becomes(2))


class StalledExpand(ShardLogChanges):
    """From where a third node is to join two."""

    ops = ("expand",)
    script = (*_written_by(0, 1, of=2), *_change("expand", new=2), *_becomes(2))


class StalledContract(ShardLogChanges):
    """From where an election has begun: one of three was to leave, and n1 lacks a committed entry."""

    ops = ("contract",)
    script = (
        *_written_by(0, 2, of=3),
        *_change("contract", old=2),
        *("OrderChange", "Elect", "Fence(n2, e3)"),
    )


class FencesOldEnsemble(ShardLogChanges):
    """Who may have been added is not asked."""

    script = SWAP_ORDERED

    def fencing(self, stored: Stored) -> tuple[int, ...]:
        return stored.ensemble


class OldFactor(StalledExpand):
    """An elected leader is told how many there were."""

    def factor(self, stored: Stored) -> int:
        return len(stored.ensemble)


class RollsContractForward(ShardLogChanges):
    """A contraction that stalled is completed. Of five, n0, n3 and n4 have an entry, and n4 was to leave."""

    script = (
        *_written_by(0, 3, 4, of=5),
        *_change("contract", old=4),
        *("OrderChange", "Elect", "Fence(n4, e3)"),
    )

    def final(self, stored: Stored) -> tuple[int, ...]:
        change = stored.change
        return stored.ensemble if change is None else change.applied_to(stored.ensemble)


class LeavingCounts(ShardLogChanges):
    """Who is to leave goes on counting until it has left."""

    script = (*SWAP_PREPARED, *_SECOND, *_becomes(3), *_ELECTS)

    def held_by(
        self,
        s: State,
        n: int,
        members: Iterable[int],
        change: Change | None = None,  # noqa: ARG002
    ) -> int:
        return super().held_by(s, n, members)


class SnapshotOfNothing(ShardLogChanges):
    """A new node need not have what was committed before it came."""

    script = (*SWAP_PREPARED, "Summon(n3, e2)", "Become(n3, at 0)", "OrderChange", "Elect")

    def covers(self, their: Leadership, last: int) -> bool:  # noqa: ARG002
        return True


class AbortsWhatIsOrdered(ShardLogChanges):
    """A leader gives up a change that an election would complete."""

    script = (*SWAP_ORDERED, *_SECOND, *_ELECTS)

    def abort_change(self, s: State, n: int, epoch: int) -> State:
        me, own = s.node[n], self.leadership(s, epoch)
        require(me.status == "leader" and epoch == me.epoch and own.change is not None)
        return s.but(leaderships=self.changed(s, own.but(change=None)))


class DeletesMembers(ShardLogChanges):
    """A node is told to forget the shard whoever it is."""

    script = _written_by(0, 2, of=3)

    def delete(self, s: State, n: int, epoch: int) -> State:
        me, their = s.node[n], self.leadership(s, epoch)
        require(epoch >= me.epoch and n != their.leader and me != Node(member=False))
        require(not me.gone)
        return self.put(s, n, me.but(status="fenced", may_lead=False, gone=True))


def change_variants() -> dict[str, Variant]:
    """What must fail, and that the model holds from the same places."""
    small = {"nodes": 4, "ensemble": 3, "entries": 2, "epochs": 3}
    one, five = small | {"entries": 1}, small | {"nodes": 5, "ensemble": 5, "entries": 1}
    three = {"nodes": 3, "ensemble": 2, "entries": 1, "epochs": 3}
    lost = "NoLossOfConfirmedWrite"
    return {
        "stalled-swap": Variant("a swap that is ordered", StalledSwap, None, three),
        "stalled-expand": Variant("an expansion that is ordered", StalledExpand, None, three),
        "stalled-contract": Variant(
            "a contraction that an election has to resolve",
            StalledContract,
            None,
            three | {"ensemble": 3},
        ),
        "fences-old-ensemble": Variant(
            "a node that a stalled swap may have added is not fenced",
            FencesOldEnsemble,
            lost,
            small,
        ),
        "old-replication-factor": Variant(
            "an elected leader is told the replication factor of before the change",
            OldFactor,
            "LeaderKnowsRepFactor",
            three,
        ),
        "contract-rolls-forward": Variant(
            "an election carries out a contraction that was not committed",
            RollsContractForward,
            lost,
            five,
        ),
        "leaving-counts": Variant(
            "a node that a prepared swap takes out still counts", LeavingCounts, lost, small
        ),
        "snapshot-of-nothing": Variant(
            "a new node comes without what was committed before", SnapshotOfNothing, lost, one
        ),
        "aborts-what-is-ordered": Variant(
            "a leader gives up a change that an election completes",
            AbortsWhatIsOrdered,
            lost,
            small,
        ),
        "deletes-a-member": Variant(
            "a node of the ensemble is told to forget the shard",
            DeletesMembers,
            "FollowersAgree",
            {"nodes": 3, "ensemble": 3, "entries": 1, "epochs": 2},
        ),
    }
