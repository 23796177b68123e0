"""The network of the workbench: what has been sent and not delivered, and which links are cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

import msgspec

from motet.core.machine import (
    CancelTimer,
    Effect,
    Event,
    Fired,
    Note,
    Preallocate,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Remove,
    Replace,
    Send,
    SetTimer,
    Started,
    Truncate,
    Write,
    WriteFailed,
    Written,
)
from motet.core.render import render
from motet.errors import BadScenario
from motet.ids import Address

# What happens on the workbench, in words: one line per event and per effect.

Kind = Literal["event", "send", "disk", "timer", "note"]
KINDS: tuple[Kind, ...] = ("event", "send", "disk", "timer", "note")


class Line(NamedTuple):
    """A line of the trace, with the kind by which a script can hide it."""

    kind: Kind
    text: str


def told(lines: Iterable[Line], show: Collection[Kind]) -> list[str]:
    """The lines of the kinds to show; effects stand indented below their event, if events are shown."""
    indent = "  " if "event" in show else ""
    return [text if kind == "event" else f"{indent}{text}" for kind, text in lines if kind in show]


def sent(sender: Address, arrow: Literal["->", "..", "-x"], send: Send, why: str = "") -> Line:
    """A message that has left (``->``), waits for its write (``..``) or is lost (``-x``)."""
    text = f"{sender} {arrow} {send.to} {render(send.message)}"
    return Line("send", f"{text} {why}".rstrip())


def told_event(name: Address, event: Event) -> Line:
    """What happened to a node."""
    match event:
        case Started():
            what = "started"
        case Received(sender=sender, message=message):
            what = f"received {render(message)} from {sender}"
        case Written(write=write):
            what = f"durable #{write}"
        case WriteFailed(write=write, why=why):
            what = f"refused #{write}: {why}"
        case ReadBack(read=read, data=data):
            what = f"read back #{read}: {len(data)} bytes"
        case ReadFailed(read=read, why=why):
            what = f"cannot read #{read}: {why}"
        case Fired(timer=timer):
            what = f"fired {timer}"
        case _:
            raise AssertionError(f"{type(event).__name__} is not in the vocabulary of machines")
    return Line("event", f"{name} {what}")


def told_effect(effect: Effect) -> Line:
    """What a node wants done to its disk, its timers or its log; sends are told by ``sent``."""
    match effect:
        case Write(id=write, file=file, offset=offset, data=data):
            return Line("disk", f"write {file}@{offset} {len(data)} bytes #{write}")
        case Replace(id=write, file=file, data=data):
            return Line("disk", f"replace {file} {len(data)} bytes #{write}")
        case Truncate(id=write, file=file, size_bytes=size):
            return Line("disk", f"truncate {file} to {size} bytes #{write}")
        case Preallocate(id=write, file=file, size_bytes=size):
            return Line("disk", f"preallocate {file} to {size} bytes #{write}")
        case Remove(id=write, file=file):
            return Line("disk", f"remove {file} #{write}")
        case Read(id=read, file=file, offset=offset, size_bytes=size):
            return Line("disk", f"read {file}@{offset} {'all' if size is None else size} #{read}")
        case SetTimer(timer=timer, after_ms=after_ms):
            return Line("timer", f"timer {timer} in {after_ms} ms")
        case CancelTimer(timer=timer):
            return Line("timer", f"timer {timer} cancelled")
        case Note(what=what, detail=detail):
            return Line("note", f"note {what}{f': {detail}' if detail else ''}")
        case _:
            raise AssertionError(f"{type(effect).__name__} is not in the vocabulary of machines")


class InFlight(msgspec.Struct, frozen=True):
    """A message that has left its sender and not reached anyone."""

    sender: Address
    send: Send

    @property
    def line(self) -> Line:
        return sent(self.sender, "->", self.send)


class Which(msgspec.Struct, frozen=True):
    """Which of the messages in flight are meant; None means any."""

    to: str | None = None
    sender: str | None = None
    #: the name of the message's type
    kind: str | None = None
    #: only the first, second … of those that match
    nth: int | None = None

    def matches(self, each: InFlight) -> bool:
        return (
            self.to in (None, each.send.to)
            and self.sender in (None, each.sender)
            and self.kind in (None, type(each.send.message).__name__)
        )


class BenchNetwork:
    """Messages wait here until the script moves them."""

    def __init__(self) -> None:
        #: oldest first
        self.in_flight: list[InFlight] = []
        #: everything that ever left a node, oldest first: a copy of it may arrive at any time
        self.left: list[InFlight] = []
        #: links (from, to) on which everything that is sent is lost
        self.cut_links: dict[tuple[Address, Address], None] = {}

    def leave(self, sender: Address, send: Send) -> Line:
        """A message leaves its node."""
        self.left.append(InFlight(sender, send))
        if (sender, send.to) in self.cut_links:
            return sent(sender, "-x", send)
        self.in_flight.append(InFlight(sender, send))
        return sent(sender, "->", send)

    def take(self, which: Which) -> list[InFlight]:
        """Take messages out."""
        places = self._places(which, self.in_flight)
        taken = [self.in_flight[place] for place in places]
        self.in_flight = [each for i, each in enumerate(self.in_flight) if i not in places]
        return taken

    def repeat(self, which: Which) -> list[InFlight]:
        """Have messages in flight once more, after all others."""
        again = [self.in_flight[place] for place in self._places(which, self.in_flight)]
        self.in_flight += again
        return again

    def copy(self, which: Which) -> InFlight:
        """A message that left its node before, whatever became of it: the newest, or the ``nth``."""
        places = self._places(which, self.left)
        if not places:
            raise BadScenario("no such message has been sent")
        return self.left[places[-1]]

    def cut(self, source: str, target: str) -> None:
        self.cut_links[(Address(source), Address(target))] = None

    def _places(self, which: Which, messages: list[InFlight]) -> list[int]:
        places = [place for place, each in enumerate(messages) if which.matches(each)]
        if which.nth is None:
            return places
        if not 0 < which.nth <= len(places):
            raise BadScenario(f"nth={which.nth}, but {len(places)} such messages are there")
        return [places[which.nth - 1]]
