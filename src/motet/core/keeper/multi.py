"""Several writes as one: all of them, at one zxid and in order, or none.

Each operation sees what those before it did. If one fails, what came before it is undone, and the answer
says for each operation what ZooKeeper says: 0 for those before, its error for the one that failed,
``RUNTIME_INCONSISTENCY`` for those behind, which were not tried.

The zxid is used up all the same. Nothing in the tree shows it.
"""

from __future__ import annotations

from motet.core.keeper.writes import WriteResult, Writing, write_one
from motet.format.zookeeper.messages import ErrorCode, Failed, Multi, MultiResult


def write_multi(write: Writing, request: Multi) -> MultiResult | Failed:
    """``Failed`` for one that is too long to be tried at all; else see above."""
    operations = request.operations
    if len(operations) > write.config.multi_operations_max:
        return Failed(ErrorCode.BAD_ARGUMENTS)
    results: list[WriteResult] = []
    write.tree.begin()
    for operation in operations:
        result = write_one(write, operation)
        if type(result) is Failed:
            write.tree.rollback()
            write.events.clear()
            return _failed(len(results), result, len(operations))
        results.append(result)
    write.tree.commit()
    return MultiResult(tuple(results))


def _failed(place: int, why: Failed, count: int) -> MultiResult:
    before = (Failed(ErrorCode.OK),) * place
    behind = (Failed(ErrorCode.RUNTIME_INCONSISTENCY),) * (count - place - 1)
    return MultiResult((*before, why, *behind))
