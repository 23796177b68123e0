"""The keeper's errors: drawn as they are, each with a code of its own, and one for each number."""

from __future__ import annotations

import inspect
import re

import pytest

from motet import errors as house
from motet.client.keeper import errors
from motet.client.keeper.errors import KeeperError, error_for
from motet.errors import MotetError, NodeError, OutcomeUnknown
from motet.format.zookeeper.messages import ErrorCode, GetData, Multi

ALL = [
    kind
    for module in (house, errors)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, MotetError) and kind.__module__ == module.__name__
]
OWN = [kind for kind in ALL if issubclass(kind, KeeperError)]
UNKNOWN = (ErrorCode.CONNECTION_LOSS, ErrorCode.OPERATION_TIMEOUT)


def test_the_docstring_draws_them_all_in_their_order() -> None:
    drawn = re.findall(r"^    (?:[├└]── )?(\w+)", errors.__doc__ or "", re.MULTILINE)
    assert drawn == [
        kind.__name__ for kind in sorted(OWN, key=lambda kind: inspect.getsourcelines(kind)[1])
    ]


@pytest.mark.parametrize("kind", OWN)
def test_each_has_a_code_of_its_own_a_docstring_and_advice(kind: type[MotetError]) -> None:
    assert re.fullmatch(r"[A-Z][A-Z_]*", kind.code)
    assert [other for other in ALL if other.code == kind.code] == [kind]
    assert kind.__doc__
    error = kind("something happened")
    assert str(error) == f"{kind.code} something happened; {error.advice}"


@pytest.mark.parametrize("number", [*ErrorCode, -12345])
def test_every_number_is_an_error_that_says_what_it_is_about(number: int) -> None:
    error = error_for(number, GetData("/{path}", False), is_write=False)
    assert isinstance(error, NodeError if number in UNKNOWN else KeeperError)
    assert "{path}" not in error.what.replace("/{path}", "")
    assert error_for(number, Multi(()), is_write=True).what


@pytest.mark.parametrize("number", UNKNOWN)
def test_of_a_write_that_a_server_lost_sight_of_the_outcome_is_unknown(number: int) -> None:
    assert isinstance(error_for(number, Multi(()), is_write=True), OutcomeUnknown)
