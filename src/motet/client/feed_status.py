"""How the feed stands: how far each shard is closed, and what holds the visible clock back."""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import Described
from motet.errors import NoSuchStream
from motet.ids import ShardId, StreamName, TransactionId


class ShardStanding(msgspec.Struct, frozen=True):
    """How far one shard is closed."""

    stream: StreamName
    shard: ShardId
    #: None for nobody; an embedded database has no leaders
    leader: str | None
    #: no change at or below it will follow; None when that cannot be asked and was never known
    closed: Clock | None
    #: who holds it
    ensemble: tuple[str, ...] = ()
    #: the oldest transaction that is prepared there and not ended, if one holds it back
    transaction: TransactionId | None = None
    #: the shard that decides about it, as stream/number
    home: str | None = None
    #: why it could not be asked
    error: str = ""


class NodeStanding(msgspec.Struct, frozen=True):
    """A node of a database."""

    node: str
    endpoint: str | None
    roles: tuple[str, ...]
    #: how many it holds, and of how many it is the leader
    shards: int
    leads: int


class IncompleteTransaction(msgspec.Struct, frozen=True):
    """A transaction that is prepared in a shard, and whose outcome is not logged there."""

    transaction: TransactionId
    stream: StreamName
    shard: ShardId
    #: the shard that decides about it, as stream/number
    home: str
    #: the clock of its prepare: the shard is closed below it
    prepared: Clock


class FeedStatus(msgspec.Struct, frozen=True):
    """The visible clock of some streams, and what it is made of."""

    #: None: a shard cannot be asked
    visible: Clock | None
    #: the highest clock that is known
    clock: Clock
    shards: tuple[ShardStanding, ...]
    #: the setting ``clock.enabled``
    clock_enabled: bool = True

    def behind_ms(self, closed: Clock | None) -> int | None:
        """How far a clock is behind the highest."""
        return None if closed is None else max(self.clock.logical - closed.logical, 0)

    @property
    def last(self) -> ShardStanding | None:
        """The shard that holds the visible clock back.

        One that cannot be asked, else one that a transaction holds back, else the one that is closed least.
        """
        silent = [each for each in self.shards if each.closed is None or each.error]
        held = [each for each in self.shards if each.transaction is not None]
        some = silent or held or self.shards
        return min(some, key=lambda each: each.closed or ZERO, default=None)


def status_of_one_node(described: Described, names: tuple[StreamName, ...]) -> FeedStatus:
    """The status of some streams of an embedded database, of all if none is named."""
    known = {info.name: info for info in described.streams}
    for name in names:
        if name not in known:
            raise NoSuchStream(f"there is no stream {name!r}")
    shards = [
        ShardStanding(name, ShardId(number), None, described.visible)
        for name in names or sorted(known)
        for number in range(known[name].shards)
    ]
    return FeedStatus(described.visible, described.clock, tuple(shards), described.clock_enabled)
