"""What the tables must be when all is over, given the feed they were derived from.

T2   the blocks of a shard have numbers without a gap
T3   what was inserted under a token is there once, at the clock that was told
T4   the slices of the ordered writer are the feed: none is missing, none is there twice, each is whole
T5   what was confirmed is there
"""

from __future__ import annotations

from itertools import pairwise

from motet.core.clock.hlc import Clock
from motet.core.machine import Violation
from motet.core.streams.change import FeedChange
from motet.core.tables.records import WriterStep
from motet.ids import ShardId, TableName
from motet.verify.storms.publishing import (
    AUDIT,
    INBOX,
    Inserter,
    Parts,
    Publisher,
)


def check_tables(
    feed: list[FeedChange],
    publishers: list[Publisher],
    inserter: Inserter,
    final: dict[TableName, Parts],
) -> list[Violation]:
    """All that is wrong with what was published."""
    audit = final[AUDIT]
    return [
        *(each for parts in final.values() for each in _check_blocks(parts)),
        *_check_tokens(final[INBOX], inserter.confirmed),
        *_check_slices(audit, feed),
        *(each for publisher in publishers for each in _check_confirmed(audit, publisher)),
    ]


def _check_blocks(parts: Parts) -> list[Violation]:
    numbers: dict[ShardId, int] = {}
    for each in parts:
        shard, name = each.part.staged.shard, each.part.name
        numbers[shard] = numbers.get(shard, 0) + 1
        if (name.min_block, name.max_block) != (numbers[shard], numbers[shard]):
            return [Violation("T2", f"{name} is number {numbers[shard]} of its shard")]
    if [each.clock for each in parts] != sorted(each.clock for each in parts):
        return [Violation("T2", "parts are not in the order of their clocks")]
    return []


def _check_tokens(parts: Parts, confirmed: dict[int, Clock]) -> list[Violation]:
    found = sorted((each.part.staged.rows, each.clock) for each in parts)
    if found != sorted(confirmed.items()):
        return [Violation("T3", f"inserted were {confirmed}, there is {found}")]
    return []


def _check_slices(audit: Parts, feed: list[FeedChange]) -> list[Violation]:
    steps = [each.step for each in audit if each.step is not None]
    if len(steps) != len(audit) or [step.epoch for step in steps] != list(range(len(steps))):
        return [Violation("T4", "the epochs of the writer do not count up")]
    if steps and steps[0].after is not None:
        return [Violation("T4", f"the first slice begins behind {steps[0].after}")]
    for before, step in pairwise(steps):
        if step.after != before.through:
            return [Violation("T4", f"a slice ends at {before.through}, the next is {step}")]
    last = feed[-1].clock if feed else None
    if last is not None and (not steps or steps[-1].through < last):
        return [Violation("T4", f"the feed goes to {last}, the tables do not")]
    return _check_rows(audit, feed)


def _check_rows(audit: Parts, feed: list[FeedChange]) -> list[Violation]:
    """Each slice has a row for each of its changes; one that ends behind the feed is not looked at."""
    for each in audit:
        rows, step = each.part.staged.rows, each.step
        assert step is not None
        if feed and step.through <= feed[-1].clock and rows != _changes_of(step, feed):
            return [Violation("T4", f"{rows} rows for {_changes_of(step, feed)} changes of {step}")]
    return []


def _changes_of(step: WriterStep, feed: list[FeedChange]) -> int:
    return sum(
        (step.after is None or change.clock > step.after) and change.clock <= step.through
        for change in feed
    )


def _check_confirmed(audit: Parts, publisher: Publisher) -> list[Violation]:
    there = [(each.step, each.clock) for each in audit]
    lost = [each for each in publisher.confirmed if there.count(each) != 1]
    if lost:
        return [Violation("T5", f"{lost[0][0]} was confirmed at {lost[0][1]}, and is not there")]
    return []
