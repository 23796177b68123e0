"""Clock values and the arithmetic on them, against the same arithmetic on one packed number."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from motet.core.clock import hlc
from motet.core.clock.hlc import END, PACKED_MAX, ZERO, Clock
from motet.errors import BadClock, ClockExhausted
from motet.limits import clock_counter_max, clock_logical_max

clocks = st.integers(0, PACKED_MAX).map(Clock.from_int)
near_clocks = st.builds(Clock, st.integers(0, 3), st.integers(0, 3))
walls = st.integers(-(10**6), clock_logical_max)


def packed_tick(last: Clock, wall_ms: int) -> int:
    """The naive twin: the next number, or the wall's first one."""
    return max(last.to_int() + 1, wall_ms * (clock_counter_max + 1))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("(5,1)", "(5,1)"),
        ("(100, 0)", "(100,0)"),
        ("( 7,  8)", "(7,8)"),
        ("(0,0)", "(0,0)"),
        ("(4398046511103,4194303)", "(4398046511103,4194303)"),
    ],
)
def test_c01_text_is_read_and_printed(text: str, printed: str) -> None:
    """A clock is written with spaces after the delimiters or without, and printed without."""
    assert str(Clock.parse(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "(-1, 100)",
        "(100, -1)",
        "(4398046511104, 100)",
        "(0, 4194304)",
        "(5)",
        "",
        "(,)",
        "(5,1",
        "5,1",
        "(5 ,1)",
        "(5,1 )",
        " (5,1)",
        "(5,1) ",
        "(5,1)\n",
        "x(5,1)",
        "(5,1)x",
        "(+5,1)",
        "(5,1,2)",
        "(5.0,1)",
        "(٥,1)",
        "(5,\t1)",
        "(" + "9" * 5000 + ",1)",
    ],
)
def test_c01_other_text_is_refused(text: str) -> None:
    """What is negative, too large, incomplete or has anything around it is no clock."""
    with pytest.raises(BadClock) as caught:
        Clock.parse(text)
    assert len(caught.value.what) < 200


@given(clocks)
def test_text_and_number_carry_a_clock_there_and_back(clock: Clock) -> None:
    assert Clock.parse(str(clock)) == clock
    assert Clock.from_int(clock.to_int()) == clock


@pytest.mark.parametrize("packed", [-1, 1 << 64])
def test_a_number_outside_64_bits_is_refused(packed: int) -> None:
    with pytest.raises(BadClock):
        Clock.from_int(packed)


def test_the_largest_packed_clock_fills_64_bits() -> None:
    assert END.to_int() == (1 << 64) - 1


@pytest.mark.parametrize("pair", [[-1, 0], [0, -1], [1 << 42, 0], [0, 1 << 22], [1], [1, "2"]])
def test_a_decoder_refuses_what_is_no_clock(pair: list[object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(pair), type=Clock)


@given(clocks)
def test_a_decoder_gives_back_what_was_encoded(clock: Clock) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(clock), type=Clock) == clock


@pytest.mark.parametrize(
    ("a", "b", "after"),
    [
        (Clock(5, 1), Clock(3, 6), True),
        (Clock(2, 9), Clock(3, 0), False),
        (Clock(5, 6), Clock(5, 1), True),
        (Clock(5, 6), Clock(5, 6), False),
    ],
)
def test_c02_is_after_is_strict(a: Clock, b: Clock, after: bool) -> None:
    """Milliseconds decide, then the counter; nothing is after itself."""
    assert hlc.is_after(a, b) is after


def test_c03_clocks_sort() -> None:
    """Clocks sort by milliseconds and then by counter, and can be compared in a filter."""
    texts = "(0,100) (100,0) (100,1) (100,2) (100,100) (100,200) (200,3) (200,20) (200,400) (500,0)"
    in_order = [Clock.parse(text) for text in [*texts.split(), "(500,600)"]]
    mixed = in_order[1::2] + in_order[::-2]
    assert sorted(mixed) == in_order
    assert len([clock for clock in in_order if clock < Clock(200, 20)]) == 7


@given(st.lists(clocks | near_clocks, min_size=1))
def test_the_order_is_that_of_the_packed_numbers(many: list[Clock]) -> None:
    assert sorted(many) == sorted(many, key=Clock.to_int)
    assert hlc.maximum(many) == max(many, key=Clock.to_int)


@given(clocks | near_clocks, clocks | near_clocks)
def test_exactly_one_of_before_equal_after(a: Clock, b: Clock) -> None:
    assert [hlc.is_after(b, a), a == b, hlc.is_after(a, b)].count(True) == 1
    assert (hash(a) == hash(b)) or a != b


def test_c05_counter_overflow_carries() -> None:
    """A full counter starts again at 0 in the next millisecond."""
    assert hlc.tick(Clock(1000, clock_counter_max), 1000) == Clock(1001, 0)


def test_c06_a_higher_wall_is_taken() -> None:
    """When the wall has passed the clock, the clock is at the wall with its counter at 0."""
    assert hlc.tick(Clock(1001, 0), 2000) == Clock(2000, 0)


def test_c07_a_lower_wall_is_passed_over() -> None:
    """When the wall has gone back, the counter goes on."""
    assert hlc.tick(Clock(1000, 5), 500) == Clock(1000, 6)


@given(clocks | near_clocks, walls | st.integers(0, 4))
@example(Clock(1000, clock_counter_max), 1001)
@example(Clock(1000, clock_counter_max), 999)
@example(Clock(clock_logical_max, clock_counter_max - 1), 0)
def test_a_tick_is_the_next_number_or_the_wall(last: Clock, wall_ms: int) -> None:
    if last == END:
        return  # C28
    assert hlc.tick(last, wall_ms).to_int() == packed_tick(last, wall_ms)


@pytest.mark.parametrize("wall_ms", [0, clock_logical_max])
def test_c28_the_end_of_the_range_is_an_error(wall_ms: int) -> None:
    """Nothing comes after the last clock, least of all the first one again."""
    with pytest.raises(ClockExhausted):
        hlc.tick(END, wall_ms)


def test_c28_a_wall_beyond_the_range_is_an_error() -> None:
    """A wall clock after the year 2109 gives no clock, whatever the clock was."""
    with pytest.raises(ClockExhausted):
        hlc.tick(Clock(1000, 0), clock_logical_max + 1)


@given(clocks | near_clocks, clocks | near_clocks)
def test_an_adjust_raises_exactly_to_the_remote_clock_and_never_lowers(
    local: Clock, remote: Clock
) -> None:
    adjusted = hlc.adjust(local, remote)
    assert adjusted.to_int() == max(local.to_int(), remote.to_int())


@given(clocks, st.integers(0, 1 << 30))
def test_plus_is_so_many_ticks_and_stops_at_the_end(clock: Clock, ticks: int) -> None:
    assert hlc.plus(clock, ticks).to_int() == min(clock.to_int() + ticks, PACKED_MAX)


@given(clocks, clocks)
def test_ticks_between_is_the_way_from_one_to_the_other(low: Clock, high: Clock) -> None:
    if low <= high:
        assert hlc.plus(low, hlc.ticks_between(low, high)) == high
    assert hlc.ticks_between(low, high) == -hlc.ticks_between(high, low)


def test_a_wall_before_1970_counts_as_1970() -> None:
    assert hlc.at_wall(-5) == ZERO
    assert hlc.tick(ZERO, -5) == Clock(0, 1)
