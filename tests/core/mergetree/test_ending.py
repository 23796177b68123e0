"""Who fails a quorum knows of all replicas."""

from __future__ import annotations

from tests.core.mergetree.stand import N2, PATHS, TABLE, Stand, header

from motet.core.mergetree.entries import QuorumStatus, encode_status
from motet.core.mergetree.messages import LogHas
from motet.core.metadata.messages import Create, MetadataRequest, Set, Write


def test_a_quorum_is_not_failed_when_a_replica_is_added_meanwhile() -> None:
    """Q1: it may have the part, and nobody has asked it."""
    stand = Stand()
    stand.start()
    part = header("b")
    status = encode_status(QuorumStatus(2, (N2,)))
    stand.write(Create(PATHS.status(part.id), status))
    stand.append_elsewhere("b", quorum=2)
    stand.receive("n2", LogHas(TABLE, 0, 0))
    while not any(is_failing(each) for each in stand.asked):
        if stand.working:
            stand.work()
        elif stand.asked:
            stand.answer()
        else:
            stand.tick()
    stand.write(Set(PATHS.replicas, b"", 0))
    stand.settle()
    assert PATHS.entry(1).rpartition("/")[2] not in stand.tree.names(PATHS.log)
    assert not stand.tree.names(PATHS.failed_part(0).rpartition("/")[0])


def is_failing(request: MetadataRequest) -> bool:
    """Whether it is the multi that fails a quorum."""
    paths = [each.path for each in request.operations] if isinstance(request, Write) else []
    return PATHS.failed_part(0) in paths
