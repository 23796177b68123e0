"""Orders to a shard about its feed, each an entry of its log: named cursors, pruning, and clock visibility.

P1  A *named cursor* stands for a reader that has everything up to its clock. What is above it is kept, by
    retention and by pruning.
P2  Everything up to the *low watermark* is pruned: it is not shown any more, and its files go later.
    The low watermark never falls. It does not pass a named cursor, unless that is forced; then the cursor has
    expired, and holds nothing any more.
P3  *Clock visibility*: while it is off, what is committed has no clock for its readers. Inside all goes on by
    the same clocks: order, locks, feed, cursors, and how far the shard is closed. What is committed after it
    was turned on again is above everything before. What is committed says of itself whether it has a clock,
    as the last order before it in the log says; a transaction over several shards as its home shard says.
    Operators give this order, each with the version of the setting that stands in their store. One that is
    not newer than what was obeyed changes nothing, so it does not matter how late it comes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.streams.cluster_messages import TurnClock
from motet.errors import BadInput, TooLarge
from motet.errors.shards import CursorExpired, CursorInTheWay
from motet.ids import StreamName
from motet.limits import named_cursors_max


class SetCursor(msgspec.Struct, frozen=True, array_like=True, tag="cursor"):
    """A reader has everything up to a clock; None: there is no such reader any more."""

    name: str
    clock: Clock | None


class Prune(msgspec.Struct, frozen=True, array_like=True, tag="prune"):
    """Nothing at or below this clock is wanted any more."""

    up_to: Clock
    is_forced: bool


Order = SetCursor | Prune
"""What clients may order."""

LoggedOrder = Order | TurnClock


class FeedRules(msgspec.Struct, rename={"low_watermark": "horizon"}):
    """What the orders of a shard have come to."""

    cursors: dict[str, Clock] = msgspec.field(default_factory=dict)
    low_watermark: Clock = ZERO
    #: None: the clock was never turned off
    turned: TurnClock | None = None

    def apply(self, order: LoggedOrder) -> None:
        if isinstance(order, TurnClock):
            if order.version > self.clock_version:
                self.turned = order
        elif isinstance(order, Prune):
            self.low_watermark = max(self.low_watermark, order.up_to)
        elif order.clock is None:
            self.cursors.pop(order.name, None)
        else:
            self.cursors[order.name] = order.clock

    @property
    def kept_from(self) -> Clock | None:
        """What is above this clock is kept for named cursors (P1); None: there are none."""
        return min((c for c in self.cursors.values() if c >= self.low_watermark), default=None)

    @property
    def has_clock(self) -> bool:
        """Whether what is committed now has a clock for its readers (P3)."""
        return self.turned is None or self.turned.is_on

    @property
    def clock_version(self) -> int:
        """Of the setting, as far as it was obeyed."""
        return -1 if self.turned is None else self.turned.version

    def check(self, order: LoggedOrder, closed: Clock) -> bool:
        """Whether it changes anything; an error says why it cannot be obeyed.

        What is not closed may still get changes: it is not pruned.
        """
        if isinstance(order, TurnClock):
            return order.version > self.clock_version
        if isinstance(order, Prune):
            if order.up_to > closed:
                raise BadInput(f"the shard is not closed up to {order.up_to}, only up to {closed}")
            return self._check_pruning(order)
        if order.clock is None:
            return order.name in self.cursors
        if order.clock < self.low_watermark:
            raise CursorExpired(
                f"the feed is pruned up to {self.low_watermark}, and the cursor is at {order.clock}",
                hint=f"read on after {self.low_watermark}",
            )
        if order.name not in self.cursors and len(self.cursors) >= named_cursors_max:
            raise TooLarge(f"there are {named_cursors_max} named cursors already")
        return self.cursors.get(order.name) != order.clock

    def _check_pruning(self, order: Prune) -> bool:
        if order.up_to <= self.low_watermark:
            return False
        slow = [name for name, at in self.cursors.items() if self.low_watermark <= at < order.up_to]
        if slow and not order.is_forced:  # P2
            at = self.cursors[slow[0]]
            raise CursorInTheWay(f"the named cursor {slow[0]!r} is at {at}, below {order.up_to}")
        return True


class KeptFrom(msgspec.Struct, frozen=True):
    """From where the feed of a stream can be read."""

    stream: StreamName
    #: after this clock; zero: all of it
    begins: Clock
    #: it had no change up to this clock, since there was no such stream
    created: Clock


def common_begin(streams: Sequence[KeptFrom]) -> Clock:
    """Where a reader of these streams begins who has read nothing yet.

    ``CursorExpired`` where some are pruned further than others: whole transactions are there only where all
    of them have their feed, and what the others have below would be skipped without a word.
    """
    begin = max((each.begins for each in streams), default=ZERO)
    if any(max(each.begins, each.created) < begin for each in streams):
        shown = ", ".join(f"{each.stream} {_from(each.begins)}" for each in streams[:named_max])
        more = f" and {len(streams) - named_max} more" if len(streams) > named_max else ""
        raise CursorExpired(
            f"these streams cannot be read together from the beginning: {shown}{more}",
            hint=f"begin after 'oldest' to read all of them after {begin}, or read them one by one",
        )
    return begin


def _from(begins: Clock) -> str:
    return "is kept from its beginning" if begins == ZERO else f"is kept after {begins}"


named_max = 16
"""Streams that are named in one error."""


def check_order(order: Order) -> None:
    """``BadInput`` for what nobody can mean."""
    if isinstance(order, SetCursor) and not 0 < len(order.name) <= cursor_name_length_max:
        raise BadInput(f"the name of a cursor has 1 to {cursor_name_length_max} characters")


cursor_name_length_max = 192
"""Room for the longest name of a pipeline, with the number of the database that its tables are in."""

encode_order = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(LoggedOrder).decode
