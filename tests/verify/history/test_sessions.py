"""The guarantees of a session, each broken once, and stores that keep or break them at random."""

from __future__ import annotations

from random import Random

import pytest

from motet.errors import BadHistory
from motet.verify.history import History, Recorder, check_sessions
from motet.verify.history.operation import Value

Step = tuple[str, str, str, Value, Value]
"""(process, function, key, value, answer)"""


def told(*steps: Step) -> History:
    recorder = Recorder()
    for at, (process, function, key, value, answer) in enumerate(steps):
        op = recorder.invoke(process, function, key, value, at)
        recorder.unknown(op, at) if answer == "?" else recorder.ok(op, answer, at)
    return recorder.history()


def write(process: str, key: str, value: int, clock: Value) -> Step:
    return process, "write", key, value, clock


def read(process: str, key: str, answer: Value) -> Step:
    return process, "read", key, None, answer


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ([write("c1", "x", 1, 5), read("c1", "x", None)], "read-your-writes"),
        (
            [write("c2", "x", 0, 4), write("c1", "x", 1, 5), read("c1", "x", (4, 0))],
            "read-your-writes",
        ),
        (
            [
                write("c1", "x", 1, (5, 0)),
                write("c1", "x", 2, (5, 1)),
                read("c2", "x", ((5, 1), 2)),
                read("c2", "x", ((5, 0), 1)),
            ],
            "monotonic-reads",
        ),
        ([write("c1", "x", 1, 5), write("c1", "y", 2, 4)], "monotonic-writes"),
        (
            [write("c1", "x", 1, 5), read("c2", "x", (5, 1)), write("c2", "y", 2, 3)],
            "writes-follow-reads",
        ),
        ([read("c1", "x", (5, 1))], "phantom"),
        ([write("c1", "x", 1, 5), read("c2", "x", (5, 2))], "phantom"),
    ],
)
def test_each_guarantee_has_its_name(steps: list[Step], fault: str) -> None:
    witness = check_sessions(told(*steps)).witness
    assert witness is not None
    assert witness.fault == fault


def test_a_session_goes_on_under_a_new_name() -> None:
    steps = [
        write("c1", "x", 1, 5),
        write("c1", "x", 2, "?"),
        read("c1+1", "x", None),
    ]
    witness = check_sessions(told(*steps)).witness
    assert witness is not None
    assert witness.fault == "read-your-writes"
    assert check_sessions(told(*steps[:2], read("c1+1", "x", (9, 2))))


def test_sessions_do_not_bind_each_other() -> None:
    assert check_sessions(
        told(write("c1", "x", 1, 5), read("c2", "x", None), write("c2", "y", 1, 2))
    )


def store(random: Random, *, forgets: bool) -> History:
    """Replicas that lag; a session brings its newest clock along, unless it forgets."""
    recorder, clock = Recorder(), 0
    versions: dict[str, list[tuple[int, int]]] = {"x": [], "y": []}
    known: dict[str, int] = {}
    for at in range(30):
        process, key = random.choice(["c1", "c2", "c3"]), random.choice("xy")
        if random.random() < 0.4:
            op = recorder.invoke(process, "write", key, at, at)
            clock += 1
            versions[key].append((clock, at))
            known[process] = clock
            recorder.ok(op, clock, at)
            continue
        op = recorder.invoke(process, "read", key, None, at)
        least = 0 if forgets else known.get(process, 0)
        lag = random.randrange(least, clock + 1)
        seen = [version for version in versions[key] if version[0] <= lag]
        if seen:
            known[process] = max(known.get(process, 0), lag)
        recorder.ok(op, seen[-1] if seen else None, at)
    return recorder.history()


def test_a_store_that_keeps_bookmarks_is_ok_and_one_that_forgets_is_found() -> None:
    assert all(check_sessions(store(Random(seed), forgets=False)) for seed in range(100))
    found = [check_sessions(store(Random(seed), forgets=True)).witness for seed in range(50)]
    faults = {witness.fault for witness in found if witness is not None}
    assert faults == {"read-your-writes", "monotonic-reads"}


def test_what_is_no_clock_is_refused() -> None:
    with pytest.raises(BadHistory, match="no clock"):
        check_sessions(told(write("c1", "x", 1, "five")))
    with pytest.raises(BadHistory, match="answered 7"):
        check_sessions(told(read("c1", "x", 7)))
