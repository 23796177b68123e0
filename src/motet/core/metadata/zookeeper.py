"""The vocabulary of metadata in ZooKeeper's words, which the keeper's state machine and its wire share."""

from __future__ import annotations

from collections.abc import Sequence

from motet.core.metadata.messages import (
    Absent,
    Check,
    Children,
    Create,
    Delete,
    Found,
    Get,
    Names,
    NodeStat,
    ReadOperation,
    ReadResult,
    Refusal,
    Set,
    WriteOperation,
)
from motet.format.zookeeper import messages as zk
from motet.format.zookeeper import sizes
from motet.format.zookeeper.messages import AnyResult, ErrorCode
from motet.format.zookeeper.sizes import OURS, WriteLimits
from motet.ids import SessionId, Zxid

REFUSALS: dict[int, Refusal] = {
    ErrorCode.BAD_VERSION: Refusal.BAD_VERSION,
    ErrorCode.NODE_EXISTS: Refusal.NODE_EXISTS,
    ErrorCode.NO_NODE: Refusal.NO_NODE,
    ErrorCode.NOT_EMPTY: Refusal.NOT_EMPTY,
    ErrorCode.NO_CHILDREN_FOR_EPHEMERALS: Refusal.EPHEMERAL_PARENT,
}
"""The errors that are a conflict; with any other one the request failed."""

_ACL_LONGEST = (zk.Acl(1, "world", "anyone"), zk.Acl(31, "motet", "node"))
"""No list of permissions with which nodes are created for a core takes more room."""


def multi(operations: Sequence[WriteOperation], acl: tuple[zk.Acl, ...]) -> zk.Multi:
    """A write; nodes are created with these permissions."""
    return zk.Multi(tuple(_operation(each, acl) for each in operations))


def why_too_large(operations: Sequence[WriteOperation], limits: WriteLimits = OURS) -> str | None:
    """What of a write exceeds a limit of the keeper; None if it fits. It does not depend on the tree."""
    return sizes.why_too_large(multi(operations, _ACL_LONGEST), limits)


def multi_read(operations: Sequence[ReadOperation]) -> zk.MultiRead:
    """A read."""
    return zk.MultiRead(
        tuple(
            zk.GetData(each.path, watch=False)
            if isinstance(each, Get)
            else zk.GetChildren(each.path, watch=False)
            for each in operations
        )
    )


def write_results(results: Sequence[AnyResult]) -> tuple[str | int | None, ...]:
    """What ``Written`` says of the results of a multi that was done."""
    return tuple(map(_written, results))


def refused(results: Sequence[AnyResult]) -> tuple[int, int] | None:
    """Which operation of a multi was refused, and the error; None if the multi was done."""
    for index, result in enumerate(results):
        if isinstance(result, zk.Failed) and result.error:
            return index, result.error
    return None


def read_results(
    operations: Sequence[ReadOperation], results: Sequence[AnyResult]
) -> tuple[ReadResult, ...]:
    """What ``ReadDone`` says of the results of a multi_read."""
    return tuple(_found(each, result) for each, result in zip(operations, results, strict=True))


def unreadable(results: Sequence[AnyResult]) -> int | None:
    """The first error of a multi_read that is more than a node that is not there."""
    for result in results:
        if isinstance(result, zk.Failed) and result.error != ErrorCode.NO_NODE:
            return result.error
    return None


def _operation(
    operation: WriteOperation, acl: tuple[zk.Acl, ...]
) -> zk.Create | zk.SetData | zk.Delete | zk.Check:
    if isinstance(operation, Create):
        flags = zk.CreateFlags.EPHEMERAL * operation.ephemeral
        flags |= zk.CreateFlags.SEQUENTIAL * operation.sequential
        return zk.Create(operation.path, operation.data, acl, int(flags))
    if isinstance(operation, Set):
        return zk.SetData(operation.path, operation.data, operation.version)
    if isinstance(operation, Delete):
        return zk.Delete(operation.path, operation.version)
    assert isinstance(operation, Check), "every operation has its branch"
    return zk.Check(operation.path, operation.version)


def _written(result: AnyResult) -> str | int | None:
    if isinstance(result, zk.Created):
        return result.path
    return result.stat.version if isinstance(result, zk.StatResult) else None


def _found(operation: ReadOperation, result: AnyResult) -> ReadResult:
    if isinstance(result, zk.Data):
        return Found(operation.path, result.data or b"", stat_of(result.stat))
    if isinstance(result, zk.Children):
        assert isinstance(operation, Children), "the answer is that of its question"
        return Names(operation.path, tuple(sorted(result.children)))
    return Absent(operation.path)


def stat_of(stat: zk.Stat) -> NodeStat:
    """The part of a stat that cores see."""
    return NodeStat(
        stat.version,
        stat.cversion,
        stat.num_children,
        Zxid(stat.czxid),
        Zxid(stat.mzxid),
        stat.ctime_ms,
        stat.mtime_ms,
        SessionId(stat.ephemeral_owner),
    )
