"""Is a grow-only set linearizable, if a read answers all its elements? In polynomial time.

Functions: ``add`` takes an element, ``read`` answers all elements. An element is there from its first
add on, so to the readers its adds are one: *began* with the first of them (of known outcome or not),
*ended* when the first add that is known to have happened ended. Adding an element again is fine.

In any order that explains the history the answers only grow. So the answers must be a chain under
inclusion, and the chain leaves one possible order of layers::

    elements of the smallest answer < reads of it < elements new in the next < reads of it < ...
        ... < elements in no answer

Within a layer real time decides, which is always possible. Across layers real time must not say the
opposite: nothing in a later layer may have ended before something in an earlier layer began. That
one condition covers reads that miss an element, reads that go back, elements seen before they were
added, and also a read that shows b but not a although a was added before b was begun.

The witnesses of the set: what is wrong with which read, in the words people use.

``phantom``       a read shows what nobody added, or not yet
``doubled``       a read shows an element twice
``lost``          an added element is in no read, though one began after the add had ended
``stale``         a read misses an element that had been added before; other reads show it
``non-monotone``  a read misses what a read before it had shown
``reordered``     a read shows an element, but not one that was added before it
``contradictory`` two reads each show an element that the other misses
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TypeAlias

from motet.errors import BadHistory
from motet.verify.history.operation import FOREVER, Operation, Value, frozen, show
from motet.verify.history.record import History, Verdict, Witness
from motet.verify.history.register import require_one_key

Additions: TypeAlias = dict[Value, tuple[int, int]]
"""For each element when it was added: the first begin of its adds, and the first known end."""


class SetWitnesses:
    """Names what is wrong in one history. Called once, when something is."""

    def __init__(
        self,
        operations: Sequence[Operation],
        additions: Additions,
        reads: Sequence[Operation],
    ) -> None:
        self._operations = operations
        self._additions = additions
        self._reads = reads

    def doubled(self, read: Operation) -> Witness:
        answer = _answer(read)
        element = next(item for place, item in enumerate(answer) if item in answer[:place])
        return _witness("doubled", f"{_name(read)} shows {show(element)} twice", read)

    def phantom(self, read: Operation) -> Witness:
        element = next(item for item in _answer(read) if item not in self._additions)
        failed = [op for op in self._operations if op.function == "add" and op.value == element]
        why = f"which only {_name(failed[0])} added, and that failed" if failed else "never added"
        return _witness("phantom", f"{_name(read)} shows {show(element)}, {why}", read, *failed)

    def no_chain(self, one: Operation, other: Operation) -> Witness:
        """Two reads of which neither contains the other; a simpler fault is named if there is one."""
        earlier, later = sorted((one, other), key=lambda op: op.ended)
        if earlier.ended < later.began:
            return self._went_back(earlier, later)
        for read in (earlier, later):
            for element, (_, ended) in self._additions.items():
                if ended < read.began and element not in _answer(read):
                    return self._missing(element, read)
        first, second = _only_in(earlier, later), _only_in(later, earlier)
        return _witness(
            "contradictory",
            f"{_name(earlier)} shows {show(first)} without {show(second)}, "
            f"{_name(later)} shows {show(second)} without {show(first)}: neither can be first",
            earlier,
            later,
        )

    def out_of_order(self, ended: int, began: int) -> Witness:
        """What ended then has to come after what began then, and yet ended before it began."""
        after = next((op for op in self._operations if op.ended == ended), None)
        before = next(op for op in self._operations if op.began == began)
        if after is None or after.function == "add":
            element = next(item for item, times in self._additions.items() if times[1] == ended)
            for read in self._reads:
                if ended < read.began and element not in _answer(read):
                    return self._missing(element, read)
            return self._reordered(element, before)
        if before.function == "read":
            return self._went_back(after, before)
        sentence = f"{_name(after)} shows {show(before.value)} before {_name(before)} began"
        return _witness("phantom", sentence, after, before)

    def _missing(self, element: Value, read: Operation) -> Witness:
        added = self._added(element)
        why = f"{_name(added[0])} ended before it began" if added else "it was there at first"
        showing = next((op for op in self._reads if element in _answer(op)), None)
        sentence = f"{_name(read)} misses {show(element)}, though {why}"
        if showing is None:
            return _witness("lost", f"{sentence}, and no read shows it", read, *added)
        sentence += f"; {_name(showing)} shows it"
        return _witness("stale", sentence, read, showing, *added)

    def _went_back(self, earlier: Operation, later: Operation) -> Witness:
        return _witness(
            "non-monotone",
            f"{_name(later)} misses {show(_only_in(earlier, later))}, "
            f"which {_name(earlier)} had shown before it began",
            earlier,
            later,
        )

    def _reordered(self, missed: Value, shown: Operation) -> Witness:
        read = next(
            op for op in self._reads if shown.value in _answer(op) and missed not in _answer(op)
        )
        added = self._added(missed)
        when = (
            f"{_name(added[0])} ended before {_name(shown)} began"
            if added
            else "it was there first"
        )
        return _witness(
            "reordered",
            f"{_name(read)} shows {show(shown.value)} but not {show(missed)}, though {when}",
            read,
            shown,
            *added,
        )

    def _added(self, element: Value) -> list[Operation]:
        """The add that made the element surely there; none if it was there at first."""
        ended = self._additions[element][1]
        return [op for op in self._operations if op.ended == ended]


def _witness(fault: str, sentence: str, *operations: Operation) -> Witness:
    shown = tuple(sorted(dict.fromkeys(operations), key=lambda op: op.began))
    return Witness(fault=fault, sentence=sentence, operations=shown)


def _name(op: Operation) -> str:
    return f"{op.process}'s {op.call}"


def _answer(read: Operation) -> tuple[Value, ...]:
    assert isinstance(read.result, tuple)
    return read.result


def _only_in(one: Operation, other: Operation) -> Value:
    """The first element that one answer has and the other has not."""
    known = frozenset(_answer(other))
    return next(item for item in _answer(one) if item not in known)


def check_set(history: History, *, initial: Iterable[object] = ()) -> Verdict:
    """Check the history of one set that had the elements ``initial`` at first."""
    require_one_key(history)
    additions = _additions(history.operations, [frozen(element) for element in initial])
    reads = [op for op in history.operations if op.function == "read" and op.outcome == "ok"]
    steps = len(history) + sum(len(_elements(op)) for op in reads)
    witness = _violation(reads, additions, SetWitnesses(history.operations, additions, reads))
    return Verdict("ok" if witness is None else "violated", len(history), steps, witness=witness)


def _additions(operations: Sequence[Operation], initial: Sequence[Value]) -> Additions:
    """When each element was added: (began, ended). The initial ones before all, in no order."""
    elements = list(dict.fromkeys(initial))
    count = len(elements)
    additions = {
        element: (place - 2 * count, place - count) for place, element in enumerate(elements)
    }
    for op in operations:
        if op.function not in ("add", "read"):
            raise BadHistory(
                f"this checker does not know the function {op.function!r}",
                hint="it knows add and read",
            )
        if op.function == "add" and op.outcome != "failed":
            began, ended = additions.get(op.value, (op.began, FOREVER))
            additions[op.value] = (began, min(ended, op.ended))
    return additions


def _elements(read: Operation) -> tuple[Value, ...]:
    if not isinstance(read.result, tuple):
        raise BadHistory(
            f"a read of the set answered {read.result!r}",
            hint="record all elements as a list, tuple or set",
        )
    return read.result


def _violation(
    reads: Sequence[Operation], additions: Additions, witnesses: SetWitnesses
) -> Witness | None:
    """Build the layers from the smallest answer up, then compare them with real time."""
    #: for each layer, the latest begin and the earliest end in it
    layers: list[tuple[int, int]] = []
    below: frozenset[Value] = frozenset()
    last: Operation | None = None
    for read in sorted(reads, key=lambda op: len(_elements(op))):
        answer = frozenset(_elements(read))
        if len(answer) != len(_elements(read)):
            return witnesses.doubled(read)
        if last is not None and not below <= answer:
            return witnesses.no_chain(last, read)
        if last is None or len(answer) > len(below):
            new = answer - below
            if not new <= additions.keys():
                return witnesses.phantom(read)
            layers += [_layer([additions[element] for element in new]), (read.began, read.ended)]
        else:
            began, ended = layers[-1]
            layers[-1] = (max(began, read.began), min(ended, read.ended))
        below, last = answer, read
    layers.append(_layer([when for element, when in additions.items() if element not in below]))
    return _against_time(layers, witnesses)


def _layer(times: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return (
        max((began for began, _ in times), default=-FOREVER),
        min((ended for _, ended in times), default=FOREVER),
    )


def _against_time(layers: Sequence[tuple[int, int]], witnesses: SetWitnesses) -> Witness | None:
    """Find an earlier layer that begins after a later layer has ended."""
    last_begins = list(accumulate((began for began, _ in layers), max))
    first_ends = list(accumulate((ended for _, ended in reversed(layers)), min))[::-1]
    for last_begin, first_end in zip(last_begins, first_ends[1:], strict=False):
        if first_end < last_begin:
            return witnesses.out_of_order(first_end, last_begin)
    return None
