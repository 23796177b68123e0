"""Equal states have equal fingerprints in every process; clones are independent."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.fingerprint import clone_plain, fingerprint

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.binary()
states = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.integers(-9, 9), inner, max_size=4)
    ),
    max_leaves=12,
)


class Box(msgspec.Struct):
    """A mutable struct with containers."""

    items: list[int]
    names: dict[str, set[int]]


class Crate(msgspec.Struct):
    """The same fields under another name."""

    items: list[int]
    names: dict[str, set[int]]


@given(states)
def test_a_clone_is_equal_and_has_the_same_fingerprint(state: object) -> None:
    twin = clone_plain(state)
    assert twin == state
    assert fingerprint(twin) == fingerprint(state)


@given(states, states)
def test_fingerprints_differ_when_the_encoded_states_do(left: object, right: object) -> None:
    if fingerprint(left) == fingerprint(right):
        assert left == right


def test_order_of_insertion_does_not_matter() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({3, 1, 2}) == fingerprint({2, 3, 1})


def test_kinds_of_values_do_not_mix() -> None:
    lists = [["dict", []], ["set", []], ["Box", [[], {}]]]
    different = [*lists, 1, "1", b"1", [1], {1}, {1: 1}, None, [], {}, Box([], {}), Crate([], {})]
    assert len({fingerprint(value) for value in different}) == len(different)


def test_changing_a_clone_leaves_the_original_alone() -> None:
    box = Box([1], {"a": {1}})
    twin = clone_plain(box)
    twin.items.append(2)
    twin.names["a"].add(2)
    assert box == Box([1], {"a": {1}})


def test_what_is_not_plain_is_refused() -> None:
    with pytest.raises(TypeError, match="function"):
        fingerprint([lambda: None])
    with pytest.raises(TypeError, match="object"):
        clone_plain({"a": object()})


def test_another_process_with_another_hash_seed_agrees() -> None:
    code = (
        "from motet.core.fingerprint import fingerprint as f\n"
        "print(f({'x': {'b', 'a', 'c'}, 'y': {b'q': 1, b'p': 2}}).hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
