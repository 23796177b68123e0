"""The shard log repaired, and with one thing wrong each: what the text leaves open, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from motet.verify.explore.instances import led
from motet.verify.model import Variant, invariant, leads_to, require, step, weak
from motet.verify.models.shard_log import scripts
from motet.verify.models.shard_log.reconfiguring import ShardLog
from motet.verify.models.shard_log.records import (
    NO_ENTRY,
    AddEntry,
    Entry,
    EntryId,
    FenceResponse,
    Metadata,
    Node,
    Operator,
    State,
    Truncate,
    TruncateResponse,
)

NO_VALUE = -1
"""The value of an entry that a leader writes only to have one of its epoch."""


class Led(ShardLog):
    """The shard log, explored from the end of a script."""

    script: ClassVar[scripts.Script] = ()

    def initial(self) -> Iterator[State]:
        (start,) = super().initial()
        yield led(self, start, self.script)


class Repaired(ShardLog):
    """The shard log with its published defects closed.

    Fences go to the whole fencing ensemble; a leader is told the size of the final ensemble; every write of
    the metadata is a compare-and-set; a commit index never falls; a leader whose epoch was raised writes an
    entry without a value, so that what came before can be committed and a contraction ends on an idle
    shard; a confirmation carries the epoch of the entry's leader; a follower that was cut back and ends
    at an entry that the leader has not is cut back once more.
    """

    name = "shard-log-repaired"

    def fenced(self, old: Metadata, md: Metadata) -> frozenset[int]:  # noqa: ARG002
        return self.fencing_ensemble(md)

    def leader_rep_factor(self, md: Metadata, final: frozenset[int]) -> int:  # noqa: ARG002
        return len(final)

    def may_complete(self, s: State, me: Operator) -> bool:
        return me.md_version == s.metadata_version

    def commit_index_after(self, node: Node, recomputed: EntryId) -> EntryId:
        return max(node.commit_index, recomputed)

    def prepared(self, node: Node) -> Node:
        barrier = Entry((node.epoch, node.head_index[1] + 1), NO_VALUE)
        return node.but(log=(*node.log, barrier), head_index=barrier.id)

    def may_contract(self, node: Node, recomputed: EntryId) -> bool:
        return recomputed >= node.commit_index

    def confirmation_epoch(self, node: Node, m: AddEntry) -> int:  # noqa: ARG002
        return m.epoch

    def may_truncate(self, node: Node, m: Truncate) -> bool:
        is_again = node.status == "follower" and node.leader == m.source_node
        return (node.status == "fenced" or is_again) and node.epoch == m.epoch

    def leader_handles_truncate_response(self, s: State, m: TruncateResponse) -> State:
        node = s.node[m.dest_node]
        is_ours = m.head_index == NO_ENTRY or any(e.id == m.head_index for e in node.log)
        if is_ours:
            return super().leader_handles_truncate_response(s, m)
        require(node.status == "leader" and node.epoch == m.epoch)
        point = self.truncation_point(node, m.head_index)
        again = Truncate(m.source_node, m.dest_node, m.epoch, point)
        return s.but(messages=s.messages.processed(m, again))

    @step
    def metadata_epoch_never_falls(self, s: State, t: State) -> bool:
        """An older operator cannot undo an election."""
        return t.metadata.epoch >= s.metadata.epoch

    @step
    def commit_index_never_falls(self, s: State, t: State) -> bool:
        """While a node leads, what it has committed stays committed."""
        return all(
            after.commit_index >= before.commit_index
            for before, after in zip(s.node, t.node, strict=True)
            if before.status == after.status == "leader"
        )

    @invariant
    def leader_knows_rep_factor(self, s: State) -> bool:
        """The leader of a steady shard counts majorities of the ensemble there is."""
        md = s.metadata
        if md.shard_status != "steady_state" or md.leader is None:
            return True
        leader = s.node[md.leader]
        return (
            leader.epoch != md.epoch
            or leader.status != "leader"
            or (leader.rep_factor == md.rep_factor)
        )

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        from motet.verify.models.shard_log.held import repaired_variants

        return repaired_variants()


class AskedMore(Led):
    """As published, with the properties of the repaired model."""

    metadata_epoch_never_falls = Repaired.metadata_epoch_never_falls
    commit_index_never_falls = Repaired.commit_index_never_falls
    leader_knows_rep_factor = Repaired.leader_knows_rep_factor


class FactorBeforeElection(AskedMore):
    """As published: after a stalled expansion the leader counts three where the metadata says four."""

    script = scripts.EXPAND_STALLED


class UncheckedCompletion(AskedMore):
    """As published: an operator completes its swap over the election that another has begun."""

    script = scripts.TWO_OPERATORS


class CommitIndexFalls(AskedMore):
    """As published: the commit index is counted anew after a swap, and nothing is of the new epoch."""

    script = scripts.SWAP_AFTER_WRITE


class Hoping(Led):
    """The shard log under weak fairness of every action."""

    fairness = weak(*(action.name for action in ShardLog.actions()))

    @leads_to
    def reconfiguration_completes(self, s: State) -> tuple[bool, bool]:
        return s.metadata.reconfig is not None, s.metadata.reconfig is None

    @leads_to
    def values_are_committed(self, s: State) -> tuple[bool, bool]:
        written = any(told is False for told in s.confirmed)
        return written, not written


class IdleContract(Hoping):
    """As published: a contraction of an idle shard waits for an entry that nobody writes."""

    script = scripts.CONTRACT_IDLE


class FirstConfirmation(Hoping):
    """As published: the first confirmation after an expansion carries the old epoch and is dropped."""

    script = scripts.EXPANDED


class FenceOldEnsemble(Led):
    """The node that a stalled swap may have added is not fenced, and two majorities go on."""

    script = scripts.SWAP_AT_LEADER

    def fencing_ensemble(self, md: Metadata) -> frozenset[int]:
        return md.ensemble


class TruncateToOwnHead(Led):
    """As the text has it for a higher head: a late follower keeps its dirty entry under the leader's head."""

    script = scripts.DIRTY_FOLLOWER

    def truncation_point(self, node: Node, head: EntryId) -> EntryId:  # noqa: ARG002
        return node.head_index


class NoTruncation(Led):
    """A follower with a dirty tail is attached as it is."""

    script = scripts.DIRTY_FOLLOWER

    def needs_truncation(self, node: Node, head: EntryId) -> bool:  # noqa: ARG002
        return False


class ReplacedEpoch(Led):
    """As published: a follower without an entry of the epoch it is cut back to keeps one from before it.

    The leader attaches it at the head that it answers, and what it has there is not what the leader has.
    """

    script = scripts.REPLACED_EPOCH


class CommitOldEpochs(Led):
    """An entry of an earlier epoch is committed as soon as a majority has it."""

    script = scripts.OLD_ENTRY_AT_MAJORITY

    def may_commit(self, node: Node, entry: EntryId) -> bool:  # noqa: ARG002
        return True


class ContractRollsForward(Led):
    """A contraction in its commit phase is carried out by an election that fenced the old ensemble."""

    script = scripts.CONTRACT_OF_FIVE

    def final_ensemble(self, md: Metadata) -> frozenset[int]:
        final = super().final_ensemble(md)
        change = md.reconfig
        is_contract = change is not None and change.phase == "commit" and change.op == "contract"
        return final - {change.old_node} if is_contract and change is not None else final


class OneAnswer(ShardLog):
    """One answer is taken for a majority."""

    def has_majority(self, me: Operator, responses: tuple[FenceResponse, ...]) -> bool:  # noqa: ARG002
        return len(responses) >= 1


class LowestHead(ShardLog):
    """The leader is not the one with the highest head."""

    def winner(self, candidates: list[FenceResponse]) -> FenceResponse:
        return min(candidates, key=lambda r: (r.head_index, r.node))
