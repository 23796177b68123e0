"""The traps of the text and its model for an operator; each check is shown to fail in its trap.

Numbers are those of the list of defects: 1 fences to the old ensemble alone; 2 the replication factor of
before; 3 a completion without compare-and-set; 10 the missing are not fenced again; 11 the old node is
chosen, or keeps its data. Traps 8 and 9 are in ``test_ensembles``. The rest of the list belongs to nodes.
Behind them come the traps of lost disks and of epochs whose owner is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.core.operator.clusters import WatchedPart, after

from motet.core.metadata.messages import (
    ANY_VERSION,
    MetadataMessage,
    MetadataRequest,
    Set,
    Write,
)
from motet.core.operator import elections, ensembles, followers, loading, writing
from motet.core.operator.state import Phase
from motet.core.shardlog.messages import FenceRequest, FenceResponse
from motet.core.streams.cluster_messages import ShardMetadata
from motet.ids import NodeId
from motet.sim.metadata_tree import MetadataTree

SWAP_STALLS = (
    "cluster nodes=4 operators=2",
    "create orders replicas=3",
    "lose CommitReconfigurationRequest",
    "swap n3 n4 wait=off",
    "run 100",
    "crash o1",
)

Trap = Callable[[pytest.MonkeyPatch], None]


def check_1_the_new_node_is_fenced() -> None:
    part = after(*SWAP_STALLS, "crash n3", "heal", "promote o2", "run 2000")
    assert part.stored().leader is not None, "three of four are there, and that is a majority"
    fenced = [to for to, m in part.bench.told_by_operators if isinstance(m, FenceRequest)]
    assert "n4" in fenced


def trap_1(patch: pytest.MonkeyPatch) -> None:
    real = elections.fence

    def only_the_ensemble(core: Any, control: Any, node: NodeId) -> None:
        if node in control.known.ensemble:
            real(core, control, node)

    patch.setattr(elections, "fence", only_the_ensemble)


def check_2_the_leader_is_told_the_final_factor() -> None:
    part = after(
        "cluster nodes=4 operators=2",
        "create orders replicas=3",
        "lose CommitReconfigurationRequest",
        "expand n4 wait=off",
        "run 100",
        "crash o1",
        "heal",
        "promote o2",
        "run 1000",
    )
    stored = part.stored()
    assert stored.replication_factor == 4
    assert stored.leader is not None
    leader = part.replica(stored.leader)
    assert leader is not None
    assert leader.replication_factor == 4


def trap_2(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(elections, "final_factor", lambda metadata: metadata.replication_factor)


def check_3_a_late_completion_changes_nothing() -> None:
    """o1 is told that its swap is done when o2 has long elected a leader in a higher epoch."""
    part = after(
        "cluster nodes=4 operators=2",
        "create orders replicas=3",
        "swap n3 n4 wait=off",
        "deliver metadata",
        "deliver o1",
        "deliver n1",
        "deliver o1",
        "deliver n4",
        "deliver o1",
        "deliver metadata",
        "deliver o1",
        "deliver n1",
        "cut o1 n1",
        "drop n2",
        "drop n4",
    )
    assert [type(each.send.message).__name__ for each in part.bench.network.in_flight] == [
        "CommitReconfigurationResponse"
    ]
    response = part.bench.network.in_flight.pop()
    part.do("promote o2")
    before = part.stored()
    assert (before.epoch, before.leader) == (3, "n1")
    assert part.control("o1").phase is Phase.COMMIT
    part.bench.network.in_flight.append(response)
    part.do("heal", "run 100")
    assert part.stored().epoch >= before.epoch, "an older epoch has come back"


def trap_3(patch: pytest.MonkeyPatch) -> None:
    real = MetadataTree.answer

    def without_comparing(
        tree: MetadataTree, request: MetadataRequest, now_ms: int = 0
    ) -> MetadataMessage:
        if isinstance(request, Write):
            operations = tuple(
                msgspec.structs.replace(each, version=ANY_VERSION)
                if isinstance(each, Set)
                else each
                for each in request.operations
            )
            request = msgspec.structs.replace(request, operations=operations)
        return real(tree, request, now_ms)

    patch.setattr(MetadataTree, "answer", without_comparing)


def check_10_the_missing_are_fenced_until_they_answer() -> None:
    part = after(
        "cluster",
        "create orders",
        "lose FenceResponse from=n3",
        "elect",
        "run 2000",
        "heal",
        "run 5000",
    )
    n3 = part.replica("n3")
    assert n3 is not None
    assert (n3.status, n3.epoch) == ("follower", 2)


def trap_10(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(followers, "fence", lambda core, control, node: None)


def check_11_the_old_node_is_not_chosen() -> None:
    part = after(*SWAP_STALLS, "head n3 (2,99)", "heal", "promote o2", "run 1000")
    assert part.stored().ensemble == ("n1", "n2", "n4")
    assert part.stored().leader != "n3"
    assert part.replica("n3") is None


def trap_11_chosen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ensembles, "final_ensemble", ensembles.fencing_ensemble)


def trap_11_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(followers, "_delete_leftovers", lambda core, control: None)


def check_a_wiped_node_is_no_majority() -> None:
    part = after("cluster", "create orders", "crash n1", "wipe n2", "run 5000")
    assert part.stored().leader is None


def trap_wiped(patch: pytest.MonkeyPatch) -> None:
    def everybody_counts(metadata: ShardMetadata, answers: dict[NodeId, FenceResponse]) -> bool:
        asked = ensembles.fencing_ensemble(metadata)
        return sum(n in answers for n in asked) >= ensembles.majority(len(asked))

    for module in (ensembles, elections):
        patch.setattr(module, "is_decided", everybody_counts)


def check_an_epoch_has_one_owner() -> None:
    """Both operators raise to the same epoch; one write wins, and its outcome is not known to either."""
    part = after(
        "cluster operators=2",
        "create orders",
        "promote o2",
        "lose BecomeLeaderResponse",
        "mishap unknown lost",
        "elect wait=off",
        "ask o1",
        "elect wait=off",
        "run 400",
        "heal",
        "run 10000",
    )
    assert part.stored().leader is not None


def trap_owner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loading, "is_ours", lambda control, found: found == control.writing)


def check_an_older_epoch_does_not_get_a_node_that_forgot_a_newer_one() -> None:
    """n3 promised epoch 2 to o2 and lost its disk; o1 hears of that, and still believes in epoch 1."""
    part = after(
        "cluster operators=2",
        "create orders",
        "promote o2",
        "cut n1 o1",
        "cut n2 o1",
        "cut n1 n3",
        "elect wait=off",
        "run 10",
        "cut o2 n3",
        "wipe n3",
    )
    assert part.stored().epoch == 2
    assert part.control("o1").epoch == 1
    part.do("run 500")
    n3 = part.replica("n3")
    assert n3 is None or n3.epoch >= 2, "it follows a leader of the past"


def trap_incarnation(patch: pytest.MonkeyPatch) -> None:
    def at_once(core: Any, control: Any, node: NodeId) -> None:
        known = control.known
        life = core.incarnation(node)
        core.send(node, FenceRequest(control.shard, known.epoch, life, known.is_new))

    for module in (elections, followers):
        patch.setattr(module, "fence", at_once)


def check_a_leader_is_not_told_before_the_shard_is_known_to_be_no_longer_new() -> None:
    part = after("cluster", "lose BecomeLeaderResponse", "create orders wait=off", "run 50")
    assert not part.stored().is_new


def trap_new(patch: pytest.MonkeyPatch) -> None:
    real = writing.save

    def notify_at_once(core: Any, control: Any, metadata: Any, after: Any) -> None:
        if after == "notify_leader":
            core.enter(control, after)
        else:
            real(core, control, metadata, after)

    patch.setattr(elections, "save", notify_at_once)


CHECKS: list[tuple[Callable[[], None], Trap]] = [
    (check_1_the_new_node_is_fenced, trap_1),
    (check_2_the_leader_is_told_the_final_factor, trap_2),
    (check_3_a_late_completion_changes_nothing, trap_3),
    (check_10_the_missing_are_fenced_until_they_answer, trap_10),
    (check_11_the_old_node_is_not_chosen, trap_11_chosen),
    (check_11_the_old_node_is_not_chosen, trap_11_kept),
    (check_a_wiped_node_is_no_majority, trap_wiped),
    (check_an_epoch_has_one_owner, trap_owner),
    (check_an_older_epoch_does_not_get_a_node_that_forgot_a_newer_one, trap_incarnation),
    (check_a_leader_is_not_told_before_the_shard_is_known_to_be_no_longer_new, trap_new),
]


@pytest.mark.parametrize("check", dict.fromkeys(check for check, _ in CHECKS))
def test_the_trap_is_closed(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize(("check", "trap"), CHECKS)
def test_the_check_fails_in_the_trap(
    check: Callable[[], None], trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap(monkeypatch)
    with pytest.raises(AssertionError):
        check()


def test_the_watch_is_on_a_real_cluster() -> None:
    part: WatchedPart = after("cluster", "create orders")
    assert part.bench.leaders
    assert part.bench.owners
