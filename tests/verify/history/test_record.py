"""The recorder: outcomes, its rules R1 to R4, and histories as lines of JSON."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.verify.history.histories import good_history, register_client

from motet.errors import BadHistory
from motet.verify.history import History, Recorder, check_register
from motet.verify.history.operation import FOREVER, Value


def test_every_outcome() -> None:
    recorder = Recorder()
    ok = recorder.invoke("c1", "cas", "x", [1, 2], at=1)
    recorder.ok(ok, True, at=2)
    failed = recorder.invoke("c1", "write", "x", 3, at=3)
    recorder.failed(failed, at=4)
    unknown = recorder.invoke("c1", "write", "x", 4, at=5)
    recorder.unknown(unknown, at=6)
    recorder.invoke("c2", "read", "y", None, at=7)
    history = recorder.history()
    assert [op.outcome for op in history.operations] == ["ok", "failed", "unknown", "unknown"]
    assert [op.ended for op in history.operations] == [1, 3, FOREVER, FOREVER]
    assert [op.ended_at for op in history.operations] == [2, 4, 6, None]
    assert history.operations[0].value == (1, 2)
    assert history.operations[0].result is True
    assert history.keys == ("x", "y")
    assert len(history) == 4


def test_a_history_is_a_snapshot() -> None:
    recorder = Recorder()
    op = recorder.invoke("c1", "write", None, 1, at=0)
    before = recorder.history()
    recorder.ok(op, None, at=1)
    assert before.operations[0].outcome == "unknown"
    assert recorder.history().operations[0].outcome == "ok"


def test_equal_times_are_ordered_as_the_recorder_was_told() -> None:
    """A read that is told of after the write has ended must see it, however equal the times are."""
    after = Recorder()
    write = after.invoke("c1", "write", None, 1, at=5)
    after.ok(write, None, at=5)
    after.ok(after.invoke("c2", "read", None, None, at=5), None, at=5)
    assert check_register(after.history()).status == "violated"
    beside = Recorder()
    write = beside.invoke("c1", "write", None, 1, at=5)
    read = beside.invoke("c2", "read", None, None, at=5)
    beside.ok(write, None, at=5)
    beside.ok(read, None, at=5)
    assert check_register(beside.history()).status == "ok"


def test_r1_a_process_has_one_open_operation() -> None:
    recorder = Recorder()
    recorder.invoke("c1", "read", None, None, at=0)
    with pytest.raises(BadHistory, match="process c1 still has operation 0 open"):
        recorder.invoke("c1", "read", None, None, at=1)
    assert len(recorder.history()) == 1


def test_r2_an_operation_ends_once() -> None:
    recorder = Recorder()
    op = recorder.invoke("c1", "read", None, None, at=0)
    recorder.unknown(op, at=1)
    with pytest.raises(BadHistory, match="operation 0 has ended before"):
        recorder.ok(op, 1, at=2)
    with pytest.raises(BadHistory, match="operation 0 has ended before"):
        recorder.failed(op, at=2)
    with pytest.raises(BadHistory, match="operation 0 has ended before"):
        recorder.unknown(op, at=2)


def test_r2_only_what_was_invoked_ends() -> None:
    recorder = Recorder()
    op = recorder.invoke("c1", "read", None, None, at=0)
    other = Recorder()
    with pytest.raises(BadHistory, match="operation 0 was never invoked"):
        other.ok(op, 1, at=1)


def test_r3_a_process_with_an_unknown_outcome_goes_on_under_a_new_name() -> None:
    recorder = Recorder()
    recorder.unknown(recorder.invoke("c1", "write", None, 1, at=0), at=1)
    with pytest.raises(BadHistory, match=r"c1 has an operation of unknown outcome.*new process"):
        recorder.invoke("c1", "write", None, 2, at=2)
    recorder.ok(recorder.invoke("c1+1", "write", None, 2, at=2), None, at=3)
    assert len(recorder.history()) == 2


def test_r4_time_does_not_go_back() -> None:
    recorder = Recorder()
    op = recorder.invoke("c1", "read", None, None, at=10)
    with pytest.raises(BadHistory, match="time went back from 10 to 9"):
        recorder.ok(op, 1, at=9)
    recorder.ok(op, 1, at=10)  # the refused event has left no trace
    assert recorder.history().operations[0].outcome == "ok"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


@settings(deadline=None)
@given(values, values, values, st.text(min_size=1))
def test_any_value_comes_back_from_ndjson(
    key: Value, value: Value, result: Value, process: str
) -> None:
    recorder = Recorder()
    recorder.ok(recorder.invoke(process, "call", key, value, at=-1), result, at=2**70)
    history = recorder.history()
    assert History.from_ndjson(history.to_ndjson()).operations == history.operations
    assert History.from_ndjson(history.to_ndjson().decode()).operations == history.operations


def test_whole_histories_come_back_from_ndjson() -> None:
    for seed in range(50):
        history = good_history(Random(seed), register_client, 0, operations=20)
        lines = history.to_ndjson()
        again = History.from_ndjson(lines)
        assert again.operations == history.operations
        assert again.to_ndjson() == lines
        assert lines.count(b"\n") == len(history.events)


def test_ndjson_has_one_plain_event_per_line() -> None:
    recorder = Recorder()
    recorder.ok(recorder.invoke("c1", "write", "x", 1, at=10), None, at=14)
    assert recorder.history().to_ndjson().splitlines() == [
        b'{"event":"invoke","op":0,"process":"c1","function":"write","key":"x","value":1,"at":10}',
        b'{"event":"ok","op":0,"value":null,"at":14}',
    ]


INVOKE = (
    '{"event":"invoke","op":%d,"process":"c1","function":"read","key":null,"value":null,"at":0}'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1 of the history"),
        (INVOKE % 0 + '\n\n{"event":"maybe","op":0,"at":1}', "line 3 of the history"),
        (INVOKE % 0 + '\n{"event":"failed","op":0}', "line 2.*at"),
        (INVOKE % 1, "operation 1 is invoked where operation 0 should be"),
        ('{"event":"unknown","op":0,"at":1}', "operation 0 was never invoked"),
        (INVOKE % 0 + "\n" + INVOKE % 1, "still has operation 0 open"),
        (INVOKE.replace('"value":null', '"value":1.5') % 0, "cannot keep 1.5"),
    ],
)
def test_lines_that_no_recorder_writes_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadHistory, match=message):
        History.from_ndjson(text)


def test_an_empty_text_is_an_empty_history() -> None:
    assert len(History.from_ndjson("")) == 0
