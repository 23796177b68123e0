"""Nothing is dead, and everything says what it is for."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

#: modules that are started from outside, and ports whose first user is still to come
ENTRANCES = {
    "motet.__main__",
    "motet.cli.app",
    "motet.columnar.definitions",
    "motet.columnar.encode",
    "motet.columnar.part_reader",
    "motet.testing.scenario",
    "motet.real.objects",
    "motet.sim.objects",
}


def modules() -> dict[str, Path]:
    named = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imported_names(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.partition(":")[0])  # "motet.x.y:Name", imported by its name
    return found


def test_every_module_is_used_by_the_product() -> None:
    named = modules()
    used = set().union(*(imported_names(path) for path in named.values()))
    dead = [
        name
        for name, path in named.items()
        if path.name != "__init__.py" and name not in used and name not in ENTRANCES
    ]
    assert dead == [], "no other module imports these: take them out, or name them as entrances"


def test_every_module_begins_by_saying_what_it_is_for() -> None:
    silent = [
        n for n, path in modules().items() if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []
