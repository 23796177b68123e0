"""The core of the shard log, explored by clone."""

from __future__ import annotations

import pytest

from motet.errors import BadInput
from motet.verify.explore import explore
from motet.verify.models.shard_log_core import ShardLogCore, State


def test_every_order_of_an_election_and_a_write_ends_well() -> None:
    model = ShardLogCore(nodes=3, values=1, epochs=1)
    result = explore(model)
    assert (result.verdict, result.property) == ("ok", None)
    assert all(result.coverage.values())
    longest = max((node.applied for node in model.seen), key=len)
    assert [value for _, _, value in longest] == [b"", b"0"], "a barrier, and then the value"


def test_two_elections_of_two_nodes_end_well() -> None:
    model = ShardLogCore(nodes=2, values=1, epochs=2)
    assert explore(model).verdict == "ok"
    assert max(node.epoch for node in model.seen) == 2


@pytest.mark.long
def test_two_elections_of_three_nodes_end_well() -> None:
    result = explore(ShardLogCore(nodes=3, values=0, epochs=2))
    assert result.verdict == "ok"
    assert result.distinct > 50_000


def test_each_step_of_a_node_is_taken_once() -> None:
    model = ShardLogCore(nodes=3, values=1, epochs=1)
    result = explore(model)
    assert len(model.locals) * 10 < result.distinct


def test_a_property_that_does_not_hold_is_found_with_its_messages() -> None:
    class NeverServes(ShardLogCore):
        def no_loss_of_confirmed_write(self, s: State) -> bool:
            return not any(self.seen[number].is_serving for number in s.node)

    result = explore(NeverServes(nodes=2, epochs=1))
    assert result.property == "NoLossOfConfirmedWrite"
    steps = [step.action for step in result.trace]
    assert steps[1] == "OperatorStartsElection"
    assert steps[2].startswith("Deliver(op -> n")
    assert "BecomeLeaderRequest" in " ".join(steps)


def test_it_is_explored_in_one_process() -> None:
    with pytest.raises(BadInput, match="explored in one process"):
        explore(ShardLogCore(), workers=2)
