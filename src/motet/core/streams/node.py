"""A data node as a machine: the replicas it holds, what clients want of them, and its clock.

It knows nothing of the cluster but what it is told. Operators tell it whether to follow or to lead and give
it the shard map, which it hands on to whoever asks; it never looks for other nodes, and never talks to the
keeper. What it does for a shard is :mod:`motet.core.shardlog`; here requests of clients become entries, and
entries answers.

D1  Nothing is answered before it is committed: an append when its entry is applied here, a read by a leader
    that was confirmed after the request came.
D2  The clock of an entry is above that of every entry before it in its shard, above everything the node has
    seen, and above what the client had seen.
D3  Inside, the wall is the time that the nodes agree on: ``step`` puts it into the event. Only what has to do
    with that agreement sees the wall of this machine.
D4  Nothing waits for ever: what a client asked is refused when it has waited for a majority, a lock or a
    closed clock for ``wait_ms``, and forgotten when its connection is gone, unless it is in a log already.
"""

from __future__ import annotations

from typing import Self, cast

import msgspec

from motet.core.clock.cluster_time import AskTime, TimeIs
from motet.core.clock.hlc import ZERO, Clock, drift_ms, maximum
from motet.core.clock.node_clock import (
    BOUND_FILE,
    DataClock,
    drifted_backwards,
    unreadable,
)
from motet.core.clock.node_time import TIME_TIMER, NodeTime
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    ClientLeft,
    Effect,
    Event,
    Fired,
    Message,
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
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.messages import ShardMessage
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.shards import Shards
from motet.core.streams import appends, bounds, dispatch, many, reads
from motet.core.streams.appends import ShardAppends
from motet.core.streams.cluster_messages import (
    Heartbeat,
    HeartbeatAnswer,
    ShardMap,
    ShardMapPushed,
    ShardsGone,
)
from motet.core.streams.dispatch import (
    BETWEEN_LEADERS,
    GATHERED,
    QUESTIONS,
    TRANSACTION_REQUESTS,
    Dispatcher,
    PendingRequests,
    leaders_of,
    ticker,
)
from motet.core.streams.many import Together
from motet.core.streams.messages import (
    AppendRecords,
    AskMany,
    BetweenLeaders,
    DataRequest,
    GetShardMap,
    ResolveTransaction,
    ShardMapIs,
    refusal,
)
from motet.core.streams.pending import TransactionConfig
from motet.core.streams.reads import Question, Readings
from motet.core.streams.shard import StreamShard
from motet.errors import (
    BadInput,
    ClockDrift,
    ClockError,
    DiskReadFailed,
    MotetError,
    NodeError,
    NoSuchShard,
)
from motet.ids import Address, LogName, NodeId, ReadId, ShardName, TimerName
from motet.limits import clock_drift_ms_max, clock_found_ms_max

SWEEP_TIMER = TimerName("data-sweep")
"""Transactions that are late are looked at."""

CUT_TIMER = TimerName("data-cut")
"""Set for now: it fires when everything that arrived in this turn has been taken."""

MANY_TIMER = TimerName("data-many")
"""Set for now while questions are in the queue of those that came together."""


class DataState(msgspec.Struct):
    """What there is besides the replicas."""

    time: NodeTime
    nonce: int = 0
    clock: DataClock = msgspec.field(default_factory=DataClock)
    #: the read of the clock's bound, at the start
    bound_read: ReadId | None = None
    broken: tuple[str, str, str] | None = None
    map: ShardMap | None = None
    #: who leads each shard of the map
    leaders: dict[ShardName, NodeId | None] = msgspec.field(default_factory=dict)
    appends: dict[ShardName, ShardAppends] = msgspec.field(default_factory=dict)
    #: shards with appends under way, in the order in which they came (the values mean nothing)
    busy: dict[ShardName, None] = msgspec.field(default_factory=dict)
    #: those of them with appends that are still to be put into the log
    to_cut: dict[ShardName, None] = msgspec.field(default_factory=dict)
    readings: Readings = msgspec.field(default_factory=Readings)
    requests: PendingRequests = msgspec.field(default_factory=PendingRequests)
    together: Together = msgspec.field(default_factory=Together)
    is_cut_due: bool = False
    is_many_due: bool = False
    #: the timer of the sweep runs
    is_sweep_due: bool = False
    #: what messages of nodes said that nobody can mean -> how often
    out_of_bounds: dict[str, int] = msgspec.field(default_factory=dict)


class DataNode:
    """The machine."""

    def __init__(
        self,
        own: NodeId,
        config: ShardlogConfig | None = None,
        transactions: TransactionConfig | None = None,
        nodes: tuple[NodeId, ...] = (),
    ) -> None:
        """``nodes`` are all of the cluster that can be asked for the time; none: this one is alone."""
        self.own = own
        self.config = config or ShardlogConfig()
        self.transactions = transactions or TransactionConfig()
        few = self.transactions
        shard = StreamShard(few.outcomes_remembered, few.index_step_bytes)
        self.shards = Shards(own, self.config, lambda _shard: shard.clone())
        self.state = DataState(NodeTime.of(own, nodes))

    def step(self, event: Event) -> list[Effect]:
        time = self.state.time
        if not time.peers:
            return self._step(event)
        effects = self._keep_time(event)
        now, clock = time.corrected(event.now), self.state.clock
        if now is not event.now:
            event = msgspec.structs.replace(event, now=now)  # D3
        clock.has_time = time.is_known
        self.shards.effects.ceiling_ms = clock.ceiling_ms(now.wall_ms) if time.can_judge else None
        return effects + self._step(event)

    def _keep_time(self, event: Event) -> list[Effect]:
        """What has to do with the agreement on the time."""
        time, now = self.state.time, event.now
        was_on_its_own = time.is_on_its_own
        effects: list[Effect] = []
        if isinstance(event, Received):
            message = event.message
            if isinstance(message, TimeIs):
                effects = time.on_answer(event.sender, message, now)
            elif isinstance(message, AskTime):
                told = TimeIs(message.nonce, message.sent_monotonic_ns, now.wall_ns)
                effects = [Send(event.sender, told)]
            elif isinstance(message, Heartbeat):
                time.measure(now)
        elif isinstance(event, Fired) and event.timer == TIME_TIMER:
            effects = time.on_timer(now)
        elif isinstance(event, Started):
            effects = time.start(now, event.nonce)
        if was_on_its_own and time.is_agreed:
            # What was given out, or taken in from others, while nobody could judge it.
            self.state.clock.find(max(self.state.clock.current, self.shards.clock))
        return effects

    def _step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            effects = self._on_received(event)
            if event.is_followed and type(event.message) in GATHERED:
                return effects  # looked at with what follows
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
        elif isinstance(event, ClientLeft):
            effects = self._forget_client(event.client)
        elif isinstance(event, Started):
            return self._start(event)
        else:
            effects = []
        effects += self._follow_up(event.now)
        return many.gather(self.state.together, effects) if self.state.together.asked else effects

    # Starting

    def _start(self, event: Started) -> list[Effect]:
        self.state.nonce = event.nonce
        return [self._read_bound(), *self.shards.start(event.now, event.nonce)]

    def _read_bound(self) -> Read:
        self.state.bound_read = self.shards.new_read()
        return Read(self.state.bound_read, BOUND_FILE)

    @property
    def _is_bound_unread(self) -> bool:
        """The disk could not read it."""
        is_unreadable = (self.state.broken or ("",))[0] == DiskReadFailed.code
        return is_unreadable and self.state.bound_read is None

    def _take_bound(self, event: ReadBack) -> list[Effect]:
        self.state.bound_read = None
        try:
            wall_ms = event.now.wall_ms if self.state.time.is_known else 0
            self.state.clock.recover(event.data, wall_ms)
        except MotetError as error:
            self.state.broken = (error.code, error.what, error.advice)
            return [Note("data_broken", error.what)]
        self.state.broken = None
        return drifted_backwards(self.state.clock, event.now.wall_ms)

    # Messages

    def _on_received(self, event: Received) -> list[Effect]:
        message = event.message
        if isinstance(message, ShardMessage):
            if bounds.is_unfounded(event.sender, message, self.own, self.state.map):
                return [Note("data_not_deleted", f"{message.shard} for {event.sender}")]
            return self.shards.on_message(event.sender, message, event.now)
        if isinstance(message, bounds.FROM_NODES):
            problem = bounds.problem_with(event.sender, message, self.state.map)
            if problem is not None:
                return self._refuse(event.sender, message, problem)
        if isinstance(message, DataRequest):
            return self._on_request(event.sender, message, event.now)
        if isinstance(message, BETWEEN_LEADERS):
            return self._on_leader(event.sender, cast("BetweenLeaders", message), event.now)
        if isinstance(message, Heartbeat):
            return [Send(event.sender, self._answer_heartbeat(message, event.now))]
        if isinstance(message, AskTime | TimeIs):
            return []  # dealt with before the wall was put right
        if isinstance(message, ShardsGone):
            return self._dispatcher(event.now).lose(message.shards)
        if isinstance(message, ShardMapPushed):
            known = self.state.map
            if known is None or message.map.version >= known.version:
                self.state.map, self.state.leaders = message.map, leaders_of(message.map)
                self.shards.state.map_epochs = bounds.epochs_of(message.map)
            return []
        return [Note("data_foreign_message", type(message).__name__)]

    def _on_leader(self, sender: Address, message: BetweenLeaders, now: Now) -> list[Effect]:
        clock = message.clock if isinstance(message, ResolveTransaction) else None
        if clock is not None and self.shards.effects.is_ahead(clock):
            # It is said again, and taken when the time is there.
            return [Note("data_clock_drift", f"{clock} of {message.transaction} from {sender}")]
        return self._dispatcher(now).on_message(sender, message)

    def _hear_found(self, found: Clock, now: Now) -> None:
        """Somebody has found a clock on disk that is too far ahead of the time (Q2)."""
        ahead_ms = drift_ms(found, now.wall_ms)
        if self.state.time.is_known and clock_drift_ms_max < ahead_ms <= clock_found_ms_max:
            self.state.clock.find(found)
            self.shards.observe_clock(found)

    def _refuse(self, sender: Address, message: Message, problem: str) -> list[Effect]:
        counts = self.state.out_of_bounds
        counts[problem] = counts.get(problem, 0) + 1
        return [*bounds.note_of(sender, message, problem, counts[problem])]

    def _answer_heartbeat(self, message: Heartbeat, now: Now) -> HeartbeatAnswer:
        self._hear_found(message.found, now)
        dispatcher = self._dispatcher(now)
        return HeartbeatAnswer(
            message.round,
            self.state.clock.current,
            self.state.nonce,
            self.shards.reports(),
            0 if self.state.map is None else self.state.map.version,
            self.shards.clock,
            dispatcher.seal(message.seal),
            dispatcher.missing(),
            dispatcher.turn_clock(message.clock_visibility),
            self.state.time.drift_ms,
            self.state.clock.found_ahead(now.wall_ms) if self.state.time.is_known else ZERO,
        )

    def _on_request(self, client: Address, message: DataRequest, now: Now) -> list[Effect]:
        kind = type(message)
        try:
            if isinstance(message, GetShardMap):
                return [Send(client, ShardMapIs(message.request, self.state.map))]
            self._check_serving()
            bounds.check_request(message, self.state.clock.current)
            self.state.clock.check(message.clock, now.wall_ms)
            if isinstance(message, AskMany):
                return self._take_many(client, message)
            if isinstance(message, AppendRecords):
                return self._take_append(client, message, now)
            if kind in TRANSACTION_REQUESTS:
                return self._take_request(client, cast("dispatch.Asked", message), now)
            if kind in QUESTIONS:
                asked = cast("Question", message)
                replica = self._replica(asked.shard)
                self.shards.touch(LogName(asked.shard))
                return reads.take(self.state.readings, replica, client, asked, now)
            raise BadInput(f"{type(message).__name__} is no request of this version")
        except MotetError as error:
            told = [refusal(client, message.request, error, self._leader_of(message))]
            return [*_reported(error), *told]

    def _take_many(self, client: Address, message: AskMany) -> list[Effect]:
        many.take(self.state.together, client, message)
        return self._ask_many_soon()

    def _ask_many_soon(self) -> list[Effect]:
        if self.state.is_many_due or not self.state.together.queue:
            return []
        self.state.is_many_due = True
        return [SetTimer(MANY_TIMER, 0)]

    def _ask_many(self, now: Now) -> list[Effect]:
        """Some of the questions that came together; the others in the next turn."""
        self.state.is_many_due = False
        asked = many.next_questions(self.state.together)
        effects = [each for address, one in asked for each in self._on_request(address, one, now)]
        return effects + self._ask_many_soon()

    def _check_serving(self) -> None:
        if self.state.broken is not None:
            code, what, advice = self.state.broken
            raise NodeError(f"the node is out of order: {code} {what}", hint=advice)
        if self.state.clock.reservation is None or not self.state.time.is_known:
            raise NodeError("the node is starting", hint="try again in a moment")

    def _leader_of(self, message: DataRequest) -> NodeId | None:
        """Who leads the shard of a request, by the map: so that the client need not look."""
        shard = getattr(message, "shard", None)
        return None if shard is None else self.state.leaders.get(shard)

    def _replica(self, shard: ShardName) -> ShardReplica:
        replica = self.shards.replica(LogName(shard))
        if replica is None:
            raise NoSuchShard(f"this node does not hold shard {shard}")
        return replica

    # Appends

    def _take_append(self, client: Address, message: AppendRecords, now: Now) -> list[Effect]:
        replica = self._replica(message.shard)
        of_shard = self.state.appends.setdefault(message.shard, ShardAppends())
        appends.take(of_shard, replica, client, message, now)
        self.state.busy[message.shard] = None
        return self._cut_soon(message.shard)

    def _cut_soon(self, shard: ShardName) -> list[Effect]:
        self.state.to_cut[shard] = None
        if self.state.is_cut_due:
            return []
        self.state.is_cut_due = True
        return [SetTimer(CUT_TIMER, 0)]

    def _cut(self, now: Now) -> list[Effect]:
        """Put what was gathered into the logs: one entry a shard, unless it is too much for one."""
        self.state.is_cut_due = False
        effects: list[Effect] = []
        to_cut, self.state.to_cut = self.state.to_cut, {}
        for shard in to_cut:
            effects += self._cut_shard(shard, now)
        return effects

    def _cut_shard(self, shard: ShardName, now: Now) -> list[Effect]:
        effects: list[Effect] = []
        of_shard, replica = self.state.appends.get(shard), self.shards.replica(LogName(shard))
        if of_shard is None or replica is None:
            return effects
        self.shards.touch(LogName(shard))
        has_more = bool(of_shard.gathered or of_shard.held)
        while has_more and self._hold(of_shard, replica):
            seen = [waiting.message.clock for waiting in of_shard.gathered]
            floor = maximum((self.shards.clock, replica.last_clock, *seen))
            try:
                clock = self.state.clock.tick_above(floor, now.wall_ms)
            except ClockError as error:  # the end of its range
                return effects + appends.refuse_gathered(of_shard, error)
            if clock is None:
                self.state.to_cut[shard] = None  # goes on when the bound is durable
                return effects
            has_clock = dispatch.has_clock(self.state.requests, replica)
            begun, has_more = appends.cut(of_shard, replica, clock, now, has_clock=has_clock)
            effects += begun
        return effects

    def _hold(self, of_shard: ShardAppends, replica: ShardReplica) -> bool:
        """Hold back what touches locked keys; False if nothing is left."""
        beside = self.state.requests.of_shards.get(replica.shard)
        appends.hold(of_shard, replica, {} if beside is None else beside.locks_ahead())
        return bool(of_shard.gathered)

    # Transactions

    def _take_request(self, client: Address, message: dispatch.Asked, now: Now) -> list[Effect]:
        for clock in dispatch.clocks_of(message):
            self.state.clock.check(clock, now.wall_ms)
        dispatch.take(self.state.requests, self._replica(message.shard), client, message, now)
        self.shards.touch(LogName(message.shard))
        return []

    def _dispatcher(self, now: Now) -> Dispatcher:
        state = self.state
        return Dispatcher(
            self.own,
            state.requests,
            state.readings,
            self.shards,
            state.leaders,
            self.transactions,
            now,
        )

    # The disk and time

    def _on_written(self, event: Written) -> list[Effect]:
        if event.write == self.state.clock.write:
            self.state.clock.written(event.now.wall_ms, is_durable=True)
            for shard in self.state.requests.busy:
                self.shards.touch(LogName(shard))  # some may wait for a clock
            return self._cut(event.now)
        return self.shards.on_written(event.write, event.now)

    def _on_write_failed(self, event: WriteFailed) -> list[Effect]:
        if event.write == self.state.clock.write:
            self.state.clock.written(event.now.wall_ms, is_durable=False)
            return [Note("data_bound_failed", event.why), *self._refuse_gathered(event.why)]
        return self.shards.on_write_failed(event.write, event.why, event.now)

    def _refuse_gathered(self, why: str) -> list[Effect]:
        effects: list[Effect] = []
        for of_shard in self.state.appends.values():
            for waiting in (*of_shard.gathered, *of_shard.held):
                error = NodeError(f"the clock cannot go on: {why}", hint="make room on the disk")
                effects.append(refusal(waiting.client, waiting.message.request, error))
            of_shard.gathered, of_shard.held = [], []
        error = NodeError(f"the clock cannot go on: {why}", hint="make room on the disk")
        return effects + dispatch.refuse_waiting(self.state.requests, error)

    def _on_read_back(self, event: ReadBack) -> list[Effect]:
        if event.read == self.state.bound_read:
            return self._take_bound(event)
        effects = self.shards.on_read_back(event.read, event.data, event.now)
        self.state.clock.find(self.shards.effects.found)
        return effects

    def _on_read_failed(self, event: ReadFailed) -> list[Effect]:
        if event.read == self.state.bound_read:
            # What cannot be read is not gone: it is read again, and no clock is handed out until then.
            error = unreadable(event.why)
            self.state.bound_read, self.state.broken = None, (error.code, error.what, error.advice)
            return [Note("data_unreadable", error.what)]
        return self.shards.on_read_failed(event.read, event.why, event.now)

    def _on_fired(self, event: Fired) -> list[Effect]:
        if event.timer == CUT_TIMER:
            return self._cut(event.now)
        if event.timer == MANY_TIMER:
            return self._ask_many(event.now)
        if event.timer == SWEEP_TIMER:
            self.state.is_sweep_due = False
            late = [*self._dispatcher(event.now).sweep(), *self._expire(event.now)]
            if self.state.to_cut and not self.state.is_cut_due:
                late += self._cut(event.now)  # there may be a clock for it by now
            if self._is_bound_unread:
                late.append(self._read_bound())
            return late
        return self.shards.on_fired(event.timer, event.now)

    # Who waits, and who no longer does

    @property
    def waiting(self) -> int:
        """Requests of clients that are not answered yet."""
        state = self.state
        of_shards = [state.requests.of_shards[shard] for shard in state.requests.busy]
        requests_waiting = sum(len(ours.waiting) + len(ours.pending) for ours in of_shards)
        queued = len(state.together.queue)
        return len(state.readings.under_way) + len(state.busy) + requests_waiting + queued

    def _expire(self, now: Now) -> list[Effect]:
        """Whoever has waited so long has given up, and may have asked again."""
        wait_ms = self.transactions.wait_ms
        effects = reads.expire(self.state.readings, now, wait_ms)
        for shard in list(self.state.busy):
            if self.state.appends[shard].held:
                effects += appends.expire(self.state.appends[shard], now, wait_ms)
                self.shards.touch(LogName(shard))
        return effects

    def _forget_client(self, client: Address) -> list[Effect]:
        """D4."""
        state = self.state
        gone = dict.fromkeys((client, *many.forget_client(state.together, client)))
        reads.forget_clients(state.readings, gone)
        for shard in dispatch.forget_clients(state.requests, gone):
            self.shards.touch(LogName(shard))
        for shard in state.busy:
            appends.forget_client(state.appends[shard], client)
            self.shards.touch(LogName(shard))
        return []

    # After each step

    def _follow_up(self, now: Now) -> list[Effect]:
        """What the step means for those who wait: in the shards that it concerned, and in no others."""
        state, shards = self.state, self.shards
        effects: list[Effect] = []
        while touched := shards.take_touched():
            for shard in touched:
                effects += reads.go_on(state.readings, shard, shards.replica(shard))
                if shard in state.busy:
                    effects += self._settle(shard)
            if state.requests.busy:
                dispatcher = self._dispatcher(now)
                tick = ticker(state.clock, shards, now)
                effects += dispatcher.go_on(touched, state.appends, tick)
            state.requests.to_sweep.update(dict.fromkeys(touched))
        if state.clock.wants_bound:
            bound = state.clock.bound_to_write(self.shards.new_write(), now.wall_ms)
            if bound is not None:
                effects.append(bound)
        if not state.is_sweep_due and self._has_to_sweep():
            state.is_sweep_due = True
            effects.append(SetTimer(SWEEP_TIMER, self.transactions.sweep_ms, in_step=True))
        shards.beat_soon()
        return effects + shards.effects.take() if shards.effects.items else effects

    def _has_to_sweep(self) -> bool:
        """Whether anything may be late before long."""
        state = self.state
        is_any_late = state.requests.to_sweep or state.readings.under_way or state.busy
        return bool(is_any_late or state.to_cut or self._is_bound_unread)

    def _settle(self, shard: ShardName) -> list[Effect]:
        of_shard, replica = self.state.appends[shard], self.shards.replica(LogName(shard))
        if replica is None:
            effects = appends.abandon(of_shard, shard)
            del self.state.appends[shard]
        else:
            effects = appends.settle(of_shard, replica)
            if of_shard.held and of_shard.held_at != replica.applied_index.offset:
                effects += self._cut_soon(shard)
        if of_shard.is_idle:
            del self.state.busy[shard]
        return effects

    # What a driver and a checker need

    def clone(self) -> Self:
        twin = type(self)(self.own, self.config, self.transactions, self.state.time.peers)
        twin.shards = self.shards.clone()
        twin.state = clone_plain(self.state)
        return twin

    def fingerprint(self) -> bytes:
        effects = self.shards.effects
        return fingerprint(
            (self.shards.fingerprint(), effects.found, tuple(effects.touched), self.state)
        )

    def invariants(self) -> list[Violation]:
        of_clock = self.state.clock.invariants()
        return self.shards.invariants() + of_clock + self.state.time.invariants()


def _reported(error: MotetError) -> list[Effect]:
    """Somebody's clock is wrong, or ours: that is for more than the one who asked."""
    return [Note("data_clock_drift", error.what)] if isinstance(error, ClockDrift) else []
