"""The bank checker against the permutation checker."""

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
from motet.verify.history import History, check_bank, check_snapshots
from motet.verify.history.operation import Value

INITIAL = {"a": 2, "b": 1}
STATE = (("a", 2), ("b", 1))


def compare(history: History) -> bool:
    verdict = check_bank(history, initial=INITIAL)
    expected = linearizable(history.operations, STATE)
    assert verdict.status == ("ok" if expected else "violated"), f"\n{history}\n{verdict}"
    return expected


def transfer(source: str, target: str, amount: int, *, done: bool = True) -> Act:
    return Act("transfer", (source, target, amount), done)


def read(a: int, b: int) -> Act:
    return Act("read", None, (("a", a), ("b", b)))


ACTS = [
    transfer("a", "b", 2),
    transfer("a", "b", 2, done=False),
    transfer("b", "a", 1),
    unknown(transfer("a", "b", 1)),
    read(2, 1),
    read(0, 3),
    read(3, 0),
]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_history_of_up_to_three_operations(count: int) -> None:
    verdicts = [compare(history) for history in all_histories(ACTS, count)]
    assert any(verdicts)
    assert not all(verdicts)


def pick(random: Random, state: State) -> tuple[str, Value, Value]:
    if random.random() < 0.4:
        return "read", None, None
    source, target = random.sample(["a", "b"], 2)
    return "transfer", None, (source, target, random.randrange(1, 3))


def test_good_and_mutated_histories() -> None:
    violated = 0
    for seed in range(600):
        random = Random(seed)
        good = good_history(random, pick, STATE, operations=random.randrange(2, 8))
        assert compare(good), f"seed {seed}"
        violated += not compare(mutated(random, mutated(random, good)))
    assert violated > 50


@pytest.mark.parametrize(
    ("act", "fault"),
    [
        (read(2, 2), "total"),
        (read(4, -1), "negative"),
        (Act("read", None, (("a", 3),)), "incomplete"),
    ],
)
def test_each_fault_has_its_word(act: Act, fault: str) -> None:
    witness = check_snapshots(sequence(act), initial=INITIAL).witness
    assert witness is not None
    assert witness.fault == fault


def test_a_snapshot_may_be_old_and_a_read_of_the_bank_may_not() -> None:
    history = sequence(transfer("a", "b", 1), read(2, 1))
    assert check_snapshots(history, initial=INITIAL)
    verdict = check_bank(history, initial=INITIAL)
    assert verdict.witness is not None
    assert "a=1 b=2" in verdict.witness.sentence


@pytest.mark.parametrize(
    ("act", "complaint"),
    [
        (Act("transfer", ("a", "c", 1), True), "no account 'c'"),
        (Act("transfer", ("a", 1), True), "transferred"),
        (Act("read", None, 7), "answered 7"),
        (Act("deposit", 1), "does not know"),
    ],
)
def test_what_is_no_operation_of_a_bank_is_refused(act: Act, complaint: str) -> None:
    with pytest.raises(BadHistory, match=complaint):
        check_bank(sequence(act), initial=INITIAL)
    with pytest.raises(BadHistory, match="first balances"):
        check_bank(sequence(), initial={})
