"""Which paths a node may have, and which parent each has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.keeper.paths import is_valid, parent_of
from motet.format.zookeeper.sizes import path_bytes


@pytest.mark.parametrize(
    "path",
    ["/", "/a", "/a/b", "/.a", "/..a", "/a.", "/a..", "/...", "/a/.b/c", "/ä/ሴ", "/a b", "/￯"],
)
def test_a_path(path: str) -> None:
    assert is_valid(path)


@pytest.mark.parametrize(
    "path",
    ["", "a", "a/b", "//", "/a/", "//a", "/a//b", "/.", "/..", "/a/.", "/a/..", "/./a", "/a/../b"]
    + [f"/a{bad}b" for bad in "\0\x01\x1f\x7f\x9f\ue000\uf8ff\ufff0\uffff\n😀"]
    + ["/\ud800", "/a\n"],
)
def test_no_path(path: str) -> None:
    assert not is_valid(path)


def naive_is_valid(path: str) -> bool:
    names = path.split("/")[1:]
    forbidden = [(0, 0x1F), (0x7F, 0x9F), (0xD800, 0xF8FF), (0xFFF0, 0x10FFFF)]
    if any(low <= ord(char) <= high for char in path for low, high in forbidden):
        return False
    if path == "/":
        return True
    return path.startswith("/") and not any(name in ("", ".", "..") for name in names)


@given(st.text(st.sampled_from("/.ab\0\x1f é\ud900\ufff0😀"), max_size=8))
def test_paths_are_those_of_the_rules(path: str) -> None:
    assert is_valid(path) == naive_is_valid(path)


def test_parents() -> None:
    assert parent_of("/a/b") == "/a"
    assert parent_of("/a/") == "/a"
    assert parent_of("/a") == "/"
    assert parent_of("/") == "/"
    assert parent_of("a") is None
    assert parent_of("/a\0") is None


@given(st.text(max_size=5))
def test_sizes_are_those_of_utf_8(path: str) -> None:
    assert path_bytes(path) == len(path.encode())
