"""Imports that the contracts of import-linter still except: there are fewer of them, never more."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXCEPTIONS = 3
"""Take an import out, take its line out of pyproject.toml, and lower this."""


def contracts() -> list[dict[str, Any]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = project["tool"]["importlinter"]["contracts"]
    return found


def exceptions(contract: dict[str, Any]) -> list[str]:
    """Single imports; a line with a star is a part of the rule."""
    return [line for line in contract.get("ignore_imports", ()) if "*" not in line]


def test_no_exception_is_added() -> None:
    found = [line for contract in contracts() for line in exceptions(contract)]
    assert len(found) == EXCEPTIONS, "more: point the import the other way; fewer: lower the figure"


def test_no_exception_is_there_twice_or_for_more_than_one_import() -> None:
    for contract in contracts():
        lines = exceptions(contract)
        assert len({*lines}) == len(lines), contract["name"]
        assert all(line.count(" -> ") == 1 for line in lines), contract["name"]


def test_an_exception_that_nothing_needs_is_an_error() -> None:
    told = [each.get("unmatched_ignore_imports_alerting", "error") for each in contracts()]
    assert {*told} == {"error"}
