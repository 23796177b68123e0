"""Reads, answered from the tree as it is here and now.

They change nothing, are not replicated, and are as recent as this replica: who needs more waits for it
to have applied enough before asking.

An answer that would be too large is refused with a marshalling error.

A failed ``exists`` is an answer too: its watch is set on a node that is still to come.
"""

from __future__ import annotations

from motet.core.keeper import acl as permissions
from motet.core.keeper.acl import Identity, allows, shown
from motet.core.keeper.messages import answer_bytes
from motet.core.keeper.node import Node
from motet.core.keeper.tree import Tree
from motet.format.zookeeper.messages import (
    AclResult,
    AnyResult,
    Children,
    Children2,
    Data,
    ErrorCode,
    Exists,
    Failed,
    GetAcl,
    GetChildren,
    GetChildren2,
    GetData,
    MultiRead,
    MultiResult,
    ReadRequest,
    StatResult,
)
from motet.limits import keeper_answer_bytes_max


def read(tree: Tree, identities: tuple[Identity, ...], request: ReadRequest) -> AnyResult:
    """The answer; ``Failed`` says why there is none."""
    if isinstance(request, MultiRead):
        return _read_together(tree, identities, request)
    node = tree.nodes.get(request.path)
    if node is None:
        is_nonsense = isinstance(request, Exists) and "\0" in request.path
        return Failed(ErrorCode.BAD_ARGUMENTS if is_nonsense else ErrorCode.NO_NODE)
    if isinstance(request, GetAcl):
        return _read_acl(tree, identities, request.path, node)
    if not allows(node.acl, permissions.READ, identities):
        return Failed(ErrorCode.NO_AUTH)
    return _read_node(tree, request, node)


def _read_node(
    tree: Tree, request: Exists | GetData | GetChildren | GetChildren2, node: Node
) -> StatResult | Data | Children | Children2 | Failed:
    path = request.path
    if isinstance(request, GetData):
        return Data(node.data, tree.stat(path, node))
    if isinstance(request, Exists):
        return StatResult(tree.stat(path, node))
    return _read_children(tree, request, node)


def _read_together(
    tree: Tree, identities: tuple[Identity, ...], request: MultiRead
) -> MultiResult | Failed:
    """One answer for all; refused when it would be too large, before anything of it is copied."""
    results: list[Data | Children | Failed] = []
    size_bytes = 0
    for each in request.operations:
        result = _read_in_multi(tree, identities, each)
        size_bytes += answer_bytes(result)
        if size_bytes > keeper_answer_bytes_max:
            return Failed(ErrorCode.MARSHALLING_ERROR)
        results.append(result)
    return MultiResult(tuple(results))


def _read_children(
    tree: Tree, request: GetChildren | GetChildren2, node: Node
) -> Children | Children2 | Failed:
    children = Children(tree.children(request.path))
    if answer_bytes(children) > keeper_answer_bytes_max:
        return Failed(ErrorCode.MARSHALLING_ERROR)
    if isinstance(request, GetChildren):
        return children
    return Children2(children.children, tree.stat(request.path, node))


def _read_in_multi(
    tree: Tree, identities: tuple[Identity, ...], request: GetData | GetChildren
) -> Data | Children | Failed:
    result = read(tree, identities, request)
    assert isinstance(result, Data | Children | Failed)
    return result


def _read_acl(
    tree: Tree, identities: tuple[Identity, ...], path: str, node: Node
) -> AclResult | Failed:
    if not allows(node.acl, permissions.READ | permissions.ADMIN, identities):
        return Failed(ErrorCode.NO_AUTH)
    return AclResult(shown(node.acl, identities), tree.stat(path, node))
