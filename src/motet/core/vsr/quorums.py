"""How many replicas it takes, for one to six of them.

replication   have the prepare on disk before it is committed
view_change   must take part before a new primary may lead
nack          have certainly not prepared an op before it may be cut off the log

Any view change meets any commit in a replica (Q1), and cannot be done by two halves at once (Q2). An op
that so many deny cannot have been committed (Q3). Two replicas are the exception: both must commit, so one
denial is enough.
"""

from __future__ import annotations

import msgspec

replicas_max = 6
replication_max = 3
"""With many replicas commits need fewer than half of them, and elections more."""


class Quorums(msgspec.Struct, frozen=True):
    """How many it takes, of ``replicas``."""

    replicas: int
    replication: int
    view_change: int
    nack: int
    majority: int


def quorums(replicas: int) -> Quorums:
    """The quorums of a cluster of this size."""
    assert 1 <= replicas <= replicas_max
    replication = 2 if replicas == 2 else min(replication_max, -(-replicas // 2))
    nack = replicas - replication + 1
    view_change = 2 if replicas == 2 else nack
    majority = replicas // 2 + 1
    assert view_change + replication > replicas, "Q1"
    assert view_change >= majority, "Q2"
    assert nack + replication > replicas, "Q3"
    return Quorums(replicas, replication, view_change, nack, majority)
