"""A driver for one node clock, worked by hand: one file, one write in flight, and a wall to set."""

from __future__ import annotations

from motet.core.clock.bound_file import decode_bound
from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.messages import (
    Adjust,
    Adopt,
    ClockIs,
    ClockRefused,
    ClockRequest,
    ReadClock,
    Tick,
    Ticked,
)
from motet.core.clock.node_clock import NodeClock
from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Event,
    Message,
    Note,
    Now,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Replace,
    Send,
    Started,
    WriteFailed,
    Written,
)
from motet.ids import Address, NodeId, RequestId

NODE = NodeId("n1")
CLIENT = Address("client-1")


class Bench:
    """A node clock with its disk. Nothing happens by itself, not even the end of a write."""

    def __init__(self, wall_ms: int, file: bytes = b"") -> None:
        self.wall_ms = wall_ms
        self.monotonic_ms = 0
        #: the durable content of the bound file; empty when there is none
        self.file = file
        self.in_flight: Replace | None = None
        #: how many bounds were written, over all incarnations
        self.writes = 0
        self.answers: list[Message] = []
        self.notes: list[Note] = []
        self.requests = 0
        self.clock = NodeClock(NODE)
        self.start()

    @property
    def now(self) -> Now:
        return Now(self.monotonic_ms * NS_PER_MS, self.wall_ms * NS_PER_MS)

    @property
    def bound(self) -> Clock:
        return decode_bound(self.file) if self.file else ZERO

    def start(self, *, readable: bool = True) -> None:
        """A new incarnation; what was in flight is gone."""
        self.clock, self.in_flight = NodeClock(NODE), None
        (read,) = self.clock.step(Started(self.now, nonce=7))
        assert isinstance(read, Read)
        if readable:
            data = self.file if read.size_bytes is None else self.file[: read.size_bytes]
            self.step(ReadBack(self.now, read.id, data))
        else:
            self.step(ReadFailed(self.now, read.id, "the disk is gone"))

    def crash(self, *, kept: bool = False) -> None:
        """Stop without a word and start again; the write in flight is kept or lost."""
        if kept and self.in_flight is not None:
            self.file = self.in_flight.data
        self.start()

    def step(self, event: Event) -> list[Effect]:
        effects = self.clock.step(event)
        for effect in effects:
            if isinstance(effect, Replace):
                assert self.in_flight is None, "one bound is in flight at a time"
                self.in_flight = effect
            elif isinstance(effect, Send):
                self.answers.append(effect.message)
            elif isinstance(effect, Note):
                self.notes.append(effect)
        assert self.clock.invariants() == []
        return effects

    def written(self) -> None:
        """The write in flight reaches the disk."""
        assert self.in_flight is not None
        write, self.in_flight = self.in_flight, None
        self.file = write.data
        self.writes += 1
        self.step(Written(self.now, write.id))

    def write_failed(self) -> None:
        assert self.in_flight is not None
        write, self.in_flight = self.in_flight, None
        self.step(WriteFailed(self.now, write.id, "no space left"))

    def finish_writes(self) -> None:
        while self.in_flight is not None:
            self.written()

    def ask(self, message: ClockRequest, sender: Address = CLIENT) -> Message | None:
        """Send a request; the answer, if there is one already."""
        before = len(self.answers)
        self.step(Received(self.now, sender, message))
        return self.answers[before] if len(self.answers) > before else None

    def next_request(self) -> RequestId:
        self.requests += 1
        return RequestId(self.requests)

    def ask_tick(self) -> Message | None:
        return self.ask(Tick(self.next_request()))

    def ask_adjust(self, clock: Clock) -> Message | None:
        return self.ask(Adjust(self.next_request(), clock))

    def ask_adopt(self, clock: Clock) -> Message | None:
        return self.ask(Adopt(self.next_request(), clock), Address(NODE))

    def tick(self) -> Clock:
        """A tick, with whatever writes it takes."""
        self.ask_tick()
        self.finish_writes()
        answer = self.answers[-1]
        assert isinstance(answer, Ticked), answer
        return answer.clock

    def adjust(self, clock: Clock) -> Message:
        """An adjust, with whatever writes it takes."""
        self.ask_adjust(clock)
        self.finish_writes()
        return self.answers[-1]

    def read(self) -> ClockIs:
        answer = self.ask(ReadClock(self.next_request()))
        assert isinstance(answer, ClockIs), answer
        return answer

    def refusal(self, answer: Message | None) -> ClockRefused:
        assert isinstance(answer, ClockRefused), answer
        return answer
