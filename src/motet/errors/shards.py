"""What replicas of shards refuse. Their place in the tree: ``motet.errors``."""

from __future__ import annotations

from motet.errors import BadInput, MotetError, NodeError


class ShardError(MotetError):
    """A replica of a shard cannot do what it was asked for."""

    code = "SHARD"
    hint = "`motet shard describe` shows how the shard stands"


class NotLeader(ShardError):
    """The node does not lead the shard, or does not serve it yet; nothing was changed."""

    code = "NOT_LEADER"
    hint = "ask the leader: the shard map says who that is"


class Unavailable(NodeError):
    """Too few nodes answer to serve this now; nothing was changed."""

    code = "UNAVAILABLE"
    hint = "try again; `motet status` shows which nodes are missing"


class ShardLost(ShardError):
    """Too many replicas of a shard have lost their data, or found it damaged, for it to have a leader."""

    code = "SHARD_LOST"
    hint = (
        "put the files of one of these nodes back from a copy and restart it, or delete the stream; "
        "`motet shard describe` shows how its replicas stand"
    )


class EntriesGone(ShardError):
    """Entries that are no longer kept."""

    code = "ENTRIES_GONE"
    hint = "read on from the first entry that is kept; what came before has been trimmed"


class TransactionExpired(ShardError):
    """A transaction that is not known, and so old that it may have been forgotten."""

    code = "TRANSACTION_EXPIRED"
    hint = "look for it in the feed before you do it again"


class KeyForgotten(ShardError):
    """The shard does not remember the latest change of this key: it has too many others.

    Pruning is never the reason: the latest change of each key is written on before its file goes.
    """

    code = "KEY_FORGOTTEN"
    hint = "use streams of their own for transactions, with more shards; changes without a get are fine"


class CursorExpired(BadInput):
    """The feed after a cursor or clock is no longer kept."""

    code = "CURSOR_EXPIRED"
    hint = "read on from the clock that is named; what came before has been trimmed"


class CursorInTheWay(BadInput):
    """A named cursor has not read yet what is to be pruned."""

    code = "CURSOR_IN_THE_WAY"
    hint = "let its reader go on, drop the cursor, or prune with force"


class OffsetExpired(BadInput):
    """What is asked for is no longer kept."""

    code = "OFFSET_EXPIRED"
    hint = "begin at the offset that is named"
