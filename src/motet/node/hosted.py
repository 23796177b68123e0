"""One machine in a running driver: what it is still to be told, its timers, and its effects carried out."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from motet.core.machine import (
    NS_PER_MS,
    CancelTimer,
    Effect,
    Event,
    Fired,
    Message,
    Note,
    Now,
    Received,
    Send,
    SetTimer,
    Work,
    WorkDone,
    WorkFailed,
    Write,
    Written,
)
from motet.errors import NodeError
from motet.format.frame import Frame
from motet.ids import Address, TimerName, WorkId
from motet.limits import inbox_messages_max, message_bytes_max, timers_max
from motet.node.counters import Counters
from motet.node.disk_work import DiskWork, Pending
from motet.node.hosting import Hosting
from motet.node.logs import complain, level_of, logger
from motet.ports import Network

_SWEEP_AT = 64


class Timers:
    """The timers of one machine, on the node's monotonic clock: each name runs at most once.

    A heap of due times with lazy deletion: moving or cancelling a timer leaves its old entry in it. A timer
    that was moved back goes on when that entry comes up, so a machine that moves its election timer with
    each message costs nothing but a number; other entries are skipped then, and swept out when they are the
    majority, so memory stays in proportion to what runs.

    Timers that recur fall into step: each is due at a multiple of its period, so that those of all machines
    of a node fire in the same turns, and what they send to a peer arrives there together. An idle node wakes
    seldom.
    """

    __slots__ = ("_due_ns", "_listed_ns", "heap")

    def __init__(self) -> None:
        self._due_ns: dict[TimerName, int] = {}
        #: no timer is due before the first of these; drivers look at it each turn, so without a call
        self.heap: list[tuple[int, TimerName]] = []
        #: the earliest entry of each timer in the heap
        self._listed_ns: dict[TimerName, int] = {}

    def __len__(self) -> int:
        return len(self._due_ns)

    def set(self, timer: TimerName, now_ns: int, after_ms: int, *, in_step: bool = False) -> None:
        """Start the timer, or move it if it runs; ``in_step`` with all others of its period."""
        after_ns = after_ms * NS_PER_MS
        due_ns = now_ns + after_ns
        if in_step and after_ns:
            due_ns = (due_ns + after_ns // 2) // after_ns * after_ns
        self._due_ns[timer] = due_ns
        assert len(self._due_ns) <= timers_max, f"more than {timers_max} timers run at once"
        listed_ns = self._listed_ns.get(timer)
        if listed_ns is None or due_ns < listed_ns:
            self._list(timer, due_ns)

    def cancel(self, timer: TimerName) -> None:
        """Forget the timer if it runs."""
        self._due_ns.pop(timer, None)

    def pop_due(self, now_ns: int) -> TimerName | None:
        """The timer that is due longest, which then no longer runs; None when none is due."""
        if not self.heap or self.heap[0][0] > now_ns:
            return None
        due_ns = self.next_due_ns()
        if due_ns is None or due_ns > now_ns:
            return None
        _, timer = heapq.heappop(self.heap)
        del self._listed_ns[timer], self._due_ns[timer]
        return timer

    def next_due_ns(self) -> int | None:
        """When the next timer is due, None when none runs."""
        while self.heap:
            listed_ns, timer = self.heap[0]
            due_ns = self._due_ns.get(timer)
            if listed_ns == due_ns:
                return due_ns
            heapq.heappop(self.heap)
            if self._listed_ns.get(timer) == listed_ns:
                del self._listed_ns[timer]
                if due_ns is not None:
                    self._list(timer, due_ns)  # it was moved back
        return None

    def _list(self, timer: TimerName, due_ns: int) -> None:
        self._listed_ns[timer] = due_ns
        heapq.heappush(self.heap, (due_ns, timer))
        if len(self.heap) > 2 * len(self._due_ns) + _SWEEP_AT:
            self._sweep()

    def _sweep(self) -> None:
        self._listed_ns = dict(self._due_ns)
        self.heap = [(due_ns, timer) for timer, due_ns in self._due_ns.items()]
        heapq.heapify(self.heap)


Recorder = Callable[[str, Event, list[Effect]], None]
"""Sees each step: the machine's name, what happened, and what it wanted done."""

_encode = msgspec.msgpack.Encoder().encode


class Hosted:
    """A machine and everything between it and the ports."""

    def __init__(
        self,
        hosting: Hosting[Any],
        network: Network,
        counters: Counters,
        *,
        recorder: Recorder | None,
        check_invariants: bool,
        neighbours: Mapping[int, Hosted] | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.hosting = hosting
        self.name = hosting.name
        self.machine = hosting.machine()
        self._step = self.machine.step
        self._kind = hosting.kind
        self._routes = hosting.routes
        #: the other machines of this node, by the kind of their frames
        self._neighbours = neighbours or {}
        self._network_send = network.send
        self._address = network.address
        #: takes what it says to those in this process
        self.local_port = hosting.local
        self._counters = counters
        self._recorder = recorder
        self._check_invariants = check_invariants
        self._is_watched = check_invariants or recorder is not None
        #: a message from a body, or what is in ``UNDECODABLE``
        self.decode: Callable[[bytes], Message] = msgspec.msgpack.Decoder(hosting.messages).decode
        #: what clients may say, None: everything
        self.from_clients = hosting.from_clients
        #: has the driver take a turn
        self._wake = wake
        #: work that has begun and not ended
        self.works: dict[WorkId, None] = {}
        #: what the machine is to be told in the next turn
        self.local: deque[Pending] = deque()
        self.disk = DiskWork(hosting.name, hosting.disk, counters, self.local.append)
        self._write = self.disk.write
        self.timers = Timers()
        #: hears of what is sent to others
        self.answered: Callable[[Address, Message], None] | None = None
        #: timers are set from here on
        self.now_ns = 0
        #: sends that wait for a change that is not durable yet
        self.held: list[Send] = []
        #: the last message sent and its frame: a message to all peers is encoded once
        self._last_message: Message | None = None
        self._last_frame = Frame(hosting.kind, 0, b"")
        #: what is not done for every message; ``step`` knows the others itself
        self._carry_out: Mapping[type[Effect], Callable[[Any], None]] = {
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Note: self._note,
            Work: self._begin_work,
            **self.disk.effects,
        }

    # What the driver calls in a turn

    def tell(self, event: Callable[..., Event], *fields: object) -> None:
        """Put an event into the machine's own queue; it gets its time when it is its turn."""
        self.local.append((event, fields))

    def take_local(self, now: Now, limit: int) -> int:
        """Begin a turn: step through what the last one left; how many events that were."""
        step, local = self.step, self.local
        durable_count = self.take_durable(now, limit) if self.disk.durable else 0
        count = min(len(local), limit - durable_count)
        for _ in range(count):
            make, fields = local.popleft()
            step(make(now, *fields))
        return durable_count + count

    def take_durable(self, now: Now, limit: int) -> int:
        """Step through what is durable now; how many writes that were."""
        self.now_ns = now.monotonic_ns
        durable = self.disk.take_durable(limit)
        for write in durable:
            self.step(Written(now, write))
        return len(durable)

    def refuse(self, sender: Address, error: Exception) -> None:
        """Complain about a frame that is none of our messages."""
        count = self._counters.refuse_frame("undecodable")
        complain(count, "frame_refused", machine=self.name, sender=sender, why=str(error))

    def refuse_client(self, sender: Address, message: Message) -> None:
        """Complain about a client that spoke as only peers do."""
        count = self._counters.refuse_frame("not_for_clients")
        what = type(message).__name__
        complain(
            count, "frame_refused", machine=self.name, sender=sender, why=f"a client sent {what}"
        )

    def take_timers(self, now: Now, limit: int) -> int:
        """Fire what is due. Popped one by one: a step may cancel or move the timers after it."""
        now_ns = now.monotonic_ns
        self.now_ns = (
            now_ns + 1
        )  # what is set for now while timers fire is for the next turn: this one ends
        for count in range(limit):
            timer = self.timers.pop_due(now_ns)
            if timer is None:
                return count
            self.step(Fired(now, timer))
        return limit

    def sync(self, files_max: int | None = None) -> None:
        """Make the turn's changes durable, and release the sends that waited for it.

        With a bound on the files that are synced, the rest waits for the next turn.
        """
        if self.disk.pending:
            self.disk.sync(files_max)
        if self.held:
            held, self.held = self.held, []
            failed, post, pending = self.disk.failed, self._post, self.disk.pending
            for send in held:
                if pending and send.after in pending:
                    self.held.append(send)
                elif failed and send.after in failed:
                    self._counters.drop_send("write_failed")
                else:
                    post(send.to, send.message)

    def step(self, event: Event) -> None:
        """Let the machine take one event, and carry out what it wants."""
        try:
            effects = self._step(event)
        except Exception as error:
            raise self._broken(event, error) from error
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                if effect.after is None:
                    self._post(effect.to, effect.message)
                else:
                    self._send(effect)
            elif kind is Write:
                self._write(effect)
            else:
                self._carry_out[kind](effect)
        if self._is_watched:
            self._watch(event, effects)

    def _broken(self, event: Event, error: Exception) -> NodeError:
        if self._recorder is not None:
            self._recorder(self.name, event, [])  # a replay fails at the same event
        return NodeError(
            f"{self.name} broke a rule of its own at {type(event).__name__}: {error!r}",
            hint="keep the log and the data folder: this is a fault in Motet",
        )

    def _watch(self, event: Event, effects: list[Effect]) -> None:
        if self._recorder is not None:
            self._recorder(self.name, event, effects)
        if self._check_invariants and (violations := self.machine.invariants()):
            raise NodeError(
                f"{self.name} violates {violations[0].invariant}: {violations[0].what}",
                hint="keep the log and the data folder: this is a fault in Motet",
            )

    # Sends

    def _send(self, effect: Send) -> None:
        after = effect.after
        if after is not None:
            disk = self.disk
            if after in disk.pending:
                self.held.append(effect)
                return
            assert after <= disk.asked_max, f"a send waits for write {after}, never asked for"
            if after in disk.failed:
                self._counters.drop_send("write_failed")
                return
        self._post(effect.to, effect.message)

    def _post(self, to: Address, message: Message) -> None:
        if self._routes is None and self.local_port is None:
            self._post_as(self._kind, to, message)
        elif self.local_port is not None and self.local_port.takes(to):
            self.local_port.send(to, message)
        elif self._routes is not None:
            for kind in self._routes(message):
                self._post_as(kind, to, message)
        else:
            self._post_as(self._kind, to, message)

    def _post_as(self, kind: int, to: Address, message: Message) -> None:
        if to == self._address:
            self._send_to_self(kind, message)
            return
        if message is self._last_message and kind == self._last_frame.kind:
            frame = self._last_frame
        else:
            self._last_message = message
            self._last_frame = frame = Frame(kind, 0, _encode(message))
        if len(frame.body) > message_bytes_max:
            self._drop("too_large", to)
        elif self._network_send(to, frame):
            self._counters.frames_sent += 1
        else:
            self._drop("no_peer_or_full", to)
        if self.answered is not None:
            self.answered(to, message)

    def _send_to_self(self, kind: int, message: Message) -> None:
        local = self.local
        if kind != self._kind:
            neighbour = self._neighbours.get(kind)
            if neighbour is None:
                self._drop("no_such_machine", self._address)
                return
            local = neighbour.local
        if len(local) < inbox_messages_max:
            local.append((Received, (self._address, message)))
        else:
            self._drop("inbox_full", self._address)

    def _drop(self, why: str, to: Address) -> None:
        count = self._counters.drop_send(why)
        complain(count, "send_dropped", machine=self.name, to=to, why=why)

    # Work

    def _begin_work(self, effect: Work) -> None:
        workshop, work = self.hosting.workshop, effect.id
        assert workshop is not None, f"{self.name} asks for work, and nobody does it"
        assert work not in self.works, "each work has a number of its own"
        self.works[work] = None
        self._counters.works += 1
        workshop.begin(effect, partial(self._end_work, work))

    def _end_work(self, work: WorkId, result: Message | None, why: str | None) -> None:
        assert work in self.works, "E5: work has ended twice"
        del self.works[work]
        if why is None:
            self.local.append((WorkDone, (work, result)))
        else:
            self._counters.works_failed += 1
            self.local.append((WorkFailed, (work, why)))
        self._wake()

    # Timers and notes

    def _set_timer(self, effect: SetTimer) -> None:
        self.timers.set(effect.timer, self.now_ns, effect.after_ms, in_step=effect.in_step)

    def _cancel_timer(self, effect: CancelTimer) -> None:
        self.timers.cancel(effect.timer)

    def _note(self, effect: Note) -> None:
        self._counters.note(self.name, effect.what)
        level = level_of(effect.what)
        if logger.isEnabledFor(level):
            detail = self.hosting.readable(self.machine, effect.detail)
            fields = {"machine": self.name, "detail": detail}
            logger.log(level, effect.what, extra={"fields": fields})
