"""The network of the workbench: what has been sent and not delivered, and which links are cut."""

from __future__ import annotations

import msgspec

from motet.core.machine import Send
from motet.errors import BadScenario
from motet.ids import Address
from motet.testing.bench_trace import Line, sent


class InFlight(msgspec.Struct, frozen=True):
    """A message that has left its sender and not reached anyone."""

    sender: Address
    send: Send

    @property
    def line(self) -> Line:
        return sent(self.sender, "->", self.send)


class Which(msgspec.Struct, frozen=True):
    """Which of the messages in flight are meant; None means any."""

    to: str | None = None
    sender: str | None = None
    #: the name of the message's type
    kind: str | None = None
    #: only the first, second … of those that match
    nth: int | None = None

    def matches(self, each: InFlight) -> bool:
        return (
            self.to in (None, each.send.to)
            and self.sender in (None, each.sender)
            and self.kind in (None, type(each.send.message).__name__)
        )


class BenchNetwork:
    """Messages wait here until the script moves them."""

    def __init__(self) -> None:
        #: oldest first
        self.in_flight: list[InFlight] = []
        #: everything that ever left a node, oldest first: a copy of it may arrive at any time
        self.left: list[InFlight] = []
        #: links (from, to) on which everything that is sent is lost
        self.cut_links: dict[tuple[Address, Address], None] = {}

    def leave(self, sender: Address, send: Send) -> Line:
        """A message leaves its node."""
        self.left.append(InFlight(sender, send))
        if (sender, send.to) in self.cut_links:
            return sent(sender, "-x", send)
        self.in_flight.append(InFlight(sender, send))
        return sent(sender, "->", send)

    def take(self, which: Which) -> list[InFlight]:
        """Take messages out."""
        places = self._places(which, self.in_flight)
        taken = [self.in_flight[place] for place in places]
        self.in_flight = [each for i, each in enumerate(self.in_flight) if i not in places]
        return taken

    def repeat(self, which: Which) -> list[InFlight]:
        """Have messages in flight once more, behind all others."""
        again = [self.in_flight[place] for place in self._places(which, self.in_flight)]
        self.in_flight += again
        return again

    def copy(self, which: Which) -> InFlight:
        """A message that left its node before, whatever became of it: the newest, or the ``nth``."""
        places = self._places(which, self.left)
        if not places:
            raise BadScenario("no such message has been sent")
        return self.left[places[-1]]

    def cut(self, source: str, target: str) -> None:
        self.cut_links[(Address(source), Address(target))] = None

    def _places(self, which: Which, messages: list[InFlight]) -> list[int]:
        places = [place for place, each in enumerate(messages) if which.matches(each)]
        if which.nth is None:
            return places
        if not 0 < which.nth <= len(places):
            raise BadScenario(f"nth={which.nth}, but {len(places)} such messages are there")
        return [places[which.nth - 1]]
