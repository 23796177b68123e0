"""The common ground of all messages between clients and a node's streams."""

from __future__ import annotations

from motet.core.machine import Message
from motet.ids import RequestId


class StreamsMessage(Message, frozen=True, tag=lambda name: f"streams.{name}"):
    """Above all messages about streams."""


class StreamsRequest(StreamsMessage, frozen=True):
    """Above all that is asked; the id is the client's choice, and the answer has the same."""

    request: RequestId
