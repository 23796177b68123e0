"""The examples of docs/guides/testing.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from motet.testing import run_scenario

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"
TEXT = GUIDE.read_text()


def blocks(language: str) -> list[tuple[int, str]]:
    """The fenced blocks of a language, each with the line before its first."""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [(TEXT.count("\n", 0, match.start(1)), match[1]) for match in found]


def test_python_examples_run_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page: dict[str, Any] = {"__name__": "guide"}
    examples = blocks("python")
    assert len(examples) >= 6
    for line, source in examples:
        exec(compile("\n" * line + source, str(GUIDE), "exec"), page)


def test_scripts_on_the_page_pass(tmp_path: Path) -> None:
    scripts = blocks("scenario")
    assert scripts
    (tmp_path / "datanode").mkdir()
    for number, (_, text) in enumerate(scripts):
        path = tmp_path / "datanode" / f"{number}.txt"
        path.write_text(text)
        result = run_scenario(path)
        assert result.passed, result.diff()
