"""The register checker against the permutation checker, its witnesses, its budget."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.verify.history.histories import (
    Act,
    all_arrangements,
    all_histories,
    good_history,
    mutated,
    register_client,
    sequence,
    unknown,
)
from tests.verify.history.oracle import linearizable

from motet.errors import BadHistory
from motet.verify.history import History, Recorder, check_register
from motet.verify.history.operation import Value

READS = [Act("read", None, 0), Act("read", None, 1)]
WRITES = [Act("write", 0), Act("write", 1)]
CAS = [
    Act("cas", (expected, 1 - expected), result) for expected in (0, 1) for result in (True, False)
]
UNKNOWN = [
    unknown(Act("write", 0)),
    unknown(Act("write", 1)),
    unknown(Act("cas", (0, 1))),
    unknown(Act("cas", (1, 0))),
]
ODD = [
    Act("cas", (1, 1), True),
    Act("cas", (1, 1), False),
    unknown(Act("read")),
    Act("write", 1, outcome="failed"),
]


def compare(history: History, initial: Value = 0) -> bool:
    """Hold the checker's verdict against the permutation checker's."""
    verdict = check_register(history, initial=initial)
    expected = linearizable(history.operations, initial)
    assert verdict.status == ("ok" if expected else "violated"), f"\n{history}\n{verdict}"
    assert (verdict.witness is not None) == (not expected)
    return expected


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_history_of_up_to_three_operations(count: int) -> None:
    acts = READS + WRITES + CAS + UNKNOWN + (ODD if count < 3 else [])
    verdicts = [compare(history) for history in all_histories(acts, count)]
    assert any(verdicts)
    assert not all(verdicts)


@pytest.mark.parametrize(
    "acts",
    [
        [*READS, WRITES[1]],
        [READS[1], WRITES[0], UNKNOWN[1]],
        [CAS[0], CAS[2], WRITES[1]],
        [READS[1], CAS[1], UNKNOWN[2]],
    ],
    ids=["reads-and-writes", "unknown-writes", "cas", "unknown-cas"],
)
def test_every_history_of_four_operations_of_a_kind(acts: list[Act]) -> None:
    verdicts = [compare(history) for history in all_histories(acts, 4)]
    assert any(verdicts)
    assert not all(verdicts)


@pytest.mark.parametrize(
    "acts",
    [
        [Act("write", 2), Act("write", 0), Act("cas", (0, 1), True), Act("read", None, 1)],
        [Act("write", 2), unknown(Act("write", 0)), Act("cas", (0, 1), True), Act("read", None, 1)],
        [Act("write", 2), Act("write", 0), unknown(Act("cas", (0, 1))), Act("read", None, 1)],
        [Act("write", 1), Act("cas", (1, 2), True), Act("cas", (2, 0), True), Act("read", None, 2)],
        [Act("write", 1), Act("write", 2), Act("cas", (2, 0), False), Act("read", None, 2)],
        [Act("write", 0), Act("cas", (0, 1), True), Act("cas", (0, 2), True), Act("write", 2)],
    ],
)
def test_every_arrangement_of_acts_that_hide_each_other(acts: list[Act]) -> None:
    """A write that nobody sees fits anywhere before another write, also before one that changes nothing."""
    verdicts = [compare(history) for history in all_arrangements(acts)]
    assert any(verdicts)
    assert not all(verdicts)


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_every_history_of_four_operations() -> None:
    for history in all_histories(READS + WRITES + CAS + UNKNOWN, 4):
        compare(history)


def test_good_and_mutated_histories() -> None:
    violated = 0
    for seed in range(2_500):
        random = Random(seed)
        good = good_history(random, register_client, 0, operations=random.randrange(2, 8))
        assert compare(good), f"seed {seed}"
        violated += not compare(mutated(random, mutated(random, good)))
    assert violated > 500


def test_long_good_histories_are_ok() -> None:
    for seed in range(60):
        random = Random(seed)
        good = good_history(
            random,
            register_client,
            0,
            operations=200,
            processes=5,
            trouble=random.choice([0, 0.02, 0.1]),
        )
        assert check_register(good, initial=0).status == "ok", f"seed {seed}"


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(2, 7), st.integers(0, 3))
def test_any_history(random: Random, operations: int, mutations: int) -> None:
    history = good_history(random, register_client, 0, operations=operations)
    for _ in range(mutations):
        history = mutated(random, history)
    compare(history)


def test_a_stale_read_is_witnessed_by_the_write_it_misses() -> None:
    history = sequence(Act("write", 1), Act("read", None, 1), Act("write", 2), Act("read", None, 1))
    witness = check_register(history).witness
    assert witness is not None
    assert [op.id for op in witness.operations] == [2, 3]
    assert "c3's read answered 1" in witness.sentence
    assert "could only hold 2" in witness.sentence
    assert "c2 write 2" in str(witness)


def test_two_cas_from_one_value_are_witnessed_by_both() -> None:
    history = sequence(Act("write", 1), Act("cas", (1, 2), True), Act("cas", (1, 3), True))
    witness = check_register(history).witness
    assert witness is not None
    assert [op.id for op in witness.operations] == [1, 2]
    assert "c2's cas 1→3 succeeded" in witness.sentence


def test_the_sentence_names_every_value_the_register_could_hold() -> None:
    """Also those of operations whose outcome is unknown, one after the other."""
    history = sequence(
        Act("write", 1),
        unknown(Act("write", 2)),
        unknown(Act("cas", (2, 3))),
        unknown(Act("cas", (4, 5))),
        Act("read", None, 5),
    )
    witness = check_register(history).witness
    assert witness is not None
    assert witness.sentence.endswith("could only hold 1 or 2 or 3")


def test_a_cas_that_keeps_the_value_needs_it() -> None:
    witness = check_register(sequence(Act("write", 1), Act("cas", (2, 2), True))).witness
    assert witness is not None
    assert "c1's cas 2→2 succeeded" in witness.sentence


def test_a_refused_cas_needs_another_value() -> None:
    witness = check_register(sequence(Act("write", 1), Act("cas", (1, 2), False))).witness
    assert witness is not None
    assert witness.fault == "refused"
    assert "c1's cas 1→2 was refused" in witness.sentence


def test_a_read_of_a_failed_write_is_violated() -> None:
    history = sequence(Act("write", 1, outcome="failed"), Act("read", None, 1))
    assert check_register(history).status == "violated"


def test_an_unknown_write_may_take_effect_late_or_never() -> None:
    late = sequence(unknown(Act("write", 1)), Act("read", None, 0), Act("read", None, 1))
    assert check_register(late, initial=0)
    twice = sequence(unknown(Act("write", 1)), Act("read", None, 1), Act("read", None, 0))
    assert check_register(twice, initial=0).status == "violated"


def test_an_exhausted_budget_is_unknown_for_good_and_for_bad_histories() -> None:
    random = Random(3)
    good = good_history(random, register_client, 0, operations=100, trouble=0)
    bad = sequence(Act("write", 1), Act("read", None, 2))
    for history, steps in chain(
        ((good, steps) for steps in (0, 1, 50)), ((bad, steps) for steps in (0, 1))
    ):
        verdict = check_register(history, initial=0, budget_steps=steps)
        assert verdict.status == "unknown"
        assert not verdict
        assert verdict.witness is None
        assert f"budget of {steps} steps" in str(verdict)


def test_the_verdict_flips_from_unknown_once_at_a_fixed_number_of_steps() -> None:
    history = good_history(Random(5), register_client, 0, operations=60, trouble=0)
    needed = check_register(history, initial=0).steps
    assert check_register(history, initial=0, budget_steps=needed).status == "ok"
    assert check_register(history, initial=0, budget_steps=needed - 1).status == "unknown"


def test_a_history_of_nothing_is_ok() -> None:
    assert check_register(History([])).status == "ok"


def test_a_history_of_several_keys_is_refused() -> None:
    recorder = Recorder()
    for key in ("x", "y"):
        recorder.ok(recorder.invoke(f"c{key}", "write", key, 1, at=0), None, at=0)
    with pytest.raises(BadHistory, match=r"2 keys.*check_keyed"):
        check_register(recorder.history())


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (Act("swap", 1), "does not know the function 'swap'"),
        (Act("cas", 1, True), "cas was given 1"),
        (Act("cas", (1, 2), None), "cas answered None"),
    ],
)
def test_what_the_checker_cannot_read_is_refused(act: Act, message: str) -> None:
    with pytest.raises(BadHistory, match=message):
        check_register(sequence(act))
