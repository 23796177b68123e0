"""All replicas of one node: which there are, who gets what happens, creating and deleting them.

A file of the node lists its shards, since a disk port cannot list files. A shard is in the list before
anything is written or answered for it, and stays until its last file is gone; so nothing that was promised
is forgotten by a crash.

::

    shards = Shards(own, config, machine_factory)
    effects = shards.start(now, nonce)                     # the nonce of ``Started``
    effects = shards.on_message(sender, message, now)      # and so on, one method for each event
    replica = shards.replica(shard)

``nonce`` is also this node's *incarnation*, by which operators tell one life of it from the next. Writes
and reads are numbered over the whole machine: whoever shares it takes numbers from ``new_write`` and
``new_read``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Note,
    Now,
    Read,
    Remove,
    Replace,
    Send,
    SetTimer,
    Violation,
)
from motet.core.shardlog.bounds import problem_with
from motet.core.shardlog.context import EffectBuffer, ShardlogConfig, StateMachine
from motet.core.shardlog.messages import (
    DeleteShardRequest,
    DeleteShardResponse,
    FenceRequest,
    Refusal,
    Refused,
    ShardMessage,
    ShardReport,
    SnapshotRequest,
)
from motet.core.shardlog.meta import (
    LIST_FILE,
    decode_list,
    encode_list,
    meta_file,
    segment_file,
    state_file,
)
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import Status
from motet.errors import BadRecord
from motet.ids import Address, Epoch, FileName, LogName, NodeId, ReadId, TimerName, WriteId
from motet.limits import shards_left_max, shards_per_node_max

BEAT = TimerName("shards-beat")
NO_EPOCH = Epoch(0)
waiting_max = 16
"""Messages that wait for a shard to be listed."""

idle_beats = 10
"""While nothing is under way one beat stands for so many."""


class Creating(msgspec.Struct):
    """A shard that is to be listed before anything is done for it."""

    version: int
    waiting: list[tuple[Address, ShardMessage]] = msgspec.field(default_factory=list)


class Deleting(msgspec.Struct):
    """A shard whose files are being removed: its segments and states, then its meta file, then its name."""

    epoch: Epoch
    askers: list[Address]
    removals: dict[WriteId, None] = msgspec.field(default_factory=dict)
    is_meta_gone: bool = False
    #: the list without it
    version: int = 0


class ShardsState(msgspec.Struct):
    """What a node knows besides its replicas."""

    #: the list is being read
    list_read: ReadId | None = None
    is_started: bool = False
    #: why nothing is done
    broken: str | None = None
    list_version: int = 0
    list_writes: dict[WriteId, int] = msgspec.field(default_factory=dict)
    is_list_due: bool = False
    creating: dict[LogName, Creating] = msgspec.field(default_factory=dict)
    deleting: dict[LogName, Deleting] = msgspec.field(default_factory=dict)
    #: of the shards in the map of the cluster: what is near for a shard that this node holds nothing of
    map_epochs: dict[LogName, Epoch] = msgspec.field(default_factory=dict)
    #: what messages said that nobody can mean -> how often
    out_of_bounds: dict[str, int] = msgspec.field(default_factory=dict)
    #: replicas that may have something under way (the values mean nothing): they are looked at with each beat
    active: dict[LogName, None] = msgspec.field(default_factory=dict)
    beats: int = 0
    #: when the last beat was
    beat_ns: int = 0
    #: nothing was under way then, so the next one comes late
    is_idle: bool = False
    #: shards whose replica was deleted in this life -> the epoch in which it was
    left: dict[LogName, Epoch] = msgspec.field(default_factory=dict)


class Shards:
    """The replicas of one node."""

    def __init__(
        self,
        own: NodeId,
        config: ShardlogConfig,
        machine_factory: Callable[[LogName], StateMachine],
    ) -> None:
        self.own = own
        self.config = config
        self.effects = EffectBuffer()
        self.state = ShardsState()
        self.replicas: dict[LogName, ShardReplica] = {}
        self._machine_factory = machine_factory

    # What the data node looks at

    def replica(self, shard: LogName) -> ShardReplica | None:
        return self.replicas.get(shard)

    def reports(self) -> tuple[ShardReport, ...]:
        """What this node holds, for the answer to an operator's heartbeat."""
        return tuple(replica.report() for replica in self.replicas.values())

    def touch(self, shard: LogName) -> None:
        """Something has happened to a shard that its readers and writers may have waited for."""
        self.effects.touched[shard] = None

    def take_touched(self) -> list[LogName]:
        """The shards that something has happened to since the last call."""
        touched = list(self.effects.touched)
        self.state.active.update(self.effects.touched)
        self.effects.touched.clear()
        return touched

    @property
    def incarnation(self) -> int:
        """This life of the node."""
        return self.effects.nonce

    @property
    def clock(self) -> Clock:
        """The highest clock that was seen in any log or message."""
        return self.effects.clock

    def observe_clock(self, clock: Clock) -> None:
        """The node's own clock is here: messages carry it on."""
        self.effects.observe_clock(clock)

    @property
    def is_started(self) -> bool:
        """Whether it is known which replicas there are, and what is in them."""
        return self.state.is_started and all(
            replica.status is not Status.RECOVERING for replica in self.replicas.values()
        )

    @property
    def is_writing(self) -> bool:
        """Whether a change to the disk is under way."""
        return bool(self.effects.writers or self.state.list_writes)

    def new_write(self) -> WriteId:
        return self.effects.new_write()

    def new_read(self) -> ReadId:
        return self.effects.new_read()

    # Events

    def start(self, now: Now, nonce: int) -> list[Effect]:
        """The first event of a life."""
        self.effects.now, self.effects.nonce = now, nonce
        self.state.beat_ns = now.monotonic_ns
        self._set_beat()
        self._read_list()
        return self._take()

    def on_message(self, sender: Address, message: ShardMessage, now: Now) -> list[Effect]:
        self.effects.now = now
        self.effects.touched[message.shard] = None
        replica = self.replicas.get(message.shard)
        problem = problem_with(message, self._known_epoch(message, replica))
        if problem is not None:
            self._drop(sender, message, problem)
        elif replica is None:
            if self.state.is_started and self.state.broken is None:
                self._on_stranger(sender, message)
        elif type(message) is DeleteShardRequest:
            self._delete(sender, replica, message)
        else:
            replica.on_message(sender, message)
        return self._take()

    def on_written(self, write: WriteId, now: Now) -> list[Effect]:
        self.effects.now = now
        shard = self.effects.writers.pop(write, None)
        if shard is None:
            if write in self.state.list_writes:
                self._list_written(self.state.list_writes.pop(write))
        elif (replica := self.replicas.get(shard)) is not None:
            replica.on_written(write)
            self.effects.touched[shard] = None
        elif (deleting := self.state.deleting.get(shard)) is not None:
            self._removed(shard, deleting, write)
        return self._take()

    def on_write_failed(self, write: WriteId, why: str, now: Now) -> list[Effect]:
        self.effects.now = now
        shard = self.effects.writers.pop(write, None)
        if shard is None:
            if write in self.state.list_writes:
                self._list_failed(self.state.list_writes.pop(write), why)
        elif (replica := self.replicas.get(shard)) is not None:
            replica.on_write_failed(write, why)
            self.effects.touched[shard] = None
        return self._take()

    def on_read_back(self, read: ReadId, data: bytes, now: Now) -> list[Effect]:
        self.effects.now = now
        if read == self.state.list_read:
            self.state.list_read = None
            self._take_list(data)
        elif (replica := self._reader(read)) is not None:
            replica.on_read_back(read, data)
        return self._take()

    def on_read_failed(self, read: ReadId, why: str, now: Now) -> list[Effect]:
        self.effects.now = now
        if read == self.state.list_read:
            self.state.list_read = None  # the next beat tries again
        elif (replica := self._reader(read)) is not None:
            replica.on_read_failed(read, why)
        return self._take()

    def on_fired(self, timer: TimerName, now: Now) -> list[Effect]:
        self.effects.now = now
        if timer == BEAT:
            self._read_list()
            if self.state.is_list_due and not self.state.list_writes:
                self._write_list()
            self._tick()
            self.state.is_idle = not self._is_under_way()
            self._set_beat()
        return self._take()

    def _tick(self) -> None:
        """Time has passed for those that have something under way, and for some of the others in turn."""
        state, config = self.state, self.config
        state.active.update(self.effects.touched)
        due: dict[LogName, None] = {}
        for shard in list(state.active):
            replica = self.replicas.get(shard)
            if replica is None or replica.is_at_rest:
                del state.active[shard]
            else:
                due[shard] = None
        turns = max(config.idle_beat_ms // config.beat_ms, 1) if config.beat_ms else 1
        replicas = list(self.replicas)
        for _ in range(min(self._beats_passed(), turns)):
            due.update(dict.fromkeys(replicas[state.beats % turns :: turns]))
            state.beats += 1
        for shard in due:
            self.replicas[shard].tick()
            self.effects.touched[shard] = None

    def _beats_passed(self) -> int:
        """Since the last one, at least one."""
        now_ns, before_ns = self.effects.now.monotonic_ns, self.state.beat_ns
        self.state.beat_ns = now_ns
        beat_ns = self.config.beat_ms * NS_PER_MS
        return max((now_ns - before_ns) // beat_ns, 1) if beat_ns else 1

    def _set_beat(self) -> None:
        if self.config.beat_ms:
            beats = idle_beats if self.state.is_idle else 1
            self.effects.items.append(SetTimer(BEAT, beats * self.config.beat_ms, in_step=True))

    def _is_under_way(self) -> bool:
        """Whether anything can be late before long."""
        state = self.state
        if not state.is_started or state.list_writes or state.is_list_due or state.deleting:
            return True
        for shard in (*state.active, *self.effects.touched):
            replica = self.replicas.get(shard)
            if replica is not None and not replica.is_at_rest:
                return True
        return False

    def beat_soon(self) -> None:
        """At the end of a step: if something is under way that was not at the last beat, the next is near."""
        if self.state.is_idle and self._is_under_way():
            self.state.is_idle = False
            self._set_beat()

    def _take(self) -> list[Effect]:
        self.beat_soon()
        return self.effects.take()

    def _reader(self, read: ReadId) -> ShardReplica | None:
        shard = self.effects.readers.pop(read, None)
        if shard is None:
            return None
        self.effects.touched[shard] = None
        return self.replicas.get(shard)

    def _known_epoch(self, message: ShardMessage, replica: ShardReplica | None) -> Epoch | None:
        """What the epoch of a message is measured by; None: by nothing."""
        if replica is not None:
            return replica.known_epoch
        if type(message) is DeleteShardRequest:
            return self.state.map_epochs.get(message.shard)  # who is in no map never comes back
        return self.state.map_epochs.get(message.shard, Epoch(0))

    def _drop(self, sender: Address, message: ShardMessage, problem: str) -> None:
        """Nobody can mean it. Who says nonsense may say much of it, so ever fewer of them get a line."""
        counts = self.state.out_of_bounds
        counts[problem] = count = counts.get(problem, 0) + 1
        if count & (count - 1) == 0:
            said = str(getattr(message, problem, ""))[:100]
            what = f"{type(message).__name__} from {sender}: {problem} {said}, {count} so far"
            self.effects.items.append(Note("shards_out_of_bounds", what))

    # The list

    def _read_list(self) -> None:
        if not self.state.is_started and self.state.list_read is None:
            self.state.list_read = self.effects.new_read()
            self.effects.items.append(Read(self.state.list_read, LIST_FILE))

    def _take_list(self, data: bytes) -> None:
        state = self.state
        state.is_started = True
        try:
            names = decode_list(data) if data else []
        except BadRecord as error:
            # Nobody knows what this node has promised: it promises nothing more.
            state.broken = error.what
            self.effects.items.append(Note("shards_broken", error.what))
            return
        for name in names:
            self.replicas[name] = replica = self._make(name)
            state.active[name] = None
            replica.start()

    def _make(self, shard: LogName) -> ShardReplica:
        machine = self._machine_factory(shard)
        return ShardReplica(shard, self.own, self.config, self.effects, machine)

    def _write_list(self) -> int:
        """Write down which shards there are, and which are about to be."""
        state = self.state
        state.list_version += 1
        state.is_list_due = False
        leaving = [name for name, each in state.deleting.items() if not each.version]
        names = sorted({*self.replicas, *state.creating, *leaving})
        data = encode_list(names)
        write = self.effects.new_write()
        self.effects.items.append(Replace(write, LIST_FILE, data))
        state.list_writes[write] = state.list_version
        return state.list_version

    def _list_written(self, version: int) -> None:
        state = self.state
        ready = [name for name, each in state.creating.items() if each.version <= version]
        for name in ready:
            waiting = state.creating.pop(name).waiting
            self.replicas[name] = replica = self._make(name)
            self.effects.touched[name] = None
            replica.found()
            for sender, message in waiting:
                replica.on_message(sender, message)
        gone = [n for n, each in state.deleting.items() if 0 < each.version <= version]
        for name in gone:
            deleted = state.deleting.pop(name)
            for asker in deleted.askers:
                answer = DeleteShardResponse(name, deleted.epoch)
                self.effects.items.append(Send(asker, answer))

    def _list_failed(self, version: int, why: str) -> None:
        """A full disk: what was to be created is refused, what was deleted stays listed a while longer."""
        state = self.state
        self.effects.items.append(Note("shards_disk_full", why))
        state.is_list_due = bool(state.deleting)
        for name in [n for n, each in state.creating.items() if each.version <= version]:
            for sender, message in state.creating.pop(name).waiting:
                self._refuse(sender, message, Refusal.DISK_FULL)

    # Creating

    def _on_stranger(self, sender: Address, message: ShardMessage) -> None:
        """A message about a shard that this node does not hold."""
        state, shard = self.state, message.shard
        if type(message) is DeleteShardRequest:
            if shard in state.deleting:
                deleting = state.deleting[shard]
                deleting.epoch = max(deleting.epoch, message.epoch)
                if sender not in deleting.askers and len(deleting.askers) < waiting_max:
                    deleting.askers.append(sender)
            elif shard not in state.creating:
                self._remember(shard, message)
                self.effects.items.append(Send(sender, DeleteShardResponse(shard, message.epoch)))
        elif shard in state.deleting or isinstance(message, Refused):
            return
        elif message.epoch <= state.left.get(shard, -1):
            self._refuse(sender, message, Refusal.INVALID_EPOCH, state.left[shard])
        elif shard in state.creating:
            waiting = state.creating[shard].waiting
            if len(waiting) < waiting_max:
                waiting.append((sender, message))
        elif self._is_for_this_life(message):
            if len(self.replicas) + len(state.creating) >= shards_per_node_max:
                self._refuse(sender, message, Refusal.DISK_FULL)
                return
            state.creating[shard] = creating = Creating(0, [(sender, message)])
            creating.version = self._write_list()
        else:
            self._refuse(sender, message, Refusal.NOT_MEMBER)

    def _is_for_this_life(self, message: ShardMessage) -> bool:
        """Who holds nothing has forgotten its promises: only what names this life begins a new replica."""
        if not isinstance(message, FenceRequest | SnapshotRequest):
            return False
        return message.incarnation == self.effects.nonce != 0

    def _refuse(
        self, to: Address, message: ShardMessage, why: Refusal, epoch: Epoch = NO_EPOCH
    ) -> None:
        name = type(message).__name__
        if not name.endswith("Response"):
            refused = Refused(message.shard, message.epoch, why, name, epoch)
            self.effects.items.append(Send(to, refused))

    # Deleting

    def _delete(self, sender: Address, replica: ShardReplica, message: DeleteShardRequest) -> None:
        core, shard = replica.core, replica.shard
        if replica.status is Status.RECOVERING:
            return
        if message.epoch < core.state.epoch:
            core.refuse(sender, message, Refusal.INVALID_EPOCH)
            return
        if message.epoch == core.state.epoch and replica.status is not Status.FENCED:
            # Who leads or follows in this very epoch has not left the ensemble in it.
            core.refuse(sender, message, Refusal.NOT_FENCED)
            return
        core.note("deleted", f"epoch {message.epoch}")
        self._remember(shard, message)
        deleting = Deleting(message.epoch, [sender])
        self.state.deleting[shard] = deleting
        del self.replicas[shard]
        self._remove(shard, deleting, _files_of(replica))

    def _remember(self, shard: LogName, message: DeleteShardRequest) -> None:
        """What was promised stays promised, for as long as this life can be named by what comes late."""
        left = self.state.left
        epoch = left.pop(shard, Epoch(0))
        left[shard] = max(epoch, message.epoch)
        if len(left) > shards_left_max:
            del left[next(iter(left))]

    def _remove(self, shard: LogName, deleting: Deleting, files: list[FileName]) -> None:
        for file in files:
            write = self.effects.new_write()
            self.effects.writers[write] = shard
            deleting.removals[write] = None
            self.effects.items.append(Remove(write, file))
        if not files:
            self._removed(shard, deleting, WriteId(0))

    def _removed(self, shard: LogName, deleting: Deleting, write: WriteId) -> None:
        deleting.removals.pop(write, None)
        if deleting.removals or deleting.version:
            return
        if not deleting.is_meta_gone:
            deleting.is_meta_gone = True
            self._remove(shard, deleting, [meta_file(shard)])
        else:
            deleting.version = self.state.list_version + 1
            self._write_list()

    # What a driver and a checker need

    def clone(self) -> Shards:
        twin = Shards(self.own, self.config, self._machine_factory)
        twin.effects = effects = msgspec.structs.replace(
            self.effects,
            writers=dict(self.effects.writers),
            readers=dict(self.effects.readers),
            touched=dict(self.effects.touched),
            items=[],
        )
        twin.state = clone_plain(self.state)
        twin.replicas = {name: each.clone(effects) for name, each in self.replicas.items()}
        return twin

    def fingerprint(self) -> bytes:
        replicas = {name: each.fingerprint() for name, each in self.replicas.items()}
        effects = self.effects
        return fingerprint(
            (self.state, replicas, effects.next_write, effects.next_read, effects.clock)
        )

    def invariants(self) -> list[Violation]:
        return [
            Violation(found.invariant, f"{name}: {found.what}")
            for name, replica in self.replicas.items()
            for found in replica.invariants()
        ]


def _files_of(replica: ShardReplica) -> list[FileName]:
    """All files of a replica but its meta file."""
    shard, state = replica.shard, replica.core.state
    segments = [segment.number for segment in state.log.segments]
    segments += [*state.garbage, *state.damaged]
    states = [state.state_number, *state.state_garbage]
    if state.state_write is not None:
        states.append(state.state_write[1])
    if state.installing is not None:
        segments += [segment.number for segment in state.installing.log.segments]
        states.append(state.installing.state_number)
    files = [segment_file(shard, number) for number in segments]
    return files + [state_file(shard, number) for number in states if number]
