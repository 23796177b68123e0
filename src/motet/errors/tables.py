"""What replicas of tables refuse. Their place in the tree: ``motet.errors``."""

from __future__ import annotations

from motet.errors import BadInput, NodeError


class TokenReused(BadInput):
    """A token that was used for other rows; nothing was changed."""

    code = "TOKEN_REUSED"
    hint = "use a token for one insert and its retries"


class TableReadOnly(NodeError):
    """This replica of the table takes no writes now; nothing was changed."""

    code = "TABLE_READ_ONLY"
    hint = "write through another replica"


class TableBusy(NodeError):
    """This replica of the table has too many requests that wait; nothing was changed."""

    code = "TABLE_BUSY"
    hint = "try again in a moment, or through another replica"


class TooFewReplicas(NodeError):
    """Fewer replicas are active than the quorum asks for; nothing was changed."""

    code = "TOO_FEW_REPLICAS"
    hint = "start the other replicas, or ask for a lower quorum"


class QuorumFailed(NodeError):
    """The block could not be brought to enough replicas; nothing of it is visible."""

    code = "QUORUM_FAILED"
    hint = "insert it again"


class PartMissing(NodeError):
    """A replica lacks a part of the version that is read."""

    code = "PART_MISSING"
    hint = "ask another replica, or try again"


class TableMoved(BadInput):
    """The name stands for another table than it did, or for none; nothing was changed."""

    code = "TABLE_MOVED"
    hint = "look the table up again"


class SnapshotExpired(BadInput):
    """A version that is not kept any more."""

    code = "SNAPSHOT_EXPIRED"
    hint = "read a newer version"


class StagingEnded(BadInput):
    """A staging job is not open any more; nothing was published."""

    code = "STAGING_ENDED"
    hint = "stage the parts again under another job"
