"""Quorum inserts with one thing wrong each, and with the published holes closed."""

from __future__ import annotations

from motet.verify.model import Variant, action, invariant, leads_to, require, strong, weak
from motet.verify.models.merge_tree import put
from motet.verify.models.quorum import (
    END_INSERT,
    READ,
    Event,
    Quorum,
    QuorumStale,
    State,
)


class QuorumRepaired(Quorum):
    """Quorum inserts where a replica skips a failed record instead of standing before it for ever."""

    name = "quorum-repaired"
    Replicas = Quorum.Replicas
    fairness = strong(
        "become_active",
        "execute_log",
        "update_quorum",
        "end_quorum",
        "failed_quorum",
        "skip_failed",
        each=True,
    )

    @action(r=Replicas)
    def skip_failed(self, s: State, r: int) -> State:
        me = s.replica[r]
        require(me.is_active and me.log_pointer <= len(s.log))
        record = s.log[me.log_pointer - 1]
        require(record in s.failed_parts)
        return s.but(
            replica=put(
                s.replica,
                r,
                me.but(log_pointer=me.log_pointer + 1, local_parts=me.local_parts - {record.data}),
            )
        )

    @leads_to
    def insert_ends_or_fails(self, s: State) -> tuple[bool, bool]:
        """What is in flight does not stay there."""
        return s.quorum is not None, s.quorum is None

    @leads_to
    def moves_on_after_failure(self, s: State) -> tuple[bool, bool]:
        """No replica stands at a failed record for ever."""
        stands = at_failed(s)
        return stands, not stands

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        small = {"replicas": 2, "quorum": 2, "records": 2, "reads": 0}
        return {
            "weakly-fair": Variant(
                "replicas that come and go are promised no more than weak fairness",
                WeaklyFair,
                breaks="InsertEndsOrFails",
                settings=small,
            ),
        }


class WeaklyFair(QuorumRepaired):
    """A replica that goes to sleep whenever it could act never has to act."""

    fairness = weak(*(fair.action for fair in QuorumRepaired.fairness), each=True)


def at_failed(s: State) -> bool:
    """Whether some replica stands at a failed record."""
    return any(
        one.log_pointer <= len(s.log) and s.log[one.log_pointer - 1] in s.failed_parts
        for one in s.replica
    )


class StuckAfterFailure(Quorum):
    """As published: after a failed insert nobody who stands at its record can go on."""

    fairness = QuorumRepaired.fairness

    @leads_to
    def moves_on_after_failure(self, s: State) -> tuple[bool, bool]:
        stands = at_failed(s)
        return stands, not stands


class ReadsAsASet(Quorum):
    """As published: the guard bounds the set of reads, which the same read again does not enlarge."""

    def read_count(self, s: State) -> int:
        return len({event for event in s.history if event.kind == READ})

    @invariant
    def history_is_bounded(self, s: State) -> bool:
        return len(s.history) <= 2 * self.most_records + self.most_reads


class FailsAReachedQuorum(Quorum):
    """As published: an insert that a quorum has can fail, if all of them sleep before it is ended.

    That is legal, because its client has not been told; whoever reads it so should see it once.
    """

    @invariant
    def no_failed_part_on_a_quorum(self, s: State) -> bool:
        return not any(
            sum(part.data in one.local_parts for one in s.replica) >= self.least
            for part in s.failed_parts
        )


class AcknowledgeEarly(Quorum):
    """The insert ends as soon as its own replica has it."""

    def end_quorum(self, s: State, r: int) -> State:
        node = s.quorum
        require(node is not None and s.replica[r].is_active)
        assert node is not None
        require(r in node.replicas)
        return s.but(
            quorum=None,
            last_added_data=node.data,
            history=(*s.history, Event(END_INSERT, node.id)),
        )


class JoinWithoutFetch(Quorum):
    """A replica adds itself to the quorum before it has the block."""

    def update_quorum(self, s: State, r: int) -> State:
        return s.but(quorum=super().update_quorum(s, r).quorum)


class ReadInFlight(Quorum):
    """A select shows the insert that is still in flight."""

    def visible(self, s: State, r: int) -> frozenset[int]:
        return s.replica[r].local_parts - {part.data for part in s.failed_parts}

    def committed(self, s: State) -> int:
        return len(s.log) - len(s.failed_parts)


def quorum_variants() -> dict[str, Variant]:
    """What must fail beside the published model, each at a size where it fails quickly."""
    tiny = {"replicas": 2, "quorum": 2, "records": 1, "reads": 1}
    return {
        "stuck-after-failure": Variant(
            "as published, asked whether replicas move on after a failed insert",
            StuckAfterFailure,
            breaks="MovesOnAfterFailure",
            settings=tiny | {"reads": 0},
        ),
        "reads-as-a-set": Variant(
            "as published, with reads bounded as a set",
            ReadsAsASet,
            breaks="HistoryIsBounded",
            settings=tiny | {"reads": 2},
        ),
        "fails-a-reached-quorum": Variant(
            "as published, asked whether an insert that a quorum has can fail",
            FailsAReachedQuorum,
            breaks="NoFailedPartOnAQuorum",
            settings={"replicas": 3, "quorum": 2, "records": 1, "reads": 0},
        ),
        "acknowledge-early": Variant(
            "an insert ends before a quorum has it",
            AcknowledgeEarly,
            breaks="QuorumSelect",
            settings=tiny,
        ),
        "join-without-fetch": Variant(
            "a replica joins the quorum before it has the block",
            JoinWithoutFetch,
            breaks="QuorumSelect",
            settings=tiny,
        ),
        "read-in-flight": Variant(
            "a select shows an insert in flight",
            ReadInFlight,
            breaks="ReadAfterWrite",
            settings=tiny,
        ),
        "stale": Variant(
            "selects do not ask whether the replica has everything",
            QuorumStale,
            breaks="NoStaleRead",
            settings={"replicas": 3, "quorum": 2, "records": 2, "reads": 2},
        ),
    }
