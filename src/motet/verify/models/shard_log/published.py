"""The shard log as it was published (``OxiaReplication.tla`` of January 2022)."""

from __future__ import annotations

from motet.verify.model import Variant
from motet.verify.models.shard_log.election import Election
from motet.verify.models.shard_log.reconfiguring import Reconfiguring


class ShardLog(Election, Reconfiguring):
    """A shard's log: operators elect leaders by fencing, leaders replicate, the ensemble is changed.

    Messages are sent once, arrive in any order (entries between two nodes in theirs), never twice; an
    operator may start an election at any time, and loses its memory when it stops. A write of the metadata
    and the messages that follow from it are one step. Reconfigurations need at least four nodes and three
    epochs; the published size (1 operator, 3 nodes, 2 epochs) has none.
    """

    name = "shard-log"

    @classmethod
    def variants(cls) -> dict[str, Variant]:
        from motet.verify.models.shard_log.held import published_variants

        return published_variants()
