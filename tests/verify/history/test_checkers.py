"""The checkers by name, files with a header, and what is drawn of a witness."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from motet.errors import BadHistory, BadInput
from motet.verify.history import Recorder
from motet.verify.history.checkers import CHECKERS, checker_named, read_history
from motet.verify.history.drawing import html_page, neighbours, svg

LINES = b"""{"checker": "queue"}
{"event":"invoke","op":0,"process":"c1","function":"enqueue","key":null,"value":"<a>","at":1}
{"event":"ok","op":0,"value":null,"at":2}
{"event":"invoke","op":1,"process":"c2","function":"dequeue","key":null,"value":null,"at":3}
{"event":"invoke","op":2,"process":"c3","function":"enqueue","key":null,"value":"b","at":3}
{"event":"ok","op":1,"value":null,"at":4}
"""


def test_a_file_says_what_it_is() -> None:
    header, history = read_history(LINES)
    assert (header.checker, header.initial, len(history)) == ("queue", None, 3)
    assert read_history(b"\n".join(LINES.splitlines()[1:]))[0].checker is None


def test_every_checker_takes_an_empty_history() -> None:
    for name, checker in CHECKERS.items():
        initial = {"a": 1} if name.startswith("bank") else None
        assert checker.check(Recorder().history(), initial, 10), name


def test_what_was_there_at_first_must_fit_the_checker() -> None:
    empty = Recorder().history()
    for name, initial in (("queue", [1]), ("feed", {}), ("set", {}), ("keyed", [1]), ("bank", 7)):
        with pytest.raises(BadHistory):
            checker_named(name).check(empty, initial, 10)
    with pytest.raises(BadInput, match="no checker 'quue'"):
        checker_named("quue")


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (LINES + b'{"event":"ok","op":9,"at":5,"value":1}\n', "line 7 of the history: operation 9"),
        (LINES.replace(b'"op":1,"value"', b'"op":0,"value"'), "line 6 of the history: operation 0"),
        (LINES.replace(b'"at":4', b'"at":"x"'), "line 6 of the history is no event"),
        (LINES.replace(b'"checker"', b'"chequer"'), "line 1 of the history is neither"),
        (b"nonsense\n", "line 1 of the history is no event"),
    ],
)
def test_a_malformed_line_is_named_by_its_number(lines: bytes, complaint: str) -> None:
    with pytest.raises(BadHistory, match=complaint):
        read_history(lines)


def test_a_witness_is_drawn_with_what_happened_beside_it() -> None:
    header, history = read_history(LINES)
    verdict = checker_named(header.checker or "").check(history, None, 10_000)
    assert verdict.witness is not None
    assert verdict.witness.fault == "missed"
    beside = neighbours(history, verdict.witness.operations)
    assert [op.process for op in beside] == ["c3"]
    drawing = ET.fromstring(svg(verdict.witness.operations, beside))
    texts = [element.text for element in drawing.iter() if element.text and element.text.strip()]
    assert "enqueue '<a>' ok" in texts
    assert "c3" in texts
    bars = [each for each in drawing.iter() if each.tag.endswith("}rect")]
    assert len(bars) == 3
    assert sum("stroke-dasharray" in bar.attrib for bar in bars) == 1
    page = html_page("queue", history, verdict)
    parser = HTMLParser()
    parser.feed(page)
    assert "missed: " in page
    assert "<svg" in page
    assert "'<a>'" not in page


def test_nothing_is_drawn_of_a_history_that_is_ok() -> None:
    empty = Recorder().history()
    page = html_page("queue", empty, checker_named("queue").check(empty, None, 10))
    assert "<svg" not in page
    assert neighbours(empty, ()) == []
