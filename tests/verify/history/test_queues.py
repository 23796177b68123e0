"""The queue checker against the permutation checker, and the words it has for each fault."""

from __future__ import annotations

from random import Random

import pytest
from tests.verify.history.histories import (
    Act,
    all_histories,
    good_history,
    mutated,
    sequence,
    unknown,
)
from tests.verify.history.oracle import State, linearizable

from motet.errors import BadHistory
from motet.verify.history import History, check_queue
from motet.verify.history.operation import Value

ENQUEUES = [Act("enqueue", "a"), Act("enqueue", "b")]
DEQUEUES = [Act("dequeue", None, answer) for answer in ("a", "b", None)]
UNKNOWN = [unknown(ENQUEUES[0]), unknown(DEQUEUES[0])]


def compare(history: History) -> bool:
    verdict = check_queue(history)
    expected = linearizable(history.operations, ())
    assert verdict.status == ("ok" if expected else "violated"), f"\n{history}\n{verdict}"
    return expected


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_history_of_up_to_three_operations(count: int) -> None:
    odd = [Act("enqueue", "a", outcome="failed")] if count < 3 else []
    verdicts = [compare(each) for each in all_histories(ENQUEUES + DEQUEUES + UNKNOWN + odd, count)]
    assert any(verdicts)
    assert not all(verdicts)


@pytest.mark.long
def test_every_history_of_four_operations() -> None:
    for history in all_histories(ENQUEUES + DEQUEUES + UNKNOWN, 4):
        compare(history)


def pick(random: Random, state: State) -> tuple[str, Value, Value]:
    if random.random() < 0.5:
        return "dequeue", None, None
    return "enqueue", None, random.randrange(6)


def test_good_and_mutated_histories() -> None:
    violated = 0
    for seed in range(800):
        random = Random(seed)
        good = good_history(random, pick, (), operations=random.randrange(2, 8))
        assert compare(good), f"seed {seed}"
        violated += not compare(mutated(random, mutated(random, good)))
    assert violated > 100


def test_long_histories_of_values_that_differ_are_decided() -> None:
    def fresh(random: Random, state: State) -> tuple[str, Value, Value]:
        if random.random() < 0.5:
            return "dequeue", None, None
        return "enqueue", None, random.randrange(1 << 40)

    for seed in range(5):
        good = good_history(Random(seed), fresh, (), operations=400, processes=6)
        assert check_queue(good), f"seed {seed}"


@pytest.mark.parametrize(
    ("acts", "fault"),
    [
        ([Act("dequeue", None, "a")], "phantom"),
        ([Act("enqueue", "a", outcome="failed"), Act("dequeue", None, "a")], "phantom"),
        ([ENQUEUES[0], DEQUEUES[0], DEQUEUES[0]], "doubled"),
        ([*ENQUEUES, DEQUEUES[1], DEQUEUES[0]], "reordered"),
        ([*ENQUEUES, DEQUEUES[1]], "reordered"),
        ([ENQUEUES[0], DEQUEUES[2]], "missed"),
        ([ENQUEUES[0], DEQUEUES[2], DEQUEUES[0]], "missed"),
    ],
)
def test_each_fault_has_its_word(acts: list[Act], fault: str) -> None:
    witness = check_queue(sequence(*acts)).witness
    assert witness is not None
    assert witness.fault == fault
    assert witness.operations


def test_a_dequeue_of_unknown_outcome_may_have_taken_what_is_missing() -> None:
    assert check_queue(sequence(ENQUEUES[0], unknown(DEQUEUES[0]), DEQUEUES[2]))
    assert check_queue(sequence(*ENQUEUES, unknown(DEQUEUES[0]), DEQUEUES[1]))


def test_the_budget_ends_in_unknown() -> None:
    good = good_history(Random(1), pick, (), operations=40)
    verdict = check_queue(good, budget_steps=3)
    assert (verdict.status, verdict.reason) == ("unknown", "the budget of 3 steps is used up")


def test_other_functions_are_refused() -> None:
    with pytest.raises(BadHistory, match="does not know the function 'pop'"):
        check_queue(sequence(Act("pop")))
    with pytest.raises(BadHistory, match="enqueued nothing"):
        check_queue(sequence(Act("enqueue")))
