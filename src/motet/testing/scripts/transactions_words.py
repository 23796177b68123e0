"""What the commands of golden scripts about transactions are given, made into what requests hold."""

from __future__ import annotations

from motet.core.clock.hlc import Clock
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.messages import SeenKey
from motet.ids import TransactionId


def words(text: str | None) -> list[str]:
    """A list as it is written: ``a,b``."""
    return text.split(",") if text else []


def part_of(
    transaction: str, changes: tuple[str, ...], age: int, first: int, count: int | None
) -> Branch:
    """A part with changes KEY:VALUE, numbered from ``first``; KEY alone is deleted."""
    made = tuple(_change(number, change) for number, change in enumerate(changes, first))
    total = first + len(made) if count is None else count
    return Branch(TransactionId(transaction), Clock(age, 0), Clock(1, 0), total, made)


def _change(number: int, told: str) -> RowChange:
    key, colon, value = told.partition(":")
    if not colon:
        return RowChange(number, key.encode(), "delete", None, None)
    return RowChange(number, key.encode(), "update", value.encode(), None)


def reads_of(text: str | None) -> tuple[SeenKey, ...]:
    """What was read: ``x@(1000,1);y@none``."""
    found = []
    for word in (text or "").split(";"):
        key, at, seen = word.partition("@")
        if at:
            found.append(SeenKey(key.encode(), None if seen == "none" else Clock.parse(seen)))
    return tuple(found)
