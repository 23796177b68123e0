"""What comes of a change of an ensemble that stalls, as the checker of the storm of streams sees it."""

from __future__ import annotations

import msgspec
import pytest

from motet.core.machine import Note
from motet.core.operator.ensembles import changed_ensemble
from motet.core.shardlog.messages import (
    CommitReconfigurationRequest,
    PrepareReconfigurationRequest,
    ReconfigurationOp,
)
from motet.core.streams.cluster_messages import (
    Reconfiguration,
    ReconfigurationPhase,
    ShardMetadata,
    ShardStatus,
)
from motet.ids import Epoch, LogName, NodeId, ShardName
from motet.sim.faults import Faults
from motet.sim.world import World
from motet.verify.storms.streams_rules import STALL_MARKS, Stalls

SHARD = LogName(ShardName("s.0"))
A, B, C, D = (NodeId(name) for name in "abcd")
PREPARE, COMMIT = ReconfigurationPhase.PREPARE, ReconfigurationPhase.COMMIT
STEADY = ShardMetadata(SHARD, Epoch(4), ShardStatus.STEADY_STATE, A, (A, B, C), 3)

CHANGES = {
    "node_swap": Reconfiguration(ReconfigurationOp.NODE_SWAP, PREPARE, C, D, 3),
    "expand": Reconfiguration(ReconfigurationOp.EXPAND, PREPARE, None, D, 4),
    "contract": Reconfiguration(ReconfigurationOp.CONTRACT, PREPARE, C, None, 2),
}
STALLED = [
    (PREPARE, "unheard"),
    (PREPARE, "prepared"),
    (COMMIT, "prepared"),
    (COMMIT, "committed"),
]


class Book:
    """A shard's metadata, and the one who watches it being written."""

    def __init__(self) -> None:
        self.world = World(1, Faults())
        self.stalls = Stalls(self.world)
        self.metadata = STEADY

    def write(self, **fields: object) -> None:
        before, self.metadata = self.metadata, msgspec.structs.replace(self.metadata, **fields)
        self.stalls.stored(before, self.metadata)

    def begin(self, op: str, phase: ReconfigurationPhase) -> Reconfiguration:
        change = CHANGES[op]
        self.write(epoch=Epoch(5), status=ShardStatus.RECONFIGURATION, reconfiguration=CHANGES[op])
        if phase is COMMIT:
            self.note("prepared", op)
            change = msgspec.structs.replace(change, phase=COMMIT)
            self.write(reconfiguration=change)
        return change

    def note(self, stage: str, op: str) -> None:
        self.stalls.noted(Note(f"shard_{stage}_{op}", f"{SHARD} epoch 5"), Epoch(5))

    def elect(self, ensemble: tuple[NodeId, ...]) -> None:
        self.write(epoch=Epoch(6), status=ShardStatus.ELECTION, leader=None)
        self.write(epoch=Epoch(7))  # the first operator has died, too
        self.settle(ensemble)

    def settle(self, ensemble: tuple[NodeId, ...]) -> None:
        self.write(
            status=ShardStatus.STEADY_STATE,
            leader=A,
            reconfiguration=None,
            ensemble=ensemble,
            replication_factor=len(ensemble),
        )

    @property
    def rules(self) -> list[str]:
        return [each.invariant for each in self.world.violations]


@pytest.mark.parametrize(("phase", "stage"), STALLED)
@pytest.mark.parametrize("op", CHANGES)
def test_an_election_ends_a_change_in_one_way_only(
    op: str, phase: ReconfigurationPhase, stage: str
) -> None:
    done = changed_ensemble(STEADY.ensemble, CHANGES[op])
    is_done = phase is COMMIT and op != "contract"
    right, wrong = (done, STEADY.ensemble) if is_done else (STEADY.ensemble, done)
    for ensemble in (right, wrong):
        book = Book()
        book.begin(op, phase)
        if stage != "unheard":
            book.note(stage, op)
        book.elect(ensemble)
        assert book.rules == ([] if ensemble == right else ["Resolved"])
        if ensemble == right:
            [mark] = book.world.marks
            assert mark.startswith(f"stalled_{op}_{phase.value}_{stage}_")
            assert mark in STALL_MARKS


@pytest.mark.parametrize("asked", [1, 2])
@pytest.mark.parametrize("op", CHANGES)
def test_a_change_that_was_asked_for_twice_has_stalled(op: str, asked: int) -> None:
    book = Book()
    change = CHANGES[op]
    named = (change.op, change.old_node, change.new_node)
    book.begin(op, PREPARE)
    for _ in range(asked):
        book.stalls.sent(PrepareReconfigurationRequest(SHARD, Epoch(5), *named))
    book.write(reconfiguration=msgspec.structs.replace(change, phase=COMMIT))
    for _ in range(asked):
        book.stalls.sent(
            CommitReconfigurationRequest(
                SHARD, Epoch(5), change.op, change.replication_factor, *named[1:], None
            )
        )
    book.settle(changed_ensemble(STEADY.ensemble, change))
    both = {f"stalled_{op}_prepare_went_on": 1, f"stalled_{op}_commit_went_on": 1}
    assert book.world.marks == (both if asked > 1 else {})
    assert not book.rules


def test_a_change_that_is_called_off_and_one_of_a_deleted_shard() -> None:
    book = Book()
    book.begin("expand", PREPARE)
    book.settle(STEADY.ensemble)
    assert book.world.marks == {"stalled_expand_prepare_aborted": 1}

    book = Book()
    book.begin("expand", COMMIT)
    book.write(epoch=Epoch(6), status=ShardStatus.ELECTION, leader=None)
    book.write(status=ShardStatus.DELETING)
    assert (book.world.marks, book.rules) == ({}, [])
