"""One tree of errors, each with a code, what happened, and what to do."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from pathlib import Path

import pytest

from motet import errors
from motet.errors import MotetError, operator, queries, shards, tables

MODULES = (errors, operator, queries, shards, tables)
ALL = [
    kind
    for module in MODULES
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, MotetError) and kind.__module__ == module.__name__
]


def tree(kind: type[MotetError], lead: str = "") -> list[str]:
    """The tree as the module's docstring draws it, without the explanations."""
    lines = []
    children = [child for child in ALL if kind in child.__bases__]
    children.sort(key=lambda child: (child.__module__, inspect.getsourcelines(child)[1]))
    for child in children:
        last = child is children[-1]
        lines.append(f"{lead}{'└── ' if last else '├── '}{child.__name__}")
        lines.extend(tree(child, lead + ("    " if last else "│   ")))
    return lines


def test_the_docstring_draws_the_tree_as_it_is() -> None:
    drawn = [
        re.match(r"    ([│├└─ ]*\w+)", line)
        for line in (errors.__doc__ or "").splitlines()
        if re.match(r"    [│├└M]|        [├└]", line)
    ]
    assert [match[1] for match in drawn if match] == ["MotetError", *tree(MotetError)]


@pytest.mark.parametrize("kind", ALL)
def test_each_has_a_code_of_its_own_a_docstring_and_advice(kind: type[MotetError]) -> None:
    assert re.fullmatch(r"[A-Z][A-Z_]*", kind.code)
    assert [other for other in ALL if other.code == kind.code] == [kind]
    assert kind.__doc__
    error = kind("something happened")
    assert str(error) == f"{kind.code} something happened; {error.advice}"


def test_advice_can_be_given_for_one_occasion() -> None:
    assert str(errors.BadInput("no", hint="say yes")) == "BAD_INPUT no; say yes"


def test_an_error_survives_pickling_with_its_advice() -> None:
    error = pickle.loads(pickle.dumps(errors.BadClock("what", hint="advice")))
    assert isinstance(error, errors.BadClock)
    assert str(error) == "BAD_CLOCK what; advice"


def test_there_is_no_error_outside_the_tree() -> None:
    names = {kind.__name__ for kind in ALL}
    strays = [
        f"{path.name}: {node.name}"
        for path in Path(errors.__file__).parents[1].rglob("*.py")
        if path.name != "errors.py" and path.parent != Path(errors.__file__).parent
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id in names for base in node.bases)
    ]
    assert strays == []


def test_a_code_from_a_node_becomes_its_error_again() -> None:
    error = errors.error_of("CLOCK_DRIFT", "too far", "set the time")
    assert isinstance(error, errors.ClockDrift)
    assert str(error) == "CLOCK_DRIFT too far; set the time"
    assert type(errors.error_of("FROM_THE_FUTURE", "what", "advice")) is MotetError
