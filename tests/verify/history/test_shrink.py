"""What is left of a violated history after shrinking is violated by itself."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from tests.verify.history.histories import good_history, mutated, register_client
from tests.verify.history.oracle import linearizable

from motet.verify.history import History, Recorder, check_register, shrink
from motet.verify.history.operation import Ok, Operation, Value
from motet.verify.history.search import CAS, READ, WRITE
from motet.verify.history.shrink import Shrinker

FUNCTIONS = {"read": READ, "write": WRITE, "cas": CAS}
VALUES: list[Value] = [0, 1, 2, "any other"]


def explained_after_cut(operations: list[Operation], cut: int) -> bool:
    """Whether some value at the cut, with some of the operations open there already done, explains it."""
    across = [op for op in operations if op.began < cut]
    after = [op for op in operations if op.began >= cut]
    return any(
        linearizable([*(op for op, kept in zip(across, keep, strict=True) if kept), *after], value)
        for value in VALUES
        for keep in product([False, True], repeat=len(across))
    )


def test_the_proof_is_violated_by_itself() -> None:
    cuts = 0
    for seed in range(1_500):
        random = Random(seed)
        history = good_history(random, register_client, 0, operations=7)
        history = mutated(random, mutated(random, history))
        happened = [op for op in history.operations if op.outcome != "failed"]
        if linearizable(happened, 0):
            continue
        shrinker = Shrinker(happened, FUNCTIONS, 0)
        proof = shrinker.proof()
        assert proof, f"seed {seed}"
        if shrinker.cut is None:
            assert not linearizable(shrinker.operations, 0), f"seed {seed}\n{history}"
        else:
            cuts += 1
            assert not explained_after_cut(shrinker.operations, shrinker.cut), f"seed {seed}"
    assert cuts > 50


def test_a_second_pass_finds_nothing_more_to_take_away() -> None:
    for seed in range(300):
        random = Random(seed)
        history = mutated(random, good_history(random, register_client, 0, operations=7))
        if check_register(history, initial=0).status != "violated":
            continue
        shrinker = Shrinker(
            [op for op in history.operations if op.outcome != "failed"], FUNCTIONS, 0
        )
        proof = shrinker.proof()
        assert shrinker.proof() == proof, f"seed {seed}"


def test_a_wrong_answer_in_a_long_history_gives_a_short_witness() -> None:
    lengths = []
    for seed in range(10):
        history = good_history(
            Random(seed), register_client, 0, operations=1_000, processes=5, trouble=0
        )
        read = next(op for op in history.operations[800:] if op.function == "read")
        events = list(history.events)
        events[read.ended] = Ok(read.id, 99, at=events[read.ended].at)
        witness = check_register(History(events), initial=0).witness
        assert witness is not None
        assert read in [op._replace(result=read.result) for op in witness.operations]
        lengths.append(len(witness.operations))
    assert max(lengths) <= 6


def test_a_proof_that_is_not_made_smaller_still_shows_what_cannot_be_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A refused cas that runs all the time, beside a hundred reads that leave it no other value."""
    monkeypatch.setattr(shrink, "shrink_steps_max", 0)
    recorder = Recorder()
    refused = recorder.invoke("slow", "cas", None, (0, 1), at=0)
    for at in range(100):
        recorder.ok(recorder.invoke("reader", "read", None, None, at), 0, at)
    recorder.ok(refused, False, at=100)
    witness = check_register(recorder.history(), initial=0).witness
    assert witness is not None
    assert witness.operations[0].id == refused
    assert len(witness.operations) == shrink.witness_operations_max
