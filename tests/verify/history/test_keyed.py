"""The key-value checker: each key alone, and the worst key decides."""

from __future__ import annotations

from random import Random

import pytest
from tests.verify.history.histories import good_history, mutated
from tests.verify.history.oracle import State, linearizable

from motet.errors import BadHistory
from motet.verify.history import History, Recorder, check_keyed
from motet.verify.history.operation import Value


def pick(random: Random, state: State) -> tuple[str, Value, Value]:
    """A client of a store with two keys and few values."""
    key = random.choice(["x", "y"])
    function = random.choice(["get", "put", "delete", "cas"])
    if function == "put":
        return function, key, random.randrange(2)
    if function == "cas":
        return function, key, (random.choice([None, 0, 1]), random.choice([None, 0, 1]))
    return function, key, None


def every_key_linearizable(history: History, initial: dict[Value, Value]) -> bool:
    return all(
        linearizable([op for op in history.operations if op.key == key], initial.get(key))
        for key in history.keys
    )


def test_good_and_mutated_histories() -> None:
    violated = 0
    for seed in range(1_500):
        random = Random(seed)
        good = good_history(random, pick, None, operations=random.randrange(2, 9))
        bad = mutated(random, mutated(random, good))
        assert check_keyed(good).status == "ok", f"seed {seed}"
        expected = every_key_linearizable(bad, {})
        assert check_keyed(bad).status == ("ok" if expected else "violated"), f"seed {seed}\n{bad}"
        violated += not expected
    assert violated > 150


def test_the_initial_content_counts() -> None:
    history = sequence(("get", "x", None, 1), ("get", "y", None, None))
    assert check_keyed(history, initial={"x": 1})
    assert check_keyed(history).status == "violated"
    assert check_keyed(history, initial={"x": 1, "y": 2}).status == "violated"


def test_cas_creates_and_removes_with_nothing_as_the_value() -> None:
    history = sequence(
        ("cas", "x", (None, 1), True),
        ("cas", "x", (None, 2), False),
        ("cas", "x", (1, None), True),
        ("get", "x", None, None),
    )
    assert check_keyed(history)


def test_a_deleted_key_that_comes_back_is_named() -> None:
    history = sequence(
        ("put", "y", 7, None),
        ("put", "x", 1, None),
        ("delete", "x", None, None),
        ("get", "x", None, 1),
        ("get", "y", None, 7),
    )
    witness = check_keyed(history).witness
    assert witness is not None
    assert [op.id for op in witness.operations] == [2, 3]
    assert "c3's get x answered 1" in witness.sentence
    assert "could only hold nothing" in witness.sentence


def test_a_violated_key_outweighs_an_unknown_one() -> None:
    concurrent = Recorder()
    puts = [concurrent.invoke(f"p{n}", "put", "busy", n, at=0) for n in range(6)]
    for op in puts:
        concurrent.ok(op, None, at=1)
    assert check_keyed(concurrent.history(), budget_steps=3).status == "unknown"
    concurrent.ok(concurrent.invoke("g", "get", "plain", None, at=2), 9, at=3)
    assert check_keyed(concurrent.history(), budget_steps=3).status == "violated"


def test_an_unknown_key_is_named_and_the_others_do_not_hide_it() -> None:
    recorder = Recorder()
    recorder.ok(recorder.invoke("g", "get", "plain", None, at=0), None, at=0)
    for number in range(5):
        recorder.ok(recorder.invoke("p", "put", "busy", number, at=0), None, at=0)
    verdict = check_keyed(recorder.history(), budget_steps=4)
    assert verdict.status == "unknown"
    assert verdict.reason is not None
    assert "key 'busy'" in verdict.reason
    assert "plain" not in verdict.reason


def test_a_put_of_nothing_is_refused() -> None:
    with pytest.raises(BadHistory, match="record a delete"):
        check_keyed(sequence(("put", "x", None, None)))


def test_functions_of_a_register_are_refused() -> None:
    with pytest.raises(BadHistory, match="get, put, delete, cas"):
        check_keyed(sequence(("write", "x", 1, None)))


def sequence(*calls: tuple[str, str, object, object]) -> History:
    recorder = Recorder()
    for number, (function, key, value, result) in enumerate(calls):
        op = recorder.invoke(f"c{number}", function, key, value, at=number)
        recorder.ok(op, result, at=number)
    return recorder.history()
