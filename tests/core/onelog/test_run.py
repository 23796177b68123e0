"""Changes in runs are the same changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock.hlc import Clock
from motet.core.streams.change import FeedChange, changes_in, count_in, runs_of
from motet.ids import Offset, ShardId, StreamName, TransactionId

changes = st.lists(
    st.builds(
        FeedChange,
        clock=st.builds(Clock, st.integers(1, 2), st.integers(0, 1)),
        transaction=st.sampled_from([TransactionId("t1"), TransactionId("t2")]),
        index=st.integers(0, 3),
        count=st.just(4),
        stream=st.sampled_from([StreamName("a"), StreamName("b")]),
        shard=st.builds(ShardId, st.integers(0, 1)),
        offset=st.builds(Offset, st.integers(0, 3)),
        key=st.sampled_from([b"j", b"k"]),
        op=st.sampled_from(["append", "update", "delete"]),
        row=st.sampled_from([None, b"1"]),
        before=st.sampled_from([None, b"0"]),
        at_ms=st.just(7),
        has_clock=st.booleans(),
    ),
    max_size=12,
)


@given(changes)
def test_runs_are_the_changes_they_were_made_of(given_changes: list[FeedChange]) -> None:
    runs = runs_of(given_changes)
    assert changes_in(runs) == tuple(given_changes)
    assert count_in(runs) == len(given_changes)


@given(st.integers(1, 9))
def test_what_follows_each_other_is_one_run(count: int) -> None:
    some = [
        FeedChange(
            Clock(1, 0),
            TransactionId("t"),
            number,
            count,
            StreamName("a"),
            ShardId(0),
            Offset(5 + number),
            b"k",
            "update",
            b"1",
            None,
            7,
        )
        for number in range(count)
    ]
    (run,) = runs_of(some)
    assert (run.first_offset, len(run.changes)) == (5, count)
