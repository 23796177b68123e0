"""What a driver has to be told about a machine it hosts.

A hosting is a row of data: the driver treats all machines alike and knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from motet.core.machine import Machine, Message, Work
from motet.ids import Address
from motet.ports import Disk

M = TypeVar("M", bound=Machine)


class LocalPort(Protocol):
    """Those in this process with whom a machine talks past the network: messages as they are, no frames."""

    def takes(self, to: Address) -> bool:
        """Whether this is the address of one of them."""

    def send(self, to: Address, message: Message) -> None:
        """Queue a message; to one that is gone it is lost."""

    def flush(self) -> None:
        """Hand over all that is queued."""


WorkEnded = Callable[[Message | None, str | None], None]
"""Hears how work has ended: with a result, or with why there is none."""


class Workshop(Protocol):
    """Does the work that a machine asks for, in threads of its own."""

    def begin(self, work: Work, tell: WorkEnded) -> None:
        """Begin it and return at once; ``tell`` is called once, in the loop, unless the node stops (E5)."""


@dataclass(frozen=True, slots=True)
class Hosting(Generic[M]):
    """One machine on a node."""

    #: unique on the node: its folder, its lines in the log, its label in the metrics
    name: str
    #: frames of this kind carry its messages
    kind: int
    #: the tagged union of its messages, which is what a body has to decode to
    messages: object
    #: makes the machine of a new incarnation; it knows nothing before its first event
    machine: Callable[[], M]
    #: its files, nobody else's
    disk: Disk
    #: the messages that a client may send; None: whatever a body may decode to. Peers may send all.
    from_clients: frozenset[type[Message]] | None = None
    #: why it cannot serve yet, None when it can
    serving: Callable[[M], str | None] = lambda _: None
    #: plain data for `/api/status`
    describe: Callable[[M], Mapping[str, object]] = lambda _: {}
    #: the text of a note in words that people know
    readable: Callable[[M, str], str] = lambda _, text: text
    #: whom it talks to in this process
    local: LocalPort | None = None
    #: does its work; None: it asks for none
    workshop: Workshop | None = None
    #: its messages may be many, and those of all others go before them
    is_bulk: bool = False
    #: frames of this kind are for it as well, and go before its others
    first_kind: int | None = None
    #: it is told when a client's connection is gone
    hears_who_left: bool = False
    #: for which machines of the node it goes to a message is, as kinds of frames; None: always for its like
    routes: Callable[[Message], tuple[int, ...]] | None = None
    #: about how many bytes the answer to a request of a client may be; 0 for little
    answer_bytes: Callable[[Message], int] = lambda _: 0

    def __post_init__(self) -> None:
        assert 0 < self.kind < 256, "a frame's kind has 8 bits and 0 stays unused"
