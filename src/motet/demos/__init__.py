"""Demos that run the whole product: real processes, real Spark, real kills, and a report as proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Report = dict[str, object]
Tell = Callable[[str], None]


def report_lines(report: Report) -> Iterator[str]:
    """A report for people."""
    for name, value in report.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {item}" for key, item in value.items())
        elif isinstance(value, bool):
            value = "yes" if value else "NO"
        elif value is None:
            continue
        yield f"  {name.replace('_', ' '):<30} {value}"
