"""Operations drawn as bars, one line each, for people who look at a witness.

The horizontal axis has the events of these operations in their order, not to scale::

    c1 write 1  |----|          ok      0..3
    c2 write 2        |----|    ok      4..6
    c3 read          |-------|  = 1     3..9

A bar without an end (``|---?``) is an operation of unknown outcome. The figures at the right are the
recorded times.
"""

from __future__ import annotations

from collections.abc import Iterable

from motet.verify.history.operation import FOREVER, Operation

_CELL = 3  # columns from one event to the next


def timeline(operations: Iterable[Operation]) -> str:
    """The operations as text, in the order in which they began."""
    drawn = sorted(operations, key=lambda op: op.began)
    moments = sorted({at for op in drawn for at in (op.began, op.ended) if at != FOREVER})
    column = {moment: _CELL * index for index, moment in enumerate(moments)}
    column[FOREVER] = _CELL * len(moments)
    rows = [
        (
            f"{op.process} {op.call}",
            _bar(column[op.began], column[op.ended], open_end=op.ended == FOREVER),
            op.answer,
            f"{op.began_at}..{'' if op.ended_at is None else op.ended_at}",
        )
        for op in drawn
    ]
    widths = [max((len(row[index]) for row in rows), default=0) for index in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )


def _bar(start: int, end: int, *, open_end: bool) -> str:
    return " " * start + "|" + "-" * (end - start - 1) + ("?" if open_end else "|")
