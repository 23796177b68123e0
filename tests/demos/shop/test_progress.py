"""Progress: one line per phase, whatever it is printed on."""

from __future__ import annotations

import io

from motet.demos.shop.watch import WIDTH, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_gets_one_line_per_phase_with_its_last_note() -> None:
    file = io.StringIO()
    progress = Progress(file)
    with progress.phase("one", "the first"):
        progress.note("4 of 9")
        progress.note("9 of 9")
    with progress.phase("two", "the second"):
        pass
    lines = file.getvalue().splitlines()
    assert [line.partition(" s  ")[2] for line in lines] == ["the first: 9 of 9", "the second"]
    assert list(progress.seconds) == ["one", "two"]


def test_a_terminal_sees_the_phase_from_its_beginning_and_its_line_is_rewritten() -> None:
    terminal = Terminal()
    progress = Progress(terminal)
    with progress.phase("one", "the first"):
        assert "the first" in terminal.getvalue()
        assert "\n" not in terminal.getvalue()
    drawn = terminal.getvalue().split("\r")[1:]
    assert all(len(line.rstrip("\n")) == WIDTH for line in drawn)
    assert terminal.getvalue().count("\n") == 1


def test_a_phase_that_fails_has_no_time() -> None:
    progress = Progress(io.StringIO())
    try:
        with progress.phase("one", "the first"):
            raise ValueError
    except ValueError:
        pass
    assert progress.seconds == {}
