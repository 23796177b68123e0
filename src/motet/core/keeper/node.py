"""One node of the tree. It never changes: a write puts another in its place, so that undoing one is easy.

N1  ``children_created`` counts the children ever created and never falls: it numbers sequential nodes.
    What is reported as cversion counts deletes too: for every create one, except for those still there.
N2  An empty list of permissions is the open one, which nearly all nodes have: everybody may do anything.
"""

from __future__ import annotations

import msgspec

from motet.format.zookeeper.messages import ANY_VERSION, Acl, Stat
from motet.ids import SessionId, Zxid

_int_max = (1 << 31) - 1
NOBODY = SessionId(0)


class Node(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What is kept of a node; its children are known by their paths."""

    #: None is not the same as empty
    data: bytes | None
    acl: tuple[Acl, ...]
    czxid: Zxid
    mzxid: Zxid
    pzxid: Zxid
    ctime_ms: int
    mtime_ms: int
    version: int
    aversion: int
    children_created: int
    ephemeral_owner: SessionId


def data_bytes(data: bytes | None) -> int:
    return 0 if data is None else len(data)


def new_node(
    data: bytes | None, acl: tuple[Acl, ...], zxid: Zxid, time_ms: int, owner: SessionId = NOBODY
) -> Node:
    return Node(data, acl, zxid, zxid, zxid, time_ms, time_ms, 0, 0, 0, owner)


def with_data(node: Node, data: bytes | None, zxid: Zxid, time_ms: int) -> Node:
    return Node(
        data,
        node.acl,
        node.czxid,
        zxid,
        node.pzxid,
        node.ctime_ms,
        time_ms,
        next_version(node.version),
        node.aversion,
        node.children_created,
        node.ephemeral_owner,
    )


def with_child_change(node: Node, zxid: Zxid, *, created: int) -> Node:
    """A child came (``created`` is 1) or went (0)."""
    return Node(
        node.data,
        node.acl,
        node.czxid,
        node.mzxid,
        zxid,
        node.ctime_ms,
        node.mtime_ms,
        node.version,
        node.aversion,
        node.children_created + created,
        node.ephemeral_owner,
    )


def with_acl(node: Node, acl: tuple[Acl, ...]) -> Node:
    return msgspec.structs.replace(node, acl=acl, aversion=next_version(node.aversion))


def next_version(version: int) -> int:
    """Versions have 32 bits and begin again below zero; the one that means any is never reached."""
    if version == _int_max:
        return -_int_max - 1
    return 0 if version + 1 == ANY_VERSION else version + 1


def sequence_suffix(parent: Node) -> str:
    """What a sequential child created now has behind its name (N1)."""
    return f"{parent.children_created:010d}"


def stat_of(node: Node, num_children: int) -> Stat:
    cversion = 2 * node.children_created - num_children
    if cversion > _int_max:
        cversion = (cversion + _int_max + 1) % (1 << 32) - _int_max - 1
    return Stat(
        node.czxid,
        node.mzxid,
        node.ctime_ms,
        node.mtime_ms,
        node.version,
        cversion,
        node.aversion,
        node.ephemeral_owner,
        data_bytes(node.data),
        num_children,
        node.pzxid,
    )


def node_bytes(node: Node) -> int:
    """What a node counts for, besides its path."""
    return data_bytes(node.data) + acl_bytes(node.acl)


def acl_bytes(acl: tuple[Acl, ...]) -> int:
    return sum(len(entry.scheme) + len(entry.id) + 8 for entry in acl) if acl else 0
