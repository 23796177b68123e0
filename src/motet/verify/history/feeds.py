"""Is a feed of changes complete and in order, for all who read it?

Functions: ``commit`` takes ``(transaction, count of its changes)`` and answers its clock; ``page`` answers
the next changes of a reader, each ``(clock, transaction, index)``, and takes where a reader begins: ``None``
to go on, or from the beginning, else the last change before it. A reader is a process and those that went on
for it.

``order``       a change is shown that is not after the one before it, by (clock, transaction, index)
``doubled``     a reader is shown a change again
``skipped``     a reader went past a change that is there: acknowledged, or seen by another reader
``phantom``     a change of a transaction that nobody began, that failed, or with an index it has not
``clock``       a transaction is shown at another clock than its commit answered
``torn``        a reader is shown a later transaction, and not all changes of one before it
``causality``   a session's commit has a clock below one it had before, or below what it had read

There is no budget: the work is that of sorting the changes.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from motet.errors import BadHistory
from motet.verify.history.causal import session_of
from motet.verify.history.operation import Operation, Value, show
from motet.verify.history.record import History, Verdict, Witness
from motet.verify.history.sessions import Clock, clock_of

Name: TypeAlias = Value


class Change(NamedTuple):
    """A change in the feed; sorts as the feed does."""

    clock: Clock
    transaction: str
    place: int


class _Reader(msgspec.Struct):
    """A range of the feed that one reader reads: how far it is, and what it was shown."""

    start: Change | None = None
    last: Change | None = None
    page: Operation | None = None
    seen: dict[Change, Operation] = {}


class _Feed(msgspec.Struct):
    """What is known of the feed: commits, and everything that somebody was shown."""

    commits: dict[str, Operation] = {}
    counts: dict[str, int] = {}
    clocks: dict[str, Clock] = {}
    #: the range that each reader is in
    readers: dict[str, _Reader] = {}
    #: every range of every reader
    ranges: list[tuple[str, _Reader]] = []
    #: session -> its newest clock, and who told it
    known: dict[str, tuple[Clock, Operation]] = {}


def check_feed(history: History) -> Verdict:
    """Check the pages of all readers against what was committed and against each other."""
    count, feed = len(history), _Feed()
    witness: Witness | None = None
    for op in history.operations:
        if op.function == "commit":
            _begin(feed, op)
        elif op.function != "page":
            raise BadHistory(
                f"this checker does not know the function {op.function!r}",
                hint="it knows commit and page",
            )
    for op in history.operations:
        if op.outcome == "ok" and witness is None:
            witness = _commit(feed, op) if op.function == "commit" else _page(feed, op)
    witness = witness or _skipped(feed)
    return Verdict("ok" if witness is None else "violated", count, count, witness=witness)


def _begin(feed: _Feed, op: Operation) -> None:
    match op.value:
        case (str(name), int(changes)) if changes > 0 and name not in feed.commits:
            feed.commits[name] = op
            feed.counts[name] = changes
            if op.outcome == "ok":
                feed.clocks[name] = clock_of(op.result, op)
        case _:
            raise BadHistory(
                f"{op.process} committed {show(op.value)}",
                hint="a commit is (transaction, count of changes), and each has a name of its own",
            )


def _commit(feed: _Feed, op: Operation) -> Witness | None:
    session, clock = session_of(op.process), clock_of(op.result, op)
    known = feed.known.get(session)
    if known is not None and clock <= known[0]:
        sentence = f"{op.process}'s {op.call} is at {clock}, but its session knew of {known[0]}"
        return Witness("causality", sentence, (known[1], op))
    feed.known[session] = (clock, op)
    return None


def _page(feed: _Feed, op: Operation) -> Witness | None:
    session = session_of(op.process)
    reader = feed.readers.get(session)
    if reader is None or op.value is not None:
        start = None if op.value is None else _change(op.value, op)
        reader = feed.readers[session] = _Reader(start, start)
        feed.ranges.append((session, reader))
    changes = op.result if isinstance(op.result, tuple) else None
    if changes is None:
        raise BadHistory(f"a page answered {show(op.result)}", hint="record a list of changes")
    for item in changes:
        witness = _shown(feed, reader, _change(item, op), op)
        if witness is not None:
            return witness
    if reader.last is not None:
        known = feed.known.get(session)
        if known is None or known[0] < reader.last.clock:
            feed.known[session] = (reader.last.clock, op)
    return None


def _change(item: Value, op: Operation) -> Change:
    match item:
        case (clock, str(name), int(index)):
            return Change(clock_of(clock, op), name, index)
    raise BadHistory(
        f"a page has {show(item)}", hint="a change is (clock, transaction, index from 0)"
    )


def _shown(feed: _Feed, reader: _Reader, change: Change, op: Operation) -> Witness | None:
    """One more change for a reader."""
    name = f"{op.process}'s page shows {_text(change)}"
    if change in reader.seen:
        return _witness("doubled", f"{name} again", reader.seen[change], op)
    if reader.last is not None and change <= reader.last:
        return _witness("order", f"{name} behind {_text(reader.last)}", reader.page or op, op)
    commit = feed.commits.get(change.transaction)
    if commit is None or commit.outcome == "failed" or commit.began > op.ended:
        why = "nobody committed it" if commit is None else f"{commit} had not been committed"
        return _witness("phantom", f"{name}, but {why}", op, *([] if commit is None else [commit]))
    if not 0 <= change.place < feed.counts[change.transaction]:
        return _witness("phantom", f"{name}, which it has not", commit, op)
    if feed.clocks.setdefault(change.transaction, change.clock) != change.clock:
        clock = feed.clocks[change.transaction]
        return _witness("clock", f"{name}, but it is at {clock}", commit, op)
    reader.seen[change] = op
    reader.last, reader.page = change, op
    return None


def _skipped(feed: _Feed) -> Witness | None:
    """Whatever lies between the start and the last change of a reader must have been shown to it."""
    there = sorted(
        Change(clock, name, index)
        for name, clock in feed.clocks.items()
        for index in range(feed.counts[name])
    )
    for name, reader in feed.ranges:
        if reader.last is None:
            continue
        for change in there:
            begins_later = reader.start is not None and change <= reader.start
            if begins_later or change >= reader.last or change in reader.seen:
                continue
            is_torn = any(
                other.transaction == change.transaction and other.clock == change.clock
                for other in reader.seen
            )
            commit, page = feed.commits[change.transaction], reader.page
            shown = [commit] if page is None else [commit, page]
            sentence = f"{name} was shown {_text(reader.last)}, and never {_text(change)}"
            return _witness("torn" if is_torn else "skipped", sentence, *shown)
    return None


def _text(change: Change) -> str:
    return f"{change.transaction}[{change.place}] at {'.'.join(map(str, change.clock))}"


def _witness(fault: str, sentence: str, *operations: Operation) -> Witness:
    shown = tuple(sorted(dict.fromkeys(operations), key=lambda op: op.began))
    return Witness(fault=fault, sentence=sentence, operations=shown)
