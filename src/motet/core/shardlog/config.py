"""The figures of a node's shard logs; simulations use smaller ones."""

from __future__ import annotations

import msgspec

from motet.limits import (
    shard_in_flight_bytes_max,
    shard_index_step_bytes,
    shard_message_bytes,
    shard_preallocate_bytes,
    shard_read_bytes,
    shard_segment_bytes,
    shard_snapshot_every_bytes,
    shard_snapshots_given_max,
    shard_tail_bytes_max,
    shard_uncommitted_bytes_max,
    shard_uncommitted_entries_max,
)


class ShardlogConfig(msgspec.Struct, frozen=True):
    """How the replicas of a node behave."""

    segment_bytes: int = shard_segment_bytes
    #: a segment grows by this much at a time, ahead of what is written
    preallocate_bytes: int = shard_preallocate_bytes
    #: one mark of the index by offset for so much of a segment
    index_step_bytes: int = shard_index_step_bytes
    #: newest entries that are kept in memory
    tail_bytes_max: int = shard_tail_bytes_max
    #: entries of one message
    message_bytes: int = shard_message_bytes
    #: pushed to one follower and not confirmed
    in_flight_bytes_max: int = shard_in_flight_bytes_max
    #: in the log of a leader and not committed
    uncommitted_bytes_max: int = shard_uncommitted_bytes_max
    uncommitted_entries_max: int = shard_uncommitted_entries_max
    #: read from a file at once
    read_bytes: int = shard_read_bytes
    #: the state is put on disk after so much of the log
    snapshot_every_bytes: int = shard_snapshot_every_bytes
    snapshots_given_max: int = shard_snapshots_given_max
    #: how often a leader lets its followers hear of it, and everything that is late is looked at; 0: never by
    #: itself
    beat_ms: int = 100
    #: and those for whom nothing is late: nothing depends on it but that a follower which is not what its
    #: leader takes it for is found out
    idle_beat_ms: int = 3_000
    #: what was not answered for so long is said again
    resend_ms: int = 400
    #: a follower that lacks something and has got nothing new for so long is reported
    stalled_ms: int = 10_000
    #: a file that cannot be read so often in a row is damaged
    unreadable_max: int = 50
    #: a snapshot that nobody asks for is forgotten
    snapshot_idle_ms: int = 30_000
    #: the log is trimmed to about so much, whatever is pruned; None, as on every node: what is pruned alone
    keep_bytes: int | None = None
    #: an ensemble of one, for good: nobody else ever has an entry of this log, or can repair it (``alone``)
    is_alone: bool = False
