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
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from motet.errors import BadHistory
from motet.verify.history.operation import FOREVER, Operation
from motet.verify.history.record import History
from motet.verify.history.register import require_one_key
from motet.verify.history.set_witness import Additions, SetWitnesses
from motet.verify.history.values import Value, frozen
from motet.verify.history.verdict import Verdict, Witness


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
