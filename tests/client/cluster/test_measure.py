"""Cutting a feed by what was counted of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.client.cluster.measure import Measured
from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import SplitFeed
from motet.ids import RequestId, StreamName

counts = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), max_size=30)


def wanted(changes_max: int | None, splits: int) -> SplitFeed:
    streams = (StreamName("s"),)
    return SplitFeed(RequestId(1), streams, None, None, changes_max, splits)


@given(
    counts,
    st.integers(0, 60),
    st.integers(0, 60),
    st.none() | st.integers(1, 60),
    st.integers(1, 5),
)
def test_a_slice_has_what_it_says_and_no_more_than_it_may(
    found: list[tuple[int, int]],
    begin: int,
    end: int,
    changes_max: int | None,
    splits: int,
) -> None:
    entries = sorted((Clock(clock, 0), changes) for clock, changes in found)
    measured = Measured(ZERO, Clock(100, 0))
    for entry in entries:
        measured.add(*entry)
    after, target = Clock(begin, 0), Clock(end, 0)
    bounds, changes, behind = measured.beginning(after).split(wanted(changes_max, splits), target)
    inside = [each for each in entries if after < each[0] <= target]
    taken = [each for each in inside if each[0] <= bounds[-1]]
    assert changes == sum(each[1] for each in taken)
    assert changes + behind == sum(each[1] for each in inside)
    assert list(bounds) == sorted(set(bounds))
    assert len(bounds) <= splits
    if not inside:
        assert bounds == (after,)
    else:
        assert bounds[-1] in [each[0] for each in inside], "it ends with a transaction"
        assert changes_max is None or changes <= changes_max or len({e[0] for e in taken}) == 1
        following = [each for each in inside if each[0] > bounds[-1]]
        if following:
            next_one = sum(each[1] for each in following if each[0] == following[0][0])
            assert changes_max is not None
            assert changes + next_one > changes_max, "as much as fits"
