"""How far a pipeline is, and what is left to do of a slice of the feed. Pure: it decides, and does nothing.

The truth is the pipeline's last step in the database: it was written in the same atomic record as the rows
that it stands for. What Spark remembers, its checkpoint, is only where Spark goes on reading, and may be
missing, old, or copied; so each slice that Spark hands out is held against the truth:

========================  =====================================================================
the slice ``(from, to]``  what happens
========================  =====================================================================
``to <= done``            skip: its rows are published, whoever did it
``from <= done < to``     work: on the changes behind ``done`` and up to ``to``, as one step
``from > done``           refused: changes between ``done`` and ``from`` would be lost for ever
========================  =====================================================================

where ``done`` is the clock that the tables reflect, ``ZERO`` before the first step.

P1  The steps of a pipeline form a chain: each begins where the one before ended.
P2  Each change is in one step.

A step whose epoch or beginning is not the next one is refused by the database, so a second driver of the same
pipeline cannot break the chain either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from motet.client.cursors import OLDEST
from motet.core.clock.hlc import ZERO, Clock
from motet.core.tables.records import WriterStep
from motet.errors import BadCheckpoint
from motet.ids import WriterName


@dataclass(frozen=True, slots=True)
class Slice:
    """Changes behind one clock and up to another."""

    after: Clock
    through: Clock


def place_after(done: Clock) -> Clock | Literal["oldest"]:
    """Where to read on from; whoever has done nothing yet begins at the oldest change that is kept."""
    return OLDEST if done == ZERO else done


def done_through(last: WriterStep | None) -> Clock:
    """The clock that the tables reflect."""
    return ZERO if last is None else last.through


def decide(
    writer: WriterName, last: WriterStep | None, slice_: Slice, feed: int | None = None
) -> WriterStep | None:
    """The step to take for a slice that Spark has handed out; None if it has been taken.

    ``feed`` is the number of the database that the slice is of, if it is not the one with the tables.
    """
    done = done_through(last)
    if slice_.through <= done:
        return None
    if slice_.after > done:
        raise BadCheckpoint(
            f"the checkpoint of {writer} begins behind {slice_.after}, and its tables reflect {done}",
            hint="remove the checkpoint: the pipeline goes on from what is published",
        )
    if last is None:
        return WriterStep(writer, 0, None, slice_.through, feed)
    return WriterStep(writer, last.epoch + 1, last.through, slice_.through, feed)


def worked_on(step: WriterStep) -> Slice:
    """The changes that a step is about."""
    return Slice(ZERO if step.after is None else step.after, step.through)


def slices_of(steps: list[WriterStep], last: WriterStep) -> list[Slice]:
    """All slices up to the last step, oldest first, from the steps that are known of one writer.

    Steps that published no rows are not known afterwards: what lies between two that are is one slice.
    """
    slices = []
    done = ZERO
    known = {step.epoch: step for step in [*steps, last] if step.epoch <= last.epoch}
    for epoch in sorted(known):
        slice_ = worked_on(known[epoch])
        if slice_.after > done:
            slices.append(Slice(done, slice_.after))
        slices.append(slice_)
        done = slice_.through
    return slices
