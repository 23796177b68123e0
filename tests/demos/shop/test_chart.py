"""The chart puts what happened where it happened, in whatever the terminal can print."""

from __future__ import annotations

import pytest

from motet.demos.shop.chart import (
    ASCII,
    COLUMNS,
    ROWS,
    UNICODE,
    Axis,
    Glyphs,
    Sample,
    bars,
    draw,
    follow_plot,
    glyphs_for,
    kill_lines,
    level_lane,
    sums_lane,
)

AXIS = Axis(1000.0, 1000.0 + 100 * COLUMNS)  # a column is 100 ms


def at(column: int) -> float:
    return AXIS.begin + 100 * column + 50


@pytest.mark.parametrize(
    ("encoding", "glyphs"),
    [("utf-8", UNICODE), ("ascii", ASCII), ("latin-1", ASCII), ("no such", ASCII), (None, ASCII)],
)
def test_a_terminal_gets_what_its_encoding_has(encoding: str | None, glyphs: Glyphs) -> None:
    assert glyphs_for(encoding) == glyphs


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_bars_rise_with_their_values(glyphs: Glyphs) -> None:
    assert bars([0, 1, 5, 10], 10, glyphs) == f" {glyphs.bars[0]}{glyphs.bars[3]}{glyphs.bars[-1]}"
    assert bars([0, 0], 0, glyphs) == "  "


def test_moments_beyond_the_axis_are_at_its_edges() -> None:
    assert [AXIS.column(moment) for moment in (0, at(0), at(7), 1e9)] == [0, 0, 7, COLUMNS - 1]


def test_an_axis_without_length_can_be_drawn_on() -> None:
    assert Axis(5, 5).column(5) == 0


def test_what_happens_in_one_column_is_summed() -> None:
    lane = sums_lane(AXIS, [(at(3), 1), (at(3), 1), (at(9), 1)], UNICODE)
    assert (lane[3], lane[9]) == ("█", UNICODE.bars[3])
    assert lane.replace(" ", "") == lane[3] + lane[9]


def test_a_level_stays_until_it_changes_and_its_lowest_point_is_shown() -> None:
    lane = level_lane(AXIS, [(at(2), 8), (at(5), 8), (at(5), 0), (at(5), 8), (at(6), 4)], 8, ASCII)
    assert lane == "  ###" + " " + ASCII.bars[3] * (COLUMNS - 6)


def test_tables_below_the_feed_are_drawn_below_it() -> None:
    column = COLUMNS - 1
    samples = [
        Sample(at(0), at(0), None),
        Sample(at(column), feed=at(column), tables=at(COLUMNS // 2)),
    ]
    plot = follow_plot(AXIS, samples, {}, ASCII)
    assert len(plot) == ROWS + 1
    seen = {
        (row, place): mark
        for row, line in enumerate(plot[:ROWS])
        for place, mark in enumerate(line[1:])
        if mark != " "
    }
    assert seen == {
        (ROWS - 1, 0): ASCII.feed,
        (0, column): ASCII.feed,
        (ROWS // 2 - 1, column): ASCII.tables,
    }


@pytest.mark.parametrize("column", [0, 10, COLUMNS - 5, COLUMNS - 1])
def test_a_kill_is_marked_where_it_happened(column: int) -> None:
    (line,) = kill_lines(AXIS, {"the driver": at(column)}, ASCII)
    assert line.index(ASCII.kill, column) == column + 1
    assert "kill -9 the driver" in line
    assert len(line) <= COLUMNS + 1


def whole_chart(samples: list[Sample], glyphs: Glyphs) -> list[str]:
    sales = [(at(1), 450.0), (at(50), 900.0)]
    stock = {"kyrie": [(at(0), 40.0), (at(9), 0.0)], "credo": [(at(0), 40.0)]}
    return draw(AXIS, sales, stock, samples, {"a writer": at(20)}, glyphs)


def test_the_chart_has_sales_stock_and_the_kill() -> None:
    lines = whole_chart([], UNICODE)
    assert lines[0].endswith("13.50 in all")
    assert [line.split()[0] for line in lines[2:4]] == ["credo", "kyrie"]
    assert lines[2].endswith("40 left")
    assert lines[3].endswith("0 left")
    assert any("kill -9 a writer" in line for line in lines)
    assert not any("clock of the tables" in line for line in lines)


def test_with_samples_it_shows_how_the_tables_followed() -> None:
    lines = whole_chart([Sample(at(0), at(0), at(0))], UNICODE)
    assert any("clock of the tables" in line for line in lines)


def test_plain_characters_stay_plain() -> None:
    text = "\n".join(whole_chart([Sample(at(0), at(0), at(0))], ASCII))
    assert text.isascii()
