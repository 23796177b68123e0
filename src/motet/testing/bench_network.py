"""The network of the workbench: what has been sent and not delivered, and which links are cut."""

from __future__ import annotations

import msgspec

from motet.core.machine import Send
from motet.ids import Address
from motet.testing.bench_trace import Line, sent


class InFlight(msgspec.Struct, frozen=True):
    """A message that has left its sender and not reached anyone."""

    sender: Address
    send: Send

    def matches(self, to: str | None, sender: str | None, kind: str | None) -> bool:
        return (
            to in (None, self.send.to)
            and sender in (None, self.sender)
            and kind in (None, type(self.send.message).__name__)
        )

    @property
    def line(self) -> Line:
        return sent(self.sender, "->", self.send)


class BenchNetwork:
    """Messages wait here until the script moves them."""

    def __init__(self) -> None:
        #: oldest first
        self.in_flight: list[InFlight] = []
        #: links (from, to) on which everything that is sent is lost
        self.cut_links: dict[tuple[Address, Address], None] = {}

    def leave(self, sender: Address, send: Send) -> Line:
        """A message leaves its node."""
        if (sender, send.to) in self.cut_links:
            return sent(sender, "-x", send)
        self.in_flight.append(InFlight(sender, send))
        return sent(sender, "->", send)

    def matching(self, to: str | None, sender: str | None, kind: str | None) -> list[InFlight]:
        """What is in flight to and from these, of this kind; None means any."""
        return [each for each in self.in_flight if each.matches(to, sender, kind)]

    def take(self, to: str | None, sender: str | None, kind: str | None) -> list[InFlight]:
        """The same, and it is in flight no longer."""
        taken = self.matching(to, sender, kind)
        self.in_flight = [each for each in self.in_flight if not each.matches(to, sender, kind)]
        return taken

    def cut(self, source: str, target: str) -> None:
        self.cut_links[(Address(source), Address(target))] = None
