"""Marzullo's algorithm against a twin that tries every pair of ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock.marzullo import Agreement, Interval, smallest_agreed, span_agreed

few_points = st.tuples(st.integers(0, 12), st.integers(0, 12))
intervals = few_points.map(lambda ends: Interval(min(ends), max(ends)))


def sources_of(piece: Interval, given_intervals: list[Interval]) -> int:
    return len([i for i in given_intervals if i.lower <= piece.lower and piece.upper <= i.upper])


def tried_out(given_intervals: list[Interval]) -> Agreement | None:
    """The naive twin: of all ranges from some lower to some upper end, the best."""
    candidates = [
        Interval(low.lower, high.upper)
        for low in given_intervals
        for high in given_intervals
        if low.lower <= high.upper
    ]
    ranked = sorted(
        (-sources_of(piece, given_intervals), piece.width, piece.lower) for piece in candidates
    )
    if not ranked:
        return None
    sources, width, lower = ranked[0]
    return Agreement(Interval(lower, lower + width), -sources)


@given(st.lists(intervals, max_size=8))
def test_the_smallest_interval_of_most_sources(sources: list[Interval]) -> None:
    assert smallest_agreed(sources) == tried_out(sources)


@given(st.lists(intervals, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_the_sources_does_not_matter(sources: list[Interval], random: object) -> None:
    mixed = sources.copy()
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert smallest_agreed(mixed) == smallest_agreed(sources)
    assert span_agreed(mixed, 2) == span_agreed(sources, 2)


@given(st.lists(intervals, max_size=8), st.integers(1, 5))
def test_the_span_is_from_the_first_to_the_last_point_of_so_many(
    sources: list[Interval], sources_min: int
) -> None:
    points = [p for p in range(13) if sources_of(Interval(p, p), sources) >= sources_min]
    expected = Interval(points[0], points[-1]) if points else None
    assert span_agreed(sources, sources_min) == expected


@given(st.integers(-50, 50), st.lists(few_points, min_size=2, max_size=4), st.data())
def test_the_span_holds_the_truth_whatever_a_minority_says(
    truth: int, errors: list[tuple[int, int]], data: st.DataObject
) -> None:
    honest = [Interval(truth - below, truth + above) for below, above in errors]
    anywhere = st.tuples(st.integers(-99, 99), st.integers(0, 60))
    lies = data.draw(st.lists(anywhere, max_size=len(honest) - 1))
    liars = [Interval(lower, lower + width) for lower, width in lies]
    span = span_agreed(honest + liars, len(honest))
    assert span is not None
    assert span.lower <= truth <= span.upper


def test_three_sources_of_which_two_overlap() -> None:
    agreed = smallest_agreed([Interval(8, 12), Interval(11, 13), Interval(14, 15)])
    assert agreed == Agreement(Interval(11, 12), 2)


def test_intervals_that_touch_agree_on_a_point() -> None:
    assert smallest_agreed([Interval(1, 5), Interval(5, 9)]) == Agreement(Interval(5, 5), 2)


def test_among_equals_the_smallest_and_then_the_lowest_wins() -> None:
    apart = [Interval(0, 9), Interval(20, 24), Interval(30, 34)]
    assert smallest_agreed(apart) == Agreement(Interval(20, 24), 1)


def test_a_liar_can_draw_the_smallest_interval_away_but_not_the_span() -> None:
    """The reason why the span, and not the smallest interval, bounds the time of a cluster."""
    truth, honest, liar = 0, [Interval(-10, 10), Interval(-1, 5)], Interval(-9, -8)
    agreed = smallest_agreed([*honest, liar])
    assert agreed is not None
    assert not agreed.interval.lower <= truth <= agreed.interval.upper
    span = span_agreed([*honest, liar], 2)
    assert span is not None
    assert span.lower <= truth <= span.upper


def test_without_sources_there_is_no_agreement() -> None:
    assert smallest_agreed([]) is None
    assert span_agreed([], 1) is None
