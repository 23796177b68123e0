"""What is left of a violated history after shrinking is violated by itself."""

from __future__ import annotations

from itertools import product
from random import Random

from tests.verify.history.histories import good_history, mutated
from tests.verify.history.oracle import linearizable
from tests.verify.history.test_register import pick

from motet.verify.history import History, check_register
from motet.verify.history.events import Ok
from motet.verify.history.operation import Operation
from motet.verify.history.plan import CAS, READ, WRITE
from motet.verify.history.shrink import Shrinker
from motet.verify.history.values import Value

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
        history = good_history(random, pick, 0, operations=7)
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
        history = mutated(random, good_history(random, pick, 0, operations=7))
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
        history = good_history(Random(seed), pick, 0, operations=1_000, processes=5, trouble=0)
        read = next(op for op in history.operations[800:] if op.function == "read")
        events = list(history.events)
        events[read.ended] = Ok(read.id, 99, at=events[read.ended].at)
        witness = check_register(History(events), initial=0).witness
        assert witness is not None
        assert read in [op._replace(result=read.result) for op in witness.operations]
        lengths.append(len(witness.operations))
    assert max(lengths) <= 6
