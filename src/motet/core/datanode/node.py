"""A data node as a machine: the replicas it holds, what clients want of them, and its clock.

It knows nothing of the cluster but what it is told. Operators tell it whether to follow or to lead and give
it the shard map, which it hands on to whoever asks; it never looks for other nodes, and never talks to the
keeper. What it does for a shard is :mod:`motet.core.shardlog`; here requests of clients become entries, and
entries answers.

D1  Nothing is answered before it is committed: an append when its entry is applied here, a read by a leader
    that was confirmed after the request came.
D2  The clock of an entry is above that of every entry before it in its shard, above everything the node has
    seen, and above what the client had seen.
"""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core.clock.hlc import maximum
from motet.core.datanode import appends, reads
from motet.core.datanode.appends import ShardAppends
from motet.core.datanode.clock import BOUND_FILE, DataClock
from motet.core.datanode.messages import (
    AppendRecords,
    DataRequest,
    DescribeShard,
    GetShardMap,
    ReadRecords,
    RecordsRead,
    ShardDescribed,
    ShardMapIs,
)
from motet.core.datanode.reads import ClientReading
from motet.core.datanode.refusals import not_leader, refusal
from motet.core.datanode.stream_shard import StreamShard, machine_of
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Note,
    Now,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Send,
    SetTimer,
    Started,
    Violation,
    WriteFailed,
    Written,
)
from motet.core.operator.messages import Heartbeat, HeartbeatAnswer, ShardMap, ShardMapPushed
from motet.core.shardlog.config import ShardlogConfig
from motet.core.shardlog.messages import ShardMessage
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.shards import Shards
from motet.core.shardlog.state import FinishedRead
from motet.errors import (
    BadInput,
    DiskReadFailed,
    MotetError,
    NodeError,
    NoSuchShard,
    error_of,
)
from motet.errors.shards import EntriesGone
from motet.ids import Address, NodeId, ReadId, ShardName, TimerName
from motet.limits import page_bytes_max, readings_max

CUT_TIMER = TimerName("data-cut")
"""Set for now: it fires when everything that arrived in this turn has been taken."""


class DataState(msgspec.Struct):
    """What there is besides the replicas."""

    nonce: int = 0
    clock: DataClock = msgspec.field(default_factory=DataClock)
    #: the read of the clock's bound, at the start
    bound_read: ReadId | None = None
    broken: tuple[str, str, str] | None = None
    map: ShardMap | None = None
    appends: dict[ShardName, ShardAppends] = msgspec.field(default_factory=dict)
    #: shards with appends under way, in the order in which they came (the values mean nothing)
    busy: dict[ShardName, None] = msgspec.field(default_factory=dict)
    #: requests that wait for a confirmation, or for the disk
    readings: dict[int, ClientReading] = msgspec.field(default_factory=dict)
    next_reading: int = 1
    #: shard -> the number its replica knows a read by -> the reading it is for
    reads: dict[ShardName, dict[int, int]] = msgspec.field(default_factory=dict)
    is_cut_due: bool = False


class DataNode:
    """The machine."""

    def __init__(self, own: NodeId, config: ShardlogConfig | None = None) -> None:
        self.own = own
        self.config = config or ShardlogConfig()
        self.shards = Shards(own, self.config, lambda _shard: StreamShard())
        self.state = DataState()

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            effects = self._on_received(event)
        elif isinstance(event, Written):
            effects = self._on_written(event)
        elif isinstance(event, Fired):
            effects = self._on_fired(event)
        elif isinstance(event, ReadBack):
            effects = self._on_read_back(event)
        elif isinstance(event, WriteFailed):
            effects = self._on_write_failed(event)
        elif isinstance(event, ReadFailed):
            effects = self._on_read_failed(event)
        elif isinstance(event, Started):
            return self._start(event)
        else:
            effects = []
        return effects + self._follow_up(event.now)

    # Starting

    def _start(self, event: Started) -> list[Effect]:
        self.state.nonce = event.nonce
        self.state.bound_read = self.shards.new_read()
        read = Read(self.state.bound_read, BOUND_FILE)
        return [read, *self.shards.start(event.now, event.nonce)]

    def _take_bound(self, event: ReadBack) -> list[Effect]:
        self.state.bound_read = None
        try:
            self.state.clock.recover(event.data, event.now.wall_ms)
        except MotetError as error:
            self.state.broken = (error.code, error.what, error.advice)
            return [Note("data_broken", error.what)]
        return []

    # Messages

    def _on_received(self, event: Received) -> list[Effect]:
        message = event.message
        if isinstance(message, ShardMessage):
            return self.shards.on_message(event.sender, message, event.now)
        if isinstance(message, DataRequest):
            return self._on_request(event.sender, message, event.now)
        if isinstance(message, Heartbeat):
            return [Send(event.sender, self._answer_heartbeat(message))]
        if isinstance(message, ShardMapPushed):
            known = self.state.map
            if known is None or message.map.version >= known.version:
                self.state.map = message.map
            return []
        return [Note("data_foreign_message", type(message).__name__)]

    def _answer_heartbeat(self, message: Heartbeat) -> HeartbeatAnswer:
        version = 0 if self.state.map is None else self.state.map.version
        clock, nonce = self.state.clock.current, self.state.nonce
        return HeartbeatAnswer(message.round, clock, nonce, self.shards.reports(), version)

    def _on_request(self, client: Address, message: DataRequest, now: Now) -> list[Effect]:
        try:
            if isinstance(message, GetShardMap):
                return [Send(client, ShardMapIs(message.request, self.state.map))]
            self._check_serving()
            self.state.clock.check(message.clock, now.wall_ms)
            if isinstance(message, AppendRecords):
                return self._take_append(client, message)
            if isinstance(message, ReadRecords | DescribeShard):
                return self._take_read(client, message, now)
            raise BadInput(f"{type(message).__name__} is no request of this version")
        except MotetError as error:
            return [refusal(client, message.request, error, self._leader_of(message))]

    def _check_serving(self) -> None:
        if self.state.broken is not None:
            code, what, advice = self.state.broken
            raise NodeError(f"the node is out of order: {code} {what}", hint=advice)
        if self.state.clock.reservation is None:
            raise NodeError("the node is starting", hint="try again in a moment")

    def _leader_of(self, message: DataRequest) -> NodeId | None:
        """Who leads the shard of a request, by the map: so that the client need not look."""
        shard = getattr(message, "shard", None)
        if self.state.map is None or shard is None:
            return None
        for stream in self.state.map.streams:
            for place in stream.places:
                if place.shard == shard:
                    return place.leader
        return None

    def _replica(self, shard: ShardName) -> ShardReplica:
        replica = self.shards.replica(shard)
        if replica is None:
            raise NoSuchShard(f"this node does not hold shard {shard}")
        return replica

    # Appends

    def _take_append(self, client: Address, message: AppendRecords) -> list[Effect]:
        replica = self._replica(message.shard)
        of_shard = self.state.appends.setdefault(message.shard, ShardAppends())
        appends.take(of_shard, replica, client, message)
        self.state.busy[message.shard] = None
        if self.state.is_cut_due:
            return []
        self.state.is_cut_due = True
        return [SetTimer(CUT_TIMER, 0)]

    def _cut(self, now: Now) -> list[Effect]:
        """Put what was gathered into the logs: one entry a shard, unless it is too much for one."""
        self.state.is_cut_due = False
        effects: list[Effect] = []
        for shard in self.state.busy:
            of_shard = self.state.appends[shard]
            has_more = bool(of_shard.gathered)
            while has_more:
                replica = self.shards.replica(shard)
                if replica is None:
                    break
                seen = [waiting.message.clock for waiting in of_shard.gathered]
                floor = maximum((self.shards.clock, replica.last_clock, *seen))
                clock = self.state.clock.tick_above(floor, now.wall_ms)
                if clock is None:
                    break  # goes on when the bound is durable
                begun, has_more = appends.cut(of_shard, replica, clock, now)
                effects += begun
        return effects

    # Reads

    def _take_read(
        self, client: Address, message: ReadRecords | DescribeShard, now: Now
    ) -> list[Effect]:
        replica = self._replica(message.shard)
        if len(self.state.readings) >= readings_max:
            raise NodeError("too many readers wait", hint="try again in a moment")
        effects: list[Effect] = []
        confirmed: int | None = None
        if isinstance(message, DescribeShard) or message.source == "leader":
            if not replica.is_serving:
                raise not_leader(message.shard)
            confirmed, effects = replica.confirm(now)
        number = self.state.next_reading
        self.state.next_reading += 1
        reading = ClientReading(client, message, confirmed, replica.elected_epoch)
        self.state.readings[number] = reading
        if confirmed is None:
            return self._begin_read(number, reading, replica)
        return effects

    def _begin_confirmed(self) -> list[Effect]:
        """Those whose leader is confirmed, or need none, begin to read."""
        effects: list[Effect] = []
        for number, reading in list(self.state.readings.items()):
            replica = self.shards.replica(reading.message.shard)
            if reading.round is None:
                continue
            if replica is None or not _still_leads(replica, reading):
                effects += self._fail(number, not_leader(reading.message.shard))
            elif replica.confirmed_round >= reading.round:
                reading.round = None
                effects += self._begin_read(number, reading, replica)
        return effects

    def _begin_read(
        self, number: int, reading: ClientReading, replica: ShardReplica
    ) -> list[Effect]:
        if not reads.begin_at(reading, replica):
            return [self._finish(number, reading, replica)]
        try:
            return self._read_on(number, reading, replica)
        except MotetError as error:
            return self._fail(number, error)

    def _read_on(self, number: int, reading: ClientReading, replica: ShardReplica) -> list[Effect]:
        if reading.after_entry >= replica.applied_index.offset:
            return [self._finish(number, reading, replica)]
        wanted = page_bytes_max
        if isinstance(reading.message, ReadRecords):
            wanted = max(1, min(reading.message.bytes_max, page_bytes_max))
        asked, effects = replica.read(reading.after_entry, wanted)
        self.state.reads.setdefault(replica.shard, {})[asked] = number
        return effects

    def _take_finished(self) -> list[Effect]:
        """What the replicas have read for clients; that may lead to reading on, which may be done at once."""
        effects: list[Effect] = []
        for shard in list(self.state.reads):
            replica = self.shards.replica(shard)
            if replica is None:
                for number in self.state.reads.pop(shard).values():
                    effects += self._fail(number, NoSuchShard(f"shard {shard} has left this node"))
                continue
            while finished := replica.take_finished():
                for done in finished:
                    effects += self._take_one(done, replica)
            if not self.state.reads[shard]:
                del self.state.reads[shard]
        return effects

    def _take_one(self, done: FinishedRead, replica: ShardReplica) -> list[Effect]:
        number = self.state.reads[replica.shard].pop(done.number)
        reading = self.state.readings[number]
        if done.error is not None and done.error[0] == EntriesGone.code:
            return self._begin_read(number, reading, replica)  # trimmed while it was being read
        try:
            if done.error is not None:
                raise error_of(*done.error, DiskReadFailed.hint)
            if reads.take(reading, replica, done.entries) or not done.entries:
                return [self._finish(number, reading, replica)]
            return self._read_on(number, reading, replica)
        except MotetError as error:
            return self._fail(number, error)

    def _fail(self, number: int, error: MotetError) -> list[Effect]:
        reading = self.state.readings.pop(number)
        return [refusal(reading.client, reading.message.request, error)]

    def _finish(self, number: int, reading: ClientReading, replica: ShardReplica) -> Send:
        del self.state.readings[number]
        next_offset = machine_of(replica).state.next_offset
        message, clock = reading.message, replica.last_clock
        if isinstance(message, DescribeShard):
            first = next_offset if reading.first_offset is None else reading.first_offset
            shown = ShardDescribed(
                message.request, message.shard, replica.epoch, next_offset, first, clock
            )
            return Send(reading.client, shown)
        found = tuple(reading.found)
        return Send(
            reading.client,
            RecordsRead(message.request, found, reading.after_entry, next_offset, clock),
        )

    # The disk and time

    def _on_written(self, event: Written) -> list[Effect]:
        if event.write == self.state.clock.write:
            self.state.clock.written(is_durable=True)
            return self._cut(event.now)
        return self.shards.on_written(event.write, event.now)

    def _on_write_failed(self, event: WriteFailed) -> list[Effect]:
        if event.write == self.state.clock.write:
            self.state.clock.written(is_durable=False)
            return [Note("data_bound_failed", event.why), *self._refuse_gathered(event.why)]
        return self.shards.on_write_failed(event.write, event.why, event.now)

    def _refuse_gathered(self, why: str) -> list[Effect]:
        effects: list[Effect] = []
        for of_shard in self.state.appends.values():
            for waiting in of_shard.gathered:
                error = NodeError(f"the clock cannot go on: {why}", hint="make room on the disk")
                effects.append(refusal(waiting.client, waiting.message.request, error))
            of_shard.gathered = []
        return effects

    def _on_read_back(self, event: ReadBack) -> list[Effect]:
        if event.read == self.state.bound_read:
            return self._take_bound(event)
        return self.shards.on_read_back(event.read, event.data, event.now)

    def _on_read_failed(self, event: ReadFailed) -> list[Effect]:
        if event.read == self.state.bound_read:
            # What cannot be read is not gone: ask again, and hand out no clock until it is there.
            self.state.bound_read = self.shards.new_read()
            return [Note("data_unreadable", event.why), Read(self.state.bound_read, BOUND_FILE)]
        return self.shards.on_read_failed(event.read, event.why, event.now)

    def _on_fired(self, event: Fired) -> list[Effect]:
        if event.timer == CUT_TIMER:
            return self._cut(event.now)
        return self.shards.on_fired(event.timer, event.now)

    # After each step

    def _follow_up(self, now: Now) -> list[Effect]:
        """What the step means for those who wait."""
        state = self.state
        effects: list[Effect] = []
        if state.readings:
            effects += self._begin_confirmed()
            effects += self._take_finished()
        for shard in list(state.busy):
            effects += self._settle(shard)
        if state.clock.wants_bound:
            bound = state.clock.bound_to_write(self.shards.new_write(), now.wall_ms)
            if bound is not None:
                effects.append(bound)
        return effects

    def _settle(self, shard: ShardName) -> list[Effect]:
        of_shard, replica = self.state.appends[shard], self.shards.replica(shard)
        if replica is None:
            effects = appends.abandon(of_shard, shard)
            del self.state.appends[shard]
        else:
            effects = appends.settle(of_shard, replica)
        if of_shard.is_idle:
            del self.state.busy[shard]
        return effects

    # What a driver and a checker need

    def clone(self) -> Self:
        twin = type(self)(self.own, self.config)
        twin.shards = self.shards.clone()
        twin.state = clone_plain(self.state)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint((self.shards.fingerprint(), self.state))

    def invariants(self) -> list[Violation]:
        reservation = self.state.clock.reservation
        of_clock = [] if reservation is None else reservation.invariants()
        return self.shards.invariants() + of_clock


def _still_leads(replica: ShardReplica, reading: ClientReading) -> bool:
    return replica.is_serving and replica.elected_epoch == reading.elected_epoch
