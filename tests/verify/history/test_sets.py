"""The set checker against the permutation checker, and the words it has for each fault."""

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
from motet.verify.history import History, Recorder, check_set
from motet.verify.history.operation import Value

ADDS = [Act("add", "a"), Act("add", "b")]
UNKNOWN = [unknown(add) for add in ADDS]
READS = [Act("read", None, answer) for answer in [(), ("a",), ("b",), ("a", "b")]]


def compare(history: History, initial: frozenset[Value] = frozenset()) -> bool:
    verdict = check_set(history, initial=initial)
    expected = linearizable(history.operations, initial)
    assert verdict.status == ("ok" if expected else "violated"), f"\n{history}\n{verdict}"
    return expected


@pytest.mark.parametrize("initial", [(), ("a",)])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_history_of_up_to_three_operations(count: int, initial: tuple[Value, ...]) -> None:
    odd = [Act("add", "a", outcome="failed"), unknown(Act("read")), Act("read", None, ("a", "a"))]
    acts = ADDS + UNKNOWN + READS + (odd if count < 3 else [])
    verdicts = [compare(history, frozenset(initial)) for history in all_histories(acts, count)]
    assert any(verdicts)
    assert not all(verdicts)


@pytest.mark.parametrize(
    "acts",
    [[*ADDS, READS[2]], [ADDS[0], UNKNOWN[1], READS[3]], [ADDS[0], READS[0], READS[1]]],
    ids=["one-misses", "unknown", "grows"],
)
def test_every_history_of_four_operations_of_a_kind(acts: list[Act]) -> None:
    verdicts = [compare(history) for history in all_histories(acts, 4)]
    assert any(verdicts)
    assert not all(verdicts)


@pytest.mark.long
def test_every_history_of_four_operations() -> None:
    for history in all_histories(ADDS + UNKNOWN + READS, 4):
        compare(history)


def pick(random: Random, state: State) -> tuple[str, Value, Value]:
    """A client who adds few elements, some of them again."""
    if random.random() < 0.5:
        return "read", None, None
    return "add", None, random.randrange(4)


def test_good_and_mutated_histories() -> None:
    violated = 0
    for seed in range(3_000):
        random = Random(seed)
        initial = frozenset(random.sample([0, 9], random.randrange(3)))
        good = good_history(random, pick, initial, operations=random.randrange(2, 8))
        assert compare(good, initial), f"seed {seed}"
        violated += not compare(mutated(random, mutated(random, good)), initial)
    assert violated > 500


def test_long_good_histories_are_ok() -> None:
    def fresh(random: Random, state: State) -> tuple[str, Value, Value]:
        return (
            ("read", None, None) if random.random() < 0.3 else ("add", None, random.getrandbits(40))
        )

    for seed in range(20):
        history = good_history(Random(seed), fresh, frozenset(), operations=300, processes=6)
        assert check_set(history).status == "ok", f"seed {seed}"


def read(*elements: Value) -> Act:
    return Act("read", None, elements)


def add(element: Value) -> Act:
    return Act("add", element)


@pytest.mark.parametrize(
    ("fault", "acts", "words", "shown"),
    [
        ("lost", [add(1), add(2), read(2)], "c2's read misses 1, though c0's add 1", [0, 2]),
        ("stale", [add(1), read(), read(1)], "c1's read misses 1", [0, 1, 2]),
        ("phantom", [read(7)], "c0's read shows 7, never added", [0]),
        ("phantom", [read(7), add(7)], "shows 7 before c1's add 7 began", [0, 1]),
        ("phantom", [add(7)._replace(outcome="failed"), read(7)], "only c0's add 7", [0, 1]),
        ("doubled", [add(1), read(1, 1)], "c1's read shows 1 twice", [1]),
        (
            "non-monotone",
            [unknown(add(1)), read(1), read()],
            "c2's read misses 1, which c1's read had shown",
            [1, 2],
        ),
    ],
)
def test_a_fault_is_named(fault: str, acts: list[Act], words: str, shown: list[int]) -> None:
    witness = check_set(sequence(*acts)).witness
    assert witness is not None
    assert witness.fault == fault
    assert words in witness.sentence
    assert [op.id for op in witness.operations] == shown


def test_an_element_added_first_is_missed() -> None:
    """A read that overlaps both adds shows the later one alone."""
    recorder = Recorder()
    reading = recorder.invoke("r", "read", None, None, at=0)
    recorder.ok(recorder.invoke("w", "add", None, "a", at=1), None, at=2)
    recorder.ok(recorder.invoke("w", "add", None, "b", at=3), None, at=4)
    recorder.ok(reading, ["b"], at=5)
    witness = check_set(recorder.history()).witness
    assert witness is not None
    assert witness.fault == "reordered"
    assert "r's read shows 'b' but not 'a'" in witness.sentence
    assert len(witness.operations) == 3


def test_two_reads_that_disagree() -> None:
    recorder = Recorder()
    running = [
        recorder.invoke("w1", "add", None, "a", at=0),
        recorder.invoke("w2", "add", None, "b", at=0),
    ]
    one = recorder.invoke("r1", "read", None, None, at=0)
    other = recorder.invoke("r2", "read", None, None, at=0)
    recorder.ok(one, ["a"], at=1)
    recorder.ok(other, ["b"], at=1)
    for op in running:
        recorder.ok(op, None, at=2)
    witness = check_set(recorder.history()).witness
    assert witness is not None
    assert witness.fault == "contradictory"
    assert "r1's read shows 'a' without 'b'" in witness.sentence


def test_an_initial_element_that_is_gone_is_lost() -> None:
    witness = check_set(sequence(read(2)), initial=[1, 2]).witness
    assert witness is not None
    assert witness.fault == "lost"
    assert "misses 1, though it was there at first" in witness.sentence


def test_an_unknown_add_may_show_up_late_or_never() -> None:
    assert check_set(sequence(unknown(add(1)), read(), read(1)))
    assert check_set(sequence(unknown(add(1)), read()))


def test_an_element_may_be_added_again_after_an_unknown_outcome() -> None:
    assert check_set(sequence(unknown(add(1)), read(), add(1), read(1)))
    assert check_set(sequence(unknown(add(1)), add(1), read())).status == "violated"


@pytest.mark.parametrize(
    ("act", "message"),
    [(Act("remove", 1), "function 'remove'"), (Act("read", None, 3), "answered 3")],
)
def test_what_the_checker_cannot_read_is_refused(act: Act, message: str) -> None:
    with pytest.raises(BadHistory, match=message):
        check_set(sequence(act))
