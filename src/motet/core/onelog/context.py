"""What the steps of the streams machine share: its state, and its log with the index that is folded from it.

The log is one shard of the replicated shard log (:mod:`motet.core.shardlog`), an ensemble of one: this
process.
"""

from __future__ import annotations

from motet.core.clock.hlc import Clock, plus
from motet.core.machine import Effect, Note, Read, Send, SetTimer
from motet.core.onelog.index import Index
from motet.core.onelog.messages import StreamsRefused, VisibleIs
from motet.core.onelog.state import RETRY_TIMER, Phase, State, retry_ms
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.shards import Shards
from motet.errors import MotetError
from motet.ids import Address, FileName, NodeId, RequestId, ShardName

DATABASE = ShardName("database")
"""The one shard that a database has for all of its streams and tables."""

OWN = NodeId("database")
index_step_bytes = 4096
"""The place of an entry is known this well: what is read in vain to find one."""

never = 1 << 62


def log_config(segment_bytes: int, tail_bytes_max: int) -> ShardlogConfig:
    """How the log of a database behaves: it is alone, and puts no state on disk until it is to be trimmed.

    A start folds the whole log into the index, as it has to read all of it anyway.
    """
    return ShardlogConfig(
        segment_bytes=segment_bytes,
        index_step_bytes=min(index_step_bytes, segment_bytes // 4),
        tail_bytes_max=tail_bytes_max,
        snapshot_every_bytes=never,
        beat_ms=0,
        unreadable_max=never,
        is_alone=True,
    )


class Core:
    """The machine while it takes a step."""

    __slots__ = ("_index", "shards", "state")

    def __init__(self, config: ShardlogConfig) -> None:
        self.state = State()
        self.shards = Shards(OWN, config, lambda _shard: Index())
        self._index = Index()

    @property
    def replica(self) -> ShardReplica | None:
        """The log; None before it is known whether there is one."""
        return self.shards.replica(DATABASE)

    @property
    def log(self) -> ShardReplica:
        """The log of a database that is served."""
        replica = self.shards.replica(DATABASE)
        assert replica is not None, "a database that is served has a log"
        return replica

    @property
    def index(self) -> Index:
        """What the log says, as far as it is durable."""
        replica = self.shards.replica(DATABASE)
        if replica is None:
            return self._index
        machine = replica.machine
        assert isinstance(machine, Index)
        return machine

    # Starting

    def read_to_start(self, file: FileName) -> Read:
        """Read a whole file that the start depends on."""
        state = self.state
        state.start_file, state.start_read = file, self.shards.new_read()
        return Read(state.start_read, file)

    def retry(self) -> list[Effect]:
        """Try in a moment what the start depends on and could not be done."""
        if self.state.is_retry_set:
            return []
        self.state.is_retry_set = True
        return [SetTimer(RETRY_TIMER, retry_ms)]

    # The visible clock

    def visible(self) -> Clock:
        """No change at or below this clock will appear any more."""
        state = self.state
        if state.pending:
            return plus(state.pending[0].record.clock, -1)
        return state.clock.last if state.held is None else plus(state.held.clock, -1)

    def tell_visible(self) -> Clock:
        """The visible clock, about to be told to somebody."""
        visible = self.visible()
        assert visible >= self.state.told_visible, "S2: the visible clock never falls"
        self.state.told_visible = visible
        return visible

    def serve_visible(self) -> list[Effect]:
        """Answer those for whom the visible clock is high enough now."""
        waiters = self.state.visible_waiters
        if not waiters:
            return []
        visible = self.tell_visible()
        ready = [each for each in waiters if each.target <= visible]
        self.state.visible_waiters = [each for each in waiters if each.target > visible]
        return [Send(each.client, VisibleIs(each.message.request, visible)) for each in ready]

    # Trouble

    def break_down(self, error: MotetError) -> list[Effect]:
        """Serve nothing any more: what is on disk is damaged, or cannot be told."""
        self.state.phase = Phase.BROKEN
        self.state.broken = (error.code, error.what, error.advice)
        return [Note("streams_broken", f"{error.code} {error.what}")]


def refusal(client: Address, request: RequestId, error: MotetError) -> Send:
    """The answer to a request that was not done."""
    return Send(client, StreamsRefused(request, error.code, error.what, error.advice))
