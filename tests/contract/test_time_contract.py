"""What every source of time promises (:mod:`motet.ports`)."""

from __future__ import annotations

from motet.ports import Time

NS_PER_YEAR = 365 * 24 * 3600 * 1_000_000_000


def test_the_monotonic_clock_never_goes_back(clocks: Time) -> None:
    readings = [clocks.now().monotonic_ns for _ in range(1000)]
    assert readings == sorted(readings)


def test_the_wall_clock_is_nanoseconds_since_1970(clocks: Time) -> None:
    now = clocks.now()
    assert isinstance(now.wall_ns, int)
    assert 54 < now.wall_ns // NS_PER_YEAR < 139, "from 2024 to the end of the clock's range"
    assert now.wall_ms == now.wall_ns // 1_000_000
