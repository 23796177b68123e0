"""Draws the run in the terminal: sales, stock, and how the tables followed the feed over the kills.

All lanes share one axis of time. Pure: it takes what was seen and gives back lines. A terminal whose encoding
has no blocks gets plain characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COLUMNS = 60
ROWS = 8


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What a chart is drawn with."""

    #: from the lowest to the highest
    bars: str
    feed: str
    tables: str
    kill: str
    corner: str
    side: str
    line: str


UNICODE = Glyphs("▁▂▃▄▅▆▇█", "·", "●", "×", "└", "│", "─")
ASCII = Glyphs("_.:-=+*#", ".", "o", "x", "+", "|", "-")


def glyphs_for(encoding: str | None) -> Glyphs:
    """The nicest ones that an encoding has."""
    try:
        "".join((UNICODE.bars, *(str(getattr(UNICODE, n)) for n in Glyphs.__slots__))).encode(
            encoding or "ascii"
        )
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of time, in milliseconds, cut into columns."""

    begin: float
    end: float

    def column(self, at: float) -> int:
        """The column of a moment; what lies outside is at the edge."""
        length = max(self.end - self.begin, 1)
        return min(max(int((at - self.begin) / length * COLUMNS), 0), COLUMNS - 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """How far the feed and the tables were at one moment; all in milliseconds since 1970."""

    at: float
    feed: float
    #: None before the first step of the pipeline
    tables: float | None


def bars(values: Sequence[float], most: float, glyphs: Glyphs) -> str:
    """A lane of bars: nothing for nothing, the highest for ``most``."""
    steps = len(glyphs.bars) - 1
    return "".join(
        glyphs.bars[min(int(value * steps / most), steps)] if value > 0 and most > 0 else " "
        for value in values
    )


def sums_lane(axis: Axis, seen: Sequence[tuple[float, float]], glyphs: Glyphs) -> str:
    """What happened in each column, summed up."""
    sums = [0.0] * COLUMNS
    for at, value in seen:
        sums[axis.column(at)] += value
    return bars(sums, max(sums), glyphs)


def level_lane(axis: Axis, seen: Sequence[tuple[float, float]], most: float, glyphs: Glyphs) -> str:
    """The lowest level within each column; where nothing happened, that of the column before."""
    lows: list[float | None] = [None] * COLUMNS
    for at, value in seen:
        column = axis.column(at)
        low = lows[column]
        lows[column] = value if low is None else min(low, value)
    levels, level = [], 0.0
    for low in lows:
        level = level if low is None else low
        levels.append(level)
    return bars(levels, most, glyphs)


def follow_plot(
    axis: Axis, samples: Sequence[Sample], kills: Mapping[str, float], glyphs: Glyphs
) -> list[str]:
    """The clock of the feed and the clock of the tables over time, with the kills below."""
    grid = [[" "] * COLUMNS for _ in range(ROWS)]

    def row(clock: float) -> int:
        share = (clock - axis.begin) / max(axis.end - axis.begin, 1)
        return ROWS - 1 - min(max(int(share * ROWS), 0), ROWS - 1)

    for sample in samples:
        grid[row(sample.feed)][axis.column(sample.at)] = glyphs.feed
    for sample in samples:
        if sample.tables is not None:
            grid[row(sample.tables)][axis.column(sample.at)] = glyphs.tables
    lines = [f"{glyphs.side}{''.join(line)}" for line in grid]
    lines.append(f"{glyphs.corner}{glyphs.line * COLUMNS}")
    return [*lines, *kill_lines(axis, kills, glyphs)]


def kill_lines(axis: Axis, kills: Mapping[str, float], glyphs: Glyphs) -> list[str]:
    """A line per kill, with its mark where it happened."""
    lines = []
    for what, at in kills.items():
        mark = axis.column(at)
        text = f"{glyphs.kill} kill -9 {what}"
        # It stands to the right of its mark, or to the left where there is no room.
        if mark + len(text) > COLUMNS:
            text = f"kill -9 {what} {glyphs.kill}"
            mark = max(mark - len(text) + 1, 0)
        lines.append(" " * (mark + 1) + text)
    return lines


def draw(
    axis: Axis,
    sales: Sequence[tuple[float, float]],
    stock: Mapping[str, Sequence[tuple[float, float]]],
    samples: Sequence[Sample],
    kills: Mapping[str, float],
    glyphs: Glyphs,
) -> list[str]:
    """The whole chart; without samples, the one of a run without Spark."""
    seconds = (axis.end - axis.begin) / 1000
    total = sum(value for _, value in sales) / 100
    most = max([value for levels in stock.values() for _, value in levels], default=0.0)
    lines = [f"sales    {sums_lane(axis, sales, glyphs)}  {total:,.2f} in all", ""]
    for name, levels in sorted(stock.items()):
        last = levels[-1][1] if levels else 0
        lane = level_lane(axis, levels, most, glyphs)
        lines.append(f"{name[:8]:<8} {lane}  {last:.0f} left")
    lines.append("")
    if samples:
        legend = f"{glyphs.feed} clock of the feed   {glyphs.tables} clock of the tables"
        plot = follow_plot(axis, samples, kills, glyphs)
    else:
        legend = ""
        plot = [f"{glyphs.corner}{glyphs.line * COLUMNS}", *kill_lines(axis, kills, glyphs)]
    lines += [f"        {line}" for line in plot]
    scale = f"0 {'s':<{COLUMNS - 8}}{seconds:>5.1f} s"
    return [*lines, f"         {scale}", *([f"         {legend}"] if legend else [])]
