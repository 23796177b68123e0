"""The network: frames to named peers, taken and given in batches, never waited for.

It promises little, and the protocols above rely on no more: a frame arrives whole and unchanged, at
most a bounded number of bytes wait for one peer, and nothing sent to a dead peer blocks anyone. Frames
may be lost, and over a network with faults repeated and reordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from motet.format.frame import Frame
from motet.ids import Address


class Delivery(msgspec.Struct, frozen=True):
    """One frame that has come in."""

    sender: Address
    frame: Frame


class Network(Protocol):
    """One node's or client's place in the network."""

    @property
    def address(self) -> Address:
        """Who we are to our peers."""

    def send(self, to: Address, frame: Frame) -> bool:
        """Queue a frame. False: dropped at once (unknown peer or a full queue); True promises nothing.

        What a node has to say to itself does not go through the network.
        """

    def flush(self) -> None:
        """Hand over all that is queued: one write per peer."""

    def take(self, limit: int) -> Sequence[Delivery]:
        """What has arrived, oldest first, at most so many."""
