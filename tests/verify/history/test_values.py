"""Values are frozen as they are recorded, and what cannot be kept is refused."""

from __future__ import annotations

import pytest

from motet.errors import BadHistory
from motet.verify.history.operation import frozen, show


def test_sequences_become_tuples_and_sets_are_sorted() -> None:
    assert frozen([1, [2, "x"], None]) == (1, (2, "x"), None)
    assert frozen({3, 1, 2}) == (1, 2, 3)
    assert frozen(frozenset({"b", "a"})) == ("a", "b")


@pytest.mark.parametrize("value", [1.5, b"bytes", {"a": 1}, object(), [1, {2.5}]])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(BadHistory, match="cannot keep"):
        frozen(value)


def test_values_are_shown_for_people() -> None:
    assert show(None) == "nothing"
    assert show((1, "a", ())) == "{1, 'a', {}}"
