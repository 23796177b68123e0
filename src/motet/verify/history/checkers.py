"""The checkers by name, and a file that says which of them it is for.

The first line of a history file may be a header; every other line is an event::

    {"checker": "bank", "initial": {"a": 100, "b": 100}}
    {"event": "invoke", "op": 0, "process": "c1", "function": "read", "key": null, "value": null, "at": 1}
    {"event": "ok", "op": 0, "value": [["a", 100], ["b", 100]], "at": 4}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from motet.errors import BadHistory, BadInput
from motet.verify.history.banks import check_bank, check_snapshots
from motet.verify.history.causal import check_causal
from motet.verify.history.feeds import check_feed
from motet.verify.history.queues import check_queue
from motet.verify.history.record import History, Verdict
from motet.verify.history.register import check_keyed, check_register
from motet.verify.history.sessions import check_sessions
from motet.verify.history.sets import check_set
from motet.verify.history.trees import check_tree
from motet.verify.history.unique import check_unique_register

Check: TypeAlias = Callable[[History, Any, int], Verdict]
"""The history, what was there at first (``None`` for what the checker takes for that), the budget."""


class Checker(NamedTuple):
    """A checker as people name it."""

    functions: str
    decides: str
    check: Check


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file says of itself."""

    checker: str | None = None
    initial: Any = None


def _anything(initial: Any) -> Any:
    return initial


def _mapping(initial: Any) -> Mapping[Any, object]:
    if initial is not None and not isinstance(initial, dict):
        raise BadHistory("what was there at first is no object", hint='as in {"a": 100}')
    return initial or {}


def _list(initial: Any) -> list[Any]:
    if initial is not None and not isinstance(initial, list):
        raise BadHistory("what was there at first is no list", hint='as in ["a", "b"]')
    return initial or []


def _nothing(initial: Any) -> None:
    if initial is not None:
        raise BadHistory("this checker begins with nothing", hint="leave `initial` out")


def _begun_with(first: Callable[[Any], Any], check: Callable[..., Verdict]) -> Check:
    """A checker that is told what was there at first, and takes a budget."""
    return lambda history, initial, budget: check(
        history, initial=first(initial), budget_steps=budget
    )


def _quickly_with(first: Callable[[Any], Any], check: Callable[..., Verdict]) -> Check:
    """The same without a budget."""
    return lambda history, initial, _: check(history, initial=first(initial))


def _from_nothing(check: Callable[[History, int], Verdict]) -> Check:
    """A checker of what begins with nothing."""

    def judged(history: History, initial: Any, budget: int) -> Verdict:
        _nothing(initial)
        return check(history, budget)

    return judged


CHECKERS: dict[str, Checker] = {
    "register": Checker(
        "read, write, cas", "a linearizable register", _begun_with(_anything, check_register)
    ),
    "unique-register": Checker(
        "read, write",
        "the same where no value is written twice, in near-linear time",
        _quickly_with(_anything, check_unique_register),
    ),
    "keyed": Checker(
        "get, put, delete, cas",
        "a linearizable key-value store",
        _begun_with(_mapping, check_keyed),
    ),
    "set": Checker("add, read", "a linearizable set that grows", _quickly_with(_list, check_set)),
    "queue": Checker(
        "enqueue, dequeue",
        "a linearizable first-in first-out queue",
        _from_nothing(lambda history, budget: check_queue(history, budget_steps=budget)),
    ),
    "tree": Checker(
        "create, set, delete, get, exists, children, multi, end_session",
        "a linearizable tree of nodes, as the keeper has it",
        _begun_with(_list, check_tree),
    ),
    "bank": Checker(
        "transfer, read",
        "a bank whose transfers and reads are linearizable",
        _begun_with(_mapping, check_bank),
    ),
    "bank-snapshots": Checker(
        "transfer, read",
        "a bank whose reads may be old, but are of one moment each",
        _quickly_with(_mapping, check_snapshots),
    ),
    "causal": Checker(
        "read, write (get, put)",
        "causal order, and one last writer",
        _from_nothing(lambda history, _: check_causal(history)),
    ),
    "causal-only": Checker(
        "read, write (get, put)",
        "causal order",
        _from_nothing(lambda history, _: check_causal(history, convergent=False)),
    ),
    "sessions": Checker(
        "read, write, with clocks",
        "the four guarantees of a session",
        _from_nothing(lambda history, _: check_sessions(history)),
    ),
    "feed": Checker(
        "commit, page",
        "a complete feed of changes, in order",
        _from_nothing(lambda history, _: check_feed(history)),
    ),
}


def checker_named(name: str) -> Checker:
    """The checker of this name; ``BadInput`` when there is none."""
    if name not in CHECKERS:
        raise BadInput(f"there is no checker {name!r}", hint=f"choose one of {', '.join(CHECKERS)}")
    return CHECKERS[name]


def read_history(data: bytes) -> tuple[Header, History]:
    """A history file: its header, if it has one, and its events."""
    first, _, rest = data.partition(b"\n")
    header = _header(first)
    if header is None:
        return Header(), History.from_ndjson(data)
    return header, History.from_ndjson(b"\n" + rest)  # a blank line keeps the numbers right


def write_history(header: Header, history: History) -> bytes:
    """A history file that says what it is a history of."""
    return msgspec.json.encode(header) + b"\n" + history.to_ndjson()


def _header(line: bytes) -> Header | None:
    try:
        document = msgspec.json.decode(line)
    except msgspec.MsgspecError:
        return None  # it is judged as an event, and named there
    if not isinstance(document, dict) or "event" in document:
        return None
    try:
        return msgspec.convert(document, Header)
    except msgspec.ValidationError as error:
        raise BadHistory(
            f"line 1 of the history is neither a header nor an event: {error}",
            hint='a header is {"checker": NAME, "initial": what was there at first}',
        ) from None
