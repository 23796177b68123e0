"""Plain structs as one short line."""

from __future__ import annotations

import msgspec
import pytest
from tests.toy.notebook import Recalled, Remember

from motet.core.clock.hlc import Clock
from motet.core.render import render


class Inner(msgspec.Struct, frozen=True):
    """A struct in a struct."""

    number: int


class Outer(msgspec.Struct, frozen=True):
    """One field of any kind."""

    field: object


def test_a_struct_is_its_name_and_its_fields_in_order() -> None:
    assert render(Remember(request=3, value="la")) == "Remember request=3 value=la"


CASES: list[tuple[object, str]] = [
    (None, "None"),
    (True, "True"),
    (-7, "-7"),
    ("la", "la"),
    (b"la", "la"),
    (b"", ""),
    (b"\x00\xff", "00ff"),
    (b"la\n", "6c610a"),
    (b"x" * 16, "x" * 16),
    (b"x" * 17, "x" * 16 + "…17B"),
    (bytes(20), "00" * 16 + "…20B"),
    ([1, "two", b"\x03"], "[1 two 03]"),
    ((), "[]"),
    ({"a": 1, "b": [2]}, "{a:1 b:[2]}"),
    (Inner(5), "<Inner number=5>"),
    ([Inner(5), Inner(6)], "[<Inner number=5> <Inner number=6>]"),
    (Clock(1000, 4), "(1000,4)"),
]


@pytest.mark.parametrize(("value", "shown"), CASES)
def test_each_kind_of_field_has_its_form(value: object, shown: str) -> None:
    assert render(Outer(value)) == f"Outer field={shown}"


def test_what_is_no_struct_is_shown_as_a_field() -> None:
    assert render([1, b"\x00"]) == "[1 00]"


def test_a_dict_is_shown_in_its_own_order() -> None:
    assert render({"b": 1, "a": 2}) == "{b:1 a:2}"


def test_a_list_of_values_is_one_line() -> None:
    assert render(Recalled(1, ["la", "si"])) == "Recalled request=1 values=[la si]"
