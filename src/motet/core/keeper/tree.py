"""The tree: nodes by path, and what can be known from the paths alone.

T1  Every node but the root has a parent, and no parent is ephemeral. The root is always there.
T2  ``put`` is the only way to change anything: indexes, sizes and changed pages follow from it.
T3  Between ``begin`` and ``rollback`` every put is undone; after ``commit`` none is. Undoing costs as
    much as what is undone, whatever the size of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, TypeVar

from motet.core.keeper.node import (
    NOBODY,
    Node,
    acl_bytes,
    data_bytes,
    new_node,
    node_bytes,
    stat_of,
)
from motet.core.keeper.paths import ROOT
from motet.format.checksum import crc32c
from motet.format.zookeeper.messages import Stat
from motet.format.zookeeper.sizes import path_bytes
from motet.ids import SessionId, Zxid

_Key = TypeVar("_Key")
_Names = dict[str, None]  # a dict for its order


class Tree:
    """The nodes of one keeper, on ``page_count`` pages of a checkpoint."""

    def __init__(self, page_count: int) -> None:
        """With the root alone."""
        self._page_count = page_count
        self.nodes: dict[str, Node] = {}
        #: path -> names of its children; no entry for a node without
        self._children: dict[str, _Names] = {}
        #: session -> paths of its ephemeral nodes
        self._owned: dict[SessionId, _Names] = {}
        #: page number -> paths on it; no page is empty
        self._pages: dict[int, _Names] = {}
        self._changed: dict[int, None] = {}
        #: path -> what was there before, the latest last; None outside of ``begin``
        self._undo: list[tuple[str, Node | None]] | None = None
        self.bytes_total = 0
        self.put(ROOT, new_node(b"", (), Zxid(0), 0))

    @classmethod
    def restored(
        cls,
        page_count: int,
        nodes: dict[str, Node],
        pages: dict[int, _Names],
        children: dict[str, _Names],
    ) -> Self:
        """With these nodes, which are a whole tree (T1), and what follows from their paths."""
        tree = cls(page_count)
        tree.nodes, tree._pages, tree._changed = nodes, pages, {}
        tree._children = children
        size_bytes = sum(map(path_bytes, nodes))
        for path, node in nodes.items():
            if node.data:
                size_bytes += len(node.data)
            if node.acl:
                size_bytes += acl_bytes(node.acl)
            if node.ephemeral_owner:
                tree._owned.setdefault(node.ephemeral_owner, {})[path] = None
        tree.bytes_total = size_bytes
        return tree

    # Questions

    def stat(self, path: str, node: Node) -> Stat:
        return stat_of(node, len(self._children.get(path, ())))

    def has_children(self, path: str) -> bool:
        return path in self._children

    def children(self, path: str) -> tuple[str, ...]:
        """In order, so that it does not matter in which order they came."""
        return tuple(sorted(self._children.get(path, ())))

    def owned(self, session: SessionId) -> tuple[str, ...]:
        """The ephemeral nodes of a session, in order."""
        return tuple(sorted(self._owned.get(session, ())))

    def owned_count(self) -> int:
        return sum(len(paths) for paths in self._owned.values())

    # Changes

    def put(self, path: str, node: Node | None) -> None:
        """Let this be the node; None to have none (T2)."""
        old = self.nodes.get(path)
        if self._undo is not None:
            self._undo.append((path, old))
        page = crc32c(path.encode()) % self._page_count
        self._changed[page] = None
        if old is not None and node is not None:
            self.nodes[path] = node
            self.bytes_total += data_bytes(node.data) - data_bytes(old.data)
            if node.acl is not old.acl:
                self.bytes_total += acl_bytes(node.acl) - acl_bytes(old.acl)
        elif node is not None:
            self._add(path, node, page)
        elif old is not None:
            self._remove(path, old, page)

    def _add(self, path: str, node: Node, page: int) -> None:
        self.nodes[path] = node
        self.bytes_total += path_bytes(path) + node_bytes(node)
        self._pages.setdefault(page, {})[path] = None
        if path != ROOT:
            parent, _, name = path.rpartition("/")
            self._children.setdefault(parent or ROOT, {})[name] = None
        if node.ephemeral_owner != NOBODY:
            self._owned.setdefault(node.ephemeral_owner, {})[path] = None

    def _remove(self, path: str, old: Node, page: int) -> None:
        assert path != ROOT, "T1"
        assert path not in self._children, "T1"
        del self.nodes[path]
        self.bytes_total -= path_bytes(path) + node_bytes(old)
        _discard(self._pages, page, path)
        parent, _, name = path.rpartition("/")
        _discard(self._children, parent or ROOT, name)
        if old.ephemeral_owner != NOBODY:
            _discard(self._owned, old.ephemeral_owner, path)

    # All or nothing

    def begin(self) -> None:
        assert self._undo is None
        self._undo = []

    def commit(self) -> None:
        assert self._undo is not None
        self._undo = None

    def rollback(self) -> None:
        undo, self._undo = self._undo, None
        assert undo is not None
        for path, old in reversed(undo):
            self.put(path, old)

    # Pages

    @property
    def pages(self) -> tuple[int, ...]:
        return tuple(sorted(self._pages))

    def page(self, number: int) -> list[tuple[str, Node]]:
        """The nodes on a page, in order."""
        return [(path, self.nodes[path]) for path in sorted(self._pages.get(number, ()))]

    def take_changed(self) -> list[int]:
        """Pages that may have changed since the last time."""
        changed, self._changed = self._changed, {}
        return list(changed)

    def clone(self) -> Self:
        assert self._undo is None
        twin = type(self)(self._page_count)
        twin.nodes = dict(self.nodes)  # nodes never change
        twin._children = {path: dict(names) for path, names in self._children.items()}
        twin._owned = {session: dict(paths) for session, paths in self._owned.items()}
        twin._pages = {number: dict(paths) for number, paths in self._pages.items()}
        twin._changed = dict(self._changed)
        twin.bytes_total = self.bytes_total
        return twin


def children_by_parent(nodes: Iterable[str]) -> dict[str, _Names]:
    """The names of the children of each node that has any."""
    children: dict[str, _Names] = {}
    for path in nodes:
        parent, _, name = path.rpartition("/")
        if parent in children:
            children[parent][name] = None
        else:
            children[parent] = {name: None}
    top = children.pop("", {})
    top.pop("", None)  # the root itself
    if top:
        children.setdefault(ROOT, {}).update(top)
    return children


def _discard(index: dict[_Key, _Names], key: _Key, name: str) -> None:
    names = index[key]
    del names[name]
    if not names:
        del index[key]
