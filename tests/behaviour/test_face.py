"""Every call of the public face has a case, and every row about a difference has one, too."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.behaviour.differences import DIFFERENCES
from tests.behaviour.face import CLASSES, COVERS, NOT_FOR_USERS, VALUES, covers, face, fields


@cache
def cases() -> dict[str, Callable[..., object]]:
    """All cases of the suite by file and name."""
    found: dict[str, Callable[..., object]] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        spec = importlib.util.spec_from_file_location(f"cases_of_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, case in vars(module).items():
            if name.startswith("test_"):
                found[f"{path.stem.removeprefix('test_')}::{name}"] = case
    return found


def covered() -> Iterator[tuple[str, str]]:
    for name, case in cases().items():
        for call in getattr(case, COVERS, ()):
            yield name, call


def test_every_call_has_a_case() -> None:
    assert sorted(face() - {call for _, call in covered()}) == []


def test_what_a_case_says_it_shows_is_there_and_is_called() -> None:
    known = face()
    for name, call in covered():
        assert call in known, f"{name} says it shows {call}"
        assert call.rpartition(".")[2] in used_by(cases()[name]), f"{name} does not call {call}"


def test_every_field_of_an_answer_is_looked_at() -> None:
    looked_at: set[str] = set()
    for path in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                looked_at.add(node.attr)
    assert sorted(each for each in fields() if each.rpartition(".")[2] not in looked_at) == []


def test_what_is_not_for_users_is_there() -> None:
    classes = {**CLASSES, **{kind.__name__: kind for kind in VALUES}}
    for name in NOT_FOR_USERS:
        kind, _, attribute = name.rpartition(".")
        assert hasattr(classes[kind], attribute), name


def used_by(case: Callable[..., object]) -> set[str]:
    """The attributes that a case uses, by itself or by functions of the suite."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(case)))):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            helper = case.__globals__.get(node.id)
            if inspect.isfunction(helper) and helper is not covers and is_ours(helper):
                found |= used_by(helper)
    return found


def is_ours(function: Callable[..., object]) -> bool:
    return Path(inspect.getfile(function)).parent == Path(__file__).parent


def test_every_difference_is_about_a_case() -> None:
    known = {*cases(), *(name.partition("::")[0] for name in cases())}
    for row in DIFFERENCES:
        assert row.case.partition("[")[0] in known, row.case
