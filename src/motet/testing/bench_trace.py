"""What happens on the workbench, in words: one line per event and per effect."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

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
from motet.ids import Address

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
