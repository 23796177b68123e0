"""The house figures of our style, as a ratchet: files of at most 400 lines, functions of at most 60.

A file of ``core`` may have 600, and so may the limits: a reader should see a machine, or every bound, in
one place.

What is larger has two concepts. A file or function that is allowed to be larger is listed below with its
present size, and may shrink but not grow; a new one is split.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "bench", "tools")
FILE_LINES_MAX = 400
CORE_FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60

#: nobody reads or writes these: tools/sync_face.py makes them
GENERATED = ("src/motet/client/keeper/sync.py", "src/motet/client/sync.py")

#: path or path::function -> lines it has now; take a line out when it has shrunk
LARGER: dict[str, int] = {}


def sources() -> list[Path]:
    made = {ROOT / path for path in GENERATED}
    found = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert made <= found, "what is listed as generated is there"
    return sorted(found - made)


@cache
def functions(path: Path) -> tuple[tuple[str, int], ...]:
    """The functions of a file and their lines; each file is read for all tests at once."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            found.append((node.name, node.end_lineno - node.lineno + 1))
    return tuple(found)


def sizes(path: Path, root: Path) -> Iterator[tuple[str, int, int]]:
    """(what, its lines, the house figure) for a file and each function in it."""
    name = path.relative_to(root).as_posix()
    is_one_place = name.startswith("src/motet/core/") or name == "src/motet/limits.py"
    most = CORE_FILE_LINES_MAX if is_one_place else FILE_LINES_MAX
    yield name, len(path.read_text().splitlines()), most
    for function, lines in functions(path):
        yield f"{name}::{function}", lines, FUNCTION_LINES_MAX


def too_large(paths: list[Path], root: Path, larger: dict[str, int]) -> list[str]:
    found = []
    for path in paths:
        for what, lines, most in sizes(path, root):
            if lines > larger.get(what, most):
                found.append(
                    f"{what} has {lines} lines, at most {larger.get(what, most)}: split it"
                )
    return found


def test_files_and_functions_keep_to_the_house_figures() -> None:
    assert too_large(sources(), ROOT, LARGER) == []


def test_the_ratchet_only_tightens() -> None:
    now = {what: lines for path in sources() for what, lines, _ in sizes(path, ROOT)}
    loose = [
        f"{what}: {was} -> {now.get(what)}" for what, was in LARGER.items() if now.get(what) != was
    ]
    assert loose == [], "write down the smaller size"


@pytest.mark.parametrize("lines", [FUNCTION_LINES_MAX, FUNCTION_LINES_MAX + 1])
def test_a_function_one_line_over_is_found(tmp_path: Path, lines: int) -> None:
    file = tmp_path / "long.py"
    file.write_text("def long():\n" + "    x = 1\n" * (lines - 1))
    assert bool(too_large([file], tmp_path, {})) == (lines > FUNCTION_LINES_MAX)


def test_median_sizes_stay_liveable() -> None:
    source = [path for path in sources() if "src" in path.parts]
    lengths = sorted(len(path.read_text().splitlines()) for path in source)
    bodies = sorted(lines for path in source for _, lines in functions(path))
    assert lengths[len(lengths) // 2] <= 250
    assert bodies[len(bodies) // 2] <= 12
