"""What all replicas of a cluster have in common: who they are, how large things are, how long they wait."""

from __future__ import annotations

import msgspec

from motet.core.vsr.quorums import Quorums, quorums
from motet.ids import Address, ClusterId, ReplicaIndex, View


class Timeouts(msgspec.Struct, frozen=True):
    """How long a replica waits before it does something about it, in milliseconds."""

    ping_ms: int = 200
    #: the same, once the time is agreed on
    idle_ping_ms: int = 1_000
    #: the primary says ``commit`` this often; a link of the chain is bypassed after two of them
    heartbeat_ms: int = 100
    #: the same, while nothing is under way and the backups know all that is committed
    idle_heartbeat_ms: int = 200
    #: a primary with a prepare in flight that has heard no prepare_ok for so long stops its heartbeat
    abdicate_ms: int = 1_500
    #: a backup that has heard nothing from its primary for so long wants another
    silence_ms: int = 1_000
    start_view_change_ms: int = 200
    do_view_change_ms: int = 200
    #: a view change that takes so long is given up for the next view
    view_change_ms: int = 2_000
    request_start_view_ms: int = 200
    #: what is missing is asked for this often; no timer runs while nothing is
    repair_ms: int = 50
    #: a commit that does not move for so long makes a backup ask for the view
    stuck_ms: int = 1_000
    scrub_ms: int = 1_000
    #: samples of the clocks are gathered at least so long before they are believed
    clock_window_ms: int = 500
    #: how far an honest clock may be from the true time
    clock_tolerance_ms: int = 10_000


class VsrConfig(msgspec.Struct, frozen=True):
    """One cluster."""

    cluster: ClusterId
    #: replicas[i] is where replica i is reached
    replicas: tuple[Address, ...]
    #: places in the log's ring
    slots: int = 2048
    #: prepares in flight
    pipeline_max: int = 8
    #: requests that wait for a place in the pipeline
    queue_max: int = 64
    #: a checkpoint is taken at every op that is a multiple of this
    checkpoint_ops: int = 1000
    #: the body of one request or reply
    body_bytes_max: int = 64 * 1024
    clients_max: int = 64
    #: of these sessions, so many are never evicted: front ends have them
    reserved_max: int = 16
    block_bytes: int = 8 * 1024
    #: blocks of the checkpoint file, at most; two copies of the state have to fit
    blocks_max: int = 1 << 22
    release_min: int = 1
    release: int = 1
    timeouts: Timeouts = Timeouts()

    def __post_init__(self) -> None:
        assert 1 <= len(self.replicas) <= 6
        assert len(dict.fromkeys(self.replicas)) == len(self.replicas), "each replica is named once"
        # What the last two checkpoints need stays in the ring, so that a replica that is one
        # checkpoint behind can be helped from it.
        assert 2 * self.checkpoint_ops + 2 * self.pipeline_max <= self.slots
        assert self.checkpoint_ops >= self.pipeline_max
        assert self.reserved_max < self.clients_max

    @property
    def ops_beyond_checkpoint(self) -> int:
        """So many ops the log takes beyond the durable checkpoint: all that the ring has room for, besides
        what a replica that is one checkpoint behind needs. What of it is more than ``checkpoint_ops`` lets
        operations go on while a checkpoint is written, but not beyond the one after that."""
        return min(self.slots - self.checkpoint_ops, 2 * self.checkpoint_ops)

    @property
    def count(self) -> int:
        return len(self.replicas)

    @property
    def quorums(self) -> Quorums:
        return quorums(self.count)

    def primary(self, view: View) -> ReplicaIndex:
        return ReplicaIndex(view % self.count)

    def index_of(self, address: Address) -> ReplicaIndex | None:
        """Which replica is at this address; None for anybody else."""
        if address not in self.replicas:
            return None
        return ReplicaIndex(self.replicas.index(address))
