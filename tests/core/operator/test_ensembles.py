"""Who is fenced, who may lead, who leads: every small case, and what each rule is for."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.operator.models import (
    answer,
    committed,
    lost,
    named,
    split_brains,
    stalled_in_commit,
    steady,
    subsets,
)

from motet.core.operator import ensembles
from motet.core.operator.ensembles import (
    changed_ensemble,
    choose,
    expanded_epoch,
    fencing_ensemble,
    final_ensemble,
    final_factor,
    is_decided,
    majority,
)
from motet.core.shardlog.entry import NO_ENTRY, EntryId
from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.streams.cluster_messages import ReconfigurationPhase, ShardMetadata
from motet.ids import Epoch, NodeId, Offset

SIZES = range(2, 8)
OPS = list(ReconfigurationOp)


def head(epoch: int, offset: int) -> EntryId:
    return EntryId(Epoch(epoch), Offset(offset))


@pytest.mark.parametrize("nodes", range(1, 8))
def test_no_election_of_a_steady_shard_loses_an_entry(nodes: int) -> None:
    assert lost(steady(nodes)) == []
    assert split_brains(steady(nodes)) == []


@pytest.mark.parametrize("nodes", SIZES)
@pytest.mark.parametrize("op", OPS)
def test_no_election_that_resolves_a_stalled_change_loses_an_entry(
    op: ReconfigurationOp, nodes: int
) -> None:
    assert lost(stalled_in_commit(op, nodes)) == []
    assert split_brains(stalled_in_commit(op, nodes)) == []


@pytest.mark.parametrize("nodes", [3, 5, 7])
def test_without_the_new_node_among_the_fenced_two_majorities_go_on(nodes: int) -> None:
    """Trap 9: for odd ensembles, a swap whose new node is not fenced."""
    metadata = stalled_in_commit(ReconfigurationOp.NODE_SWAP, nodes)
    assert split_brains(metadata, asked=metadata.ensemble)


@pytest.mark.parametrize("nodes", [5, 7])
def test_a_contraction_that_is_rolled_forward_loses_an_entry(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap 8: write on {1,4,5}, fenced {2,3,5}, and only {2,3} are left to choose from."""

    def rolled_forward(metadata: ShardMetadata) -> tuple[NodeId, ...]:
        assert metadata.reconfiguration is not None
        return changed_ensemble(metadata.ensemble, metadata.reconfiguration)

    monkeypatch.setattr(ensembles, "final_ensemble", rolled_forward)
    assert lost(stalled_in_commit(ReconfigurationOp.CONTRACT, nodes))


def test_a_node_that_has_lost_its_disk_does_not_count() -> None:
    metadata = steady(3)
    n1, n2, _ = metadata.ensemble
    answers = {n1: answer(NO_ENTRY), n2: answer(NO_ENTRY, is_member=False)}
    assert not is_decided(metadata, answers)
    assert choose(metadata, answers, []) is None
    answers[metadata.ensemble[2]] = answer(head(1, 1))
    choice = choose(metadata, answers, [n2])
    assert choice is not None
    assert choice.leader == "n3"
    assert choice.follower_map == (("n1", NO_ENTRY), ("n2", NO_ENTRY))


def test_the_highest_head_is_by_epoch_first() -> None:
    metadata = steady(3)
    answers = {NodeId("n1"): answer(head(1, 9)), NodeId("n2"): answer(head(2, 1))}
    choice = choose(metadata, answers, [NodeId("n1")])
    assert choice is not None
    assert choice.leader == "n2"
    assert choice.follower_map == (("n1", head(1, 9)),)


@given(
    heads=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=7),
    ranked=st.permutations(named(range(1, 8))),
    heard=st.integers(1, 127),
)
def test_the_leader_is_the_first_in_rank_of_those_with_the_highest_head(
    heads: list[tuple[int, int]], ranked: list[NodeId], heard: int
) -> None:
    metadata = steady(len(heads))
    answers = {
        node: answer(head(*each))
        for number, (node, each) in enumerate(zip(metadata.ensemble, heads, strict=True))
        if heard >> number & 1
    }
    choice = choose(metadata, answers, ranked)
    if len(answers) * 2 <= len(heads):
        assert choice is None
        return
    assert choice is not None
    highest = max(each.head_index for each in answers.values())
    equals = [node for node in ranked if node in answers and answers[node].head_index == highest]
    assert choice.leader == equals[0]
    assert {choice.leader, *dict(choice.follower_map)} == set(answers)


@pytest.mark.parametrize("phase", ReconfigurationPhase)
@pytest.mark.parametrize("op", OPS)
def test_the_table_of_the_essay(op: ReconfigurationOp, phase: ReconfigurationPhase) -> None:
    metadata = stalled_in_commit(op, 3)
    assert metadata.reconfiguration is not None
    if phase is ReconfigurationPhase.PREPARE:
        import msgspec

        change = msgspec.structs.replace(metadata.reconfiguration, phase=phase)
        metadata = msgspec.structs.replace(metadata, reconfiguration=change)
        expected = (metadata.ensemble, metadata.ensemble)
    else:
        n123, n4 = metadata.ensemble, NodeId("n4")
        expected = {
            ReconfigurationOp.NODE_SWAP: ((*n123, n4), (*n123[:2], n4)),
            ReconfigurationOp.EXPAND: ((*n123, n4), (*n123, n4)),
            ReconfigurationOp.CONTRACT: (n123, n123),
        }[op]
    assert (fencing_ensemble(metadata), final_ensemble(metadata)) == expected
    assert final_factor(metadata) == len(expected[1])


@given(st.integers(1, 1000))
def test_two_majorities_meet(count: int) -> None:
    assert 2 * majority(count) > count >= 2 * majority(count) - 2


@pytest.mark.parametrize("nodes", range(1, 7))
@pytest.mark.parametrize("op", [None, *OPS])
def test_lost_disks_cost_no_entry_that_is_left_somewhere(
    op: ReconfigurationOp | None, nodes: int
) -> None:
    """Whatever disks were lost: if a leader is chosen, it has what was committed."""
    if op is not None and nodes < 2:
        return
    metadata = steady(nodes) if op is None else stalled_in_commit(op, nodes)
    asked = fencing_ensemble(metadata)
    for holders in dict.fromkeys(committed(metadata)):
        for fenced in subsets(asked, majority(len(asked))):
            for wiped in subsets(fenced, 1):
                answers = {
                    node: answer(
                        head(1, 1) if node in holders and node not in wiped else NO_ENTRY,
                        is_member=node not in wiped,
                    )
                    for node in fenced
                }
                choice = choose(metadata, answers, [])
                assert choice is None or (choice.leader in holders and choice.leader not in wiped)


def test_of_two_nodes_one_may_lose_its_disk() -> None:
    """What was committed was on both, so the other one has it."""
    metadata = steady(2)
    n1, n2 = metadata.ensemble
    answers = {n1: answer(head(1, 1)), n2: answer(NO_ENTRY, is_member=False)}
    choice = choose(metadata, answers, [n2])
    assert choice is not None
    assert choice.leader == n1
    del answers[n2]
    assert choose(metadata, answers, []) is None, "it has to be fenced all the same"


@pytest.mark.parametrize("nodes", [2, 4, 6])
def test_half_of_the_members_decide_only_what_was_committed_since_the_expansion(nodes: int) -> None:
    """Before it two of three had an entry; one of them has lost its disk, and the other is away."""
    metadata = msgspec.structs.replace(steady(nodes), expanded_epoch=Epoch(5))
    wiped, *others = metadata.ensemble
    half = others[: nodes // 2]
    for epoch, is_safe in ((5, False), (6, True)):
        answers = {node: answer(head(epoch, 7)) for node in half}
        answers[wiped] = answer(NO_ENTRY, is_member=False)
        assert is_decided(metadata, answers) is is_safe
        assert is_decided(steady(nodes), answers)


def test_the_epoch_of_an_expansion_is_written_down_with_it() -> None:
    for op in OPS:
        metadata = stalled_in_commit(op, 3)
        before = msgspec.structs.replace(metadata, expanded_epoch=Epoch(1))
        is_expansion = op is ReconfigurationOp.EXPAND
        assert expanded_epoch(before) == (metadata.epoch if is_expansion else Epoch(1))
