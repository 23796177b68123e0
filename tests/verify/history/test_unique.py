"""The unique-value checker against the permutation checker and the register checker."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest
from tests.verify.history.histories import (
    Act,
    good_history,
    history_of,
    interleavings,
    mutated,
    sequence,
    unknown,
)
from tests.verify.history.oracle import State, linearizable

from motet.errors import BadHistory
from motet.verify.history import History, Recorder, check_register, check_unique_register
from motet.verify.history.operation import Ok, Value


def compare(history: History) -> bool:
    verdict = check_unique_register(history, initial=0)
    expected = linearizable(history.operations, 0)
    assert verdict.status == ("ok" if expected else "violated"), f"\n{history}\n{verdict}"
    return expected


def all_unique_histories(count: int, *, trouble: bool) -> Iterator[History]:
    """Every operation writes a value of its own, or reads one of those, the initial, or a phantom.

    The value of a place where nobody writes is the phantom. The first place never writes: its value
    is the initial one.
    """
    reads = [Act("read", None, value) for value in range(count)]
    for kinds in product(range(count + (3 if trouble else 1)), repeat=count):
        acts = []
        for place, kind in enumerate(kinds):
            write = Act("write", place)
            acts.append([*reads, write, unknown(write), write._replace(outcome="failed")][kind])
        if acts[0].function == "read":
            for order in interleavings(tuple(act.outcome == "unknown" for act in acts)):
                yield history_of(acts, order)


@pytest.mark.parametrize(("count", "trouble"), [(2, True), (3, True), (4, False)])
def test_every_small_history(count: int, trouble: bool) -> None:
    verdicts = [compare(history) for history in all_unique_histories(count, trouble=trouble)]
    assert any(verdicts)
    assert not all(verdicts)


@pytest.mark.long
def test_every_history_of_four_operations() -> None:
    for history in all_unique_histories(4, trouble=True):
        compare(history)


class Client:
    """Reads, and writes values that grow."""

    def __init__(self) -> None:
        self.written = 0

    def __call__(self, random: Random, state: State) -> tuple[str, Value, Value]:
        if random.random() < 0.5:
            return "read", None, None
        self.written += 1
        return "write", None, self.written


def test_good_and_mutated_histories() -> None:
    violated = 0
    for seed in range(3_000):
        random = Random(seed)
        good = good_history(random, Client(), 0, operations=random.randrange(2, 9))
        assert compare(good), f"seed {seed}"
        violated += not compare(mutated(random, mutated(random, good)))
    assert violated > 200


def test_long_histories_get_the_same_verdict_from_the_register_checker() -> None:
    violated = 0
    for seed in range(60):
        random = Random(seed)
        history = good_history(random, Client(), 0, operations=150, processes=5, trouble=0.05)
        assert check_unique_register(history, initial=0).status == "ok", f"seed {seed}"
        history = mutated(random, history)
        verdict = check_unique_register(history, initial=0)
        assert verdict.status == check_register(history, initial=0).status, f"seed {seed}"
        violated += verdict.status == "violated"
    assert violated > 10


def test_a_stale_read_names_the_write_in_between() -> None:
    history = sequence(Act("write", 1), Act("write", 2), Act("read", None, 1))
    witness = check_unique_register(history).witness
    assert witness is not None
    assert witness.fault == "stale"
    assert [op.id for op in witness.operations] == [0, 1, 2]
    assert "c2's read answered 1, but 2 had replaced it" in witness.sentence


def test_the_initial_value_does_not_come_back() -> None:
    witness = check_unique_register(sequence(Act("write", 1), Act("read", None, None))).witness
    assert witness is not None
    assert witness.fault == "stale"
    assert "nothing was there at first" in witness.sentence
    assert [op.id for op in witness.operations] == [0, 1]


def test_reads_that_swap_two_values_blame_the_later_one() -> None:
    recorder = Recorder()
    one = recorder.invoke("w1", "write", None, 1, at=0)
    two = recorder.invoke("w2", "write", None, 2, at=0)
    for number, value in enumerate([1, 2, 1]):
        recorder.ok(recorder.invoke(f"r{number}", "read", None, None, at=number), value, at=number)
    recorder.ok(one, None, at=9)
    recorder.ok(two, None, at=9)
    witness = check_unique_register(recorder.history()).witness
    assert witness is not None
    assert "r2's read answered 1" in witness.sentence
    assert {op.process for op in witness.operations} == {"w1", "w2", "r0", "r1", "r2"}


def test_a_value_nobody_wrote_is_a_phantom() -> None:
    witness = check_unique_register(sequence(Act("read", None, 7))).witness
    assert witness is not None
    assert witness.fault == "phantom"
    assert "a value nobody wrote" in witness.sentence


def test_a_failed_write_that_is_seen_is_named() -> None:
    history = sequence(Act("write", 7, outcome="failed"), Act("read", None, 7))
    witness = check_unique_register(history).witness
    assert witness is not None
    assert "only c0's write 7 (failed) wrote" in witness.sentence
    assert [op.id for op in witness.operations] == [0, 1]


def test_a_value_seen_before_its_write_began_is_a_phantom() -> None:
    witness = check_unique_register(sequence(Act("read", None, 7), Act("write", 7))).witness
    assert witness is not None
    assert witness.fault == "phantom"
    assert "before c1's write 7" in witness.sentence


def test_a_read_that_proves_an_unknown_write() -> None:
    proven = sequence(unknown(Act("write", 1)), Act("read", None, 1))
    assert check_unique_register(proven)
    vanished = sequence(unknown(Act("write", 1)), Act("read", None, 1), Act("read", None, None))
    assert check_unique_register(vanished).status == "violated"


@pytest.mark.parametrize(
    "acts",
    [
        [Act("write", 1), Act("write", 1)],
        [unknown(Act("write", 1)), Act("write", 1)],
        [Act("write", 5)],
    ],
    ids=["twice", "unknown-and-again", "the-initial-value"],
)
def test_values_that_are_not_unique_are_unknown_with_the_reason(acts: list[Act]) -> None:
    verdict = check_unique_register(sequence(*acts), initial=5)
    assert verdict.status == "unknown"
    assert verdict.reason is not None
    assert "use check_register" in verdict.reason


def test_a_write_that_failed_may_be_tried_again_with_the_same_value() -> None:
    history = sequence(Act("write", 1, outcome="failed"), Act("write", 1), Act("read", None, 1))
    assert check_unique_register(history)


def test_functions_it_does_not_know_are_refused() -> None:
    with pytest.raises(BadHistory, match="check_register also knows cas"):
        check_unique_register(sequence(Act("cas", (1, 2), True)))


def test_one_wrong_answer_in_a_long_history_is_found() -> None:
    history = good_history(Random(1), Client(), 0, operations=5_000, processes=5, trouble=0)
    reads = [op for op in history.operations if op.function == "read"]
    late, early = reads[-1], reads[0]
    events = list(history.events)
    events[late.ended] = Ok(late.id, early.result, at=events[late.ended].at)
    witness = check_unique_register(History(events), initial=0).witness
    assert witness is not None
    assert late.id in [op.id for op in witness.operations]
