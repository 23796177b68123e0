"""What the pages show in Python runs, from the top of a page to its end, in one namespace.

A block is a session (it begins with ``>>>`` and is held to its answers) or plain code (it may assert what it
shows). A fragment that cannot run by itself is fenced as ``python no-run``.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NO_RUN = "no-run"

#: pages whose examples have a test of their own, which shows more
ELSEWHERE = {
    "README.md": "tests/spark/test_readme.py",
    "docs/guides/testing.md": "tests/testing/test_guide.py",
    "docs/internals/histories.md": "tests/verify/history/test_essay.py",
}


class Block(NamedTuple):
    """A fenced block of Python: the rest of its fence line, its text, and the line it begins at."""

    mark: str
    source: str
    line: int


def blocks(text: str) -> list[Block]:
    return [
        Block(found[1].strip(), found[2], text.count("\n", 0, found.start(2)))
        for found in FENCE.finditer(text)
    ]


def run_page(name: str, text: str) -> None:
    page: dict[str, Any] = {"__name__": "page"}
    for block in blocks(text):
        assert block.mark in ("", NO_RUN), f"{name}:{block.line} is fenced as {block.mark!r}"
        if block.mark == NO_RUN:
            continue
        if block.source.startswith(">>>"):
            run_session(name, block, page)
        else:
            exec(compile("\n" * block.line + block.source, name, "exec"), page)


def run_session(name: str, block: Block, page: dict[str, Any]) -> None:
    session = doctest.DocTestParser().get_doctest(block.source, {}, name, name, block.line)
    session.globs = page
    report: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(session, out=report.append, clear_globs=False)
    assert not failed.failed, "".join(report)


def pages() -> list[str]:
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path.relative_to(ROOT).as_posix() for path in paths if blocks(path.read_text("utf-8"))]


def cases() -> list[str]:
    return [name for name in pages() if name not in ELSEWHERE]


@pytest.mark.parametrize("name", cases())
def test_the_examples_of_a_page_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / name).read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    run_page(name, text)


def test_pages_that_are_tested_elsewhere_are_there_and_so_are_their_tests() -> None:
    for page, test in ELSEWHERE.items():
        assert page in pages()
        assert Path(page).name in (ROOT / test).read_text("utf-8")


# This test would notice


def fenced(*sources: str, mark: str = "") -> str:
    return "\n".join(f"Prose.\n\n```python{mark}\n{source}\n```\n" for source in sources)


def test_a_page_shares_one_namespace() -> None:
    run_page("page", fenced("x = 1", ">>> x + 1\n2\n>>> y = 3", "assert (x, y) == (1, 3)"))


@pytest.mark.parametrize("source", ["assert 1 == 2", ">>> 1 + 1\n3", "import motet.nothing"])
def test_an_example_that_is_wrong_fails(source: str) -> None:
    with pytest.raises((AssertionError, ImportError)):
        run_page("page", fenced(source))


def test_only_what_says_so_is_not_run() -> None:
    run_page("page", fenced("this is no Python", mark=" no-run"))
    with pytest.raises(AssertionError, match="norun"):
        run_page("page", fenced("x = 1", mark=" norun"))


def test_an_error_names_the_page_and_its_line() -> None:
    with pytest.raises(SyntaxError) as raised:
        run_page("some.md", fenced("x = 1", "y = = 2"))
    text = fenced("x = 1", "y = = 2")
    assert raised.value.filename == "some.md"
    assert text.splitlines()[(raised.value.lineno or 0) - 1] == "y = = 2"
