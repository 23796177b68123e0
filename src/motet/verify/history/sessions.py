"""Does each session see what it has seen and done before?

Functions: ``write`` takes the value of a key and answers the *clock* of the write; ``read`` answers
``(clock, value)`` of the version of a key that it saw, or ``None`` if there was none. A clock is a number, or
a list of numbers, and says which version is newer. A session is a process and those that went on for it
(``c1``, ``c1+1``).

``read-your-writes``     a read is older than a write of its session
``monotonic-reads``      a read is older than a read of its session before it
``monotonic-writes``     a write has a clock below one that its session wrote before
``writes-follow-reads``  a write has a clock below what its session had read before
``phantom``              a read shows what was never written, or not at that clock

The guarantees on clocks hold over all keys, those on reads for each. What came of a write of unknown
outcome is not known, so nothing is asked of it, but that it may be read.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from motet.errors import BadHistory
from motet.verify.history.causal import session_of
from motet.verify.history.operation import Operation, Value, show
from motet.verify.history.record import History, Verdict, Witness

Clock: TypeAlias = tuple[int, ...]


class _Session(msgspec.Struct):
    """The newest that a session knows of, and who told it."""

    read: dict[Value, tuple[Clock, Operation]] = {}
    wrote: dict[Value, tuple[Clock, Operation]] = {}
    #: the newest clock over all keys
    newest_read: tuple[Clock, Operation] | None = None
    newest_write: tuple[Clock, Operation] | None = None


def check_sessions(history: History) -> Verdict:
    """Check the session guarantees; each process answers its operations in order, so one look is enough."""
    count = len(history)
    sessions: dict[str, _Session] = {}
    witness = _phantoms(history)
    for op in history.operations:
        if witness is not None:
            return Verdict("violated", count, count, witness=witness)
        if op.outcome != "ok":
            continue
        session = sessions.setdefault(session_of(op.process), _Session())
        if op.function == "write":
            witness = _wrote(session, op)
        else:
            witness = _read(session, op)
    if witness is not None:
        return Verdict("violated", count, count, witness=witness)
    return Verdict("ok", count, count)


def _wrote(session: _Session, op: Operation) -> Witness | None:
    clock = clock_of(op.result, op)
    for title, known in (
        ("writes-follow-reads", session.newest_read),
        ("monotonic-writes", session.newest_write),
    ):
        if known is not None and clock <= known[0]:
            return _older(title, op, clock, known)
    session.wrote[op.key] = session.newest_write = (clock, op)
    return None


def _read(session: _Session, op: Operation) -> Witness | None:
    clock = version_of(op)[0]
    for title, known in (
        ("read-your-writes", session.wrote.get(op.key)),
        ("monotonic-reads", session.read.get(op.key)),
    ):
        if known is not None and clock < known[0]:
            return _older(title, op, clock, known)
    session.read[op.key] = (clock, op)
    if session.newest_read is None or session.newest_read[0] < clock:
        session.newest_read = (clock, op)
    return None


def _older(title: str, op: Operation, clock: Clock, known: tuple[Clock, Operation]) -> Witness:
    at = f"at {_shown(clock)}" if clock else "of nothing"
    sentence = (
        f"{op.process}'s {op.call} is {at}, but {known[1].process}'s {known[1].call} "
        f"was at {_shown(known[0])} before it began"
    )
    return Witness(fault=title, sentence=sentence, operations=(known[1], op))


def _phantoms(history: History) -> Witness | None:
    written: dict[tuple[Value, Clock], Operation] = {}
    #: what may be there at a clock that nobody was told
    unseen: set[tuple[Value, Value]] = set()
    for op in history.operations:
        if op.function not in ("read", "write"):
            raise BadHistory(
                f"this checker does not know the function {op.function!r}",
                hint="it knows read and write",
            )
        if op.function == "write" and op.outcome == "ok":
            written[op.key, clock_of(op.result, op)] = op
        elif op.function == "write" and op.outcome == "unknown":
            unseen.add((op.key, op.value))
    for op in history.operations:
        if op.function == "write" or op.outcome != "ok" or op.result is None:
            continue
        clock, value = version_of(op)
        write = written.get((op.key, clock))
        if write is None and (op.key, value) not in unseen:
            sentence = f"{op.process}'s {op.call} shows {show(value)} at {_shown(clock)}"
            return Witness("phantom", f"{sentence}, where nothing was written", (op,))
        if write is not None and write.value != value:
            sentence = f"{op.process}'s {op.call} shows {show(value)} at {_shown(clock)}"
            return Witness("phantom", f"{sentence}, where {write.call} was", (write, op))
    return None


def clock_of(value: Value, op: Operation) -> Clock:
    """A clock as it is compared; refuses what is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if isinstance(value, tuple) and value:
        parts = tuple(part for part in value if isinstance(part, int))
        if len(parts) == len(value):
            return parts
    raise BadHistory(
        f"{op.process}'s {op.call} answered {show(value)}, which is no clock",
        hint="record a number, or a list of numbers",
    )


def version_of(op: Operation) -> tuple[Clock, Value]:
    """What a read saw; the empty clock is below all."""
    if op.result is None:
        return (), None
    if not isinstance(op.result, tuple) or len(op.result) != 2:
        raise BadHistory(
            f"{op.process}'s {op.call} answered {show(op.result)}",
            hint="record [clock, value], or null if there is none",
        )
    return clock_of(op.result[0], op), op.result[1]


def _shown(clock: Clock) -> str:
    return str(clock[0]) if len(clock) == 1 else str(clock)
