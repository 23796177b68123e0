"""Tables for people and JSON for programs."""

from __future__ import annotations

import json
import sys

import pytest

from motet.cli.output import Output, plain_table, print_rows

ROWS: list[dict[str, object]] = [
    {"name": "n0", "ready": True, "peers": ("n1", "n2"), "lag": None},
    {"name": "a longer name", "ready": False, "peers": {"n1": 2}, "lag": 17},
]


def test_columns_line_up_and_nothing_trails() -> None:
    assert plain_table(ROWS).splitlines() == [
        "name           ready  peers  lag",
        "n0             yes    n1,n2  -",
        "a longer name  no     n1=2   17",
    ]


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, Output.JSON)
    document = json.loads(capsys.readouterr().out)
    assert document[1] == {"name": "a longer name", "ready": False, "peers": {"n1": 2}, "lag": 17}
    print_rows([], Output.JSON)
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(("is_terminal", "no_color", "is_plain"), [
    (False, "", True), (True, "1", True), (True, "", False),
])  # fmt: skip
def test_colour_only_on_a_terminal_that_wants_it(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,
    no_color: str,
    is_plain: bool,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_rows(ROWS, Output.TABLE)
    printed = capsys.readouterr().out
    assert (printed == plain_table(ROWS) + "\n") == is_plain
    assert ("\x1b[" in printed) != is_plain
    assert "a longer name" in printed


def test_an_empty_table_says_so_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], Output.TABLE)
    assert capsys.readouterr() == ("", "nothing to show\n")
