"""What one write does to the tree, and why it is refused: ZooKeeper's rules in ZooKeeper's order.

W1  All checks come before the first change: a write that is answered ``Failed`` has changed nothing.
W2  The first check that fails is the answer, so their order is part of the protocol: form, permissions
    list, parent, permission, path, existence, and whether this parent can have children at all.
W3  A create and a delete need the parent's permission, all else the node's own.
W4  Events are facts about nodes, in ZooKeeper's order: the node first, then the parent.
W5  What would make the tree larger than it may be is refused last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from motet.core.keeper import acl as permissions
from motet.core.keeper.acl import Identity, allows, settled
from motet.core.keeper.config import KeeperConfig
from motet.core.keeper.node import (
    NOBODY,
    Node,
    acl_bytes,
    data_bytes,
    new_node,
    sequence_suffix,
    with_acl,
    with_child_change,
    with_data,
)
from motet.core.keeper.paths import ROOT, is_valid, parent_of
from motet.core.keeper.tree import Tree
from motet.format.zookeeper.messages import (
    ANY_VERSION,
    Acl,
    Check,
    Create,
    Create2,
    Created,
    Created2,
    CreateFlags,
    Delete,
    ErrorCode,
    EventType,
    Failed,
    Nothing,
    SetAcl,
    SetData,
    StatResult,
    WatchEvent,
)
from motet.format.zookeeper.sizes import path_bytes
from motet.ids import SessionId, Zxid

WriteResult = Nothing | Created | Created2 | StatResult | Failed

# as plain numbers: to ask an enum takes longer than much else in a write
_created, _deleted = int(EventType.CREATED), int(EventType.DELETED)
_changed, _child = int(EventType.CHANGED), int(EventType.CHILD)
_ephemeral, _sequential = int(CreateFlags.EPHEMERAL), int(CreateFlags.SEQUENTIAL)
_ok = int(ErrorCode.OK)
_flags_max = _ephemeral | _sequential
_flags_zookeeper_max = 6  # containers and nodes with a time to live


class Writing(msgspec.Struct):
    """What all operations of one write have in common."""

    config: KeeperConfig
    tree: Tree
    zxid: Zxid
    time_ms: int
    session: SessionId
    identities: tuple[Identity, ...]
    events: list[WatchEvent]

    def happened(self, event: int, path: str) -> None:
        self.events.append(WatchEvent(event, path))


# Create


def create(write: Writing, request: Create | Create2) -> WriteResult:
    acl = settled(request.acl, write.identities)
    error = _create_refusal(write, request, acl)
    if error:
        return Failed(error)
    parent_path = parent_of(request.path)
    assert parent_path is not None, "W1: all of this was checked"
    assert acl is not None, "W1: all of this was checked"
    parent = write.tree.nodes[parent_path]
    path = _path_created(request, parent)
    owner = write.session if request.flags & _ephemeral else NOBODY
    node = new_node(request.data, acl, write.zxid, write.time_ms, owner)
    write.tree.put(path, node)
    write.tree.put(parent_path, with_child_change(parent, write.zxid, created=1))
    write.happened(_created, path)
    write.happened(_child, parent_path)
    if type(request) is Create2:
        return Created2(path, write.tree.stat(path, node))
    return Created(path)


def _create_refusal(write: Writing, request: Create | Create2, acl: tuple[Acl, ...] | None) -> int:
    """In the order of W2."""
    parent_path = parent_of(request.path)
    if not 0 <= request.flags <= _flags_max:
        is_known = 0 <= request.flags <= _flags_zookeeper_max
        return ErrorCode.UNIMPLEMENTED if is_known else ErrorCode.BAD_ARGUMENTS
    if parent_path is None or data_bytes(request.data) > write.config.node_bytes_max:
        return ErrorCode.BAD_ARGUMENTS
    if acl is None:
        return ErrorCode.INVALID_ACL
    parent = write.tree.nodes.get(parent_path)
    if parent is None:
        return ErrorCode.NO_NODE
    if not allows(parent.acl, permissions.CREATE, write.identities):
        return ErrorCode.NO_AUTH
    return _place_refusal(write, request, parent, acl)


def _place_refusal(
    write: Writing, request: Create | Create2, parent: Node, acl: tuple[Acl, ...]
) -> int:
    path = _path_created(request, parent)
    if not is_valid(path):
        return ErrorCode.BAD_ARGUMENTS
    if path in write.tree.nodes:
        return ErrorCode.NODE_EXISTS
    if parent.ephemeral_owner != NOBODY:
        return ErrorCode.NO_CHILDREN_FOR_EPHEMERALS
    more_bytes = path_bytes(path) + data_bytes(request.data) + acl_bytes(acl)
    return _growth_refusal(write, more_bytes, nodes=1)


def _path_created(request: Create | Create2, parent: Node) -> str:
    if request.flags & _sequential:
        return request.path + sequence_suffix(parent)
    return request.path


def _growth_refusal(write: Writing, more_bytes: int, *, nodes: int) -> int:
    """Who makes the tree no larger is never refused (W5)."""
    is_full = nodes > 0 and len(write.tree.nodes) >= write.config.nodes_max
    is_heavy = more_bytes > 0 and write.tree.bytes_total + more_bytes > write.config.tree_bytes_max
    return ErrorCode.QUOTA_EXCEEDED if is_full or is_heavy else _ok


# The others


def delete(write: Writing, request: Delete) -> WriteResult:
    tree, path = write.tree, request.path
    parent_path = parent_of(path)
    if parent_path is None or path == ROOT:
        return Failed(ErrorCode.BAD_ARGUMENTS)
    parent = tree.nodes.get(parent_path)
    if parent is None:
        return Failed(ErrorCode.NO_NODE)
    if not allows(parent.acl, permissions.DELETE, write.identities):
        return Failed(ErrorCode.NO_AUTH)
    node = tree.nodes.get(path)
    if node is None:
        return Failed(ErrorCode.NO_NODE)
    if not _is_version(request.version, node.version):
        return Failed(ErrorCode.BAD_VERSION)
    if tree.has_children(path):
        return Failed(ErrorCode.NOT_EMPTY)
    remove(write, path)
    return Nothing()


def remove(write: Writing, path: str) -> None:
    """Take a node without children out of the tree: one that was deleted, or whose session has ended."""
    tree, parent_path = write.tree, parent_of(path)
    assert parent_path is not None
    tree.put(path, None)
    tree.put(parent_path, with_child_change(tree.nodes[parent_path], write.zxid, created=0))
    write.happened(_deleted, path)
    write.happened(_child, parent_path)


def set_data(write: Writing, request: SetData) -> WriteResult:
    path, data = request.path, request.data
    if data_bytes(data) > write.config.node_bytes_max:
        return Failed(ErrorCode.BAD_ARGUMENTS)
    node = write.tree.nodes.get(path)
    if node is None:
        return Failed(_absent(path))
    if not allows(node.acl, permissions.WRITE, write.identities):
        return Failed(ErrorCode.NO_AUTH)
    if not _is_version(request.version, node.version):
        return Failed(ErrorCode.BAD_VERSION)
    error = _growth_refusal(write, data_bytes(data) - data_bytes(node.data), nodes=0)
    if error:
        return Failed(error)
    node = with_data(node, data, write.zxid, write.time_ms)
    write.tree.put(path, node)
    write.happened(_changed, path)
    return StatResult(write.tree.stat(path, node))


def set_acl(write: Writing, request: SetAcl) -> WriteResult:
    path = request.path
    if not is_valid(path):
        return Failed(ErrorCode.BAD_ARGUMENTS)
    acl = settled(request.acl, write.identities)
    if acl is None:
        return Failed(ErrorCode.INVALID_ACL)
    node = write.tree.nodes.get(path)
    if node is None:
        return Failed(ErrorCode.NO_NODE)
    if not allows(node.acl, permissions.ADMIN, write.identities):
        return Failed(ErrorCode.NO_AUTH)
    if not _is_version(request.version, node.aversion):
        return Failed(ErrorCode.BAD_VERSION)
    error = _growth_refusal(write, acl_bytes(acl) - acl_bytes(node.acl), nodes=0)
    if error:
        return Failed(error)
    node = with_acl(node, acl)
    write.tree.put(path, node)
    return StatResult(write.tree.stat(path, node))


def check(write: Writing, request: Check) -> WriteResult:
    node = write.tree.nodes.get(request.path)
    if node is None:
        return Failed(_absent(request.path))
    if not allows(node.acl, permissions.READ, write.identities):
        return Failed(ErrorCode.NO_AUTH)
    if not _is_version(request.version, node.version):
        return Failed(ErrorCode.BAD_VERSION)
    return Nothing()


def _absent(path: str) -> int:
    """Why there is no such node; the tree has only valid paths, so those that are found need no look."""
    return ErrorCode.NO_NODE if is_valid(path) else ErrorCode.BAD_ARGUMENTS


def _is_version(expected: int, version: int) -> bool:
    return expected in (ANY_VERSION, version)


_WRITES: dict[type, Callable[[Writing, Any], WriteResult]] = {
    Create: create,
    Create2: create,
    Delete: delete,
    SetData: set_data,
    SetAcl: set_acl,
    Check: check,
}


def write_one(
    write: Writing, request: Create | Create2 | Delete | SetData | SetAcl | Check
) -> WriteResult:
    """Do one operation, or say why not (W1)."""
    return _WRITES[type(request)](write, request)
