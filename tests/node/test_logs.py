"""One event per line, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from motet.node import logs


@pytest.fixture(autouse=True)
def _put_logging_back() -> Iterator[None]:
    root = logging.getLogger("motet")
    before = root.handlers, root.level, root.propagate
    yield
    root.handlers, root.level, root.propagate = before


def written(form: logs.LogFormat, level: logs.LogLevel = "info") -> io.StringIO:
    out = io.StringIO()
    logs.set_up(level, form, {"node": "n0"}, out)
    return out


def test_text_has_keys_and_quotes_only_what_needs_it() -> None:
    out = written("text")
    logs.logger.info(
        "node_started", extra={"fields": {"port": 7400, "why": 'two "words"', "no": ""}}
    )
    time, rest = out.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert rest == 'info node_started node=n0 port=7400 why="two \\"words\\""\n'


def test_json_is_one_object_per_line_even_with_a_traceback() -> None:
    out = written("json")
    try:
        raise ValueError("planted")
    except ValueError as error:
        logs.logger.error("failed", exc_info=error, extra={"fields": {"count": 3}})
    (line,) = out.getvalue().splitlines()
    facts = json.loads(line)
    assert facts["level"] == "error"
    assert (facts["what"], facts["node"], facts["count"]) == ("failed", "n0", 3)
    assert "ValueError: planted" in facts["traceback"]


def test_lines_below_the_level_are_not_written() -> None:
    out = written("text", "warning")
    logs.logger.info("quiet")
    logs.logger.warning("loud")
    assert [line.split(" ")[2] for line in out.getvalue().splitlines()] == ["loud"]


def test_complaints_become_rare() -> None:
    out = written("json")
    for count in range(1, 1_001):
        logs.complain(count, "send_dropped", why="full")
    counts = [json.loads(line)["count"] for line in out.getvalue().splitlines()]
    assert counts == [2**power for power in range(10)]


def test_notes_have_levels() -> None:
    for note in ("shard_damaged", "shard_disk_full", "data_clock_drift", "operator_node_restarted"):
        assert logs.level_of(note) == logging.WARNING
    assert logs.level_of("vsr_clock_agreed") == logging.DEBUG
    assert logs.level_of("shard_leads") == logging.INFO
