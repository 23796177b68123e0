"""Which files of a log are worth carrying for, and how much of it goes at a time."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from motet.core.shardlog.applying import piece_of, worth_compacting

rising = st.lists(st.integers(0, 40), max_size=20).map(sorted)


@given(rising, rising, rising)
def test_as_many_files_go_as_are_half_empty_together(
    bounds: list[int], held: list[int], there: list[int]
) -> None:
    def total_before(bound: int) -> int:
        return bisect_left(there, bound)

    fitting = [
        bound
        for bound in bounds
        if 2 * len([at for at in held if at < bound]) <= total_before(bound)
    ]
    assert worth_compacting(bounds, held, total_before) == max(fitting, default=None)


def test_a_file_that_nobody_needs_is_always_worth_it() -> None:
    assert worth_compacting([5, 9], [], lambda _bound: 0) == 9


@given(st.lists(st.integers(0, 100), max_size=30), st.integers(1, 150))
def test_pieces_are_full_and_none_is_empty(sizes: list[int], bytes_max: int) -> None:
    left = list(sizes)
    while left:
        count = piece_of(left, bytes_max)
        assert count > 0
        assert count == 1 or sum(left[:count]) <= bytes_max
        assert count == len(left) or sum(left[: count + 1]) > bytes_max
        del left[:count]
    assert piece_of([], bytes_max) == 0
