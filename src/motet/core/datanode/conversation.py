"""The common ground of all messages between clients and data nodes, and among data nodes."""

from __future__ import annotations

from motet.core.clock.hlc import Clock
from motet.core.machine import Message
from motet.ids import RequestId


class DataMessage(Message, frozen=True, tag=lambda name: f"data.{name}"):
    """Above all of them."""


class DataRequest(DataMessage, frozen=True):
    """Above all that is asked; ``clock`` is the highest clock that the client has seen."""

    request: RequestId
    clock: Clock
