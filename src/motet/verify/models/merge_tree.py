"""What the three models of a replicated merge-tree shard have in common (``Util.tla``).

A shard has a log in the metadata store and a few replicas that follow it. ``log_pointer`` is the number,
counted from one, of the next record to execute. A part is known by the number of its record, ``data``.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from motet.verify.model import Record

Natural = Annotated[int, Meta(ge=0)]
Pointer = Annotated[int, Meta(ge=1)]
Parts = frozenset[Natural]


class LogRecord(Record, frozen=True):
    """An insert in the log: the data it brings and the client's id for it."""

    data: Natural
    id: Natural


class Replica(Record, frozen=True):
    """What the metadata store knows about a replica, and the parts on its disk."""

    is_active: bool = True
    is_lost: bool = False
    log_pointer: Pointer = 1
    local_parts: Parts = frozenset()

    def fetched(self, data: int) -> Replica:
        """``FetchLog``: the part of the next record is here, and the pointer after it."""
        return Replica(
            self.is_active, False, self.log_pointer + 1, self.local_parts | frozenset((data,))
        )


ReplicaStates = tuple[Replica, ...]


def put(replicas: ReplicaStates, number: int, replica: Replica) -> ReplicaStates:
    """The replicas with one of them replaced."""
    return (*replicas[:number], replica, *replicas[number + 1 :])
