"""Paths of nodes, by ZooKeeper's rules.

P1  A path is absolute and does not end in a slash, except for the root, which is one.
P2  No name between two slashes is empty, ``.`` or ``..``.
P3  No control characters, no private use, nothing above the basic plane: Java has no single character
    for those, and ZooKeeper refuses the halves it makes of them.

A path that is asked about is not looked at as closely as one that is made: the tree has only good ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ROOT = "/"

_is_path = re.compile(
    r"/|(?:/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]+)+"
).fullmatch


def is_valid(path: str) -> bool:
    """May a node have this path (P1, P2, P3)?"""
    return _is_path(path) is not None


def parent_of(path: str) -> str | None:
    """All before the last slash, for the root too; None if there is no slash, or a NUL somewhere.

    Nothing else is checked: whatever is wrong with the rest, there is no such parent in the tree.
    """
    place = path.rfind("/")
    if place < 0 or "\0" in path:
        return None
    return path[:place] or ROOT


def are_names(names: Mapping[str, object]) -> bool:
    """May nodes that exist have children of these names? All of them cost hardly more than one."""
    text = "".join(names)
    if text.isascii() and text.isprintable():
        return "/" not in text and not names.keys() & {"", ".", ".."}
    return all("/" not in name and is_valid(f"/{name}") for name in names)
