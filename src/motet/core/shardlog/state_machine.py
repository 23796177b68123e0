"""What a shard's log needs of the state machine that it carries."""

from __future__ import annotations

from typing import Protocol, Self

from motet.core.shardlog.entry import Entry


class StateMachine(Protocol):
    """A function of the log: the same entries give the same state on every node.

    ``apply`` gets every entry once, in order, barriers too, when it is committed and durable here. It never
    fails: what a leader lets into the log has been checked before.
    """

    def apply(self, entry: Entry) -> None:
        """Take in the next committed entry."""

    def snapshot(self) -> bytes:
        """All of the state; equal bytes for equal states."""

    def restore(self, data: bytes) -> None:
        """Become what a snapshot says; ``BadRecord`` if it is none."""

    def clone(self) -> Self:
        """An independent copy."""

    def fingerprint(self) -> bytes:
        """Equal exactly for equal states."""
